#include "open_line.hpp"

#include <optional>
#include <string_view>
#include <utility>

#include "text_width.hpp"

namespace cubepi::app {

void take_full_rows(OpenLine& line, std::size_t columns, std::string& rows) {
    while (const std::optional<RowBreak> at = first_break(line.text, columns)) {
        if (!std::exchange(line.broken, true)) {
            line.indent = hanging_indent(line.text);
            if (line.indent.size() > columns / 2) line.indent.clear();
        }
        const std::string style = style_at_end(std::string_view(line.text).substr(0, at->next));
        rows += line.text.substr(0, at->end);
        if (!style.empty()) rows += "\x1b[0m";
        rows += '\n';
        line.text = style + line.indent + line.text.substr(at->next);
    }
}

}  // namespace cubepi::app
