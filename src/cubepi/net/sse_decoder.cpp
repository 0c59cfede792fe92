#include <cubepi/net/sse_decoder.hpp>

#include <algorithm>
#include <cstdint>
#include <cstring>

namespace cubepi {
namespace {

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

}  // namespace

std::size_t SseDecoder::Finder::find(std::string_view text, std::size_t from) {
    if (found != none && found >= from) return found;
    searched = std::max(searched, from);
    found = none;
    if (searched < text.size()) {
        const void* hit = std::memchr(text.data() + searched, byte, text.size() - searched);
        if (hit != nullptr) {
            found = static_cast<std::size_t>(static_cast<const char*>(hit) - text.data());
            searched = found + 1;
        } else {
            searched = text.size();
        }
    }
    return found;
}

std::string& SseDecoder::buffer() {
    // Consumed bytes are removed only if they are at least as many as the remaining ones: each byte is moved at most
    // once on average, however long an event and however small the pieces.
    if (event_ == 0 || event_ < buffer_.size() - event_) return buffer_;
    const std::size_t gone = event_;
    buffer_.erase(0, gone);
    event_ = 0;
    line_ -= gone;
    data_.begin -= std::min(data_.begin, gone);
    type_.begin -= std::min(type_.begin, gone);
    for (Finder* finder : {&lf_, &cr_}) {
        finder->searched -= std::min(finder->searched, gone);
        if (finder->found != none)
            finder->found = finder->found < gone ? none : finder->found - gone;
    }
    return buffer_;
}

SseDecoder::Span SseDecoder::span_of(std::string_view part) const {
    Span span;
    span.begin = static_cast<std::size_t>(part.data() - buffer_.data());
    span.size = part.size();
    return span;
}

bool SseDecoder::take_line(std::string_view& line) {
    // A CR ends its line immediately, so that an event never waits for the next byte; the LF of a CRLF is then skipped
    // at the start of the next line.
    if (skip_lf_ && line_ < buffer_.size()) {
        if (buffer_[line_] == '\n') {
            if (event_ == line_) ++event_;
            ++line_;
        }
        skip_lf_ = false;
    }
    const std::string_view text = buffer_;
    const std::size_t end = std::min(lf_.find(text, line_), cr_.find(text, line_));
    if (end == none) {
        if (text.size() - line_ > limits_.max_line) throw_too_large("a line", limits_.max_line);
        return false;
    }
    line = text.substr(line_, end - line_);
    if (line.size() > limits_.max_line) throw_too_large("a line", limits_.max_line);
    skip_lf_ = text[end] == '\r';
    line_ = end + 1;
    if (first_line_) {
        first_line_ = false;
        if (line.starts_with("\xEF\xBB\xBF")) line.remove_prefix(3);
    }
    return true;
}

void SseDecoder::add_data(std::string_view value) {
    const std::size_t so_far = data_lines_ <= 1 ? data_.size : joined_.size();
    if (so_far + value.size() + 1 > limits_.max_event)
        throw_too_large("an event", limits_.max_event);
    if (data_lines_ == 0) {
        data_ = span_of(value);
    } else {
        if (data_lines_ == 1) joined_.assign(view(data_));
        joined_ += '\n';
        joined_ += value;
    }
    ++data_lines_;
}

void SseDecoder::field(std::string_view line) {
    const void* colon = std::memchr(line.data(), ':', line.size());
    std::string_view name = line;
    std::string_view value = line.substr(line.size());
    if (colon != nullptr) {
        const auto at = static_cast<std::size_t>(static_cast<const char*>(colon) - line.data());
        if (at == 0) return;
        name = line.substr(0, at);
        value = line.substr(at + 1);
        if (value.starts_with(' ')) value.remove_prefix(1);
    }
    if (name == "data") {
        add_data(value);
    } else if (name == "event") {
        type_ = span_of(value);
    } else if (name == "id") {
        if (value.find('\0') == std::string_view::npos) id_.assign(value);
    } else if (name == "retry") {
        if (auto retry = parse_retry(value)) retry_ = retry;
    }
}

bool SseDecoder::dispatch(SseEvent& event) {
    const bool whole = data_lines_ > 0;
    if (whole) {
        event.event = type_.size > 0 ? view(type_) : std::string_view("message");
        event.data = data_lines_ == 1 ? view(data_) : std::string_view(joined_);
        event.id = id_;
        event.retry = retry_;
        retry_.reset();
    }
    data_lines_ = 0;
    data_.size = 0;
    type_.size = 0;
    event_ = line_;
    return whole;
}

/// Reads an event in the common format of model endpoints: one `data` line, possibly one `event` line before it, LF as
/// line terminator. Any other event is left unchanged, to be read line by line.
bool SseDecoder::take_plain(SseEvent& event) {
    if (line_ != event_ || data_lines_ != 0 || skip_lf_ || first_line_) return false;
    const char* const text = buffer_.data();
    const std::size_t size = buffer_.size();
    std::size_t begin = line_;
    std::size_t end = lf_.find(buffer_, begin);
    if (end == none) return false;
    std::string_view type = "message";
    if (end - begin > 7 && std::memcmp(text + begin, "event: ", 7) == 0) {
        type = std::string_view(text + begin + 7, end - begin - 7);
        begin = end + 1;
        const void* const hit = std::memchr(text + begin, '\n', size - begin);
        if (hit == nullptr) return false;
        end = static_cast<std::size_t>(static_cast<const char*>(hit) - text);
    }
    // The compared bytes exist: the line ends after them, and a blank one must follow.
    const bool plain = end + 1 < size && text[end + 1] == '\n' && end - begin >= 6 &&
                       std::memcmp(text + begin, "data: ", 6) == 0;
    if (!plain || cr_.find(buffer_, line_) < end) return false;
    if (end - line_ > limits_.max_line || end - line_ >= limits_.max_event) return false;
    event.event = type;
    event.data = std::string_view(text + begin + 6, end - begin - 6);
    event.id = id_;
    event.retry = retry_;
    retry_.reset();
    line_ = event_ = end + 2;
    return true;
}

bool SseDecoder::next(SseEvent& event) {
    if (take_plain(event)) return true;
    std::string_view line;
    while (take_line(line)) {
        if (!line.empty()) {
            field(line);
            // Ignored lines must not fill the memory, neither between events nor inside one.
            if (data_lines_ == 0 && type_.size == 0) event_ = line_;
            if (line_ - event_ > limits_.max_event + limits_.max_line) {
                throw_too_large("an event", limits_.max_event);
            }
        } else if (dispatch(event)) {
            return true;
        }
    }
    return false;
}

bool SseDecoder::finish(SseEvent& event) {
    std::string_view line = std::string_view(buffer_).substr(line_);
    if (first_line_ && line.starts_with("\xEF\xBB\xBF")) line.remove_prefix(3);
    if (skip_lf_ && line.starts_with('\n')) line.remove_prefix(1);
    line_ = buffer_.size();
    if (!line.empty()) field(line);
    return dispatch(event);
}

}  // namespace cubepi
