#include "text_table.hpp"

#include <algorithm>
#include <cstddef>

#include "text_layout.hpp"

namespace cubepi::app {

TerminalText fitted(const TerminalText& text, std::size_t columns, bool ascii) {
    if (columns == 0 || display_width(text) <= columns) return text;
    if (!ascii) return shortened(text, columns);
    constexpr std::size_t sign = 3;
    return columns > sign ? cut_to_width(text, columns - sign) + "..."
                          : cut_to_width(text, columns);
}

TerminalText padded_right(TerminalView text, std::size_t columns) {
    const std::size_t width = display_width(text.str());
    return width < columns ? text + TerminalText::blanks(columns - width) : TerminalText(text);
}

TerminalText padded_left(TerminalView text, std::size_t columns) {
    const std::size_t width = display_width(text.str());
    return width < columns ? TerminalText::blanks(columns - width) + text : TerminalText(text);
}

TerminalText TextTable::text(const Style& style, bool ascii) const {
    constexpr std::size_t gap = 2;
    constexpr std::size_t least_last = 8;
    if (rows.empty()) return {};
    std::vector<std::size_t> widths(columns.size());
    for (std::size_t i = 0; i < columns.size(); ++i) {
        for (const auto& row : rows) widths[i] = std::max(widths[i], display_width(row[i]));
        if (widths[i] > 0) widths[i] = std::max(widths[i], display_width(columns[i].title));
    }
    std::size_t last = widths.size();  // the last column with a text
    while (last > 0 && widths[last - 1] == 0) --last;
    const auto used_before_last = [&] {
        std::size_t sum = 0;
        for (std::size_t i = 0; i + 1 < last; ++i) sum += widths[i] > 0 ? widths[i] + gap : 0;
        return sum;
    };
    const std::size_t limit = style.terminal ? static_cast<std::size_t>(style.columns) : 0;
    for (int next = 1;
         limit > 0 && used_before_last() + std::min(widths[last - 1], least_last) > limit; ++next) {
        const auto omitted = std::find_if(columns.begin(), columns.end(),
                                          [&](const Column& one) { return one.omitted == next; });
        if (omitted == columns.end()) break;
        widths[static_cast<std::size_t>(omitted - columns.begin())] = 0;
    }
    const std::size_t used = used_before_last();
    const auto line = [&](const auto& cell_of) {
        TerminalText text;
        for (std::size_t i = 0; i < last; ++i) {
            if (widths[i] == 0) continue;
            if (!text.empty()) text += TerminalText::blanks(gap);
            TerminalText cell = cell_of(i);
            if (limit > 0 && i + 1 == last)
                cell = fitted(cell, std::max(limit - std::min(limit, used), least_last), ascii);
            if (columns[i].is_number) {
                cell = padded_left(cell, widths[i]);
            } else if (i + 1 < last) {
                cell = padded_right(cell, widths[i]);
            }
            text += cell;
        }
        return text + "\n";
    };
    TerminalText text(style.dim());
    text += line([&](std::size_t i) { return columns[i].title; });
    text += style.off();
    for (const auto& row : rows) text += line([&](std::size_t i) { return row[i]; });
    return text;
}

}  // namespace cubepi::app
