#include <bub/channel/telegram/outbox.hpp>

#include <chrono>
#include <utility>

#include <bub/channel/telegram/file_upload.hpp>
#include <bub/channel/telegram/question_card.hpp>
#include <bub/channel/telegram/update.hpp>
#include <bub/questions.hpp>
#include <cubepi/core/cancellation.hpp>
#include <cubepi/core/outcome.hpp>
#include <cubepi/core/support/json_member.hpp>
#include <cubepi/net/utf8.hpp>

namespace bub::telegram {

namespace {

using cubepi::Outcome;
using cubepi::outcome_of;

constexpr std::size_t max_questions = 1000;

/// Telegram shows the indicator for five seconds.
Task<> repeat_typing(std::shared_ptr<const TelegramApi> api, cubepi::Clock& clock, ChatTarget to) {
    while (true) {
        JsonObject parameters;
        parameters["chat_id"] = to.chat;
        if (to.thread != 0) parameters["message_thread_id"] = to.thread;
        parameters["action"] = "typing";
        (void)co_await api->call("sendChatAction", std::move(parameters));
        co_await clock.sleep_for(std::chrono::seconds(4));
    }
}

/// Ends at the end of the turn or at the first failure: it is not worth a retry.
Task<> show_typing(std::shared_ptr<const TelegramApi> api, cubepi::Clock& clock, ChatTarget to,
                   std::stop_token over) {
    Task<> repeating = repeat_typing(std::move(api), clock, to);
    Task<> typing = cubepi::cancel_on(std::move(over), std::move(repeating));
    (void)co_await outcome_of(std::move(typing));
}

Task<> discard(std::shared_ptr<LiveAnswer> live) {
    Task<> finishing = live->finish(FormattedText());
    const Outcome<> done = co_await outcome_of(std::move(finishing));
    if (done.cancelled()) done.rethrow();
}

Task<> set_buttons(std::shared_ptr<MessageSender> sender, ChatTarget in, std::int64_t message_id,
                   JsonArray keyboard) {
    co_await sender->try_set_buttons(in, message_id, std::move(keyboard));
}

std::string outcome_text(const Json& answer) {
    const JsonObject* const object = answer.if_object();
    const std::string decision =
        object ? cubepi::detail::text_member(*object, "decision") : std::string();
    if (decision == "approve") return "\u2705 Approved";
    if (decision == "deny") return "\u274C Denied";
    if (answer == Json(true)) return "\u2705 Yes";
    if (answer == Json(false)) return "\u274C No";
    return "\u2705 Answered";
}

bool is_resent(const Envelope& message) {
    return cubepi::detail::flag_member(message.context, "resent");
}

}  // namespace

Outbox::Outbox(const TelegramChannelOptions& options, std::shared_ptr<const TelegramApi> api)
    : options_(options),
      api_(std::move(api)),
      clock_(*options_.runtime->clock),
      sender_(std::make_shared<MessageSender>(
          api_, clock_,
          [warn = options_.on_warning, log = options_.runtime->log](const std::string& trouble) {
              log.write(trouble.empty() ? cubepi::LogLevel::info : cubepi::LogLevel::warning,
                        trouble.empty() ? "telegram.sending" : "telegram.not_sending");
              if (!warn) return;
              warn(trouble.empty() ? "telegram: answers are sent again"
                                   : "telegram: answers cannot be sent, and wait: " + trouble);
          })) {}

void Outbox::begin_turn(const Envelope& message) {
    auto turn = std::make_shared<Turn>();
    turn->place = place_of(message);
    if (const JsonObject* facts = cubepi::detail::object_member(message.rest, telegram_key)) {
        turn->answered_by = cubepi::detail::text_member(*facts, "name");
        turn->question_message = cubepi::detail::integer_member(*facts, "question").value_or(0);
    }
    if (turn->answered_by.empty()) turn->answered_by = sender_of(message);
    turns_[message.session_id.value_or("")] = turn;
    work_->spawn(show_typing(api_, clock_, turn->place, turn->typing.get_token()));
}

void Outbox::end_turn(const Envelope& message, bool failed) {
    const auto found = turns_.find(message.session_id.value_or(""));
    if (found == turns_.end()) return;
    const TurnPtr turn = std::move(found->second);
    turns_.erase(found);
    turn->typing.request_stop();
    if (!turn->live) return;
    turn->live->end();
    // The answer was not sent here, or is another one. What a failed turn has shown stays.
    if (!failed) work_->spawn(discard(std::move(turn->live)));
}

EventStream Outbox::follow(const Envelope& message, EventStream stream) {
    const auto found = turns_.find(message.session_id.value_or(""));
    if (found == turns_.end()) return stream;
    return EventStream::map(std::move(stream),
                            [self = shared_from_this(), turn = found->second](StreamEvent event) {
                                self->on_event(turn, event);
                                return std::optional<StreamEvent>(std::move(event));
                            });
}

void Outbox::on_event(const TurnPtr& turn, const StreamEvent& event) {
    if (event.kind == event_kind::answered) {
        AcceptedAnswer answer;
        answer.question_id = cubepi::detail::text_member(event.data, "question_id");
        if (const Json* const value = event.data.if_contains("answer")) answer.answer = *value;
        show_outcome(*turn, answer);
    }
    if (event.kind != event_kind::text || !options_.shows_progress) return;
    turn->text += event.delta();
    const bool is_first = !turn->live;
    if (is_first) turn->live = std::make_shared<LiveAnswer>(turn->place, sender_, clock_);
    turn->live->append(event.delta());
    if (is_first) work_->spawn(LiveAnswer::show(turn->live));
}

void Outbox::show_outcome(const Envelope& message, const AcceptedAnswer& answer) {
    const auto found = turns_.find(message.session_id.value_or(""));
    if (found != turns_.end()) show_outcome(*found->second, answer);
}

void Outbox::show_outcome(Turn& turn, const AcceptedAnswer& answer) {
    if (std::exchange(turn.shows_outcome, true)) return;
    std::int64_t message_id = turn.question_message;
    const auto found = questions_.find(answer.question_id);
    if (message_id == 0 && found != questions_.end()) message_id = found->second;
    if (message_id == 0) return;
    JsonObject button;
    button["text"] = outcome_text(answer.answer) +
                     (turn.answered_by.empty() ? "" : ": " + turn.answered_by.substr(0, 40));
    button["text"] = cubepi::replace_broken_utf8(std::string(button["text"].as_string()));
    button["callback_data"] = "over";
    JsonArray row;
    row.emplace_back(std::move(button));
    JsonArray keyboard;
    keyboard.emplace_back(std::move(row));
    work_->spawn(set_buttons(sender_, turn.place, message_id, std::move(keyboard)));
}

ChatTarget Outbox::place_for(const Envelope& message) const {
    ChatTarget place = place_of(message);
    const auto found = turns_.find(message.session_id.value_or(""));
    // The session may have another id than that of its chat.
    if (found != turns_.end() && found->second->place.chat == place.chat)
        place = found->second->place;
    return place;
}

/// Returns the messages that show this answer already; null: none.
std::shared_ptr<LiveAnswer> Outbox::take_live(const Envelope& message) {
    const auto found = turns_.find(message.session_id.value_or(""));
    if (found == turns_.end() || !found->second->live || is_resent(message)) return nullptr;
    Turn& turn = *found->second;
    if (message.kind == envelope_kind::error || !message.content_text().starts_with(turn.text))
        return nullptr;
    return std::exchange(turn.live, nullptr);
}

void Outbox::remember_question(const std::string& question_id, std::int64_t message_id) {
    if (!questions_.insert_or_assign(question_id, message_id).second) return;
    question_order_.push_back(question_id);
    if (question_order_.size() <= max_questions) return;
    questions_.erase(question_order_.front());
    question_order_.pop_front();
}

Task<> Outbox::send(Envelope message) {
    const ChatTarget to = place_for(message);
    std::vector<MediaItem> media = std::move(message.media);
    message.media.clear();
    if (message.kind == envelope_kind::question && message.rest.contains(question_key)) {
        co_await send_question(std::move(message), to);
    } else {
        co_await send_text(std::move(message), to);
    }
    for (MediaItem& item : media) co_await send_media(std::move(item), to);
}

Task<> Outbox::send_question(Envelope message, ChatTarget to) {
    const Json& request = message.rest.at(question_key);
    OutgoingText card = question_card(request);
    if (is_resent(message)) card.text = with_prefix(resent_mark, std::move(card.text));
    const std::int64_t id = co_await sender_->send(to, std::move(card));
    remember_question(cubepi::detail::text_member(request.as_object(), "question_id"), id);
}

Task<> Outbox::send_text(Envelope message, ChatTarget to) {
    FormattedText text;
    if (message.kind == envelope_kind::error) {
        text.text = cubepi::replace_broken_utf8(message.content_text());
    } else {
        text = format_markdown(message.content_text());
    }
    if (is_resent(message)) text = with_prefix(resent_mark, std::move(text));
    const std::shared_ptr<LiveAnswer> live = take_live(message);
    if (live) {
        co_await live->finish(std::move(text));
        co_return;
    }
    for (FormattedText& part : split_text(text)) {
        OutgoingText outgoing(std::move(part));
        (void)co_await sender_->send(to, std::move(outgoing));
    }
}

Task<> Outbox::send_media(MediaItem item, ChatTarget to) {
    FileUpload upload = co_await file_upload(std::move(item));
    if (!upload.problem.empty()) {
        FormattedText note;
        note.text = upload.problem;
        OutgoingText outgoing(std::move(note));
        (void)co_await sender_->send(to, std::move(outgoing));
        co_return;
    }
    co_await sender_->send_file(to, std::move(upload.method), std::move(upload.parameters),
                                std::move(upload.file));
}

}  // namespace bub::telegram
