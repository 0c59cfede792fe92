#pragma once

#include "terminal/terminal_stream.hpp"

namespace cubepi::app {

/// Records the division of the sessions in the databases of the configuration (D259). `move`: moves sessions that are in another database
/// than theirs; without it they are an error. Returns the exit status. Throws Error if a gateway runs, messages are unfinished or the
/// tables are missing or older; then nothing is recorded.
int divide_sessions(bool move, TerminalStream& err);

}  // namespace cubepi::app
