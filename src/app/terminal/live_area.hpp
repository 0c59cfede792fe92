#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace cubepi::app {

/// The bottom of a terminal, which changes in place, under text that only grows. What is printed goes above it, also when it
/// ends in the middle of a line: that line stays in the area until it is complete. Nothing that has scrolled up is touched.
class LiveArea {
public:
    using Write = std::function<void(std::string_view)>;
    LiveArea(Write write, std::size_t columns, std::size_t rows);

    /// Lines at the bottom and the cursor among them. Each line is cut to the terminal's width.
    struct Content {
        std::vector<std::string> lines = {};
        std::size_t cursor_line = 0;
        std::size_t cursor_column = 0;
        friend bool operator==(const Content&, const Content&) = default;
    };

    /// Text that stays. With line feeds, without cursor movements.
    void print(std::string_view text);
    /// What the area shows from the next draw() on.
    void show(Content content);
    void draw();
    /// The terminal has another size now.
    void resize(std::size_t columns, std::size_t rows);
    /// Takes the area off the screen; the cursor is then at the beginning of a line. draw() brings it back.
    void hide();
    /// Forgets where it was drawn: the screen was cleared, or somebody else wrote on it.
    void forget();

    std::size_t columns() const noexcept { return columns_; }
    std::size_t rows() const noexcept { return rows_; }
    bool in_line() const noexcept { return !open_line_.empty(); }

private:
    std::string erase();
    void commit_high_line();
    Content fitted() const;

    Write write_;
    std::size_t columns_;
    std::size_t rows_;
    std::string printed_;    // complete lines that wait for draw()
    std::string open_line_;  // the line that is being written, with the styles it began with
    Content content_;
    std::vector<std::string> drawn_;  // what stands above the cursor, line by line
    std::size_t drawn_column_ = 0;
    bool visible_ = false;
    Content drawn_content_;
    std::string drawn_open_line_;
};

}  // namespace cubepi::app
