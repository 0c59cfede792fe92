#include "trace_text.hpp"

#include <algorithm>
#include <array>
#include <cstdio>
#include <utility>

#include <unistd.h>

#include <cubepi/provider/cost.hpp>

#include "../terminal/event_text.hpp"
#include "../terminal/terminal_stream.hpp"
#include "../terminal/text_layout.hpp"

namespace cubepi::app {

namespace {

constexpr std::int64_t millisecond = 1000;
constexpr std::int64_t second = 1000 * millisecond;
constexpr std::int64_t minute = 60 * second;
constexpr std::int64_t hour = 60 * minute;
constexpr std::int64_t shortest_short_count = 10'000;

/// `value` in units of `unit`, rounded down to so many decimals.
std::string decimal(std::int64_t value, std::int64_t unit, int decimals) {
    std::array<char, 40> text = {};
    const int size = std::snprintf(text.data(), text.size(), "%.*f", decimals,
                                   static_cast<double>(value) / static_cast<double>(unit));
    return std::string(text.data(), static_cast<std::size_t>(size));
}

std::string two_digits(std::int64_t number) {
    return (number < 10 ? "0" : "") + std::to_string(number);
}

}  // namespace

TraceScreen TraceScreen::standard() {
    TraceScreen screen;
    screen.style = Style::of(STDOUT_FILENO);
    screen.ascii = !screen.style.terminal || terminal_is_ascii();
    return screen;
}

std::string span_time_text(std::int64_t microseconds) {
    if (microseconds < 100) return std::to_string(microseconds) + "us";
    if (microseconds < 99'950) return decimal(microseconds, millisecond, 1) + "ms";
    if (microseconds < 999'500) return decimal(microseconds, millisecond, 0) + "ms";
    if (microseconds < minute - 5 * millisecond) return decimal(microseconds, second, 2) + "s";
    if (microseconds < hour)
        return std::to_string(microseconds / minute) + "m" +
               two_digits(microseconds % minute / second) + "s";
    return std::to_string(microseconds / hour) + "h" + two_digits(microseconds % hour / minute) +
           "m";
}

std::string token_text(const std::optional<TokenCounts>& tokens) {
    if (!tokens) return {};
    return token_count_text(tokens->input) + "/" + token_count_text(tokens->output);
}

std::string token_count_text(std::int64_t count) {
    return count < shortest_short_count ? std::to_string(count) : short_count_text(count);
}

TerminalText token_sums(const std::optional<TokenCounts>& tokens) {
    if (!tokens) return {};
    TerminalText text = TerminalText::number(tokens->input) + " tokens in";
    if (tokens->cache_read > 0)
        text += ", " + TerminalText::number(tokens->cache_read) + " of them cached";
    return text + ", " + TerminalText::number(tokens->output) + " out";
}

std::string cost_text(const std::optional<double>& cost) {
    return cost ? money_text(*cost) : std::string();
}

TerminalView status_color(const Style& style, TraceStatus status) {
    switch (status) {
        case TraceStatus::ok: return style.green();
        case TraceStatus::error: return style.red();
        default: return style.yellow();
    }
}

TerminalText fitted(const TerminalText& text, std::size_t columns, bool ascii) {
    if (columns == 0 || display_width(text) <= columns) return text;
    if (!ascii) return shortened(text, columns);
    constexpr std::size_t sign = 3;
    if (columns <= sign) return cut_to_width(text, columns);
    return cut_to_width(text, columns - sign) + "...";
}

TerminalText padded_right(TerminalView text, std::size_t columns) {
    const std::size_t width = display_width(text.str());
    return width < columns ? text + TerminalText::blanks(columns - width) : TerminalText(text);
}

TerminalText padded_left(TerminalView text, std::size_t columns) {
    const std::size_t width = display_width(text.str());
    return width < columns ? TerminalText::blanks(columns - width) + text : TerminalText(text);
}

void TextTable::add_column(TerminalView title, Align align, int omitted) {
    columns_.push_back(Column{title, align, omitted});
}

void TextTable::add(std::vector<TerminalText> row, TerminalView color, std::size_t colored) {
    rows_.push_back(Row{std::move(row), TerminalText(color), colored});
}

std::vector<std::size_t> TextTable::widths() const {
    std::vector<std::size_t> widths(columns_.size(), 0);
    for (const Row& row : rows_) {
        for (std::size_t i = 0; i < widths.size(); ++i)
            widths[i] = std::max(widths[i], display_width(row.cells[i]));
    }
    for (std::size_t i = 0; i < widths.size(); ++i) {
        if (widths[i] > 0) widths[i] = std::max(widths[i], display_width(columns_[i].title));
    }
    return widths;
}

void TextTable::omit_columns(std::vector<std::size_t>& widths, std::size_t columns) const {
    static constexpr std::size_t least_last = 12;
    const auto used = [&widths] {
        std::size_t sum = 0;
        for (std::size_t i = 0; i + 1 < widths.size(); ++i)
            sum += widths[i] > 0 ? widths[i] + 2 : 0;
        return sum + std::min(widths.back(), least_last);
    };
    for (int place = 1; columns > 0 && used() > columns; ++place) {
        const auto next =
            std::find_if(columns_.begin(), columns_.end(),
                         [place](const Column& column) { return column.omitted == place; });
        if (next == columns_.end()) return;
        widths[static_cast<std::size_t>(next - columns_.begin())] = 0;
    }
}

TerminalText TextTable::text(const TraceScreen& screen) const {
    std::vector<std::size_t> all = widths();
    omit_columns(all, screen.columns());
    std::size_t last = 0;
    for (std::size_t i = 0; i < all.size(); ++i) {
        if (all[i] > 0) last = i;
    }
    const auto line = [&](const std::vector<TerminalText>& cells, const Row* row) {
        TerminalText text;
        std::size_t used = 0;
        for (std::size_t i = 0; i < all.size(); ++i) {
            if (all[i] == 0) continue;
            if (!text.empty()) text += "  ";
            TerminalText cell = cells[i];
            const std::size_t columns = screen.columns();
            if (columns > 0 && i == last)
                cell = fitted(cell, columns > used + 8 ? columns - used : 8, screen.ascii);
            if (columns_[i].align == Align::right) {
                cell = padded_left(cell, all[i]);
            } else if (i != last) {
                cell = padded_right(cell, all[i]);
            }
            const bool colored = row && i == row->colored && !row->color.empty();
            if (colored) text += row->color;
            text += cell;
            if (colored) text += screen.style.off();
            used += all[i] + 2;
        }
        text += "\n";
        return text;
    };
    std::vector<TerminalText> titles;
    titles.reserve(columns_.size());
    for (const Column& column : columns_) titles.push_back(column.title);
    TerminalText text(screen.style.dim());
    text += line(titles, nullptr);
    text += screen.style.off();
    for (const Row& row : rows_) text += line(row.cells, &row);
    return text;
}

}  // namespace cubepi::app
