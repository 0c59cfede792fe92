#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <bub/tape/tape_entry.hpp>
#include <cubepi/checkpoint/store_report.hpp>

namespace bub::detail {

/// The sums over the lines of a tape so far.
struct CheckedSums {
    std::int64_t entries = 0;
    std::int64_t last_id = 0;
    std::int64_t messages = 0;
    std::int64_t anchors = 0;

    friend bool operator==(const CheckedSums&, const CheckedSums&) = default;
};

/// A check of the lines of one tape, in order, and of its side state.
class TapeCheck {
public:
    /// `report` must outlive the object.
    TapeCheck(const std::string& tape, cubepi::StoreReport& report)
        : tape_(tape), where_("tape '" + tape + "'"), report_(report) {}

    const std::string& tape() const noexcept { return tape_; }
    const std::string& where() const noexcept { return where_; }
    const CheckedSums& sums() const noexcept { return sums_; }

    /// `place` is like "line 7". A blank line is ignored.
    void add(std::string_view line, std::string_view place);
    /// Checks requests and claims, and the end of the conversation. `is_open`: a turn is in progress, or has to be closed.
    void finish(const JsonObject& state, double now, bool is_open);

private:
    void add_entry(const TapeEntry& entry, std::string_view place);
    void check_id(std::int64_t id, std::string_view place);
    void check_messages(const TapeEntry& entry, std::string_view place);

    const std::string tape_;
    const std::string where_;
    cubepi::StoreReport& report_;
    CheckedSums sums_;
    std::vector<std::string> unreadable_;  ///< places of lines since the last entry
    std::vector<TapeEntry> since_anchor_;  ///< what a model receives
};

}  // namespace bub::detail
