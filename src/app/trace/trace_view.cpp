#include "trace_view.hpp"

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "../local_time.hpp"
#include "../terminal/framed_text.hpp"
#include "../terminal/text_width.hpp"
#include "span_content.hpp"
#include "tree_lines.hpp"
#include "waterfall.hpp"

namespace cubepi::app {

namespace {

constexpr std::size_t gap = 2;
constexpr std::size_t least_name = 16;
constexpr std::size_t least_bar = 10;
constexpr std::size_t bar_on_pipe = 40;
constexpr std::size_t error_lines = 3;
constexpr std::size_t longest_row = std::size_t{1} << 30U;

/// A row that is shown, its place among the shown rows, and what its columns have.
struct ShownRow {
    std::size_t row = 0;  ///< index into TraceTree::rows
    bool last = false;
    bool children = false;  ///< the next shown row is a child
};

/// Selects the rows of a filter and the rows above them.
std::vector<ShownRow> select_rows(const TraceTree& tree, const TraceFilter& filter) {
    const std::vector<TreeRow>& rows = tree.rows();
    std::vector<bool> shown(rows.size(), !filter.selects_spans());
    if (filter.selects_spans()) {
        for (std::size_t i = rows.size(); i-- > 0;) {
            if (!shown[i]) shown[i] = filter.accepts_span(tree.span(rows[i]));
            const auto parent = tree.parent(i);
            if (shown[i] && parent) shown[*parent] = true;
        }
    }
    std::vector<ShownRow> list;
    std::vector<bool> later;  // by depth: a later sibling is shown
    std::size_t below = 0;    // depth of the row that follows
    for (std::size_t i = rows.size(); i-- > 0;) {
        if (!shown[i]) continue;
        const std::size_t depth = rows[i].depth;
        later.resize(depth + 1);
        ShownRow row;
        row.row = i;
        row.last = !later[depth];
        row.children = below > depth;
        later[depth] = true;
        below = depth;
        list.push_back(row);
    }
    std::reverse(list.begin(), list.end());
    return list;
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

class View {
public:
    View(const TraceSet& set, const TraceTree& tree, const ViewOptions& options,
         const TraceScreen& screen, TerminalStream& out)
        : set_(set),
          tree_(tree),
          options_(options),
          screen_(screen),
          out_(out),
          summary_(summarize(tree)),
          rows_(select_rows(tree, options.filter)),
          lines_(screen, most_levels(screen)),
          content_(tree) {}

    void print() {
        print_heading();
        measure();
        const Waterfall waterfall(summary_.start, summary_.end, widths_.bar, screen_);
        print_titles(waterfall);
        for (const ShownRow& row : rows_) print_row(row, waterfall);
        if (options_.content && !has_content_)
            out_ << style().dim() << "These spans have no recorded content. To record it: "
                 << TerminalView(how_to_record_content) << style().off() << "\n";
        const std::size_t hidden = tree_.rows().size() - rows_.size();
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
        TerminalText facts = for_terminal(local_time(static_cast<double>(summary_.start) / 1e6));
        const auto add = [&facts](const TerminalText& text) {
            if (!text.empty()) facts += ", " + text;
        };
        add(for_terminal(span_time_text(summary_.duration())));
        add(TerminalText::number(summary_.spans) +
            (summary_.spans == 1 ? TerminalView(" span") : TerminalView(" spans")));
        add(token_sums(summary_.tokens));
        add(for_terminal(cost_text(summary_.cost)));
        out_ << fitted(facts, screen_.columns(), screen_.ascii) << "\n";
        print_identity();
        out_ << "\n";
    }

    void print_identity() {
        std::string text;
        if (!summary_.session.empty()) text += "session " + summary_.session;
        for (const auto& [key, value] : summary_.metadata) {
            text += text.empty() ? "" : ", ";
            text += key + "=" + value;
        }
        if (text.empty()) return;
        const std::size_t columns = screen_.columns() == 0 ? 1000 : screen_.columns();
        out_ << line_for_terminal(text, columns) << "\n";
    }

    TerminalText marks(const ShownRow& shown) const {
        const TreeRow& row = tree_.rows()[shown.row];
        const TraceSpan& span = tree_.span(row);
        TerminalText text;
        const auto add = [&](bool set, TerminalView color, TerminalView mark) {
            if (set) text += " " + TerminalText(color) + mark + style().off();
        };
        add(span.error, style().red(), "ERROR");
        add(span.aborted, style().yellow(), "aborted");
        add(span.suspended, style().yellow(), "suspended");
        add(row.orphan, style().yellow(), "orphan");
        add(row.cycle, style().yellow(), "cycle");
        return text;
    }

    /// The name as the user reads it, on one line.
    static TerminalText name_of(const TraceSpan& span) {
        constexpr std::size_t longest = 200;
        return line_for_terminal(span.name.empty() ? "(no name)" : span.name, longest);
    }

    void measure() {
        for (const ShownRow& shown : rows_) {
            const TreeRow& row = tree_.rows()[shown.row];
            const TraceSpan& span = tree_.span(row);
            lines_.begin(row.depth, shown.last);
            const std::size_t name = display_width(lines_.before_name()) +
                                     display_width(name_of(span)) + display_width(marks(shown));
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
        const TreeRow& row = tree_.rows()[shown.row];
        const TraceSpan& span = tree_.span(row);
        lines_.begin(row.depth, shown.last);
        const TerminalText guides = lines_.before_name();
        const TerminalText mark = marks(shown);
        const std::size_t fixed = display_width(guides) + display_width(mark);
        TerminalText name = name_of(span);
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
        for (const ContentBlock& block : content_.blocks(shown.row, line, options_.verbose)) {
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
    const TraceTree& tree_;
    const ViewOptions& options_;
    const TraceScreen& screen_;
    TerminalStream& out_;
    TraceSummary summary_;
    std::vector<ShownRow> rows_;
    Widths widths_;
    TreeLines lines_;
    SpanContent content_;
    bool has_content_ = false;  // a row has been printed with some
};

}  // namespace

void print_trace(const TraceSet& set, const TraceTree& tree, const ViewOptions& options,
                 const TraceScreen& screen, TerminalStream& out) {
    View(set, tree, options, screen, out).print();
}

void print_followed_span(const TraceSpan& span, const TraceScreen& screen, TerminalStream& out) {
    constexpr std::size_t time_columns = 8;
    constexpr std::size_t longest = 200;
    const Style& style = screen.style;
    TerminalText line = style.dim() +
                        padded_left(for_terminal(span_time_text(span.duration())), time_columns) +
                        style.off() + "  " +
                        line_for_terminal(span.name.empty() ? "(no name)" : span.name, longest);
    const auto add = [&line](const TerminalText& text) {
        if (!text.empty()) line += "  " + text;
    };
    add(for_terminal(token_text(span.tokens)));
    add(for_terminal(cost_text(span.cost)));
    if (span.error)
        add(style.red() + TerminalText("ERROR ") + line_for_terminal(span.error_text, longest) +
            style.off());
    if (span.aborted) add(style.yellow() + TerminalText("aborted") + style.off());
    if (span.suspended) add(style.yellow() + TerminalText("suspended") + style.off());
    out << fitted(line, screen.columns(), screen.ascii) << "\n";
}

}  // namespace cubepi::app
