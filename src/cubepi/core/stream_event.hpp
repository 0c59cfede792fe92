#pragma once

#include <cstdint>
#include <string_view>

#include <cubepi/core/message.hpp>
#include <cubepi/core/notice.hpp>
#include <cubepi/core/partial_message.hpp>
#include <cubepi/core/shared_value.hpp>

namespace cubepi {

enum class StreamEventType : std::uint8_t {
    start,
    text_start,
    text_delta,
    text_end,
    thinking_start,
    thinking_delta,
    thinking_end,
    toolcall_start,
    toolcall_delta,
    toolcall_end,
    done,
    error,
    notice,  ///< not part of the message: a retry, a fallback, a changed request value
};
std::string_view to_string(StreamEventType type) noexcept;

/// One step of a model's answer. The grammar is: `start`, blocks (`*_start`, `*_delta`..., `*_end`, which may
/// interleave), then exactly one `done` or `error`; a failure before the endpoint accepted the request is an `error`
/// alone. A `notice` may occur anywhere before the end.
struct StreamEvent {
    StreamEventType type = StreamEventType::start;
    /// Position of the block in the message; -1 if not applicable.
    std::int32_t content_index = -1;
    /// The new text, thinking, or raw JSON of a tool call's arguments. Complete UTF-8 sequences only. Valid as long as
    /// `partial`, that is as long as any copy of this event.
    std::string_view delta = {};
    /// The message so far; on `done` and `error` the final message (D45).
    PartialMessage partial = {};
    /// Only set with `notice`.
    SharedValue<Notice> notice = {};

    /// Returns the text of the failure on `error`, else an empty string.
    std::string error_message() const;
    bool is_terminal() const noexcept {
        return type == StreamEventType::done || type == StreamEventType::error;
    }
    /// Returns true for the block events, which `message_update` wraps.
    bool is_block_event() const noexcept {
        return type >= StreamEventType::text_start && type <= StreamEventType::toolcall_end;
    }
};

}  // namespace cubepi
