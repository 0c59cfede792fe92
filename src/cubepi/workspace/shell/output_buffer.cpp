#include <cubepi/workspace/shell/output_buffer.hpp>

#include <algorithm>

namespace cubepi::detail {

namespace {

bool inside_character(char c) noexcept { return (static_cast<unsigned char>(c) & 0xC0) == 0x80; }

/// Returns the first character boundary at or after `at`.
std::size_t next_character(std::string_view text, std::size_t at) noexcept {
    while (at < text.size() && inside_character(text[at])) ++at;
    return std::min(at, text.size());
}

/// Returns the last character boundary at or before `at`.
std::size_t this_character(std::string_view text, std::size_t at) noexcept {
    if (at >= text.size()) return text.size();
    while (at > 0 && inside_character(text[at])) --at;
    return at;
}

}  // namespace

void OutputBuffer::append(std::string_view text) {
    if (tail_.empty() && middle_ == 0 && head_.size() < head_limit_) {
        const auto part = this_character(text, head_limit_ - head_.size());
        head_ += text.substr(0, part);
        text.remove_prefix(part);
    }
    tail_ += text;
    // The tail may grow to twice the limit before it is moved: otherwise each byte would move all others.
    if (tail_.size() <= 2 * tail_limit_) return;
    const auto cut = next_character(tail_, tail_.size() - tail_limit_);
    tail_.erase(0, cut);
    middle_ += cut;
}

bool OutputBuffer::holds_all(std::size_t more) const noexcept {
    if (middle_ > 0) return false;
    if (size() + more <= head_limit_) return true;
    // The head ends at a character boundary, so up to 3 bytes of its capacity may remain unused.
    std::size_t space =
        tail_.empty() && head_.size() + 3 < head_limit_ ? head_limit_ - head_.size() - 3 : 0;
    space += tail_limit_;
    return tail_.size() + more <= space;
}

std::string OutputBuffer::from(std::uint64_t offset, std::string_view elsewhere) const {
    std::string text;
    if (offset < head_.size()) {
        text = head_.substr(next_character(head_, static_cast<std::size_t>(offset)));
        offset = head_.size();
    }
    const std::uint64_t tail_begin = head_.size() + middle_;
    std::size_t start = offset > tail_begin ? static_cast<std::size_t>(offset - tail_begin) : 0;
    start = std::min(start, tail_.size());
    if (tail_.size() - start > tail_limit_) start = tail_.size() - tail_limit_;
    start = next_character(tail_, start);
    const std::uint64_t missing = tail_begin + start > offset ? tail_begin + start - offset : 0;
    if (missing > 0) {
        if (!text.empty() && text.back() != '\n') text += '\n';
        text += "[... " + std::to_string(missing) + " bytes omitted";
        if (!elsewhere.empty()) text.append("; ").append(elsewhere);
        text += " ...]\n";
    }
    return text.append(tail_, start);
}

std::string_view OutputBuffer::last(std::size_t bytes) const noexcept {
    const std::string& text = tail_.empty() ? head_ : tail_;
    const auto start = text.size() > bytes ? next_character(text, text.size() - bytes) : 0;
    return std::string_view(text).substr(start);
}

}  // namespace cubepi::detail
