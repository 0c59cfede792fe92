#include <cubepi/net/sse_decoder.hpp>

#include <algorithm>
#include <cstdint>
#include <utility>

namespace cubepi {
namespace {

constexpr std::string_view byte_order_mark = "\xEF\xBB\xBF";

[[noreturn]] void throw_too_large(const char* what, std::size_t limit) {
    throw Error(ErrorCode::too_large,
                std::string("The server sent an event stream with ") + what + " of more than " +
                    std::to_string(limit) +
                    " bytes; this is not a stream of model events, or the limit "
                    "(SseLimits) must be raised.");
}

std::optional<std::chrono::milliseconds> parse_retry(std::string_view value) {
    // 15 digits of milliseconds are 30,000 years, and fit.
    if (value.empty() || value.size() > 15) return std::nullopt;
    std::int64_t number = 0;
    for (char c : value) {
        if (c < '0' || c > '9') return std::nullopt;
        number = number * 10 + (c - '0');
    }
    return std::chrono::milliseconds(number);
}

/// Returns the position of the first LF or CR from `begin` on, or the size of the text. Searches in blocks: a stream whose
/// lines end in CR has no LF, and would be searched to its end for each line.
std::size_t find_end_of_line(std::string_view text, std::size_t begin) {
    constexpr std::size_t block_size = 256;
    for (; begin < text.size(); begin += block_size) {
        std::string_view block = text.substr(begin, block_size);
        const std::size_t line_feed = block.find('\n');
        block = block.substr(0, line_feed);
        const std::size_t end = std::min(block.find('\r'), line_feed);
        if (end != std::string_view::npos) return begin + end;
    }
    return text.size();
}

}  // namespace

std::string& SseDecoder::buffer() {
    // Consumed bytes are removed only if they are at least as many as the remaining ones: each byte is moved at most
    // once on average, however long an event and however small the pieces.
    if (line_ == 0 || line_ < buffer_.size() - line_) return buffer_;
    buffer_.erase(0, line_);
    searched_ -= std::min(searched_, line_);
    line_ = 0;
    return buffer_;
}

bool SseDecoder::take_line(std::string_view& line) {
    // A CR ends its line immediately, so that an event never waits for the next byte; the LF of a CRLF is then skipped
    // at the start of the next line.
    if (skip_lf_ && line_ < buffer_.size()) {
        if (buffer_[line_] == '\n') ++line_;
        skip_lf_ = false;
    }
    const std::string_view text = buffer_;
    searched_ = std::max(searched_, line_);
    searched_ = find_end_of_line(text, searched_);
    line = text.substr(line_, searched_ - line_);
    if (line.size() > limits_.max_line) throw_too_large("a line", limits_.max_line);
    if (searched_ == text.size()) return false;
    skip_lf_ = text[searched_] == '\r';
    line_ = searched_ + 1;
    if (std::exchange(first_line_, false) && line.starts_with(byte_order_mark))
        line.remove_prefix(byte_order_mark.size());
    return true;
}

void SseDecoder::add_data(std::string_view value) {
    const std::size_t so_far = data_lines_ == 0 ? 0 : data_.size();
    if (so_far + value.size() + 1 > limits_.max_event)
        throw_too_large("an event", limits_.max_event);
    if (data_lines_++ == 0) {
        data_ = value;
    } else {
        data_ += '\n';
        data_ += value;
    }
}

void SseDecoder::field(std::string_view line) {
    const std::size_t colon = line.find(':');
    if (colon == 0) return;
    const std::string_view name = line.substr(0, colon);
    std::string_view value = line.substr(std::min(name.size() + 1, line.size()));
    if (value.starts_with(' ')) value.remove_prefix(1);
    if (name == "data") {
        add_data(value);
    } else if (name == "event") {
        type_ = value;
        has_type_ = !value.empty();
    } else if (name == "id") {
        if (value.find('\0') == std::string_view::npos) id_ = value;
    } else if (name == "retry") {
        if (auto retry = parse_retry(value)) retry_ = retry;
    }
}

bool SseDecoder::dispatch(SseEvent& event) {
    const bool whole = data_lines_ > 0;
    if (whole) {
        event.event = has_type_ ? std::string_view(type_) : std::string_view("message");
        event.data = data_;
        event.id = id_;
        event.retry = std::exchange(retry_, std::nullopt);
    }
    data_lines_ = 0;
    has_type_ = false;
    event_bytes_ = 0;
    return whole;
}

bool SseDecoder::next(SseEvent& event) {
    std::string_view line;
    while (take_line(line)) {
        if (line.empty()) {
            if (dispatch(event)) return true;
            continue;
        }
        field(line);
        // Lines that are ignored between events do not count.
        const bool is_ignored = data_lines_ == 0 && !has_type_;
        event_bytes_ = is_ignored ? 0 : event_bytes_ + line.size() + 1;
        if (event_bytes_ > limits_.max_event + limits_.max_line)
            throw_too_large("an event", limits_.max_event);
    }
    return false;
}

bool SseDecoder::finish(SseEvent& event) {
    std::string_view line = std::string_view(buffer_).substr(line_);
    if (first_line_ && line.starts_with(byte_order_mark))
        line.remove_prefix(byte_order_mark.size());
    if (skip_lf_ && line.starts_with('\n')) line.remove_prefix(1);
    line_ = buffer_.size();
    if (!line.empty()) field(line);
    return dispatch(event);
}

}  // namespace cubepi
