#include <bub/channel/telegram_text.hpp>

#include <algorithm>
#include <optional>
#include <utility>

#include <bub/channel/telegram/markdown_line.hpp>
#include <cubepi/net/utf8.hpp>

namespace bub::telegram {

namespace {

/// Removes the characters that Telegram removes, so that offsets agree.
std::string clean(std::string_view text) {
    std::string whole =
        cubepi::is_utf8(text) ? std::string(text) : cubepi::replace_broken_utf8(text);
    std::erase_if(whole, [](char byte) {
        const auto code = static_cast<unsigned char>(byte);
        return (code < 0x20 && byte != '\n' && byte != '\t') || code == 0x7F;
    });
    return whole;
}

std::vector<std::string_view> lines_of(std::string_view text) {
    std::vector<std::string_view> lines;
    for (std::size_t begin = 0;;) {
        const std::size_t end = text.find('\n', begin);
        lines.push_back(text.substr(begin, end == text.npos ? end : end - begin));
        if (end == text.npos) return lines;
        begin = end + 1;
    }
}

std::size_t count_front(std::string_view text, char wanted) {
    return std::min(text.find_first_not_of(wanted), text.size());
}

std::string_view trimmed(std::string_view text) {
    const std::size_t begin = text.find_first_not_of(" \t");
    if (begin == text.npos) return {};
    return text.substr(begin, text.find_last_not_of(" \t") - begin + 1);
}

struct Fence {
    char mark;
    std::size_t length;
    std::size_t indent;
    std::string_view language;
};

std::optional<Fence> opening_fence(std::string_view line) {
    const std::size_t indent = count_front(line, ' ');
    const std::string_view rest = line.substr(indent);
    if (rest.empty() || (rest.front() != '`' && rest.front() != '~')) return std::nullopt;
    const std::size_t length = count_front(rest, rest.front());
    const std::string_view info = trimmed(rest.substr(length));
    if (length < 3 || (rest.front() == '`' && info.find('`') != info.npos)) return std::nullopt;
    return Fence{rest.front(), length, indent, info.substr(0, info.find_first_of(" \t{"))};
}

bool closes(const Fence& fence, std::string_view line) {
    const std::string_view rest = trimmed(line);
    return rest.size() >= fence.length && count_front(rest, fence.mark) == rest.size();
}

bool is_rule(std::string_view line) {
    const std::string_view rest = trimmed(line);
    return rest.size() >= 3 && (rest[0] == '-' || rest[0] == '*' || rest[0] == '_') &&
           count_front(rest, rest[0]) == rest.size();
}

bool is_table_rule(std::string_view line) {
    return line.find('-') != line.npos && line.find('|') != line.npos &&
           line.find_first_not_of("|-: \t") == line.npos;
}

std::vector<std::string> cells_of(std::string_view line) {
    line = trimmed(line);
    if (line.starts_with('|')) line.remove_prefix(1);
    if (line.ends_with('|')) line.remove_suffix(1);
    std::vector<std::string> cells(1);
    for (std::size_t at = 0; at < line.size(); ++at) {
        if (line[at] == '|') {
            cells.emplace_back();
        } else {
            if (line[at] == '\\' && at + 1 < line.size() && line[at + 1] == '|') ++at;
            cells.back() += line[at];
        }
    }
    for (std::string& cell : cells) {
        StyledText shown;
        add_markdown_line(shown, trimmed(cell), TextStyle());
        cell = std::move(shown).finish().text;
    }
    return cells;
}

/// Aligns the columns of a table.
std::string table_text(const std::vector<std::string_view>& lines) {
    std::vector<std::vector<std::string>> rows;
    std::vector<std::size_t> widths;
    for (const std::string_view line : lines) {
        rows.push_back(cells_of(line));
        widths.resize(std::max(widths.size(), rows.back().size()));
        for (std::size_t i = 0; i < rows.back().size(); ++i)
            widths[i] = std::max(widths[i], utf16_length(rows.back()[i]));
    }
    std::string text;
    for (const std::vector<std::string>& row : rows) {
        std::string line;
        for (std::size_t i = 0; i < row.size(); ++i) {
            if (i > 0) line += " | ";
            line += row[i];
            // A long cell does not widen all rows without bound.
            const std::size_t width = std::min<std::size_t>(widths[i], 40);
            const std::size_t length = utf16_length(row[i]);
            if (i + 1 < row.size() && length < width) line.append(width - length, ' ');
        }
        text += (text.empty() ? "" : "\n") + line;
    }
    return text;
}

class MarkdownReader {
public:
    explicit MarkdownReader(std::string_view text) : lines_(lines_of(text)) {}

    FormattedText read() {
        while (at_ < lines_.size()) {
            if (at_ > 0 && !dropped_) out_.add("\n", between());
            dropped_ = false;
            if (!take_code_block() && !take_table()) take_line();
        }
        return std::move(out_).finish();
    }

private:
    /// The line break between two lines of a quote belongs to it.
    TextStyle between() const {
        TextStyle style;
        if (quoted_ && lines_[at_].starts_with('>')) style.quote = quotes_;
        return style;
    }

    bool take_code_block() {
        const std::optional<Fence> fence = opening_fence(lines_[at_]);
        if (!fence) return false;
        TextStyle style;
        style.pre = out_.add_pre(std::string(fence->language));
        quoted_ = false;
        std::string code;
        bool first = true;
        for (++at_; at_ < lines_.size() && !closes(*fence, lines_[at_]); ++at_) {
            if (!std::exchange(first, false)) code += '\n';
            const std::size_t indent = std::min(count_front(lines_[at_], ' '), fence->indent);
            code += lines_[at_].substr(indent);
        }
        if (at_ < lines_.size()) ++at_;
        out_.add(code, style);
        dropped_ = code.empty();
        return true;
    }

    bool take_table() {
        if (at_ + 1 >= lines_.size() || lines_[at_].find('|') == std::string_view::npos ||
            !is_table_rule(lines_[at_ + 1]))
            return false;
        std::vector<std::string_view> rows = {lines_[at_]};
        quoted_ = false;
        for (at_ += 2; at_ < lines_.size() && lines_[at_].find('|') != std::string_view::npos;
             ++at_)
            rows.push_back(lines_[at_]);
        TextStyle style;
        style.pre = out_.add_pre({});
        out_.add(table_text(rows), style);
        return true;
    }

    void take_line() {
        std::string_view line = lines_[at_++];
        TextStyle style;
        const bool quote = line.starts_with('>');
        if (quote) {
            if (!quoted_) ++quotes_;
            style.quote = quotes_;
            line.remove_prefix(line.starts_with("> ") ? 2 : 1);
        }
        quoted_ = quote;
        const std::size_t indent = count_front(line, ' ');
        const std::string_view rest = line.substr(indent);
        const std::size_t hashes = count_front(rest, '#');
        if (is_rule(line)) return out_.add("———", style);
        if (hashes >= 1 && hashes <= 6 && hashes < rest.size() && rest[hashes] == ' ') {
            style.bold = true;
            return add_markdown_line(out_, trimmed(rest.substr(hashes)), style);
        }
        if (rest.size() > 2 && (rest[0] == '-' || rest[0] == '*' || rest[0] == '+') &&
            rest[1] == ' ') {
            out_.add(line.substr(0, indent), style);
            out_.add("• ", style);
            line = rest.substr(2);
        }
        add_markdown_line(out_, line, style);
    }

    std::vector<std::string_view> lines_;
    StyledText out_;
    std::size_t at_ = 0;
    std::size_t quotes_ = 0;
    bool quoted_ = false;   // the previous line is part of a quote
    bool dropped_ = false;  // the previous block has no text, and no line break follows it
};

}  // namespace

FormattedText format_markdown(std::string_view markdown) {
    const std::string text = clean(markdown);
    return MarkdownReader(text).read();
}

}  // namespace bub::telegram
