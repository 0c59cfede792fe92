#include "trace_views.hpp"

#include <algorithm>
#include <array>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "../process.hpp"
#include "../terminal/text_layout.hpp"

namespace cubepi::app {

namespace {

constexpr std::size_t gap = 2;  // between columns
constexpr std::size_t level_columns = 3;
constexpr std::size_t levels_on_pipe = 24;
constexpr std::size_t least_name = 16;
constexpr std::size_t least_bar = 10;
constexpr std::size_t bar_on_pipe = 40;
constexpr std::size_t error_lines = 3;
constexpr std::size_t longest_name = 200;
constexpr std::size_t longest_identity = 1000;
constexpr std::size_t longest_row = std::size_t{1} << 30U;

/// Time, tokens and cost of a span.
using Figures = std::array<std::string, 3>;
Figures figure_titles() { return {"time", "tokens", "cost"}; }

Figures figures_of(const TraceSpan& span) {
    return {span_time_text(span.duration()), token_text(span.tokens), cost_text(span.cost)};
}

/// A span that is shown, and its place among the shown ones.
struct ShownRow {
    std::size_t span = 0;  ///< index into Trace::spans
    bool last = false;
    bool children = false;  ///< the next shown row is a child
    TerminalText guides = {};
    TerminalText below = {};  ///< the guides of the lines below it
    TerminalText name = {};
    TerminalText marks = {};
    Figures figures = {};
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
        rows.push_back({.span = i, .last = !later[depth], .children = below > depth});
        later[depth] = true;
        below = depth;
    }
    std::reverse(rows.begin(), rows.end());
    return rows;
}

/// The widths of the columns of a view; 0: omitted.
struct Widths {
    std::size_t name = 4;
    std::array<std::size_t, 3> figures = {};
    std::size_t bar = bar_on_pipe;

    /// Distributes the columns of the terminal: the names get what they need up to a half of the width, the bars the rest. On a
    /// narrow terminal the cost is omitted first, then the tokens.
    void fit(std::size_t columns) {
        const auto used = [this] {
            std::size_t sum = 0;
            for (const std::size_t width : figures) sum += width == 0 ? 0 : width + gap;
            return sum;
        };
        for (const std::size_t last : {2U, 1U}) {
            if (columns < used() + least_name + gap + least_bar) figures[last] = 0;
        }
        const std::size_t rest = columns > used() + gap ? columns - used() - gap : 1;
        name = std::min(name, std::max(std::min(least_name, rest), rest * 3 / 5));
        bar = rest > name ? rest - name : 0;
    }
};

/// The lines that connect the rows of a tree, as `git log --graph` draws them. Of deep levels only the last ones are drawn, so
/// that each row takes bounded time and width; "+7 " stands for the others.
class TreeLines {
public:
    explicit TreeLines(const TraceScreen& screen)
        : through_(screen.ascii ? TerminalView("|  ") : TerminalView("│  ")),
          branch_(screen.ascii ? TerminalView("|- ") : TerminalView("├─ ")),
          end_(screen.ascii ? TerminalView("`- ") : TerminalView("└─ ")),
          most_levels_(screen.columns() == 0
                           ? levels_on_pipe
                           : std::max<std::size_t>(2, screen.columns() / (3 * level_columns))) {}

    /// Returns the beginnings of the row of the next span and of the lines below it. `last`: no further sibling follows; `children`:
    /// its first child does.
    std::pair<TerminalText, TerminalText> next(std::size_t depth, bool last, bool children) {
        continues_.resize(depth + 1);
        continues_[depth] = !last;
        const std::size_t hidden = depth > most_levels_ ? depth - most_levels_ : 0;
        TerminalText row;
        if (hidden > 0) row = "+" + TerminalText::number(hidden) + " ";
        TerminalText below = TerminalText::blanks(row.size());
        for (std::size_t level = hidden + 1; level <= depth; ++level) {
            const TerminalView line = continues_[level] ? through_ : blank_;
            row += level < depth ? line : last ? end_ : branch_;
            below += line;
        }
        return {std::move(row), below + (children ? through_ : blank_)};
    }

private:
    const TerminalView blank_ = "   ";
    const TerminalView through_;
    const TerminalView branch_;
    const TerminalView end_;
    const std::size_t most_levels_;
    std::vector<bool> continues_;  // by level: a sibling of the last row at this level follows
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

TerminalText marks_text(const Style& style, const TraceSpan& span) {
    TerminalText text;
    for (const char* mark : marks_of(span)) {
        const bool failed = mark == std::string_view("ERROR");
        text += " " + TerminalText(failed ? style.red() : style.yellow()) + for_terminal(mark) +
                style.off();
    }
    return text;
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
          content_(trace) {}

    void print() {
        print_heading();
        prepare();
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

    void print_heading() {
        constexpr std::size_t longest_id = 64;
        const auto print = [this](const TerminalText& line) {
            out_ << fitted(line, screen_.columns(), screen_.ascii) << "\n";
        };
        print(style().bold() + "trace " + line_for_terminal(summary_.id, longest_id) +
              style().off() + "  " + status_text(style(), summary_.status));
        print(for_terminal(summary_text(summary_)));
        const std::string identity = identity_text(summary_);
        if (!identity.empty()) print(line_for_terminal(identity, longest_identity));
        out_ << "\n";
    }

    /// Prepares the texts of the rows, and the widths of their columns.
    void prepare() {
        const Figures titles = figure_titles();
        TreeLines lines(screen_);
        for (ShownRow& row : rows_) {
            const TraceSpan& span = trace_.spans[row.span];
            std::tie(row.guides, row.below) = lines.next(span.depth, row.last, row.children);
            row.name = line_for_terminal(name_of(span), longest_name);
            row.marks = marks_text(style(), span);
            row.figures = figures_of(span);
            widths_.name = std::max(widths_.name, display_width(row.guides + row.name + row.marks));
            for (std::size_t i = 0; i < titles.size(); ++i) {
                if (!row.figures[i].empty())
                    widths_.figures[i] =
                        std::max({widths_.figures[i], row.figures[i].size(), titles[i].size()});
            }
        }
        if (screen_.columns() > 0) widths_.fit(screen_.columns());
    }

    TerminalText figure_cells(const Figures& figures) const {
        TerminalText text;
        for (std::size_t i = 0; i < figures.size(); ++i) {
            if (widths_.figures[i] > 0)
                text += "  " + padded_left(for_terminal(figures[i]), widths_.figures[i]);
        }
        return text;
    }

    void print_titles(const Waterfall& waterfall) {
        out_ << style().dim() << padded_right("span", widths_.name)
             << figure_cells(figure_titles());
        if (widths_.bar > 0) out_ << "  " << waterfall.axis();
        out_ << style().off() << "\n";
    }

    void print_row(const ShownRow& row, const Waterfall& waterfall) {
        const TraceSpan& span = trace_.spans[row.span];
        const std::size_t fixed = display_width(row.guides + row.marks);
        TerminalText name = row.name;
        if (screen_.columns() > 0)
            name = fitted(name, widths_.name > fixed ? widths_.name - fixed : 1, screen_.ascii);
        if (span.operation == SpanOperation::agent) name = style().bold() + name + style().off();
        out_ << padded_right(style().dim() + row.guides + style().off() + name + row.marks,
                             widths_.name)
             << figure_cells(row.figures);
        if (widths_.bar > 0) out_ << "  " << waterfall.bar(span);
        out_ << "\n";
        print_details(row, span);
    }

    void print_details(const ShownRow& row, const TraceSpan& span) {
        const TerminalText before = style().dim() + row.below + style().off();
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
        for (const ContentBlock& block : content_.blocks(row.span, line, options_.verbose)) {
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
    const auto [time, tokens, cost] = figures_of(span);
    TerminalText line = style.dim() + padded_left(for_terminal(time), time_columns) + style.off() +
                        "  " + line_for_terminal(name_of(span), longest_name);
    for (const std::string& figure : {tokens, cost}) {
        if (!figure.empty()) line += "  " + for_terminal(figure);
    }
    const TerminalText marks = marks_text(style, span);
    if (!marks.empty()) line += " " + marks;
    if (span.error)
        line += " " + style.red() + line_for_terminal(span.error_text, longest_name) + style.off();
    out << fitted(line, screen.columns(), screen.ascii) << "\n";
}

}  // namespace cubepi::app
