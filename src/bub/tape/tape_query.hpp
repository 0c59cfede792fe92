#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace bub {

/// Which entries of a tape are wanted. Slice, dates, text, kinds and limit apply in this order. Of the slices
/// the last one set counts.
class TapeQuery {
public:
    enum class Slice { all, last_anchor, after_anchor, between_anchors };

    TapeQuery() {}
    /// What follows the last anchor.
    TapeQuery&& last_anchor() && {
        slice_ = Slice::last_anchor;
        return std::move(*this);
    }
    /// What follows the last anchor of this name. An empty name takes the slice away.
    TapeQuery&& after_anchor(std::string name) && {
        slice_ = name.empty() ? Slice::all : Slice::after_anchor;
        first_ = std::move(name);
        return std::move(*this);
    }
    /// What lies between the last anchor `first` and the first anchor `second` after it.
    TapeQuery&& between_anchors(std::string first, std::string second) && {
        slice_ = Slice::between_anchors;
        first_ = std::move(first);
        second_ = std::move(second);
        return std::move(*this);
    }
    /// The slice begins with the anchor it starts from (B10). Else anchors that bound a slice are left out.
    TapeQuery&& with_anchor(bool value = true) && {
        with_anchor_ = value;
        return std::move(*this);
    }
    /// Both included; ISO 8601. A time without zone is UTC, a date alone the whole day.
    TapeQuery&& between_dates(std::string from, std::string to) && {
        dates_.emplace(std::move(from), std::move(to));
        return std::move(*this);
    }
    /// Entries that hold this text in a value of the payload, at any depth, in any case and script (B17).
    TapeQuery&& text(std::string value) && {
        text_ = std::move(value);
        return std::move(*this);
    }
    TapeQuery&& kinds(std::vector<std::string> value) && {
        kinds_ = std::move(value);
        return std::move(*this);
    }
    /// The first n of what is left.
    TapeQuery&& limit(std::size_t value) && {
        limit_ = value;
        return std::move(*this);
    }
    /// From the newest entry to the oldest, so that a limit keeps the newest ones.
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
