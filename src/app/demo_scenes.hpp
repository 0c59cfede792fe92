#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include <cubepi/provider/faux.hpp>

namespace cubepi::app {

// The answers of the scripted model of the tour, scene by scene. It reads the real results before it mentions them.

FauxOptions demo_voice(bool fast);

std::vector<FauxStep> markdown_scene();
std::vector<FauxStep> tools_scene();
std::vector<FauxStep> approval_scene();
std::vector<FauxStep> abort_scene();
/// The answer to the prompt after the abort.
std::vector<FauxStep> after_abort_scene();
std::vector<FauxStep> killed_scene();
std::vector<FauxStep> continued_scene();

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
