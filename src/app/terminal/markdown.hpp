#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include <cubepi/net/utf8.hpp>

#include "live_area.hpp"
#include "markdown_inline.hpp"
#include "style.hpp"

namespace cubepi::app {

/// Shows Markdown while it arrives, piece by piece: headings, lists, quotes, code, emphasis, links and tables. What has
/// been shown is never taken back, so a line is styled by what its beginning says; a table shows when it is complete. At a
/// terminal without colours only tables and rules are laid out; where there is no terminal the text comes through as it is
/// written.
class MarkdownStream {
public:
    using Write = std::function<void(TerminalView text, Flow flow)>;
    MarkdownStream(Style style, Write write);

    void add(std::string_view text);
    /// Ends the document: what was held back is shown, with a line break when the last line has none.
    void finish();
    /// The terminal has another width now.
    void set_columns(std::size_t columns) { columns_ = columns; }
    /// Lines of a table that is not complete yet.
    std::size_t held_rows() const noexcept { return table_.size(); }

private:
    void take(char byte);
    bool undecided() const;
    void begin_line();
    void begin_prose(std::string_view start);
    void end_line();
    bool take_fence();
    void add_table_line(std::string line);
    void flush_table();
    void out(std::string_view text);

    void take_all(std::string_view bytes);

    Style style_;
    Write write_;
    MarkdownInline inside_;
    Utf8Splitter splitter_;
    std::size_t columns_;
    std::string start_;  // the line's beginning, while it is open what kind of line it is
    std::vector<std::string> table_;
    std::string fence_;  // that opened the code block; empty outside of one
    Flow flow_ = Flow::prose;
    bool line_known_ = false;
    bool table_line_ = false;
    bool wrote_ = false;
    bool at_line_start_ = true;
};

}  // namespace cubepi::app
