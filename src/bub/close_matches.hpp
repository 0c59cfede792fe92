#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace bub {

/// Returns up to three of `names` that are similar to `name`, most similar first. Case-insensitive.
std::vector<std::string> close_matches(std::string_view name,
                                       const std::vector<std::string>& names);

}  // namespace bub
