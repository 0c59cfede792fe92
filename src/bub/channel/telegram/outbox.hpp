#pragma once

#include <exception>
#include <map>
#include <memory>
#include <stop_token>
#include <string>
#include <vector>

#include <bub/channel/shared/live_answer.hpp>
#include <bub/channel/telegram/message_sender.hpp>
#include <bub/channel/telegram/update.hpp>
#include <bub/channel/telegram_channel.hpp>
#include <cubepi/core/task_scope.hpp>

namespace bub::telegram {

using LiveAnswer = shared::LiveAnswer<MessageSender>;

/// The sending side of the channel: answers, questions, files, the indicator that a turn runs. Used on one executor.
class Outbox : public std::enable_shared_from_this<Outbox> {
public:
    Outbox(const TelegramChannelOptions& options, std::shared_ptr<const TelegramApi> api,
           std::shared_ptr<SentCards> cards);

    void start(cubepi::BackgroundScope& work) { work_ = &work; }
    /// `progress`: of a recorded message; null: none.
    Task<> send(Envelope message, std::shared_ptr<SendProgress> progress);
    EventStream follow(const Envelope& message, EventStream stream);
    void begin_turn(const Envelope& message);
    void end_turn(const Envelope& message, bool failed);
    /// Puts the outcome in the place of the question's buttons, once in a turn.
    void show_outcome(const Envelope& message, const AcceptedAnswer& answer);

private:
    /// A running turn.
    struct Turn {
        std::string inbound_id = {};  ///< of its message; empty: none
        ChatTarget place = {};
        std::stop_source typing = {};
        std::shared_ptr<LiveAnswer> live = {};
        std::string text = {};         ///< that `live` shows
        std::string answered_by = {};  ///< the name of the user who answers a question
        SentCard question = {};        ///< without an id: not known
        std::int64_t reply_to = 0;     ///< the message of a group that the first output answers
        std::string callback_id = {};  ///< of a press that is not answered yet
        bool shows_outcome = false;
        bool run_ended = false;
    };
    using TurnPtr = std::shared_ptr<Turn>;
    using ProgressPtr = std::shared_ptr<SendProgress>;

    void on_event(const TurnPtr& turn, const StreamEvent& event);
    void show_outcome(Turn& turn, const AcceptedAnswer& answer);
    ChatTarget target_for(const Envelope& message) const;
    TurnPtr turn_with(const Envelope& output) const;
    std::int64_t take_reply_to(const Envelope& message);
    std::shared_ptr<LiveAnswer> take_live(const Envelope& message);
    Task<> send_question(Envelope message, ChatTarget to, ProgressPtr progress);
    Task<> send_card(Json request, shared::QuestionCard card, ChatTarget to, OutgoingText first);
    Task<bool> send_whole(UploadedFile file, bool resent, ChatTarget to, ProgressPtr progress);
    Task<> send_text(Envelope message, ChatTarget to, ProgressPtr progress);
    Task<> send_file(Envelope message, ChatTarget to, ProgressPtr progress);
    Task<> send_media(MediaItem item, ChatTarget to, ProgressPtr progress);
    Task<bool> ask_approvers(Json request, bool resent, ChatTarget to, ProgressPtr progress);
    Task<> remind(Envelope message, ChatTarget to, ProgressPtr progress);
    Task<bool> refuse_answer(Envelope message, ProgressPtr progress);
    void confirm_press(Turn& turn);
    bool is_for_approvers(const Json& request, ChatTarget to) const;

    const TelegramChannelOptions options_;
    const std::shared_ptr<const TelegramApi> api_;
    cubepi::Clock& clock_;
    const Access access_;
    const std::shared_ptr<MessageSender> sender_;
    std::map<std::string, TurnPtr> turns_;  // by session
    const std::shared_ptr<SentCards> cards_;
    cubepi::BackgroundScope* work_ = nullptr;
};

}  // namespace bub::telegram
