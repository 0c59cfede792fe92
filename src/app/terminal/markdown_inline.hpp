#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <string_view>

#include "style.hpp"

namespace cubepi::app {

/// The text of one line of Markdown while it arrives: emphasis, code, links and escapes as styles. Marks that are
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
    void show_link(std::string_view label, std::string_view address);
    void flush_link();
    void end_run(char next);
    void end_ticks();
    void restyle();
    bool styled() const { return bold_ || italic_ || code_ > 0 || !base_.empty(); }

    Style style_;
    Write write_;
    std::string base_;
    std::string run_;   // '*' or '_' that may be emphasis
    std::string link_;  // from a '[' on
    std::size_t ticks_ = 0;
    std::size_t code_ = 0;  // backticks that opened the code; 0: none
    bool escape_ = false;
    bool bold_ = false;
    bool italic_ = false;
    char previous_ = ' ';
};

/// `text` as a line with its styles.
std::string markdown_line(const Style& style, std::string_view text, std::string base = {});

}  // namespace cubepi::app
