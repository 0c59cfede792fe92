#pragma once

#include <cstdint>
#include <limits>
#include <memory>
#include <new>
#include <string>
#include <string_view>
#include <utility>

#include <cubepi/core/compact_values.hpp>
#include <cubepi/core/message.hpp>
#include <cubepi/core/notice.hpp>
#include <cubepi/core/shared_string.hpp>

namespace cubepi {

namespace detail {

class MessageLog;

/// The part of a log that snapshots use.
class LogBase {
public:
    LogBase() noexcept = default;
    LogBase(const LogBase&) = delete;
    LogBase& operator=(const LogBase&) = delete;

    void retain() const noexcept { refs_.retain(); }
    void release() const noexcept {
        if (refs_.release()) destroy(this);
    }

private:
    static void destroy(const LogBase* log) noexcept;
    mutable RefCount refs_;
};

struct ReleaseLog {
    void operator()(const MessageLog* log) const noexcept;
};
/// A log and its writer. Snapshots of it may outlive the reference.
using LogRef = std::unique_ptr<MessageLog, ReleaseLog>;

/// The position of an entry in a log; valid as long as the log.
struct LogPosition {
    const void* page = nullptr;  ///< null: among the first entries
    std::uint32_t index = 0;
};

}  // namespace detail

/// A snapshot of the assistant message at one event (D10). Its content never changes and may be read from any thread. A
/// snapshot occupies two words; the message is built on demand.
class PartialMessage {
public:
    PartialMessage() noexcept : log_(nullptr) {}
    PartialMessage(const PartialMessage& other) noexcept : count_(other.count_) {
        if (is_final()) {
            ::new (&final_) Message(other.final_);
        } else {
            log_ = other.log_;
            if (log_) log_->retain();
        }
    }
    PartialMessage(PartialMessage&& other) noexcept : count_(other.count_) {
        if (is_final()) {
            ::new (&final_) Message(std::move(other.final_));
        } else {
            log_ = std::exchange(other.log_, nullptr);
        }
    }
    explicit PartialMessage(Message final_message) noexcept
        : final_(std::move(final_message)), count_(final_mark) {}
    PartialMessage& operator=(const PartialMessage& other) noexcept {
        if (!is_final() && !other.is_final() && log_ == other.log_) {
            // Common case: the next snapshot of the same answer replaces this one.
            count_ = other.count_;
            return *this;
        }
        return *this = PartialMessage(other);
    }
    PartialMessage& operator=(PartialMessage&& other) noexcept {
        if (this == &other) return *this;
        drop();
        ::new (this) PartialMessage(std::move(other));
        return *this;
    }
    ~PartialMessage() { drop(); }

    explicit operator bool() const noexcept {
        return is_final() ? static_cast<bool>(final_) : log_ != nullptr;
    }
    /// Builds the message in time proportional to its length. A tool call has empty arguments until its toolcall_end.
    AssistantMessage get() const;
    Message message() const&;
    Message message() &&;
    /// Returns the text blocks so far, joined.
    std::string text() const;

private:
    friend class detail::MessageLog;
    static constexpr std::uint32_t final_mark = std::numeric_limits<std::uint32_t>::max();

    /// Takes ownership of one reference to `log`.
    PartialMessage(const detail::LogBase* log, std::uint32_t count) noexcept
        : log_(log), count_(count) {}
    bool is_final() const noexcept { return count_ == final_mark; }
    void drop() noexcept {
        if (is_final()) {
            final_.~Message();
        } else if (log_) {
            log_->release();
        }
    }
    const detail::MessageLog& log() const noexcept;

    union {
        const detail::LogBase* log_;
        Message final_;
    };
    std::uint32_t count_ = 0;  ///< entries of the log, or final_mark
};

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
