#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace cubepi::app {

/// Returns how well `text` matches a typed pattern, larger is better; nothing if its characters do not all occur in order. ASCII letters
/// match in either case. The beginning of the text or of its last path component counts most, then a part of it as typed, then
/// characters at the beginnings of words. An empty pattern matches everything equally.
std::optional<int> fuzzy_score(std::string_view pattern, std::string_view text);

/// Returns the indexes of the matching texts, the best first; equal ones by length if `shorter_first`, then in their order. At most `most`.
std::vector<std::size_t> fuzzy_matches(std::string_view pattern,
                                       const std::vector<std::string>& texts, std::size_t most,
                                       bool shorter_first);

}  // namespace cubepi::app
