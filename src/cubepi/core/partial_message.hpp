#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include <cubepi/core/message.hpp>

namespace cubepi {

namespace detail {
class MessageLog;
}

/// The assistant message as far as it had come at one event (D10). Its content never changes afterwards,
/// however long it is kept, and may be read from any thread. Keeping it costs four words; the message is
/// built when it is asked for.
class PartialMessage {
public:
    PartialMessage() noexcept = default;
    PartialMessage(const PartialMessage&) noexcept = default;
    PartialMessage(PartialMessage&&) noexcept = default;
    PartialMessage& operator=(const PartialMessage& other) noexcept {
        if (this == &other) return *this;
        // The next snapshot of the same answer replaces the last, event by event.
        if (log_ != other.log_) log_ = other.log_;
        count_ = other.count_;
        if (final_ || other.final_) final_ = other.final_;
        return *this;
    }
    PartialMessage& operator=(PartialMessage&&) noexcept = default;
    ~PartialMessage() = default;
    explicit PartialMessage(Message final_message) noexcept : final_(std::move(final_message)) {}

    explicit operator bool() const noexcept { return log_ != nullptr || final_; }
    /// Builds the message: costs its length. A tool call has empty arguments until its toolcall_end.
    AssistantMessage get() const;
    Message message() const&;
    Message message() &&;
    /// The text blocks so far, joined.
    std::string text() const;

private:
    friend class detail::MessageLog;
    PartialMessage(std::shared_ptr<const detail::MessageLog> log, std::uint32_t count) noexcept
        : log_(std::move(log)), count_(count) {}

    std::shared_ptr<const detail::MessageLog> log_;
    std::uint32_t count_ = 0;
    Message final_;
};

}  // namespace cubepi
