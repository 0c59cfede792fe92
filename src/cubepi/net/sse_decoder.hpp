#pragma once

#include <cubepi/core/error.hpp>

#include <chrono>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace cubepi {

/// One event of a stream. The views point into the decoder and are valid until its next `next` or `finish`.
struct SseEvent {
    std::string_view event;  ///< the event type; "message" if the stream has none
    std::string_view data;   ///< the data lines, joined by LF
    std::string_view id;     ///< the last event id seen so far, of this or an earlier event
    std::optional<std::chrono::milliseconds>
        retry;  ///< a reconnection time sent since the last event
};

/// The limits of a decoder, in bytes. Exceeding one throws Error(too_large).
struct SseLimits {
    std::size_t max_line = 16u << 20;   ///< one line, without its terminator
    std::size_t max_event = 32u << 20;  ///< the data of one event
};

/// An incremental decoder of server-sent events (WHATWG HTML, section 9.2.5 and 9.2.6). It does no I/O: it consumes
/// bytes, split at any position, and produces events. The bytes are not validated as UTF-8 (see utf8.hpp).
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

    /// Returns the buffer to which the stream's next bytes are appended, for readers that can append themselves.
    /// Existing content must not be changed.
    std::string& buffer();

    /// Reads the next complete event; returns false if more bytes are needed. Throws Error(too_large).
    bool next(SseEvent& event);

    /// Reads an event that lacks its closing blank line; call it once at the end of the stream, after `next` returned
    /// false. The standard discards such an event; some model endpoints end their streams that way, and a caller whose
    /// events indicate their own completeness may use it.
    bool finish(SseEvent& event);

private:
    bool take_line(std::string_view& line);
    void field(std::string_view line);
    void add_data(std::string_view value);
    bool dispatch(SseEvent& event);

    SseLimits limits_;
    std::string buffer_;
    std::size_t line_ = 0;      ///< start of the next line
    std::size_t searched_ = 0;  ///< no line ends before
    bool skip_lf_ = false;
    bool first_line_ = true;

    std::size_t event_bytes_ = 0;  ///< of the lines of the current event so far
    std::size_t data_lines_ = 0;   ///< 0: `data_` is that of the last event
    std::string data_;             ///< joined by LF
    bool has_type_ = false;        ///< false: `type_` is that of an earlier event
    std::string type_;
    std::string id_;
    std::optional<std::chrono::milliseconds> retry_;
};

}  // namespace cubepi
