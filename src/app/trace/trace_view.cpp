#include "trace_views.hpp"

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "../process.hpp"
#include "../terminal/text_layout.hpp"

namespace cubepi::app {

namespace {

constexpr std::size_t gap = 2;  // between columns
constexpr std::size_t level_columns = 3;
constexpr std::size_t least_name = 16;
constexpr std::size_t least_bar = 10;
constexpr std::size_t bar_on_pipe = 40;
constexpr std::size_t error_lines = 3;
constexpr std::size_t longest_name = 200;
constexpr std::size_t longest_row = std::size_t{1} << 30U;

/// A span that is shown, and its place among the shown ones.
struct ShownRow {
    std::size_t span = 0;  ///< index into Trace::spans
    bool last = false;
    bool children = false;  ///< the next shown row is a child
};

/// Selects the spans of a filter and the spans above them.
std::vector<ShownRow> select_rows(const std::vector<TraceSpan>& spans, const TraceFilter& filter) {
    std::vector<bool> shown(spans.size(), !filter.selects_spans());
    for (std::size_t i = spans.size(); i-- > 0;) {
        if (!shown[i]) shown[i] = filter.accepts_span(spans[i]);
        if (shown[i] && spans[i].parent) shown[*spans[i].parent] = true;
    }
    std::vector<ShownRow> rows;
    std::vector<bool> later;  // by depth: a later sibling is shown
    std::size_t below = 0;    // depth of the row that follows
    for (std::size_t i = spans.size(); i-- > 0;) {
        if (!shown[i]) continue;
        const std::size_t depth = spans[i].depth;
        later.resize(depth + 1);
        rows.push_back({i, !later[depth], below > depth});
        later[depth] = true;
        below = depth;
    }
    std::reverse(rows.begin(), rows.end());
    return rows;
}

/// The widths of the columns of a view; 0: omitted.
struct Widths {
    std::size_t name = 0;
    std::size_t time = 0;
    std::size_t tokens = 0;
    std::size_t cost = 0;
    std::size_t bar = 0;

    std::size_t numbers() const noexcept {
        const auto with_gap = [](std::size_t width) { return width == 0 ? 0 : width + gap; };
        return with_gap(time) + with_gap(tokens) + with_gap(cost);
    }
};

/// Distributes the columns of the terminal: the names get what they need up to a half of the width, the bars the rest. On a
/// narrow terminal the cost is omitted first, then the tokens.
void fit(Widths& widths, std::size_t columns) {
    if (columns == 0) {
        widths.bar = bar_on_pipe;
        return;
    }
    const std::size_t least = least_name + gap + least_bar;
    if (columns < widths.numbers() + least) widths.cost = 0;
    if (columns < widths.numbers() + least) widths.tokens = 0;
    const std::size_t rest =
        columns > widths.numbers() + gap ? columns - widths.numbers() - gap : 1;
    const std::size_t most_name = std::max(std::min(least_name, rest), rest * 3 / 5);
    widths.name = std::min(widths.name, most_name);
    widths.bar = rest > widths.name ? rest - widths.name : 0;
}

/// The lines that connect the rows of a tree, as `git log --graph` draws them. Of deep levels only the last ones are drawn, so
/// that each row takes bounded time and width.
class TreeLines {
public:
    TreeLines(const TraceScreen& screen, std::size_t most_levels)
        : through_(screen.ascii ? TerminalView("|  ") : TerminalView("│  ")),
          branch_(screen.ascii ? TerminalView("|- ") : TerminalView("├─ ")),
          end_(screen.ascii ? TerminalView("`- ") : TerminalView("└─ ")),
          most_levels_(most_levels) {}

    /// Begins the row of a span. `last`: no further sibling follows.
    void begin(std::size_t depth, bool last) {
        depth_ = depth;
        continues_.resize(depth + 1);
        continues_[depth] = !last;
    }
    /// "|  `- " before the name of the span; "+7 " stands for the levels that are not drawn.
    TerminalText before_name() const {
        if (depth_ == 0) return {};
        TerminalText text;
        if (first_level() > 1) text += "+" + TerminalText::number(first_level() - 1) + " ";
        return text + levels(depth_) + (continues_[depth_] ? branch_ : end_);
    }
    /// The same for lines below the span; `children`: its first child follows.
    TerminalText before_detail(bool children) const {
        TerminalText text;
        if (first_level() > 1)
            text += TerminalText::blanks(std::to_string(first_level() - 1).size() + 2);
        return text + levels(depth_ + 1) + (children ? through_ : TerminalView("   "));
    }

private:
    std::size_t first_level() const noexcept {
        return depth_ > most_levels_ ? depth_ - most_levels_ + 1 : 1;
    }
    TerminalText levels(std::size_t end) const {
        TerminalText text;
        for (std::size_t level = first_level(); level < end; ++level)
            text += continues_[level] ? through_ : TerminalView("   ");
        return text;
    }

    TerminalView through_;
    TerminalView branch_;
    TerminalView end_;
    std::size_t most_levels_;
    std::size_t depth_ = 0;
    std::vector<bool> continues_;  // by level, the row's own included
};

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

/// The part of a view in which each span is a bar at its time.
class Waterfall {
public:
    Waterfall(const TraceSummary& trace, std::size_t columns, const TraceScreen& screen)
        : start_(trace.start),
          total_(std::max<std::int64_t>(trace.duration(), 1)),
          columns_(std::max<std::size_t>(columns, 1)),
          screen_(screen) {}

    /// The bar of a span, at least one sign wide, with blanks before it and none after it.
    TerminalText bar(const TraceSpan& span) const {
        // Half columns, so that short spans next to each other stay apart.
        const auto place = [&](std::int64_t time) {
            const double share = static_cast<double>(time - start_) / static_cast<double>(total_);
            return std::clamp(share, 0.0, 1.0) * static_cast<double>(columns_ * 2);
        };
        const std::size_t begin =
            std::min(static_cast<std::size_t>(place(span.start)), columns_ * 2 - 1);
        const std::size_t end =
            std::max(begin + 1, static_cast<std::size_t>(place(span.end) + 0.5));
        TerminalText text = TerminalText::blanks(begin / 2);
        text += color_of(screen_.style, span);
        for (std::size_t column = begin / 2; column * 2 < end; ++column) {
            const bool left = column * 2 >= begin;
            if (screen_.ascii) {
                text += "=";
            } else if (left && column * 2 + 1 < end) {
                text += "█";
            } else {
                text += left ? TerminalView("▌") : TerminalView("▐");
            }
        }
        return text + screen_.style.off();
    }
    /// The times above the bars: the start, the middle if it fits, and the end.
    TerminalText axis() const {
        constexpr std::size_t least_gap = 4;
        const TerminalText middle = for_terminal(span_time_text(total_ / 2));
        const TerminalText end = for_terminal(span_time_text(total_));
        TerminalText text(TerminalView("0"));
        const std::size_t half = columns_ / 2;
        if (half > display_width(middle) + least_gap &&
            columns_ > half + display_width(middle) + least_gap + display_width(end))
            text = padded_right(text, half) + middle;
        const std::size_t used = display_width(text);
        if (columns_ > used + display_width(end)) text += padded_left(end, columns_ - used);
        return text;
    }

private:
    std::int64_t start_;
    std::int64_t total_;
    std::size_t columns_;
    const TraceScreen& screen_;
};

class View {
public:
    View(const TraceSet& set, const Trace& trace, const ViewOptions& options,
         const TraceScreen& screen, TerminalStream& out)
        : set_(set),
          trace_(trace),
          options_(options),
          screen_(screen),
          out_(out),
          summary_(trace.summary),
          rows_(select_rows(trace.spans, options.filter)),
          lines_(screen, most_levels(screen)),
          content_(trace) {}

    void print() {
        print_heading();
        measure();
        const Waterfall waterfall(summary_, widths_.bar, screen_);
        print_titles(waterfall);
        for (const ShownRow& row : rows_) print_row(row, waterfall);
        if (options_.content && !has_content_)
            out_ << style().dim() << "These spans have no recorded content. To record it: "
                 << TerminalView(how_to_record_content) << style().off() << "\n";
        const std::size_t hidden = trace_.spans.size() - rows_.size();
        if (hidden > 0)
            out_ << style().dim() << hidden
                 << (hidden == 1 ? TerminalView(" span is") : TerminalView(" spans are"))
                 << " not shown: the filter does not select "
                 << (hidden == 1 ? TerminalView("it.") : TerminalView("them.")) << style().off()
                 << "\n";
    }

private:
    const Style& style() const noexcept { return screen_.style; }

    static std::size_t most_levels(const TraceScreen& screen) {
        constexpr std::size_t on_pipe = 24;
        if (screen.columns() == 0) return on_pipe;
        return std::max<std::size_t>(2, screen.columns() / (3 * level_columns));
    }

    void print_heading() {
        constexpr std::size_t longest_id = 64;
        const TerminalText heading = style().bold() + "trace " +
                                     line_for_terminal(summary_.id, longest_id) + style().off() +
                                     "  " + status_color(style(), summary_.status) +
                                     for_terminal(status_name(summary_.status)) + style().off();
        out_ << fitted(heading, screen_.columns(), screen_.ascii) << "\n";
        out_ << fitted(for_terminal(facts_text(summary_)), screen_.columns(), screen_.ascii)
             << "\n";
        print_identity();
        out_ << "\n";
    }

    void print_identity() {
        const std::string text = identity_text(summary_);
        if (text.empty()) return;
        const std::size_t columns = screen_.columns() == 0 ? 1000 : screen_.columns();
        out_ << line_for_terminal(text, columns) << "\n";
    }

    TerminalText marks(const TraceSpan& span) const {
        TerminalText text;
        for (const char* mark : marks_of(span)) {
            const bool failed = mark == std::string_view("ERROR");
            text += " " + TerminalText(failed ? style().red() : style().yellow()) +
                    for_terminal(mark) + style().off();
        }
        return text;
    }

    /// The name as the user reads it, on one line.
    static TerminalText name_line(const TraceSpan& span) {
        return line_for_terminal(name_of(span), longest_name);
    }

    void measure() {
        for (const ShownRow& shown : rows_) {
            const TraceSpan& span = trace_.spans[shown.span];
            lines_.begin(span.depth, shown.last);
            const std::size_t name = display_width(lines_.before_name()) +
                                     display_width(name_line(span)) + display_width(marks(span));
            widths_.name = std::max(widths_.name, name);
            const auto widen = [](std::size_t& width, const std::string& text) {
                width = std::max(width, text.size());
            };
            widen(widths_.time, span_time_text(span.duration()));
            widen(widths_.tokens, token_text(span.tokens));
            widen(widths_.cost, cost_text(span.cost));
        }
        if (widths_.tokens > 0) widths_.tokens = std::max(widths_.tokens, std::size_t{6});
        if (widths_.cost > 0) widths_.cost = std::max(widths_.cost, std::size_t{4});
        widths_.name = std::max(widths_.name, std::size_t{4});
        fit(widths_, screen_.columns());
    }

    TerminalText numbers(TerminalView time, TerminalView tokens, TerminalView cost) const {
        TerminalText text;
        const auto add = [&text](TerminalView cell, std::size_t width) {
            if (width > 0) text += "  " + padded_left(cell, width);
        };
        add(time, widths_.time);
        add(tokens, widths_.tokens);
        add(cost, widths_.cost);
        return text;
    }

    void print_titles(const Waterfall& waterfall) {
        TerminalText line = padded_right("span", widths_.name);
        line += numbers("time", "tokens", "cost");
        if (widths_.bar > 0) line += "  " + waterfall.axis();
        out_ << style().dim() << line << style().off() << "\n";
    }

    void print_row(const ShownRow& shown, const Waterfall& waterfall) {
        const TraceSpan& span = trace_.spans[shown.span];
        lines_.begin(span.depth, shown.last);
        const TerminalText guides = lines_.before_name();
        const TerminalText mark = marks(span);
        const std::size_t fixed = display_width(guides) + display_width(mark);
        TerminalText name = name_line(span);
        if (screen_.columns() > 0)
            name = fitted(name, widths_.name > fixed ? widths_.name - fixed : 1, screen_.ascii);
        const bool bold = span.operation == SpanOperation::agent;
        TerminalText label = style().dim() + guides + style().off();
        if (bold) label += style().bold();
        label += name;
        if (bold) label += style().off();
        label = padded_right(label + mark, widths_.name);
        const TerminalText figures =
            numbers(for_terminal(span_time_text(span.duration())),
                    for_terminal(token_text(span.tokens)), for_terminal(cost_text(span.cost)));
        out_ << label << figures;
        if (widths_.bar > 0) out_ << "  " << waterfall.bar(span);
        out_ << "\n";
        print_details(shown, span);
    }

    void print_details(const ShownRow& shown, const TraceSpan& span) {
        const TerminalText before =
            style().dim() + lines_.before_detail(shown.children) + style().off();
        if (span.error && !span.error_text.empty()) {
            print_block(before, style().red(), "error: ", span.error_text,
                        options_.verbose ? 0 : error_lines);
        }
        if (!options_.verbose && !options_.content) return;
        const JsonObject line = set_.line_of(span);
        if (options_.verbose) {
            for (const std::string& text : attribute_lines(span, line))
                print_block(before, style().dim(), {}, text, 0);
        }
        if (!options_.content) return;
        for (const ContentBlock& block : content_.blocks(shown.span, line, options_.verbose)) {
            has_content_ = true;
            const TerminalText label =
                style().cyan() + for_terminal(block.label) + ": " + style().off();
            print_block(before, {}, label, block.text, 0);
        }
    }

    /// Prints a text with `before` on each row, broken for a terminal. `most`: so many rows at most; 0: all.
    void print_block(const TerminalText& before, TerminalView color, TerminalView label,
                     std::string_view text, std::size_t most) {
        const std::size_t columns = screen_.columns() == 0 ? longest_row : screen_.columns();
        const Frame frame{before, before};
        const std::size_t used = display_width(before) + display_width(label.str());
        std::string broken;
        if (screen_.columns() > used + least_name) {
            broken = wrapped(printable(text), columns - used);
            text = broken;
        }
        TerminalText first(label);
        std::vector<TerminalText> rows;
        while (true) {
            const std::size_t end = std::min(text.find('\n'), text.size());
            const TerminalText line = first + for_terminal(text.substr(0, end));
            rows.clear();
            add_framed(rows, TerminalText(color) + line + style().off(), columns, frame);
            for (const TerminalText& row : rows) {
                out_ << row << "\n";
                if (most > 0 && --most == 0) return;
            }
            if (end == text.size()) return;
            text.remove_prefix(end + 1);
            first = TerminalText();
        }
    }

    const TraceSet& set_;
    const Trace& trace_;
    const ViewOptions& options_;
    const TraceScreen& screen_;
    TerminalStream& out_;
    const TraceSummary& summary_;
    std::vector<ShownRow> rows_;
    Widths widths_;
    TreeLines lines_;
    SpanContent content_;
    bool has_content_ = false;  // a row has been printed with some
};

}  // namespace

void print_trace(const TraceSet& set, const Trace& trace, const ViewOptions& options,
                 const TraceScreen& screen, TerminalStream& out) {
    View(set, trace, options, screen, out).print();
}

void print_followed_span(const TraceSpan& span, const TraceScreen& screen, TerminalStream& out) {
    constexpr std::size_t time_columns = 8;
    const Style& style = screen.style;
    TerminalText line = style.dim() +
                        padded_left(for_terminal(span_time_text(span.duration())), time_columns) +
                        style.off() + "  " + line_for_terminal(name_of(span), longest_name);
    const auto add = [&line](const TerminalText& text) {
        if (!text.empty()) line += "  " + text;
    };
    add(for_terminal(token_text(span.tokens)));
    add(for_terminal(cost_text(span.cost)));
    if (span.error)
        add(style.red() + TerminalText("ERROR ") +
            line_for_terminal(span.error_text, longest_name) + style.off());
    if (span.aborted) add(style.yellow() + TerminalText("aborted") + style.off());
    if (span.suspended) add(style.yellow() + TerminalText("suspended") + style.off());
    out << fitted(line, screen.columns(), screen.ascii) << "\n";
}

}  // namespace cubepi::app
