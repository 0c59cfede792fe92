#include <bub/channel/telegram/markdown_line.hpp>

#include <array>
#include <cctype>
#include <set>
#include <string>

namespace bub::telegram {

namespace {

constexpr std::size_t longest_link = 2048;

bool is_blank(char byte) { return byte == ' ' || byte == '\t'; }
bool is_word(char byte) {
    const auto code = static_cast<unsigned char>(byte);
    return code >= 0x80 || std::isalnum(code);
}

std::size_t run_length(std::string_view text, std::size_t at) {
    const std::size_t end = text.find_first_not_of(text[at], at);
    return (end == text.npos ? text.size() : end) - at;
}

bool is_address(std::string_view text) {
    for (const std::string_view scheme : {"http://", "https://", "tg://", "mailto:"}) {
        if (text.starts_with(scheme) && text.size() > scheme.size())
            return text.find_first_of(" \t<>\"") == text.npos;
    }
    return false;
}

/// The reader of one line, or of the part of it between two marks.
class LineReader {
public:
    LineReader(StyledText& out, std::string_view text, TextStyle style)
        : out_(out), text_(text), style_(style) {}

    void read() {
        while (at_ < text_.size()) {
            if (!take_mark()) ++at_;
        }
        flush(at_);
    }

private:
    bool take_mark() {
        switch (text_[at_]) {
            case '\\': return take_escape();
            case '`': return take_code();
            case '*':
            case '_':
            case '~': return take_emphasis();
            case '!':
            case '[': return take_link();
            case '<': return take_autolink();
            default: return false;
        }
    }

    void flush(std::size_t end) {
        out_.add(text_.substr(from_, end - from_), style_);
        from_ = end;
    }
    void skip_to(std::size_t position) { from_ = at_ = position; }

    bool take_escape() {
        if (at_ + 1 >= text_.size() || !std::ispunct(static_cast<unsigned char>(text_[at_ + 1])))
            return false;
        flush(at_);
        from_ = at_ + 1;
        at_ += 2;
        return true;
    }

    bool take_code() {
        const std::size_t ticks = run_length(text_, at_);
        const std::size_t close = find_ticks(at_ + ticks, ticks);
        if (close == text_.npos) {
            at_ += ticks;
            return true;
        }
        flush(at_);
        std::string_view code = text_.substr(at_ + ticks, close - at_ - ticks);
        if (code.size() > 2 && code.front() == ' ' && code.back() == ' ')
            code = code.substr(1, code.size() - 2);
        TextStyle style = style_;
        style.code = true;
        out_.add(code, style);
        skip_to(close + ticks);
        return true;
    }

    std::size_t find_ticks(std::size_t from, std::size_t ticks) {
        if (unclosed_ticks_.contains(ticks)) return text_.npos;
        for (std::size_t at = text_.find('`', from); at != text_.npos;) {
            const std::size_t length = run_length(text_, at);
            if (length == ticks) return at;
            at = text_.find('`', at + length);
        }
        unclosed_ticks_.insert(ticks);
        return text_.npos;
    }

    bool take_emphasis() {
        const char mark = text_[at_];
        const std::size_t length = run_length(text_, at_);
        TextStyle style = style_;
        if (!apply(style, mark, length) || !can_open(length)) {
            at_ += length;
            return true;
        }
        const std::size_t close = find_close(at_ + length, mark, length);
        if (close == text_.npos) {
            at_ += length;
            return true;
        }
        flush(at_);
        LineReader(out_, text_.substr(at_ + length, close - at_ - length), style).read();
        skip_to(close + length);
        return true;
    }

    /// Sets the formats of a run of marks. Returns false if the run is not a mark, or its format is set already.
    static bool apply(TextStyle& style, char mark, std::size_t length) {
        if (mark == '~') {
            if (length != 2 || style.strike) return false;
            style.strike = true;
            return true;
        }
        // Two underscores are more often part of a name (__init__) than a mark for bold.
        if (length > (mark == '_' ? 1U : 3U)) return false;
        const bool bold = length >= 2;
        const bool italic = length % 2 == 1;
        if ((bold && style.bold) || (italic && style.italic)) return style.bold && bold && !italic;
        style.bold = style.bold || bold;
        style.italic = style.italic || italic;
        return true;
    }

    bool can_open(std::size_t length) const {
        const std::size_t next = at_ + length;
        if (next >= text_.size() || is_blank(text_[next])) return false;
        const bool inside_word = at_ > 0 && is_word(text_[at_ - 1]);
        if (text_[at_] == '_') return !inside_word;
        return !inside_word || (length > 1 && is_word(text_[next]));
    }

    /// Returns the position of the marks that close a run of this length, or npos.
    std::size_t find_close(std::size_t from, char mark, std::size_t length) {
        bool& unclosed = unclosed_.at(mark == '*' ? length : mark == '_' ? 4 : 0);
        if (unclosed) return text_.npos;
        for (std::size_t at = from; at < text_.size();) {
            if (text_[at] == '\\') {
                at += 2;
                continue;
            }
            if (text_[at] != '`' && text_[at] != mark) {
                ++at;
                continue;
            }
            const std::size_t run = run_length(text_, at);
            if (text_[at] == '`') {
                const std::size_t close = find_ticks(at + run, run);
                at = (close == text_.npos ? at : close) + run;
                continue;
            }
            const bool fits = run == length || (mark == '*' && run == 3);
            if (fits && closes(at, run, from)) return at + run - length;
            at += run;
        }
        unclosed = true;
        return text_.npos;
    }

    bool closes(std::size_t at, std::size_t run, std::size_t from) const {
        if (at == from || is_blank(text_[at - 1])) return false;
        const std::size_t next = at + run;
        return text_[at] != '_' || next >= text_.size() || !is_word(text_[next]);
    }

    bool take_link() {
        const std::size_t open = text_[at_] == '!' ? at_ + 1 : at_;
        if (style_.link != 0 || open >= text_.size() || text_[open] != '[') return false;
        const std::string_view window = text_.substr(open, longest_link);
        const std::size_t middle = window.find("](");
        if (middle == window.npos || window.find('[', 1) < middle) return false;
        std::size_t depth = 1;
        std::size_t end = middle + 2;
        for (; end < window.size(); ++end) {
            if (window[end] == '(') ++depth;
            if (window[end] == ')' && --depth == 0) break;
        }
        if (end >= window.size()) return false;
        std::string_view address = window.substr(middle + 2, end - middle - 2);
        address = address.substr(0, address.find(' '));
        const std::string_view label = window.substr(1, middle - 1);
        if (!is_address(address)) return false;
        flush(at_);
        TextStyle style = style_;
        style.link = out_.add_link(std::string(address));
        LineReader(out_, label.empty() ? address : label, style).read();
        skip_to(open + end + 1);
        return true;
    }

    bool take_autolink() {
        const std::string_view window = text_.substr(at_, longest_link);
        const std::size_t end = window.find('>');
        if (end == window.npos || !is_address(window.substr(1, end - 1))) return false;
        flush(at_);
        out_.add(window.substr(1, end - 1), style_);  // Telegram finds the address itself
        skip_to(at_ + end + 1);
        return true;
    }

    StyledText& out_;
    std::string_view text_;
    TextStyle style_;
    std::size_t at_ = 0;
    std::size_t from_ = 0;
    std::set<std::size_t> unclosed_ticks_;  // lengths of runs that nothing closes
    std::array<bool, 5> unclosed_{};        // by kind of mark: "~~", "*", "**", "***", "_"
};

}  // namespace

void add_markdown_line(StyledText& out, std::string_view line, const TextStyle& style) {
    LineReader(out, line, style).read();
}

}  // namespace bub::telegram
