#pragma once

#include <string>
#include <string_view>

namespace cubepi::detail {

/// Returns the known destructive or publishing effect of a command, by the names in it: "rm deletes files". An empty result
/// means little: a script, a build or another program may do worse.
std::string known_effect(std::string_view command);

}  // namespace cubepi::detail
