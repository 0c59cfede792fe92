#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <bub/tape/search/text_search.hpp>
#include <bub/tape/tape_entry.hpp>
#include <bub/tape/tape_query.hpp>

namespace bub::detail {

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
[[noreturn]] void throw_no_anchor();
[[noreturn]] void throw_no_anchor(std::string_view name);

/// Returns the part [first, second) of `entries` that the query's slice selects. Throws Error(not_found).
std::pair<std::size_t, std::size_t> slice_of(const std::vector<TapeEntry>& entries,
                                             const TapeQuery& query);
/// Evaluates the query on a list of all entries.
std::vector<TapeEntry> evaluate(const std::vector<TapeEntry>& entries, const TapeQuery& query);

}  // namespace bub::detail
