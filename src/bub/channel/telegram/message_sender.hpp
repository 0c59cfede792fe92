#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include <bub/channel/delivery_log.hpp>
#include <bub/channel/telegram/telegram_api.hpp>
#include <bub/channel/telegram_text.hpp>
#include <cubepi/core/clock.hpp>
#include <cubepi/core/task.hpp>

namespace bub::telegram {

using cubepi::Task;

/// A number of messages per time, with a short burst.
struct Rate {
    std::chrono::nanoseconds interval;  ///< between two messages
    int burst;                          ///< messages that may follow each other at once
};

/// The limits that Telegram documents: about one message per second in a chat, 20 per minute in a group, 30 per second in all
/// (https://core.telegram.org/bots/faq).
struct RateLimits {
    Rate chat{std::chrono::seconds(1), 3};
    Rate group{std::chrono::seconds(4), 5};
    Rate all{std::chrono::milliseconds(67), 15};

    RateLimits() {}
};

/// Delays messages so that the service does not reject them. Used on one executor. The clock must outlive it.
class RateLimiter {
public:
    explicit RateLimiter(cubepi::Clock& clock, RateLimits limits = RateLimits())
        : clock_(clock), limits_(limits) {}

    /// Returns true if a message would have to wait.
    bool must_wait(std::int64_t chat);
    /// Waits until a message may be sent to the chat. Callers of one chat are served in order.
    Task<> acquire(std::int64_t chat);
    /// Returns false if a message would have to wait.
    bool try_acquire(std::int64_t chat);
    /// Sends nothing to the chat for this time, as the service demands.
    void pause(std::int64_t chat, std::chrono::nanoseconds delay);

private:
    using TimePoint = cubepi::Clock::time_point;
    /// The time at which the next message would be due if all had been sent at the rate of the limit.
    using Buckets = std::map<std::int64_t, TimePoint>;

    const Rate& rate_of(std::int64_t chat) const { return chat < 0 ? limits_.group : limits_.chat; }
    /// Returns the earliest time for the next message.
    static TimePoint earliest(TimePoint due, const Rate& rate) {
        return due - rate.interval * (rate.burst - 1);
    }
    /// Reserves the next message and returns its time.
    static TimePoint reserve(TimePoint& due, const Rate& rate, TimePoint now);
    TimePoint& bucket(std::int64_t chat);
    void forget_idle(TimePoint now);

    cubepi::Clock& clock_;
    const RateLimits limits_;
    Buckets chats_;
    TimePoint all_{};
};

/// A chat, or a topic of a group.
struct ChatTarget {
    std::int64_t chat = 0;    ///< negative: a group
    std::int64_t thread = 0;  ///< message_thread_id; 0: none

    friend auto operator<=>(const ChatTarget&, const ChatTarget&) = default;
};

/// A message to be sent.
struct OutgoingText {
    OutgoingText() = default;
    explicit OutgoingText(FormattedText formatted) : text(std::move(formatted)) {}

    FormattedText text = {};
    JsonArray keyboard = {};    ///< rows of inline buttons; empty: none
    std::int64_t reply_to = 0;  ///< the message that a new message answers; 0: none
    std::shared_ptr<SendProgress> progress = {};  ///< of the answer that it is a part of
};

/// Sends and edits messages. Failures that may pass are retried for as long as it takes: the caller cancels. A message whose
/// sending was cut off may have arrived; it is sent again with a mark (B18). Used on one executor.
class MessageSender {
public:
    /// Called with a description when Telegram cannot be reached, once, and with an empty text when it answers again.
    using OnTrouble = std::function<void(std::string)>;

    MessageSender(std::shared_ptr<const TelegramApi> api, cubepi::Clock& clock,
                  OnTrouble on_trouble)
        : api_(std::move(api)),
          clock_(clock),
          limiter_(clock),
          on_trouble_(std::move(on_trouble)) {}

    /// Sends a message and returns its id. Throws ApiError if Telegram rejects it.
    Task<std::int64_t> send(ChatTarget to, OutgoingText message);
    /// Sends a file; `parameters` are those of the method.
    Task<> send_file(ChatTarget to, std::string method, JsonObject parameters, UploadedFile file,
                     std::shared_ptr<SendProgress> progress);
    /// Changes a message. Returns false if the message does not exist any more.
    Task<bool> edit(ChatTarget in, std::int64_t message_id, OutgoingText message);

    /// The same with one attempt, and only if the rate limits allow it at once. send returns 0, and edit false, if nothing was
    /// changed; throws ApiError.
    Task<std::int64_t> try_send(ChatTarget to, OutgoingText message);
    Task<bool> try_edit(ChatTarget in, std::int64_t message_id, OutgoingText message);
    /// Deletes a message if possible.
    Task<> try_delete(ChatTarget in, std::int64_t message_id);
    /// Replaces the buttons of a message if possible.
    Task<> try_set_buttons(ChatTarget in, std::int64_t message_id, JsonArray keyboard);

private:
    /// A call that is repeated until it succeeds.
    struct Attempt {
        ChatTarget to;
        std::string method;
        JsonObject parameters;
        std::shared_ptr<const UploadedFile> file = {};
        std::shared_ptr<SendProgress> progress = {};
        bool is_repeatable = false;  ///< a second execution has no further effect
        int failures = 0;
        bool is_marked = false;
        bool is_announced = false;  ///< a message with the mark has to be sent first
    };
    Task<Json> deliver(std::shared_ptr<Attempt> attempt);
    Task<> wait_for_turn(std::shared_ptr<const Attempt> attempt);
    Task<Json> call_once(std::shared_ptr<const Attempt> attempt) const;
    /// Decides after a failure; throws it if another attempt is useless. Returns the delay.
    std::chrono::nanoseconds prepare_retry(Attempt& attempt, const std::exception_ptr& failure);
    bool adapt(Attempt& attempt, const ApiFailure& failure) const;
    void note_pause(ChatTarget chat, const std::exception_ptr& failure);
    void report(const std::exception_ptr& failure);

    const std::shared_ptr<const TelegramApi> api_;
    cubepi::Clock& clock_;
    RateLimiter limiter_;
    const OnTrouble on_trouble_;
    bool in_trouble_ = false;
};

/// The mark of a message that may have arrived before.
inline constexpr std::string_view resent_mark = "(sent again) ";

/// Returns the text with a plain text put before it.
FormattedText with_prefix(std::string_view prefix, FormattedText text);

}  // namespace bub::telegram
