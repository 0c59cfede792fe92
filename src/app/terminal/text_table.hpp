#pragma once

#include <cstddef>
#include <vector>

#include "terminal_stream.hpp"
#include "terminal_text.hpp"

namespace cubepi::app {

/// The text cut to `columns` with a sign that it was cut; "..." where only ASCII is drawn. Unchanged if `columns` is 0.
TerminalText fitted(const TerminalText& text, std::size_t columns, bool ascii);
/// The text with blanks up to `columns`.
TerminalText padded_right(TerminalView text, std::size_t columns);
TerminalText padded_left(TerminalView text, std::size_t columns);

/// A table with aligned columns for a terminal. The last column is cut to the width that is left; on a narrow terminal other
/// columns are omitted, and everywhere those that are empty in all rows.
struct TextTable {
    struct Column {
        // NOLINTNEXTLINE(google-explicit-constructor)
        Column(TerminalView text, bool number = false, int order = 0)
            : title(text), is_number(number), omitted(order) {}
        TerminalText title;
        bool is_number;  ///< aligned at the right
        int omitted;     ///< the place in the order of omission, from 1; 0: never
    };
    std::vector<Column> columns = {};
    std::vector<std::vector<TerminalText>> rows =
        {};  ///< one text for each column, which may have styles

    /// On a pipe nothing is cut or omitted. `ascii`: only ASCII signs are drawn.
    TerminalText text(const Style& style, bool ascii = false) const;
};

}  // namespace cubepi::app
