#pragma once

namespace cubepi::app {

/// `cubepi gateway import`: copies the sessions (tapes, with their questions), the unfinished messages, the unsettled answers, the ids of finished
/// messages and the schedules in $BUB_HOME to the configured database, and marks the files as moved (D256). One that is interrupted is to be
/// repeated: once it has begun to copy messages, no gateway uses the files. Returns the exit status. Throws Error: storage_locked while a gateway uses the files.
int import_command();

}  // namespace cubepi::app
