#include "markdown_inline.hpp"

#include <cctype>
#include <utility>

namespace cubepi::app {

namespace {

constexpr std::size_t longest_link = 2000;

bool is_word(char byte) {
    const auto code = static_cast<unsigned char>(byte);
    return code >= 0x80 || std::isalnum(code);
}

bool is_blank(char byte) { return byte == ' ' || byte == '\t' || byte == '\n'; }

bool is_punctuation(char byte) { return std::ispunct(static_cast<unsigned char>(byte)) != 0; }

/// Returns whether a run of stars or underscores between these two characters can begin emphasis.
bool can_open(std::string_view run, char previous, char next) {
    if (is_blank(next)) return false;
    if (is_word(previous)) {
        // In scripts without spaces bold text begins after a letter.
        return run.front() == '*' && run.size() > 1 &&
               !std::isdigit(static_cast<unsigned char>(previous)) && is_word(next);
    }
    // "*.cpp" is a file name, "*/" the end of a comment.
    constexpr std::string_view opening = "\"'([`~$#@<\\*_&+-";
    return is_word(next) || opening.find(next) != std::string_view::npos;
}

bool can_close(std::string_view run, char previous, char next) {
    return !is_blank(previous) && (run.front() == '*' || !is_word(next));
}

}  // namespace

MarkdownInline::MarkdownInline(Style style, Write write)
    : style_(style), write_(std::move(write)) {}

void MarkdownInline::set_base(std::string base) {
    base_ = std::move(base);
    if (!base_.empty()) write_(base_);
}

void MarkdownInline::text(std::string_view shown) {
    if (shown.empty()) return;
    write_(shown);
    previous_ = shown.back();
}

void MarkdownInline::add(char byte) {
    if (!style_.color) return text(std::string_view(&byte, 1));
    add_plain(byte, true);
}

void MarkdownInline::add_plain(char byte, bool with_links) {
    if (!link_.empty() && hold_link(byte)) return;
    if (byte == '`') {
        if (!run_.empty()) end_run(byte);
        if (std::exchange(escape_, false)) return text("`");
        ++ticks_;
        return;
    }
    if (ticks_ > 0) end_ticks();
    if (code_ > 0) return text(std::string_view(&byte, 1));
    if (std::exchange(escape_, false)) {
        if (!is_punctuation(byte)) text("\\");
        return text(std::string_view(&byte, 1));
    }
    const bool mark = byte == '*' || byte == '_';
    if (mark && (run_.empty() || run_.front() == byte)) {
        run_ += byte;
        return;
    }
    if (!run_.empty()) end_run(byte);
    if (mark) {
        run_ += byte;
    } else if (byte == '\\') {
        escape_ = true;
    } else if (byte == '[' && with_links) {
        link_ = "[";
    } else {
        text(std::string_view(&byte, 1));
    }
}

/// True while the text since the '[' may become a link.
bool MarkdownInline::hold_link(char byte) {
    const std::size_t close = link_.find("](");
    if (close != std::string::npos && byte == ')') {
        const std::string held = std::exchange(link_, {});
        show_link(std::string_view(held).substr(1, close - 1),
                  std::string_view(held).substr(close + 2));
        return true;
    }
    const bool closed = link_.size() > 1 && link_.back() == ']' && close == std::string::npos;
    const bool over = (closed && byte != '(') || link_.size() > longest_link ||
                      (close == std::string::npos && byte == '[');
    if (!over) {
        link_ += byte;
        return true;
    }
    flush_link();
    return false;
}

void MarkdownInline::show_link(std::string_view label, std::string_view address) {
    for (const char byte : label) add_plain(byte, false);
    if (ticks_ > 0) end_ticks();
    if (!run_.empty()) end_run(' ');
    address = address.substr(0, address.find(' '));
    if (address == label || address.empty()) return;
    write_(style_.dim().str());
    text(" (");
    text(address);
    text(")");
    restyle();
}

/// Handles text that did not become a link.
void MarkdownInline::flush_link() {
    const std::string held = std::exchange(link_, {});
    for (const char byte : held) add_plain(byte, false);
}

void MarkdownInline::end_run(char next) {
    const std::string run = std::exchange(run_, {});
    const bool bold = run.size() >= 2;
    const bool italic = run.size() % 2 == 1;
    const bool on = (!bold || bold_) && (!italic || italic_);
    const bool off = (!bold || !bold_) && (!italic || !italic_);
    // Two underscores are more often part of a name (__init__) than a mark for bold.
    const bool known = run.size() <= (run.front() == '_' ? 1 : 3);
    if (known && on && can_close(run, previous_, next)) {
        bold_ = bold_ && !bold;
        italic_ = italic_ && !italic;
    } else if (known && off && can_open(run, previous_, next)) {
        bold_ = bold_ || bold;
        italic_ = italic_ || italic;
    } else {
        return text(run);
    }
    restyle();
}

void MarkdownInline::end_ticks() {
    const std::size_t count = std::exchange(ticks_, 0);
    if (code_ == 0) {
        code_ = count;
    } else if (code_ == count) {
        code_ = 0;
    } else {
        return text(std::string(count, '`'));
    }
    previous_ = '`';
    restyle();
}

void MarkdownInline::restyle() {
    std::string styles(style_.off().str());
    styles += base_;
    if (bold_) styles += style_.bold().str();
    if (italic_) styles += style_.italic().str();
    if (code_ > 0) styles += style_.cyan().str();
    write_(styles);
}

void MarkdownInline::finish() {
    if (!link_.empty()) flush_link();
    if (ticks_ > 0) end_ticks();
    if (!run_.empty()) end_run('\n');
    if (std::exchange(escape_, false)) text("\\");
    if (styled()) write_(style_.off().str());
    base_.clear();
    bold_ = italic_ = false;
    code_ = 0;
    previous_ = ' ';
}

std::string markdown_line(const Style& style, std::string_view text, std::string base) {
    std::string line;
    MarkdownInline inside(style, [&](std::string_view piece) { line += piece; });
    inside.set_base(std::move(base));
    for (const char byte : text) inside.add(byte);
    inside.finish();
    return line;
}

}  // namespace cubepi::app
