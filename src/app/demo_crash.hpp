#pragma once

#include <filesystem>
#include <string>

namespace cubepi::app {

/// The exit of a process of the tour.
struct StepEnd {
    int pid = 0;
    int exit_code = -1;  ///< -1: it was killed
    int signal = 0;      ///< 0: it exited
};

/// Runs this program again as `demo-step STEP` on the tapes and directory, with the terminal of this process, and
/// waits for it. Blocks. Throws Error(io).
StepEnd run_demo_step(const std::string& step, const std::filesystem::path& tapes,
                      const std::filesystem::path& directory, bool fast);

/// The number of letters that the tool of that step has sent: the effect that must not happen twice.
std::size_t letters_sent(const std::filesystem::path& directory);

}  // namespace cubepi::app
