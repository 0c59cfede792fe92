#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <bub/tape/tape_entry.hpp>
#include <bub/tape/tape_query.hpp>

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

/// The conditions of a query on single entries (dates, text, kinds), and its limit.
class QueryFilter {
public:
    /// Throws Error(invalid_argument) for an invalid date, or a range whose start is after its end.
    explicit QueryFilter(const TapeQuery& query);

    bool fits(const TapeEntry& entry) const;
    /// Counts a matching entry. Returns false if it exceeds the limit.
    bool take() {
        if (left_ == 0) return false;
        --left_;
        return true;
    }
    /// Returns true if the limit is reached.
    bool full() const noexcept { return left_ == 0; }

private:
    std::optional<std::pair<std::int64_t, std::int64_t>> dates_;
    std::optional<TextSearch> text_;
    std::vector<std::string> kinds_;
    std::size_t left_;
};

bool is_anchor(const TapeEntry& entry);
bool is_anchor(const TapeEntry& entry, std::string_view name);
/// Returns true for an anchor at which the query's slice starts; the last of them counts.
bool starts_slice(const TapeEntry& entry, const TapeQuery& query);
/// Throws Error(not_found) for the anchor of this name, or for that at which the query's slice starts.
[[noreturn]] void throw_no_anchor(std::string_view name);
[[noreturn]] void throw_no_start(const TapeQuery& query);

/// Returns the part [first, second) of `entries` that the query's slice selects. Throws Error(not_found).
std::pair<std::size_t, std::size_t> slice_of(const std::vector<TapeEntry>& entries,
                                             const TapeQuery& query);

}  // namespace bub::detail
