#pragma once

#include <string>
#include <string_view>

#include <bub/tape/tape_entry.hpp>

namespace bub::detail {

/// `text` for comparing: Unicode full case folding over canonical decomposition, so that letters match in any case,
/// and a letter with a mark matches however it is composed. Broken bytes become U+FFFD.
std::u32string folded(std::string_view text);

/// Searches the values of payloads for one text (B17).
class TextSearch {
public:
    explicit TextSearch(std::string_view text);

    /// Whether a value of the payload, at any depth, contains the text. JSON inside a text (a call's arguments) is looked
    /// into when its escapes hide what it says.
    bool found_in(const TapeEntry& entry) const;
    /// How near the nearest words of the payload come, from 0 to 1.
    double nearness(const TapeEntry& entry) const;

    /// What counts as near.
    static constexpr double near_enough = 0.75;

private:
    bool in_value(const Json& value, int depth) const;
    bool in_text(std::string_view text, int depth) const;
    double near_value(const Json& value) const;

    std::string plain_;  ///< the text itself, when it is ASCII
    std::u32string wanted_;
};

}  // namespace bub::detail
