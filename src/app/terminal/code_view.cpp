#include "code_view.hpp"

#include <algorithm>
#include <charconv>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "../highlight/highlighter.hpp"
#include "text_layout.hpp"

namespace cubepi::app {

namespace {

TerminalView sequence_of(CodeRole role, const Style& style) {
    switch (role) {
        case CodeRole::plain: break;
        case CodeRole::keyword: return style.magenta();
        case CodeRole::string: return style.string_color();
        case CodeRole::comment: return style.dim();
        case CodeRole::number:
        case CodeRole::type: return style.cyan();
        case CodeRole::function:
        case CodeRole::key: return style.name_color();
        case CodeRole::tag: return style.magenta();
    }
    return {};
}

constexpr std::size_t gutter = 5;
constexpr std::size_t longest_line = 400;  // columns, where not everything is shown
constexpr std::size_t longest_colored_line = 2000;
// Of the code of a diff, in bytes: a question must not wait for a parser.
constexpr std::size_t max_colored = std::size_t{128} << 10;
/// Each hunk has parsers of its own, so it counts as so many bytes besides its lines.
constexpr std::size_t hunk_bytes = 256;

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

bool is_header(std::string_view line) { return line.starts_with("@@ "); }

/// Removes the first line from `text` and returns it, without its line feed.
std::string_view take_line(std::string_view& text) {
    const std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(line.size() + 1, text.size()));
    return line;
}

/// The colors of the code of a hunk: a text of the file before, and one of the file after the change.
class HunkColors {
public:
    /// `lines`: those after the hunk's header, of which the hunk ends before the next one.
    HunkColors(const CodeLanguage& language, std::string_view lines) {
        while (!lines.empty() && !is_header(lines)) {
            std::string_view line = take_line(lines);
            const char sign = line.empty() ? ' ' : line.front();
            line.remove_prefix(std::min<std::size_t>(line.size(), 1));
            if (sign == '\\') continue;
            if (sign != '+') old_.add(line);
            if (sign != '-') new_.add(line);
            bytes_ += line.size() + 1;
        }
        old_.parse(language);
        new_.parse(language);
    }

    std::size_t bytes() const noexcept { return bytes_; }

    /// The pieces of the hunk's next line, which has this sign.
    std::vector<CodeSpan> next(char sign) {
        std::vector<CodeSpan> of_old;
        if (sign != '+') of_old = old_.next();
        return sign == '-' ? std::move(of_old) : new_.next();
    }

private:
    struct Side {
        std::string text = {};
        std::vector<std::size_t> begins = {};
        std::vector<CodeSpan> spans = {};
        std::size_t line = 0;
        std::size_t span = 0;  // the first one that does not end before the line

        void add(std::string_view content) {
            begins.push_back(text.size());
            text += content;
            text += '\n';
        }
        void parse(const CodeLanguage& language) { spans = Highlighter(language).add(text); }

        std::vector<CodeSpan> next() {
            std::vector<CodeSpan> found;
            if (line >= begins.size()) return found;
            const std::size_t begin = begins[line++];
            const std::size_t end = line < begins.size() ? begins[line] : text.size();
            while (span < spans.size() && spans[span].end <= begin) ++span;
            for (std::size_t i = span; i < spans.size() && spans[i].begin < end; ++i) {
                found.push_back(CodeSpan{std::max(spans[i].begin, begin) - begin,
                                         std::min(spans[i].end, end) - begin, spans[i].role});
            }
            return found;
        }
    };

    Side old_ = {};
    Side new_ = {};
    std::size_t bytes_ = hunk_bytes;
};

/// Writes a diff line by line, with the line numbers that the hunk headers give.
class Writer {
public:
    Writer(const Style& style, bool shortens, const CodeLanguage* language)
        : style_(style), shortens_(shortens), language_(style.color ? language : nullptr) {}

    /// `after`: the lines after this one.
    void add(std::string_view line, std::string_view after) {
        const char sign = line.empty() ? ' ' : line.front();
        const TerminalView dim = style_.dim();
        const TerminalView off = style_.off();
        if (is_header(line)) {
            old_line_ = number_after(line, '-');
            new_line_ = number_after(line, '+');
            view.text += "  " + dim + spelled_out(line) + off + "\n";
            begin_hunk(after);
        } else if (sign == '\\') {
            view.text +=
                "  " + dim + TerminalText::blanks(gutter + 1) + spelled_out(line) + off + "\n";
        } else if (sign == '-') {
            add_content(numbered(old_line_++), style_.removed(), line);
        } else if (sign == '+') {
            add_content(numbered(new_line_++), style_.added(), line);
        } else {
            ++old_line_;
            add_content(numbered(new_line_++), {}, line.empty() ? " " : line);
        }
    }

    DiffView view;

private:
    void begin_hunk(std::string_view lines) {
        colors_.reset();
        if (!language_ || colored_ >= max_colored) return;
        colors_.emplace(*language_, lines);
        colored_ += colors_->bytes();
    }

    /// The line with its sign.
    TerminalText content_of(std::string_view line, TerminalView color) {
        const TerminalText content = spelled_out(line);
        std::vector<CodeSpan> spans;
        if (colors_) spans = colors_->next(line.front());
        std::string_view code = line;
        if (code.ends_with('\r')) code.remove_suffix(1);
        // The pieces are those of the shown text only if it was not changed.
        if (code.size() > longest_colored_line || !content.str().starts_with(code)) spans.clear();
        for (CodeSpan& span : spans) {
            ++span.begin;
            ++span.end;
        }
        return code_text(content, spans, style_, color);
    }

    void add_content(const TerminalText& number, TerminalView color, std::string_view line) {
        TerminalText content = content_of(line, color);
        if (shortens_ && display_width(content) > longest_line) {
            content = shortened(content, longest_line) + style_.off();
            view.cut = true;
        }
        view.text += "  " + style_.dim() + number + style_.off() + " " + content + "\n";
    }

    const Style& style_;
    const bool shortens_;
    const CodeLanguage* const language_;
    std::optional<HunkColors> colors_;
    std::size_t colored_ = 0;  // bytes that were parsed
    std::size_t old_line_ = 0;
    std::size_t new_line_ = 0;
};

/// The first line of the file, if the diff has it.
std::string_view first_line_of(std::string_view diff) {
    const std::string_view header = take_line(diff);
    if (!header.starts_with("@@ -1,") && !header.starts_with("@@ -0,0 +1")) return {};
    const std::string_view line = take_line(diff);
    return line.empty() ? line : line.substr(1);
}

}  // namespace

TerminalText code_text(const TerminalText& code, const std::vector<CodeSpan>& spans,
                       const Style& style, TerminalView base) {
    const std::string_view text = code.str();
    if (!style.color) return code;
    std::string out(base.str());
    std::size_t at = 0;
    bool styled = !base.empty();
    for (const CodeSpan& span : spans) {
        const TerminalView sequence = sequence_of(span.role, style);
        if (sequence.empty() || span.begin < at || span.begin >= text.size()) continue;
        const std::size_t end = std::min(span.end, text.size());
        out += text.substr(at, span.begin - at);
        out += sequence.str();
        out += text.substr(span.begin, end - span.begin);
        at = end;
        out += style.off().str();
        styled = at < text.size() && !base.empty();
        if (styled) out += base.str();
    }
    out += text.substr(at);
    if (styled) out += style.off().str();
    return TerminalText::assembled(std::move(out));
}

DiffView diff_view(const DiffSource& source, const Style& style, std::size_t max_lines) {
    std::string_view diff = source.diff;
    Writer writer(style, max_lines > 0, language_of_file(source.path, first_line_of(diff)));
    std::size_t shown = 0;
    while (!diff.empty() && (max_lines == 0 || shown < max_lines)) {
        const std::string_view line = take_line(diff);
        writer.add(line, diff);
        ++shown;
    }
    const std::size_t left =
        source.hidden + static_cast<std::size_t>(std::count(diff.begin(), diff.end(), '\n'));
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
