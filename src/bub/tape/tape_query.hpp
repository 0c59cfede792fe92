#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace bub {

/// A selection of entries of a tape. Slice, dates, text, kinds and limit apply in this order. If several slices are
/// set, the last one counts.
class TapeQuery {
public:
    enum class Slice { all, last_anchor, after_anchor, between_anchors };

    TapeQuery() {}
    /// Selects the entries after the last anchor.
    TapeQuery&& last_anchor() && {
        slice_ = Slice::last_anchor;
        return std::move(*this);
    }
    /// Selects the entries after the last anchor of this name. An empty name removes the slice.
    TapeQuery&& after_anchor(std::string name) && {
        slice_ = name.empty() ? Slice::all : Slice::after_anchor;
        first_ = std::move(name);
        return std::move(*this);
    }
    /// Selects the entries between the last anchor `first` and the first anchor `second` after it.
    TapeQuery&& between_anchors(std::string first, std::string second) && {
        slice_ = Slice::between_anchors;
        first_ = std::move(first);
        second_ = std::move(second);
        return std::move(*this);
    }
    /// Includes the anchor at which the slice starts (B10). By default, anchors that bound a slice are excluded.
    TapeQuery&& with_anchor(bool value = true) && {
        with_anchor_ = value;
        return std::move(*this);
    }
    /// Selects entries by date, ISO 8601; both bounds are inclusive. A time without a zone is UTC; a date without a
    /// time is the whole day.
    TapeQuery&& between_dates(std::string from, std::string to) && {
        dates_.emplace(std::move(from), std::move(to));
        return std::move(*this);
    }
    /// Selects entries that contain this text in a value of the payload, at any depth, case-insensitively in any script
    /// (B17).
    TapeQuery&& text(std::string value) && {
        text_ = std::move(value);
        return std::move(*this);
    }
    TapeQuery&& kinds(std::vector<std::string> value) && {
        kinds_ = std::move(value);
        return std::move(*this);
    }
    /// Limits the result to the first n entries.
    TapeQuery&& limit(std::size_t value) && {
        limit_ = value;
        return std::move(*this);
    }
    /// Orders entries from newest to oldest, so that a limit keeps the newest ones.
    TapeQuery&& newest_first(bool value = true) && {
        newest_first_ = value;
        return std::move(*this);
    }

    Slice slice() const noexcept { return slice_; }
    const std::string& first_anchor() const noexcept { return first_; }
    const std::string& second_anchor() const noexcept { return second_; }
    bool with_anchor() const& noexcept { return with_anchor_; }
    const std::optional<std::pair<std::string, std::string>>& dates() const noexcept {
        return dates_;
    }
    const std::string& text() const& noexcept { return text_; }
    const std::vector<std::string>& kinds() const& noexcept { return kinds_; }
    const std::optional<std::size_t>& limit() const& noexcept { return limit_; }
    bool newest_first() const& noexcept { return newest_first_; }

private:
    Slice slice_ = Slice::all;
    std::string first_;
    std::string second_;
    bool with_anchor_ = false;
    std::optional<std::pair<std::string, std::string>> dates_;
    std::string text_;
    std::vector<std::string> kinds_;
    std::optional<std::size_t> limit_;
    bool newest_first_ = false;
};

}  // namespace bub
