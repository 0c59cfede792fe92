#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include <cubepi/core/task.hpp>

#include "scenario.hpp"

namespace conformance {

/// Continues from a database written by CubePi (README-fixtures.md, section 1.2): prompts on every thread (and
/// abandons what waits), checks refusals, forks; or, with `answers`, answers what waits and finishes these runs. `threads` and
/// `found` outlive the task.
cubepi::Task<> continue_from(std::filesystem::path file, const JsonObject& threads, bool answers,
                             std::vector<std::string>& found);

}  // namespace conformance
