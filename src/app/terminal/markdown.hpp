#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <cubepi/net/utf8.hpp>

#include "../highlight/highlighter.hpp"
#include "terminal_stream.hpp"
#include "text_layout.hpp"

namespace cubepi::app {

/// The text of one line of Markdown while it arrives: emphasis, code, links, entities and escapes as styles and characters. Marks that are
/// text (globs, snake_case, 2 * 3) are unchanged.
class MarkdownInline {
public:
    using Write = std::function<void(std::string_view)>;
    MarkdownInline(Style style, Write write);

    /// The style of the line as a whole, as escape sequences.
    void set_base(std::string base);
    void add(char byte);
    /// Ends the line: shows pending text and ends all styles.
    void finish();

private:
    void add_plain(char byte, bool with_links);
    void text(std::string_view shown);
    bool hold_link(char byte);
    bool hold_entity(char byte);
    void show_link(std::string_view label, std::string_view address);
    void flush_link();
    void end_run(char next);
    void end_ticks();
    void restyle();
    bool styled() const { return bold_ || italic_ || struck_ || code_ > 0 || !base_.empty(); }

    Style style_;
    Write write_;
    std::string base_;
    std::string run_;     // '*', '_' or '~' that may be emphasis
    std::string link_;    // from a '[' on
    std::string entity_;  // from a '&' on
    std::size_t ticks_ = 0;
    std::size_t code_ = 0;  // backticks that opened the code; 0: none
    bool escape_ = false;
    bool bold_ = false;
    bool italic_ = false;
    bool struck_ = false;
    char previous_ = ' ';
};

/// Shows Markdown while it arrives, piece by piece: headings, lists, quotes, code, emphasis, links and tables. Shown
/// text is never changed, so a line is styled by its beginning; a table, and a line of code with colors, is shown when it is
/// complete. At a terminal
/// without colors only tables and rules are laid out; without a terminal the text is passed through unchanged.
class MarkdownStream {
public:
    using Write = std::function<void(TerminalView text, Flow flow)>;
    MarkdownStream(Style style, Write write);

    void add(std::string_view text);
    /// Ends the document: shows pending text, with a line break if the last line has none.
    void finish();
    /// Handles a new width of the terminal.
    void set_columns(std::size_t columns) { columns_ = columns; }
    /// Number of lines of an incomplete table.
    std::size_t held_rows() const noexcept { return table_.size(); }

private:
    void take(char byte);
    bool undecided() const;
    void begin_line();
    void begin_prose(std::string_view start);
    void end_line();
    bool take_fence();
    void show_code_line();
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
    std::string fence_;                // that opened the code block; empty outside of one
    std::optional<Highlighter> code_;  // of a code block in a language with colors
    Flow flow_ = Flow::prose;
    bool line_known_ = false;
    bool table_line_ = false;
    bool wrote_ = false;
    bool at_line_start_ = true;
};

}  // namespace cubepi::app
