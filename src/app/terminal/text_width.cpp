#include "text_width.hpp"

#include <algorithm>
#include <cwchar>

namespace cubepi::app {

namespace {

struct Piece {
    std::size_t bytes = 0;
    std::size_t width = 0;
    bool tab = false;
    bool style = false;  // an escape sequence that ends in 'm'
};

std::size_t escape_length(std::string_view text) {
    if (text.size() < 2) return text.size();
    if (text[1] != '[') return 2;
    std::size_t end = 2;
    while (end < text.size() && (text[end] < '@' || text[end] > '~')) ++end;
    return std::min(end + 1, text.size());
}

std::size_t character_length(unsigned char first) {
    if (first < 0x80) return 1;
    if (first >= 0xF0) return 4;
    if (first >= 0xE0) return 3;
    return first >= 0xC0 ? 2 : 1;
}

char32_t code_point(std::string_view bytes) {
    const auto first = static_cast<unsigned char>(bytes.front());
    if (bytes.size() == 1) return first < 0x80 ? first : U'\uFFFD';
    char32_t value = first & (0xFFu >> (bytes.size() + 1));
    for (const char byte : bytes.substr(1))
        value = (value << 6) | (static_cast<unsigned char>(byte) & 0x3Fu);
    return value;
}

/// The next character or escape sequence of `text`, which is not empty.
Piece next_piece(std::string_view text) {
    Piece piece;
    if (text.front() == '\x1b') {
        piece.bytes = escape_length(text);
        piece.style = text[piece.bytes - 1] == 'm';
        return piece;
    }
    if (text.front() == '\t') {
        piece.bytes = 1;
        piece.tab = true;
        return piece;
    }
    piece.bytes = std::min(character_length(static_cast<unsigned char>(text.front())), text.size());
    const int width = wcwidth(static_cast<wchar_t>(code_point(text.substr(0, piece.bytes))));
    piece.width = static_cast<std::size_t>(std::max(width, 0));
    return piece;
}

void advance(Extent& at, const Piece& piece, std::size_t columns) {
    if (piece.tab) {
        at.column = std::min(columns - 1, (at.column / 8 + 1) * 8);
        return;
    }
    if (piece.width == 0) return;
    if (at.column + piece.width > columns) {
        ++at.row;
        at.column = 0;
    }
    at.column += piece.width;
}

}  // namespace

std::size_t display_width(std::string_view line) {
    return extent_of(line, std::size_t{1} << 30).column;
}

Extent extent_of(std::string_view line, std::size_t columns) {
    Extent at;
    columns = std::max<std::size_t>(columns, 2);
    while (!line.empty()) {
        const Piece piece = next_piece(line);
        advance(at, piece, columns);
        line.remove_prefix(piece.bytes);
    }
    return at;
}

std::size_t row_start(std::string_view line, std::size_t columns, std::size_t row) {
    Extent at;
    columns = std::max<std::size_t>(columns, 2);
    std::size_t offset = 0;
    while (offset < line.size()) {
        const Piece piece = next_piece(line.substr(offset));
        advance(at, piece, columns);
        if (at.row >= row && row > 0) return offset;
        offset += piece.bytes;
    }
    return row == 0 ? 0 : line.size();
}

std::string cut_to_width(std::string_view line, std::size_t columns) {
    std::string cut;
    std::size_t width = 0;
    while (!line.empty()) {
        const Piece piece = next_piece(line);
        const std::size_t wide = piece.tab ? 1 : piece.width;
        const bool escape = line.front() == '\x1b';
        if (escape || width + wide <= columns) cut += piece.tab ? " " : line.substr(0, piece.bytes);
        width += wide;
        line.remove_prefix(piece.bytes);
    }
    return cut;
}

std::string style_at_end(std::string_view text, std::string before) {
    while (!text.empty()) {
        const Piece piece = next_piece(text);
        if (piece.style) {
            const std::string_view sequence = text.substr(0, piece.bytes);
            if (sequence == "\x1b[0m" || sequence == "\x1b[m") {
                before.clear();
            } else {
                before += sequence;
            }
        }
        text.remove_prefix(piece.bytes);
    }
    return before;
}

}  // namespace cubepi::app
