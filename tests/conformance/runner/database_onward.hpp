#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include <cubepi/core/task.hpp>

#include "scenario.hpp"

namespace conformance {

/// Goes on from a database that CubePi wrote (README-fixtures.md, section 1.2): prompts on every thread, is refused what it must
/// be refused, forks. `threads` and `found` outlive the task.
cubepi::Task<> go_on(std::filesystem::path file, const JsonObject& threads,
                     std::vector<std::string>& found);

}  // namespace conformance
