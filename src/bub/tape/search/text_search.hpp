#pragma once

#include <string>
#include <string_view>

#include <bub/tape/tape_entry.hpp>

namespace bub::detail {

/// Returns `text` for comparison: Unicode full case folding over canonical decomposition, so that letters match in any
/// case and composed letters match decomposed ones. Invalid UTF-8 becomes U+FFFD.
std::u32string folded(std::string_view text);

/// A search for one text in the values of payloads (B17).
class TextSearch {
public:
    explicit TextSearch(std::string_view text);

    /// Returns true if a value of the payload, at any depth, contains the text. A string that is JSON itself (a call's
    /// arguments) is decoded if its escapes could hide a match.
    bool found_in(const TapeEntry& entry) const;
    /// Returns the similarity of the most similar words of the payload, from 0 to 1.
    double nearness(const TapeEntry& entry) const;

    /// The threshold of a near match.
    static constexpr double near_enough = 0.75;

private:
    bool in_value(const Json& value, int depth) const;
    bool in_text(std::string_view text, int depth) const;
    double near_value(const Json& value) const;

    std::string plain_;  ///< the text itself if it is ASCII
    std::u32string wanted_;
};

}  // namespace bub::detail
