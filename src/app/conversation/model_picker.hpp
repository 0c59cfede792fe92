#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include <cubepi/core/task.hpp>

#include "../terminal/prompter.hpp"

namespace cubepi::app {

/// Lists the models and asks for one, until the answer is a number, a name, or a part that occurs in one name only. Returns
/// its index. Throws a cancellation error if the input ends.
Task<std::size_t> pick_model(std::shared_ptr<Prompter> prompter, std::string question,
                             std::vector<std::string> models);

}  // namespace cubepi::app
