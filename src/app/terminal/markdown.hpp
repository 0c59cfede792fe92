#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "style.hpp"

namespace cubepi::app {

/// Shows Markdown while it arrives, piece by piece: headings, lists, quotes, code, emphasis, links and tables. What has
/// been shown is never taken back, so a line is styled by what its beginning says. Without colours the text comes
/// through as it is written.
class MarkdownStream {
public:
    using Write = std::function<void(std::string_view)>;
    MarkdownStream(Style style, Write write);

    void add(std::string_view text);
    /// Ends the document: what was held back is shown, with a line break when the last line has none.
    void finish();

private:
    void take(char byte);
    void begin_line();
    void end_line();
    void inline_byte(char byte);
    void flush_marks();
    void show_table();
    void restyle();
    void out(std::string_view text);

    Style style_;
    Write write_;
    std::string start_;  // the line's beginning, while it is open what kind of line it is
    std::string marks_;  // '*', '_' or '`' that may be emphasis
    std::vector<std::string> table_;
    bool line_known_ = false;
    bool in_code_block_ = false;
    bool in_table_ = false;
    bool heading_ = false;
    bool quote_ = false;
    bool bold_ = false;
    bool italic_ = false;
    bool code_ = false;
    bool wrote_ = false;
    bool at_line_start_ = true;
    char previous_ = ' ';
};

}  // namespace cubepi::app
