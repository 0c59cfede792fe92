#pragma once

#include <cubepi/core/error.hpp>

#include <chrono>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace cubepi {

/// One event of a stream. The views point into the decoder: they hold until its next `next`, `finish`,
/// `feed` or `buffer`.
struct SseEvent {
    std::string_view event;  ///< the event type; "message" where the stream names none
    std::string_view data;   ///< the data lines, joined by LF
    std::string_view id;     ///< the last event id seen so far, of this or an earlier event
    std::optional<std::chrono::milliseconds>
        retry;  ///< a reconnection time sent since the last event
};

/// What a decoder accepts, in bytes. A peer that sends more gets Error(too_large).
struct SseLimits {
    std::size_t max_line = 16u << 20;   ///< one line, its end not counted
    std::size_t max_event = 32u << 20;  ///< the data of one event
};

/// An incremental decoder of server-sent events (WHATWG HTML, section 9.2.5 and 9.2.6). It does no I/O:
/// bytes go in, split anywhere, events come out. An event whose data is one line is handed out without a
/// copy. The bytes are not checked to be UTF-8 (see utf8.hpp).
///
///     while (co_await body.read(decoder.buffer()))
///         while (decoder.next(event)) handle(event);
///
/// Not thread-safe.
class SseDecoder {
public:
    explicit SseDecoder(SseLimits limits = {}) : limits_(limits) {}

    /// Appends bytes of the stream.
    void feed(std::string_view bytes) { buffer().append(bytes); }

    /// The buffer that the stream's next bytes are to be appended to, for readers that can append by
    /// themselves. What is in it already must not be changed.
    std::string& buffer();

    /// Takes the next complete event; false when more bytes are needed. Throws Error(too_large).
    bool next(SseEvent& event);

    /// To be called once at the end of the stream, after `next` gave false: takes an event that lacks
    /// its closing blank line. The standard throws such an event away; model endpoints are known to end
    /// that way, and a caller whose events say themselves whether they are whole may want it.
    bool finish(SseEvent& event);

    /// The last event id, for `Last-Event-ID` when reconnecting.
    const std::string& last_event_id() const noexcept { return id_; }

private:
    static constexpr std::size_t none = static_cast<std::size_t>(-1);

    /// Where a byte occurs next, remembered so that no part of the buffer is searched twice.
    struct Finder {
        char byte;
        std::size_t searched = 0;
        std::size_t found = none;
        std::size_t find(std::string_view text, std::size_t from);
    };
    struct Span {
        std::size_t begin = 0;
        std::size_t size = 0;
    };

    bool take_plain(SseEvent& event);
    bool take_line(std::string_view& line);
    void field(std::string_view line);
    void add_data(std::string_view value);
    bool dispatch(SseEvent& event);
    std::string_view view(Span span) const {
        return std::string_view(buffer_).substr(span.begin, span.size);
    }
    Span span_of(std::string_view part) const;

    SseLimits limits_;
    std::string buffer_;
    std::size_t line_ = 0;   ///< where the next line begins
    std::size_t event_ = 0;  ///< where the event under way begins
    Finder lf_{'\n'};
    Finder cr_{'\r'};
    bool skip_lf_ = false;
    bool first_line_ = true;

    std::size_t data_lines_ = 0;
    Span data_;           ///< the only data line
    std::string joined_;  ///< the data lines, where there are several
    Span type_;
    std::string id_;
    std::optional<std::chrono::milliseconds> retry_;
};

}  // namespace cubepi
