#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "terminal_text.hpp"
#include "text_layout.hpp"

namespace cubepi::app {

/// The bottom of a terminal, which changes in place, below text that only grows. Printed text appears above it, even
/// if it ends in the middle of a line: the last row of that line stays in the area until it is complete. Rows that
/// have scrolled up are never changed. The cost of draw() depends only on the size of the screen and the text printed
/// since the last one.
class LiveArea {
public:
    using Write = std::function<void(TerminalView)>;
    LiveArea(Write write, std::size_t columns, std::size_t rows);

    /// The lines of the area with the cursor. Each line is cut to the width of the terminal.
    struct Content {
        std::vector<TerminalText> lines = {};
        std::size_t cursor_line = 0;
        std::size_t cursor_column = 0;
        friend bool operator==(const Content&, const Content&) = default;
    };

    /// Prints permanent text, with line feeds, without cursor movements. The flow of a line is that of its last
    /// piece.
    void print(TerminalView text, Flow flow = Flow::prose);
    /// Sets the content for the next draw().
    void show(Content content);
    /// Writes only a part of very long text; more() then reports that another draw() is needed.
    void draw();
    bool more() const noexcept { return !printed_.empty(); }
    /// Handles a new size of the terminal. `reflows`: the terminal has rewrapped its content.
    void resize(std::size_t columns, std::size_t rows, bool reflows = true);
    /// Removes the area from the screen; the cursor is then at the beginning of a line. draw() restores it.
    void hide();
    /// Forgets the position of the area: the screen was cleared, or another program wrote to it.
    void forget();

    std::size_t columns() const noexcept { return columns_; }
    std::size_t rows() const noexcept { return rows_; }
    bool in_line() const noexcept { return !line_.text.empty(); }

private:
    void write(const std::string& safe) { write_(TerminalText::assembled(safe)); }
    std::string erase();
    void end_line();
    void commit_rows();
    void commit_high_line();
    std::string take_printed();
    bool open_line_shows() const;
    bool draw_changes(const Content& fit);
    std::string cursor_to(const Content& fit) const;
    Content fitted() const;

    Write write_;
    std::size_t columns_;
    std::size_t rows_;
    std::string printed_;  // complete rows that wait for draw()
    OpenLine line_;        // the row that is being written, with the styles it began with
    Flow flow_ = Flow::prose;
    Content content_;
    std::vector<std::string> drawn_;  // the lines above the cursor
    std::size_t drawn_column_ = 0;
    std::size_t drawn_columns_ = 0;  // the width for which it was drawn
    bool visible_ = false;
    Content drawn_content_;
    std::string drawn_open_line_;
};

}  // namespace cubepi::app
