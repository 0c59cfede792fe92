#include "input_field.hpp"

#include <algorithm>
#include <string_view>
#include <utility>

#include "text_width.hpp"

namespace cubepi::app {

namespace {

// A very long line is laid out from here on, not from its beginning.
constexpr std::size_t max_line_before = 32 * 1024;

/// The beginning of the layout: enough lines above the cursor to fill the field.
std::size_t window_begin(std::string_view text, std::size_t cursor, std::size_t max_rows) {
    std::size_t begin = cursor;
    for (std::size_t lines = 0; begin > 0 && cursor - begin < max_line_before; --begin) {
        if (text[begin - 1] == '\n' && ++lines > max_rows) return begin;
    }
    while (begin > 0 && begin < text.size() &&
           (static_cast<unsigned char>(text[begin]) & 0xC0) == 0x80)
        ++begin;
    return begin;
}

TerminalText lines_sign(std::string_view hidden, TerminalView where) {
    auto feeds = static_cast<std::size_t>(std::count(hidden.begin(), hidden.end(), '\n'));
    if (feeds > 0 && !hidden.ends_with('\n')) ++feeds;
    if (feeds == 0) return TerminalView("  …");
    return "  … " + TerminalText::number(feeds) +
           (feeds == 1 ? TerminalView(" line ") : TerminalView(" lines ")) + where;
}

/// A character with its accents and joiners, as the field shows it.
TerminalText shown_character(std::string_view cluster) {
    if (cluster == "\t") return TerminalView(" ");
    // Emoji and scripts keep their joiners; after other letters a joiner would be invisible.
    const bool own_script = static_cast<unsigned char>(cluster.front()) >= 0x80;
    if (own_script && display_width(cluster) > 0 && printable(cluster) == cluster &&
        visible(first_code_point(cluster)) == first_code_point(cluster))
        return for_terminal(cluster);
    return spelled_out(cluster);
}

class Layout {
public:
    Layout(const TerminalText& prompt, const EditBuffer& buffer, std::size_t columns,
           std::size_t max_rows)
        : text_(buffer.text()),
          cursor_(buffer.cursor()),
          usable_(columns > 12 ? columns - 1 : 11),
          max_rows_(std::max<std::size_t>(max_rows, 1)) {
        set_prompt(prompt);
    }

    FieldRows rows() {
        const std::size_t begin = window_begin(text_, cursor_, max_rows_);
        if (begin > 0) row_ = TerminalText::blanks(indent_);
        lay_out(begin);
        fit();
        return std::move(field_);
    }

private:
    void set_prompt(const TerminalText& prompt) {
        indent_ = display_width(prompt);
        row_ = prompt;
        if (indent_ + 8 <= usable_) return;
        // The question has its own rows.
        std::string rest = wrapped(prompt.str(), usable_);
        for (std::size_t end = rest.find('\n'); end != std::string::npos; end = rest.find('\n')) {
            field_.rows.push_back(TerminalText::assembled(rest.substr(0, end)));
            begins_.push_back(0);
            rest.erase(0, end + 1);
        }
        field_.rows.push_back(TerminalText::assembled(rest));
        begins_.push_back(0);
        row_ = TerminalView("> ");
        indent_ = 2;
    }

    void end_row(std::size_t next) {
        field_.rows.push_back(std::exchange(row_, TerminalText::blanks(indent_)));
        begins_.push_back(begin_of_row_);
        begin_of_row_ = next;
        column_ = indent_;
    }

    void lay_out(std::size_t at) {
        begin_of_row_ = at;
        column_ = indent_;
        std::size_t rows_below = 0;
        bool passed = false;
        while (at < text_.size() && rows_below <= max_rows_) {
            const std::size_t end = next_character(text_, at);
            const std::string_view cluster = std::string_view(text_).substr(at, end - at);
            const bool feed = cluster == "\n";
            const TerminalText shown = feed ? TerminalText() : shown_character(cluster);
            const std::size_t width = feed ? 0 : display_width(shown);
            if (!feed && column_ + width > usable_) {
                end_row(at);
                rows_below += passed ? 1 : 0;
            }
            if (at == cursor_) mark_cursor();
            passed = passed || at >= cursor_;
            if (feed) {
                end_row(end);
                rows_below += passed ? 1 : 0;
            } else {
                row_ += shown;
                column_ += width;
            }
            at = end;
        }
        if (cursor_ == text_.size()) mark_cursor();
        end_row(at);
    }

    void mark_cursor() {
        field_.cursor_row = field_.rows.size();
        field_.cursor_column = column_;
    }

    /// Reduces the field to the rows around the cursor, with signs for those above and below.
    void fit() {
        std::vector<TerminalText>& rows = field_.rows;
        if (rows.size() <= max_rows_) return;
        std::size_t first =
            field_.cursor_row >= max_rows_ / 2 ? field_.cursor_row - max_rows_ / 2 : 0;
        first = std::min(first, rows.size() - max_rows_);
        const std::size_t last = first + max_rows_;
        if (max_rows_ > 3 && last < rows.size() && field_.cursor_row + 1 < last)
            rows[last - 1] = lines_sign(std::string_view(text_).substr(begins_[last - 1]), "below");
        rows.erase(rows.begin() + static_cast<std::ptrdiff_t>(last), rows.end());
        if (max_rows_ > 3 && first > 0 && field_.cursor_row > first)
            rows[first] = lines_sign(
                std::string_view(text_).substr(0, begins_[std::min(first + 1, last - 1)]), "above");
        rows.erase(rows.begin(), rows.begin() + static_cast<std::ptrdiff_t>(first));
        field_.cursor_row -= first;
    }

    const std::string& text_;
    std::size_t cursor_;
    std::size_t usable_;
    std::size_t max_rows_;
    std::size_t indent_ = 0;
    TerminalText row_;
    std::size_t column_ = 0;
    std::size_t begin_of_row_ = 0;
    std::vector<std::size_t> begins_;  // where each row begins in the text
    FieldRows field_;
};

}  // namespace

FieldRows field_rows(const TerminalText& prompt, const EditBuffer& buffer, std::size_t columns,
                     std::size_t max_rows) {
    return Layout(prompt, buffer, columns, max_rows).rows();
}

}  // namespace cubepi::app
