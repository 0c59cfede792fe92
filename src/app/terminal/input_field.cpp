#include "input_field.hpp"

#include <algorithm>

#include "text_width.hpp"

namespace cubepi::app {

namespace {

bool continues(char byte) { return (static_cast<unsigned char>(byte) & 0xC0) == 0x80; }

}  // namespace

FieldRows field_rows(const std::string& prompt, const EditBuffer& buffer, std::size_t columns,
                     std::size_t max_rows) {
    FieldRows field;
    const std::size_t usable = columns > 12 ? columns - 1 : 11;
    std::size_t indent = display_width(prompt);
    std::string row = prompt;
    if (indent + 8 > usable) {
        // The question takes a row of its own.
        field.rows.push_back(prompt);
        row = "> ";
        indent = 2;
    }
    const std::string margin(indent, ' ');
    std::size_t column = indent;
    const std::string& text = buffer.text();
    for (std::size_t at = 0; at <= text.size();) {
        if (at == buffer.cursor()) {
            field.cursor_row = field.rows.size();
            field.cursor_column = column;
        }
        if (at == text.size()) break;
        std::size_t end = at + 1;
        while (end < text.size() && continues(text[end])) ++end;
        std::string shown = text.substr(at, end - at);
        if (shown == "\t") shown = " ";
        const std::size_t width = shown == "\n" ? 0 : display_width(shown);
        if (shown == "\n" || column + width > usable) {
            field.rows.push_back(std::move(row));
            row = margin;
            column = indent;
            if (shown != "\n" && at == buffer.cursor()) {
                ++field.cursor_row;
                field.cursor_column = column;
            }
        }
        if (shown != "\n") row += shown;
        column += width;
        at = end;
    }
    field.rows.push_back(std::move(row));
    const std::size_t room = std::max<std::size_t>(max_rows, 1);
    if (field.rows.size() > room) {
        std::size_t first = field.cursor_row >= room / 2 ? field.cursor_row - room / 2 : 0;
        first = std::min(first, field.rows.size() - room);
        field.rows.erase(field.rows.begin() + static_cast<std::ptrdiff_t>(first + room),
                         field.rows.end());
        field.rows.erase(field.rows.begin(),
                         field.rows.begin() + static_cast<std::ptrdiff_t>(first));
        field.cursor_row -= first;
    }
    return field;
}

}  // namespace cubepi::app
