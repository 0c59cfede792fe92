#include "waterfall.hpp"

#include <algorithm>
#include <string>

#include "../terminal/text_width.hpp"

namespace cubepi::app {

namespace {

TerminalView color_of(const Style& style, const TraceSpan& span) {
    if (span.error) return style.red();
    if (span.aborted || span.suspended) return style.yellow();
    switch (span.operation) {
        case SpanOperation::chat: return style.cyan();
        case SpanOperation::tool:
        case SpanOperation::mcp: return style.green();
        default: return style.dim();
    }
}

}  // namespace

Waterfall::Waterfall(std::int64_t start, std::int64_t end, std::size_t columns,
                     const TraceScreen& screen)
    : start_(start),
      total_(std::max<std::int64_t>(end - start, 1)),
      columns_(std::max<std::size_t>(columns, 1)),
      screen_(screen) {}

TerminalText Waterfall::bar(const TraceSpan& span) const {
    // Half columns, so that short spans next to each other stay apart.
    const auto halves = static_cast<double>(columns_ * 2);
    const auto place = [&](std::int64_t time) {
        const double share = static_cast<double>(time - start_) / static_cast<double>(total_);
        return std::clamp(share, 0.0, 1.0) * halves;
    };
    const std::size_t begin =
        std::min(static_cast<std::size_t>(place(span.start)), columns_ * 2 - 1);
    const std::size_t end = std::max(begin + 1, static_cast<std::size_t>(place(span.end) + 0.5));
    TerminalText text = TerminalText::blanks(begin / 2);
    text += color_of(screen_.style, span);
    for (std::size_t column = begin / 2; column * 2 < end; ++column) {
        const bool left = column * 2 >= begin;
        const bool right = column * 2 + 1 < end;
        if (screen_.ascii) {
            text += "=";
        } else if (left && right) {
            text += "█";
        } else {
            text += left ? TerminalView("▌") : TerminalView("▐");
        }
    }
    text += screen_.style.off();
    return text;
}

TerminalText Waterfall::axis() const {
    const TerminalText middle = for_terminal(span_time_text(total_ / 2));
    const TerminalText end = for_terminal(span_time_text(total_));
    TerminalText text(TerminalView("0"));
    constexpr std::size_t gap = 4;
    const std::size_t half = columns_ / 2;
    if (half > display_width(middle) + gap &&
        columns_ > half + display_width(middle) + gap + display_width(end))
        text = padded_right(text, half) + middle;
    const std::size_t used = display_width(text);
    if (columns_ > used + display_width(end)) text += padded_left(end, columns_ - used);
    return text;
}

}  // namespace cubepi::app
