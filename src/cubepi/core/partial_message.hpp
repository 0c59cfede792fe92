#pragma once

#include <cstdint>
#include <limits>
#include <memory>
#include <new>
#include <string>
#include <string_view>
#include <utility>

#include <cubepi/core/detail/ref_count.hpp>
#include <cubepi/core/message.hpp>

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

}  // namespace cubepi
