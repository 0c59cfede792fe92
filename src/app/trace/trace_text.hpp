#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "../terminal/terminal_stream.hpp"
#include "../terminal/terminal_text.hpp"
#include "traces.hpp"

namespace cubepi::app {

/// The destination of the viewer's text. On a pipe nothing is cut to a width, and only ASCII signs are drawn.
struct TraceScreen {
    Style style = {};
    bool ascii = true;

    /// For standard output.
    static TraceScreen standard();
    /// Columns of a terminal; 0: not limited.
    std::size_t columns() const noexcept {
        return style.terminal ? static_cast<std::size_t>(style.columns) : 0;
    }
};

/// "20us", "0.9ms", "95ms", "1.25s", "2m03s".
std::string span_time_text(std::int64_t microseconds);
/// Tokens of the prompt and of the answer: "2565/21", "12.3k/80".
std::string token_text(const std::optional<TokenCounts>& tokens);
/// "2565", "12.3k".
std::string token_count_text(std::int64_t count);
/// "2565 tokens in, 2048 of them cached, 21 out"; empty if they are unknown.
TerminalText token_sums(const std::optional<TokenCounts>& tokens);
/// "$0.0123"; empty if it is unknown.
std::string cost_text(const std::optional<double>& cost);

/// The color of a status.
TerminalView status_color(const Style& style, TraceStatus status);

/// The text cut to `columns` with a sign that it was cut; "..." where only ASCII is drawn. Unchanged if `columns` is 0.
TerminalText fitted(const TerminalText& text, std::size_t columns, bool ascii);
/// The text with blanks up to `columns`.
TerminalText padded_right(TerminalView text, std::size_t columns);
TerminalText padded_left(TerminalView text, std::size_t columns);

/// A table with aligned columns for a terminal. The last column is cut to the width that is left; on a narrow terminal other
/// columns are omitted.
class TextTable {
public:
    enum class Align { left, right };
    /// `omitted`: the place among the columns that a narrow terminal omits, from 1; 0: never.
    void add_column(TerminalView title, Align align = Align::left, int omitted = 0);
    /// One text for each column. `color` applies to the cell of column `colored`.
    void add(std::vector<TerminalText> row, TerminalView color = {}, std::size_t colored = 0);
    /// Columns that are empty in all rows are omitted.
    TerminalText text(const TraceScreen& screen) const;

private:
    struct Column {
        TerminalText title = {};
        Align align = Align::left;
        int omitted = 0;
    };
    struct Row {
        std::vector<TerminalText> cells = {};
        TerminalText color = {};
        std::size_t colored = 0;
    };
    std::vector<std::size_t> widths() const;
    void omit_columns(std::vector<std::size_t>& widths, std::size_t columns) const;
    std::vector<Column> columns_;
    std::vector<Row> rows_;
};

}  // namespace cubepi::app
