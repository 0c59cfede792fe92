#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace cubepi::terminal_tests {

/// The screen of a terminal, computed from the bytes that are written to it: the part of xterm that line-oriented
/// programs need. Rows that have scrolled off are stored. A change of the width rewraps lines, as most terminals do,
/// or leaves rows unchanged, as xterm does.
class VirtualScreen {
public:
    VirtualScreen(std::size_t columns, std::size_t rows);

    void write(std::string_view bytes);
    void resize(std::size_t columns, std::size_t rows, bool reflow = true);

    /// All rows, those scrolled off included, without blanks at their ends and without empty rows at the end.
    std::string text() const;
    /// The same with the rows joined that the screen itself has broken.
    std::string unwrapped_text() const;
    /// The row of the cursor.
    std::string cursor_row() const;
    std::size_t cursor_column() const noexcept { return column_; }
    /// In the middle of a synchronized update (mode 2026): a terminal would not show this.
    bool updating() const noexcept { return updating_ || !held_.empty(); }
    /// Rows now on the screen.
    std::vector<std::string> screen() const;

private:
    using Row = std::vector<
        std::string>;  // a cell holds a character; the second half of a wide one is "\1"

    void put(std::string_view character);
    void control(char byte);
    void sequence(std::string_view parameters, char final);
    void line_feed();
    void reflow(std::size_t columns);
    Row& row() { return rows_[top_ + line_]; }
    static std::string text_of(const Row& row);

    std::size_t columns_;
    std::size_t height_;
    std::vector<Row> rows_;
    std::vector<bool> continues_;  // rows that were full and continue in the next one
    std::size_t top_ = 0;
    std::size_t line_ = 0;
    std::size_t column_ = 0;
    bool wrap_pending_ = false;
    std::size_t saved_line_ = 0;
    std::size_t saved_column_ = 0;
    bool updating_ = false;
    /// The main screen while the alternate one is shown.
    struct Saved {
        std::vector<Row> rows;
        std::vector<bool> continues;
        std::size_t top = 0;
        std::size_t line = 0;
        std::size_t column = 0;
    };
    std::optional<Saved> main_;
    void use_alternate(bool alternate);
    std::string held_;
};

}  // namespace cubepi::terminal_tests
