#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace cubepi {

/// True for the name of an environment variable that by its name holds a secret: *_KEY, *_TOKEN, *_SECRET,
/// *_PASSWORD, and the bare words, in any case (D58).
bool is_secret_variable(std::string_view name);

/// This process's environment as "NAME=value", without secrets (see is_secret_variable) and without the variables
/// named in `also_hidden`. For child processes (D58). No other thread may change the environment meanwhile.
std::vector<std::string> secret_free_environment(const std::vector<std::string>& also_hidden = {});

}  // namespace cubepi
