#pragma once

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

}  // namespace cubepi::app
