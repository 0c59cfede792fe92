#pragma once

#include <string>
#include <string_view>

namespace cubepi::detail {

/// What is known that a command destroys, publishes or ends, by the names in it: "rm deletes files". Empty when it has
/// no such name, which says nothing: a script, a build or another program may do worse.
std::string known_effect(std::string_view command);

}  // namespace cubepi::detail
