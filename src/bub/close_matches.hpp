#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace bub {

/// Up to three of `names` that are similar to `name`, the most similar first. Case does not count.
std::vector<std::string> close_matches(std::string_view name,
                                       const std::vector<std::string>& names);

}  // namespace bub
