#pragma once

namespace cubepi::app {

/// The exit status of the program. Documented in docs/cli.md; scripts depend on the numbers.
enum ExitCode : int {
    exit_ok = 0,
    exit_failed = 1,        ///< the model, the network or a tool run failed
    exit_usage = 2,         ///< wrong flags or arguments
    exit_no_model = 3,      ///< there is no model to ask
    exit_storage = 4,       ///< the sessions could not be read or written
    exit_limited = 5,       ///< a limit of the run was reached
    exit_incomplete = 6,    ///< the answer was cut off, refused or filtered, or is empty
    exit_waiting = 7,       ///< the run is suspended and waits for an answer (cubepi inbox)
    exit_aborted = 130,     ///< Ctrl-C
    exit_closed_pipe = 141  ///< the output pipe was closed
};

}  // namespace cubepi::app
