#include "code_text.hpp"

#include <algorithm>
#include <string>

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

}  // namespace cubepi::app
