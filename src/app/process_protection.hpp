#pragma once

namespace cubepi::app {

/// Keeps the keys of this process from other processes of the same user: its memory cannot be read or traced, it leaves no
/// core file, and the environment that the kernel shows for it is empty (getenv() still has all variables). For the
/// beginning of main(), before there are other threads.
///
/// No core limit is set: a process that cannot be dumped leaves no core file, and children keep the limit of the user.
void protect_process();

}  // namespace cubepi::app
