#include "markdown_table.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>

#include "markdown_inline.hpp"
#include "text_width.hpp"

#include <cubepi/core/support/trimmed.hpp>

namespace cubepi::app {

namespace {

constexpr std::size_t gap = 2;
constexpr std::size_t narrowest = 8;

enum class Side : std::uint8_t { left, middle, right };

constexpr std::string_view cell_blanks = " \t";

/// The cells of a row; a '|' inside of code or after a backslash belongs to a cell.
std::vector<std::string> cells_of(std::string_view row) {
    std::string text(detail::trimmed(row, cell_blanks));
    if (text.starts_with('|')) text.erase(0, 1);
    if (text.ends_with('|') && !text.ends_with("\\|")) text.pop_back();
    std::vector<std::string> cells;
    std::string cell;
    bool code = false;
    for (std::size_t i = 0; i <= text.size(); ++i) {
        if (i == text.size() || (text[i] == '|' && !code)) {
            cells.emplace_back(detail::trimmed(cell, cell_blanks));
            cell.clear();
        } else if (text[i] == '\\' && i + 1 < text.size() && text[i + 1] == '|') {
            cell += text[++i];
        } else {
            // A backtick without its counterpart opens nothing.
            if (text[i] == '`') code = !code && text.find('`', i + 1) != std::string::npos;
            cell += text[i];
        }
    }
    return cells;
}

Side side_of(const std::string& cell) {
    if (!cell.ends_with(':')) return Side::left;
    return cell.starts_with(':') ? Side::middle : Side::right;
}

/// The lines of a cell (separated by <br>), with styles.
std::vector<std::string> lines_of(std::string cell, const Style& style, const std::string& base) {
    std::vector<std::string> lines;
    for (;;) {
        const std::size_t at = cell.find("<br");
        const std::size_t end = at == std::string::npos ? at : cell.find('>', at);
        lines.push_back(markdown_line(
            style,
            detail::trimmed(std::string_view(cell).substr(0, end == std::string::npos ? end : at),
                            cell_blanks),
            base));
        if (end == std::string::npos) return lines;
        cell.erase(0, end + 1);
    }
}

/// The number of rows of `line` in a cell of this width.
std::vector<std::string> rows_of(std::string line, std::size_t width) {
    std::vector<std::string> rows;
    for (;;) {
        if (display_width(line) <= width) break;
        std::optional<RowBreak> at = first_break(line, width);
        if (!at || display_width(std::string_view(line).substr(0, at->end)) > width) {
            // The word is too long.
            const std::size_t cut = row_start(line, width, 1);
            at = RowBreak{cut, cut};
        }
        const std::string head = line.substr(0, at->end);
        const std::string styles = style_at_end(std::string_view(line).substr(0, at->next));
        rows.push_back(styles.empty() ? head : head + "\x1b[0m");
        line = styles + line.substr(at->next);
    }
    rows.push_back(std::move(line));
    return rows;
}

std::string padded(const std::string& text, std::size_t width, Side side) {
    const std::size_t taken = display_width(text);
    const std::size_t blanks = width > taken ? width - taken : 0;
    const std::size_t before = side == Side::left ? 0 : side == Side::right ? blanks : blanks / 2;
    return std::string(before, ' ') + text + std::string(blanks - before, ' ');
}

using Cell = std::vector<std::string>;

struct Table {
    std::vector<Side> sides = {};
    std::vector<std::vector<Cell>> rows = {};  // the first one is the head
    std::vector<std::size_t> widths = {};
};

Table read(const std::vector<std::string>& lines, const Style& style) {
    Table table;
    for (std::size_t i = 0; i < lines.size(); ++i) {
        std::vector<std::string> cells = cells_of(lines[i]);
        if (i == 1) {
            for (const std::string& cell : cells) table.sides.push_back(side_of(cell));
            continue;
        }
        if (i == 0) table.widths.resize(cells.size());
        // Surplus cells are dropped, as in other Markdown renderers.
        cells.resize(table.widths.size());
        std::vector<Cell> row;
        for (std::size_t c = 0; c < cells.size(); ++c) {
            row.push_back(lines_of(std::move(cells[c]), style,
                                   i == 0 ? std::string(style.bold().str()) : std::string()));
            for (const std::string& line : row.back())
                table.widths[c] = std::max(table.widths[c], display_width(line));
        }
        table.rows.push_back(std::move(row));
    }
    table.sides.resize(table.widths.size());
    return table;
}

std::size_t total(const std::vector<std::size_t>& widths, std::size_t most) {
    std::size_t sum = widths.empty() ? 0 : gap * (widths.size() - 1);
    for (const std::size_t width : widths) sum += std::min(width, most);
    return sum;
}

std::string as_list(const Table& table, std::size_t columns) {
    std::string out;
    for (std::size_t r = 1; r < table.rows.size(); ++r) {
        if (r > 1) out += "\n";
        for (std::size_t c = 0; c < table.widths.size(); ++c) {
            std::string line = c == 0 ? "• " : "  ";
            for (const std::string& part : table.rows[0][c]) line += part;
            line += ":";
            for (const std::string& part : table.rows[r][c]) line += " " + part;
            const std::vector<std::string> rows = rows_of(line, columns - 4);
            for (std::size_t i = 0; i < rows.size(); ++i)
                out += (i > 0 ? "    " : "") + rows[i] + "\n";
        }
    }
    return out;
}

std::string as_grid(const Table& table, const Style& style) {
    std::string out;
    std::size_t all = 0;
    for (const std::size_t width : table.widths) all += width + gap;
    for (std::size_t r = 0; r < table.rows.size(); ++r) {
        std::vector<std::vector<std::string>> cells;
        std::size_t height = 1;
        for (std::size_t c = 0; c < table.widths.size(); ++c) {
            std::vector<std::string> rows;
            for (const std::string& line : table.rows[r][c]) {
                for (std::string& row : rows_of(line, table.widths[c]))
                    rows.push_back(std::move(row));
            }
            height = std::max(height, rows.size());
            cells.push_back(std::move(rows));
        }
        for (std::size_t i = 0; i < height; ++i) {
            std::string line;
            for (std::size_t c = 0; c < cells.size(); ++c) {
                const std::string part = i < cells[c].size() ? cells[c][i] : std::string();
                // A cell of several rows is read from the left.
                const Side side = cells[c].size() > 1 ? Side::left : table.sides[c];
                line += padded(part, table.widths[c], side) + std::string(gap, ' ');
            }
            line.erase(line.find_last_not_of(' ') + 1);
            out += line + "\n";
        }
        if (r > 0) continue;
        out += style.dim().str();
        for (std::size_t i = gap; i < all; ++i) out += "─";
        out += std::string(style.off().str()) + "\n";
    }
    return out;
}

}  // namespace

bool is_table_rule(std::string_view line) {
    const std::vector<std::string> cells = cells_of(line);
    return std::all_of(cells.begin(), cells.end(), [](const std::string& cell) {
        return cell.find('-') != std::string::npos &&
               cell.find_first_not_of("-:") == std::string::npos;
    });
}

std::string table_text(const std::vector<std::string>& lines, const Style& style,
                       std::size_t columns) {
    Table table = read(lines, style);
    columns = std::max<std::size_t>(columns, 10);
    if (total(table.widths, columns) > columns) {
        std::size_t most = columns;
        while (most > narrowest && total(table.widths, most) > columns) --most;
        if (total(table.widths, most) > columns && table.rows.size() > 1)
            return as_list(table, columns);
        // Columns that need more get the remainder of the rounding.
        std::size_t left = columns - total(table.widths, most);
        for (std::size_t& width : table.widths) {
            const std::size_t more = width > most ? std::min(left, width - most) : 0;
            width = std::min(width, most + more);
            left -= more;
        }
    }
    return as_grid(table, style);
}

}  // namespace cubepi::app
