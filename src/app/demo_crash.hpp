#pragma once

#include <filesystem>
#include <string>

namespace cubepi::app {

/// How a process of the tour ended.
struct StepEnd {
    int pid = 0;
    int exit_code = -1;  ///< -1: it was killed
    int signal = 0;      ///< 0: it exited
};

/// Runs this program again as `demo-step STEP` on the tapes and directory, with our own terminal, and waits for it.
/// Blocks. Throws Error(io).
StepEnd run_demo_step(const std::string& step, const std::filesystem::path& tapes,
                      const std::filesystem::path& directory, bool fast);

/// How many letters the tool of that step has sent: the effect that must not happen twice.
std::size_t letters_sent(const std::filesystem::path& directory);

}  // namespace cubepi::app
