#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>

#include <bub/channel/delivery_log.hpp>
#include <bub/channel/shared/question_cards.hpp>
#include <bub/channel/shared/rate_limiter.hpp>
#include <bub/channel/telegram/telegram_api.hpp>
#include <bub/channel/telegram_text.hpp>
#include <cubepi/core/clock.hpp>
#include <cubepi/core/task.hpp>

namespace bub::telegram {

using cubepi::Task;

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
    shared::Buttons keyboard = {};
    std::int64_t reply_to = 0;  ///< the message that a new message answers; 0: none
    std::shared_ptr<SendProgress> progress = {};  ///< of the answer that it is a part of
};

/// Sends and edits messages. Failures that may pass are retried for as long as it takes: the caller cancels. A message whose
/// sending was cut off may have arrived; it is sent again with a mark (B18). Used on one executor.
class MessageSender {
public:
    // For shared::LiveAnswer.
    using Target = ChatTarget;
    using Message = OutgoingText;
    using Id = std::int64_t;

    /// Called with a description when Telegram cannot be reached, once, and with an empty text when it answers again.
    using OnTrouble = std::function<void(std::string)>;

    MessageSender(std::shared_ptr<const TelegramApi> api, cubepi::Clock& clock,
                  OnTrouble on_trouble, shared::RateLimiter::CountSenders count_senders = {});

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

private:
    /// A call that is repeated until it succeeds.
    struct RepeatedCall {
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
    Task<Json> deliver(std::shared_ptr<RepeatedCall> repeated);
    Task<> wait_for_turn(std::shared_ptr<const RepeatedCall> repeated);
    Task<Json> call_once(std::shared_ptr<const RepeatedCall> repeated) const;
    /// Decides after a failure; throws it if another attempt is useless. Returns the delay.
    std::chrono::nanoseconds prepare_retry(RepeatedCall& repeated,
                                           const std::exception_ptr& failure);
    bool adapt(RepeatedCall& repeated, const ApiFailure& failure) const;
    void note_pause(ChatTarget chat, const std::exception_ptr& failure);
    void report(const std::exception_ptr& failure);

    const std::shared_ptr<const TelegramApi> api_;
    cubepi::Clock& clock_;
    shared::RateLimiter limiter_;
    const OnTrouble on_trouble_;
    bool in_trouble_ = false;
};

using SentCard = shared::CardPlace<std::int64_t>;

/// Replaces the buttons of a message if possible.
Task<> show_buttons(std::shared_ptr<const TelegramApi> api, SentCard in, shared::Buttons buttons);

/// The mark of a message that may have arrived before.
inline constexpr std::string_view resent_mark = "(sent again) ";

/// Returns the text with a plain text put before it.
FormattedText with_prefix(std::string_view prefix, FormattedText text);

}  // namespace bub::telegram
