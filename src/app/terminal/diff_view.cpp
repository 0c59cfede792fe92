#include "diff_view.hpp"

#include <algorithm>
#include <charconv>

#include "text_width.hpp"

namespace cubepi::app {

namespace {

constexpr std::size_t gutter = 5;
constexpr std::size_t longest_line = 400;  // columns, where not everything is shown

std::size_t number_after(std::string_view text, char sign) {
    std::size_t number = 0;
    const auto at = text.find(sign);
    if (at != std::string_view::npos)
        std::from_chars(text.data() + at + 1, text.data() + text.size(), number);
    return number;
}

TerminalText numbered(std::size_t number) {
    const TerminalText digits = TerminalText::number(number);
    return TerminalText::blanks(digits.size() < gutter ? gutter - digits.size() : 0) + digits;
}

/// Writes a diff line by line, with the line numbers that the hunk headers give.
class Writer {
public:
    Writer(const Style& style, bool shortens) : style_(style), shortens_(shortens) {}

    void add(std::string_view line) {
        const char sign = line.empty() ? ' ' : line.front();
        const TerminalView dim = style_.dim();
        const TerminalView off = style_.off();
        if (line.starts_with("@@ ")) {
            old_line_ = number_after(line, '-');
            new_line_ = number_after(line, '+');
            view.text += "  " + dim + spelled_out(line) + off + "\n";
        } else if (sign == '\\') {
            view.text +=
                "  " + dim + TerminalText::blanks(gutter + 1) + spelled_out(line) + off + "\n";
        } else if (sign == '-') {
            add_content(numbered(old_line_++), style_.red(), line);
        } else if (sign == '+') {
            add_content(numbered(new_line_++), style_.green(), line);
        } else {
            ++old_line_;
            add_content(numbered(new_line_++), {}, line.empty() ? " " : line);
        }
    }

    DiffView view;

private:
    void add_content(const TerminalText& number, TerminalView color, std::string_view line) {
        TerminalText content = spelled_out(line.substr(1));
        if (shortens_ && display_width(content) > longest_line) {
            content = shortened(content, longest_line);
            view.cut = true;
        }
        view.text += "  " + style_.dim() + number + style_.off() + " " + color +
                     spelled_out(line.substr(0, 1)) + content +
                     (color.empty() ? TerminalView() : style_.off()) + "\n";
    }

    const Style& style_;
    const bool shortens_;
    std::size_t old_line_ = 0;
    std::size_t new_line_ = 0;
};

}  // namespace

DiffView diff_view(std::string_view diff, std::size_t hidden, const Style& style,
                   std::size_t max_lines) {
    Writer writer(style, max_lines > 0);
    std::size_t shown = 0;
    while (!diff.empty() && (max_lines == 0 || shown < max_lines)) {
        const auto end = std::min(diff.find('\n'), diff.size());
        writer.add(diff.substr(0, end));
        diff.remove_prefix(std::min(end + 1, diff.size()));
        ++shown;
    }
    const std::size_t left =
        hidden + static_cast<std::size_t>(std::count(diff.begin(), diff.end(), '\n'));
    if (left > 0) {
        writer.view.cut = true;
        writer.view.text += "  " + style.dim() + TerminalText::blanks(gutter + 1) + "… and " +
                            TerminalText::number(left) +
                            (left == 1 ? TerminalView(" more line") : TerminalView(" more lines")) +
                            style.off() + "\n";
    }
    return std::move(writer.view);
}

}  // namespace cubepi::app
