#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "open_line.hpp"
#include "terminal_text.hpp"

namespace cubepi::app {

/// How a line is broken that does not fit.
enum class Flow : std::uint8_t {
    prose,  ///< between words, and below the text of a list item
    code,   ///< by the terminal, so that a copy of it is one line again
};

/// The bottom of a terminal, which changes in place, under text that only grows. What is printed goes above it, also when it
/// ends in the middle of a line: that line's last row stays in the area until it is complete. Nothing that has scrolled up is
/// touched. What a draw() costs depends on the size of the screen and what was printed since the last one, and on nothing
/// else.
class LiveArea {
public:
    using Write = std::function<void(TerminalView)>;
    LiveArea(Write write, std::size_t columns, std::size_t rows);

    /// Lines at the bottom and the cursor among them. Each line is cut to the terminal's width.
    struct Content {
        std::vector<TerminalText> lines = {};
        std::size_t cursor_line = 0;
        std::size_t cursor_column = 0;
        friend bool operator==(const Content&, const Content&) = default;
    };

    /// Text that stays. With line feeds, without cursor movements. A line is what its last piece is.
    void print(TerminalView text, Flow flow = Flow::prose);
    /// What the area shows from the next draw() on.
    void show(Content content);
    /// Of very much text a part is written; more() then says that another draw() is needed.
    void draw();
    bool more() const noexcept { return !printed_.empty(); }
    /// The terminal has another size now. `reflows`: it has broken what stands on it anew.
    void resize(std::size_t columns, std::size_t rows, bool reflows = true);
    /// Takes the area off the screen; the cursor is then at the beginning of a line. draw() brings it back.
    void hide();
    /// Forgets where it was drawn: the screen was cleared, or somebody else wrote on it.
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
    std::vector<std::string> drawn_;  // what stands above the cursor, line by line
    std::size_t drawn_column_ = 0;
    std::size_t drawn_columns_ = 0;  // the width for which it was drawn
    bool visible_ = false;
    Content drawn_content_;
    std::string drawn_open_line_;
};

}  // namespace cubepi::app
