#include <bub/channel/telegram/outbox.hpp>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <bub/channel/sent_file.hpp>
#include <bub/channel/shared/message_text.hpp>
#include <bub/channel/telegram/message_sender.hpp>
#include <bub/channel/telegram/telegram_api.hpp>
#include <bub/channel/telegram/update.hpp>
#include <bub/envelope.hpp>
#include <bub/questions.hpp>
#include <cubepi/core/cancellation.hpp>
#include <cubepi/core/outcome.hpp>
#include <cubepi/core/support/json_member.hpp>
#include <cubepi/core/support/trimmed.hpp>
#include <cubepi/middleware/todo_list.hpp>
#include <cubepi/net/utf8.hpp>

namespace bub::telegram {

namespace {

using cubepi::Outcome;
using cubepi::outcome_of;

/// The call that sends a file.
struct FileUpload {
    std::string method = {};
    JsonObject parameters = {};
    UploadedFile file = {};    ///< without a field: the file is an address in `parameters`
    std::string problem = {};  ///< for the user; empty: none
};

constexpr std::size_t max_photo_bytes = 10'000'000;
constexpr std::size_t max_file_bytes = 50'000'000;

struct Method {
    const char* name;
    const char* field;
};

Method method_for(const MediaItem& item, std::size_t bytes) {
    const bool is_photo = item.mime_type == "image/jpeg" || item.mime_type == "image/png" ||
                          item.mime_type == "image/webp";
    if (item.type == MediaType::image && is_photo && bytes <= max_photo_bytes)
        return Method{"sendPhoto", "photo"};
    if (item.type == MediaType::video && item.mime_type == "video/mp4")
        return Method{"sendVideo", "video"};
    if (item.type == MediaType::audio && item.mime_type == "audio/mpeg")
        return Method{"sendAudio", "audio"};
    return Method{"sendDocument", "document"};
}

/// Fetches the attachment of a message. Photos of up to 10 MB are shown; other files of up to 50 MB are documents.
Task<FileUpload> file_upload(MediaItem item) {
    FileUpload upload;
    const std::string name = shared::file_name(item);
    if (item.url.starts_with("https://") || item.url.starts_with("http://")) {
        const Method method = method_for(item, 0);
        upload.method = method.name;
        upload.parameters[method.field] = item.url;
        co_return upload;
    }
    Task<std::optional<std::string>> fetching = item.get_bytes();
    Outcome<std::optional<std::string>> fetched = co_await cubepi::outcome_of(std::move(fetching));
    if (fetched.cancelled()) fetched.rethrow();
    if (!fetched || !fetched.value()) {
        upload.problem = "(The file " + name + " could not be read.)";
    } else if (fetched.value()->size() > max_file_bytes) {
        upload.problem =
            "(The file " + name + " has more than 50 MB, and Telegram does not take it.)";
    } else {
        const Method method = method_for(item, fetched.value()->size());
        upload.method = method.name;
        upload.file.field = method.field;
        upload.file.name = name;
        upload.file.mime_type =
            item.mime_type.empty() ? "application/octet-stream" : item.mime_type;
        upload.file.bytes = std::move(*fetched.value());
    }
    co_return upload;
}

/// The parts of an answer that is not complete.
std::vector<FormattedText> preview_parts(const std::string& answer) {
    constexpr std::string_view ellipsis = " \u2026";
    // The ellipsis must fit into the last message.
    std::vector<FormattedText> parts =
        split_text(format_markdown(answer), max_message_units - ellipsis.size());
    if (!parts.empty()) parts.back().text += ellipsis;
    return parts;
}

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
    Task<> finishing = live->finish({}, nullptr);
    const Outcome<> done = co_await outcome_of(std::move(finishing));
    if (done.cancelled()) done.rethrow();
}

bool is_approval(const Json& request) {
    return std::holds_alternative<cubepi::ApproveRequest>(
        cubepi::hitl_request_from_json(request).payload);
}

/// A user types the commands with a slash.
shared::CardRules card_rules() {
    shared::CardRules rules;
    rules.channel = "telegram";
    rules.max_units = max_message_units;
    rules.command_mark = "/";
    return rules;
}

bool is_resent(const Envelope& message) {
    return cubepi::detail::flag_member(message.context, "resent");
}

}  // namespace

Outbox::Outbox(const TelegramChannelOptions& options, std::shared_ptr<const TelegramApi> api,
               std::shared_ptr<SentCards> cards)
    : options_(options),
      api_(std::move(api)),
      clock_(*options_.runtime->clock),
      access_(access_of(options_)),
      sender_(std::make_shared<MessageSender>(
          api_, clock_,
          [warn = options_.on_warning, log = options_.runtime->log](const std::string& trouble) {
              log.write(trouble.empty() ? cubepi::LogLevel::info : cubepi::LogLevel::warning,
                        trouble.empty() ? "telegram.send_recovered" : "telegram.send_failed");
              if (!warn) return;
              warn(trouble.empty() ? "telegram: answers are sent again"
                                   : "telegram: answers cannot be sent, and wait: " + trouble);
          },
          options_.count_gateways)),
      cards_(std::move(cards)) {}

void Outbox::begin_turn(const Envelope& message) {
    auto turn = std::make_shared<Turn>();
    turn->inbound_id = message.inbound_id.value_or("");
    turn->place = target_of(message);
    if (const JsonObject* origin = cubepi::detail::object_member(message.rest, telegram_key)) {
        turn->answered_by = cubepi::detail::text_member(*origin, "name");
        turn->callback_id = cubepi::detail::text_member(*origin, "callback");
        turn->reply_to = cubepi::detail::integer_member(*origin, "message").value_or(0);
        turn->question.id = cubepi::detail::integer_member(*origin, "question").value_or(0);
        turn->question.chat =
            cubepi::detail::integer_member(*origin, "question_chat").value_or(turn->place.chat);
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
    confirm_press(*turn);
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
        answer.question = cubepi::detail::text_member(event.data, "question");
        if (const Json* const value = event.data.if_contains("answer")) answer.answer = *value;
        show_outcome(*turn, answer);
    }
    if (!options_.shows_progress) return;
    if (event.agent_event && event.agent_event->type() == cubepi::AgentEventType::agent_end)
        turn->run_ended = true;
    const auto* ended =
        event.agent_event ? event.agent_event->get_if<cubepi::ToolExecutionEndEvent>() : nullptr;
    const auto todos = ended ? cubepi::todos_set_by(*ended) : std::nullopt;
    if (event.kind != event_kind::text && !todos) return;
    turn->text += event.delta();
    const bool is_first = !turn->live;
    if (is_first) {
        LiveAnswer::Parts parts;
        parts.to = turn->place;
        parts.first.reply_to = std::exchange(turn->reply_to, 0);
        parts.sender = sender_;
        parts.preview = preview_parts;
        parts.interval = std::chrono::milliseconds(turn->place.chat < 0 ? 6000 : 1500);
        parts.clock = &clock_;
        turn->live = std::make_shared<LiveAnswer>(std::move(parts));
    }
    turn->live->append(event.delta());
    if (todos) turn->live->set_progress_text(cubepi::todo_text(*todos));
    if (is_first) work_->spawn(LiveAnswer::show(turn->live));
}

void Outbox::show_outcome(const Envelope& message, const AcceptedAnswer& answer) {
    const auto found = turns_.find(message.session_id.value_or(""));
    if (found != turns_.end()) show_outcome(*found->second, answer);
}

void Outbox::show_outcome(Turn& turn, const AcceptedAnswer& answer) {
    confirm_press(turn);
    if (std::exchange(turn.shows_outcome, true)) return;
    std::vector<SentCard> shown = cards_->of(answer.question);
    // After a restart, only the message is known whose button was pressed.
    const bool is_known = std::find(shown.begin(), shown.end(), turn.question) != shown.end();
    if (turn.question.id != 0 && !is_known) shown.assign(1, turn.question);
    shared::Button button;
    button.label = cubepi::replace_broken_utf8(
        shared::outcome_text(answer.answer) +
        (turn.answered_by.empty() ? "" : ": " + turn.answered_by.substr(0, 40)));
    button.data = "over";
    const shared::Buttons buttons(1, std::vector<shared::Button>(1, button));
    for (const SentCard& one : shown) work_->spawn(show_buttons(api_, one, buttons));
}

ChatTarget Outbox::target_for(const Envelope& message) const {
    ChatTarget place = target_of(message);
    const auto found = turns_.find(message.session_id.value_or(""));
    // The session may have another id than that of its chat.
    if (found != turns_.end() && found->second->place.chat == place.chat)
        place = found->second->place;
    return place;
}

/// Returns the turn of an output; null for one that answers another message (D288).
Outbox::TurnPtr Outbox::turn_with(const Envelope& output) const {
    const auto found = turns_.find(output.session_id.value_or(""));
    const bool is_of_turn = found != turns_.end() &&
                            (!output.inbound_id || *output.inbound_id == found->second->inbound_id);
    return is_of_turn ? found->second : nullptr;
}

/// Returns the message that this output answers, for the first output of a turn in a group; 0 for others.
std::int64_t Outbox::take_reply_to(const Envelope& message) {
    const TurnPtr turn = turn_with(message);
    return turn ? std::exchange(turn->reply_to, 0) : 0;
}

/// Returns the messages that show this answer already; null: none.
std::shared_ptr<LiveAnswer> Outbox::take_live(const Envelope& message) {
    const TurnPtr turn = turn_with(message);
    if (!turn || !turn->live || is_resent(message)) return nullptr;
    // A to-do list alone is the beginning of no output but the answer, which follows the end of the run.
    const bool is_other = turn->text.empty() && !turn->run_ended;
    if (message.kind == envelope_kind::error || is_other ||
        !message.content_text().starts_with(turn->text))
        return nullptr;
    return std::exchange(turn->live, nullptr);
}

Task<> Outbox::send(Envelope message, ProgressPtr progress) {
    const ChatTarget to = target_for(message);
    std::vector<MediaItem> media = std::move(message.media);
    message.media.clear();
    if (message.kind == envelope_kind::file) {
        co_await send_file(std::move(message), to, progress);
    } else if (message.kind == envelope_kind::question && message.rest.contains(question_key)) {
        co_await send_question(std::move(message), to, progress);
    } else if (cubepi::detail::array_member(message.rest, open_questions_key)) {
        co_await remind(std::move(message), to, progress);
    } else {
        Task<bool> refusing = refuse_answer(message, progress);
        const bool refused = co_await std::move(refusing);
        if (refused) co_return;
        co_await send_text(std::move(message), to, progress);
    }
    for (MediaItem& item : media) co_await send_media(std::move(item), to, progress);
}

/// Tells the sender of a message that was not read yet what it waits for, with the buttons of the questions.
Task<> Outbox::remind(Envelope message, ChatTarget to, ProgressPtr progress) {
    const JsonArray requests = message.rest.at(open_questions_key).as_array();
    for (const Json& request : requests) {
        shared::QuestionCard card;
        if (is_for_approvers(request, to)) {
            card.text = shared::waiting_text(request, card_rules());
        } else {
            card = shared::question_card(request, card_rules());
        }
        OutgoingText first;
        first.text.text =
            "Your message is read after this question is answered, or withdrawn with /abandon:\n\n";
        first.progress = progress;
        Task<> sending = send_card(request, std::move(card), to, std::move(first));
        co_await std::move(sending);
    }
}

/// Sends the card of a question, and before it the file with all of the question, if the card leaves out a part: a user must be able to
/// read what an answer approves. A card whose file cannot be sent takes no answer. `first` has the beginning of its text, and what else
/// the message needs.
Task<> Outbox::send_card(Json request, shared::QuestionCard card, ChatTarget to,
                         OutgoingText first) {
    if (!card.whole.empty()) {
        UploadedFile file;
        file.name = std::move(card.whole_name);
        file.bytes = std::move(card.whole);
        const bool resent = first.text.text == resent_mark;
        Task<bool> sending = send_whole(std::move(file), resent, to, first.progress);
        const bool is_readable = co_await std::move(sending);
        if (!is_readable) {
            card.text = shared::unreadable_text(request, card_rules());
            card.buttons.clear();
        }
    }
    first.text.text += card.text;
    first.keyboard = std::move(card.buttons);
    const bool has_buttons = !first.keyboard.empty();
    const std::int64_t id = co_await sender_->send(to, std::move(first));
    if (has_buttons)
        cards_->add(cubepi::detail::text_member(request.as_object(), "request_id"),
                    SentCard{to.chat, id});
}

/// Sends a file with text. Returns false if Telegram does not take it.
Task<bool> Outbox::send_whole(UploadedFile file, bool resent, ChatTarget to, ProgressPtr progress) {
    if (file.bytes.size() > max_file_bytes) co_return false;
    file.field = "document";
    file.mime_type = "text/plain";
    JsonObject parameters;
    if (resent) parameters["caption"] = cubepi::detail::trimmed(resent_mark);
    Task<> sending = sender_->send_file(to, "sendDocument", std::move(parameters), std::move(file),
                                        std::move(progress));
    const Outcome<> sent = co_await outcome_of(std::move(sending));
    if (!sent && !api_failure(sent.failure())) sent.rethrow();
    co_return !sent.failure();
}

/// Tells the user whose answer was not accepted, in the chat of the card; of a press in a notice. Returns false if the chat of the
/// session is that chat.
Task<bool> Outbox::refuse_answer(Envelope message, ProgressPtr progress) {
    const auto found = turns_.find(message.session_id.value_or(""));
    if (found == turns_.end() || !cubepi::detail::flag_member(message.rest, refused_answer_key))
        co_return false;
    const TurnPtr turn = found->second;
    FormattedText text;
    text.text = cubepi::replace_broken_utf8(message.content_text());
    constexpr std::size_t max_units = 200;
    const std::vector<shared::TextPart> parts = shared::split_text(text.text, max_units);
    std::string callback_id = std::exchange(turn->callback_id, {});
    if (!callback_id.empty() && !parts.empty()) {
        Task<bool> answering =
            answer_press(api_, std::move(callback_id), std::string(parts.front().text));
        const bool is_notified = co_await std::move(answering);
        if (is_notified) co_return true;
    }
    if (turn->question.chat == 0 || turn->question.chat == turn->place.chat) co_return false;
    ChatTarget card;
    card.chat = turn->question.chat;
    // Not in the place of what is shown of the answer, which is in the chat of the session.
    for (FormattedText& part : split_text(text)) {
        OutgoingText outgoing(std::move(part));
        outgoing.progress = progress;
        (void)co_await sender_->send(card, std::move(outgoing));
    }
    co_return true;
}

/// Ends the indicator of a pressed button.
void Outbox::confirm_press(Turn& turn) {
    if (turn.callback_id.empty()) return;
    work_->spawn(ignore_result(answer_press(api_, std::exchange(turn.callback_id, {}), {})));
}

Task<> Outbox::send_question(Envelope message, ChatTarget to, ProgressPtr progress) {
    const Json& request = message.rest.at(question_key);
    Task<bool> asking = ask_approvers(request, is_resent(message), to, progress);
    const bool asked = co_await std::move(asking);
    if (asked) {
        FormattedText text;
        text.text = shared::waiting_text(request, card_rules());
        if (is_resent(message)) text = with_prefix(resent_mark, std::move(text));
        OutgoingText outgoing(std::move(text));
        outgoing.progress = progress;
        (void)co_await sender_->send(to, std::move(outgoing));
        co_return;
    }
    OutgoingText first;
    first.reply_to = take_reply_to(message);
    first.progress = progress;
    if (is_resent(message)) first.text.text = resent_mark;
    shared::QuestionCard card = shared::question_card(request, card_rules());
    co_await send_card(request, std::move(card), to, std::move(first));
}

/// Returns true for a question about a call in the private chat of a user who may not answer it.
bool Outbox::is_for_approvers(const Json& request, ChatTarget to) const {
    const JsonObject asker = asker_of(request.as_object());
    return to.chat > 0 && !access_.approvers().empty() && !access_.approvers().contains(to.chat) &&
           is_approval(request) &&
           cubepi::detail::text_member(asker, "session") == "telegram:" + std::to_string(to.chat);
}

/// Sends such a question to the private chats of those who may. Returns false if the question is another one, or no approver could
/// be asked.
Task<bool> Outbox::ask_approvers(Json request, bool resent, ChatTarget to, ProgressPtr progress) {
    if (!is_for_approvers(request, to)) co_return false;
    std::string name = cubepi::detail::text_member(asker_of(request.as_object()), "name");
    if (name.empty()) name = "User " + std::to_string(to.chat);
    bool asked = false;
    for (const std::int64_t approver : access_.approvers()) {
        if (!access_.is_listed(approver)) continue;
        shared::QuestionCard addressed = shared::question_card(request, card_rules());
        shared::address_to_approver(addressed, name, std::to_string(to.chat));
        OutgoingText first;
        first.progress = progress;
        if (resent) first.text.text = resent_mark;
        ChatTarget place;
        place.chat = approver;
        Task<> sending = send_card(request, std::move(addressed), place, std::move(first));
        const Outcome<> sent = co_await outcome_of(std::move(sending));
        if (sent.cancelled()) sent.rethrow();
        // A user to whom the bot may not write, for example: the others are asked.
        if (sent) asked = true;
    }
    if (!asked && options_.on_warning)
        options_.on_warning(
            "telegram: no operator could be asked about a tool call; each of them must send a "
            "message to the bot once");
    co_return asked;
}

Task<> Outbox::send_text(Envelope message, ChatTarget to, ProgressPtr progress) {
    FormattedText text;
    if (message.kind == envelope_kind::error) {
        text.text = cubepi::replace_broken_utf8(message.content_text());
    } else {
        text = format_markdown(message.content_text());
    }
    if (is_resent(message)) text = with_prefix(resent_mark, std::move(text));
    const std::shared_ptr<LiveAnswer> live = take_live(message);
    if (live) {
        co_await live->finish(split_text(text), progress);
        co_return;
    }
    std::int64_t reply_to = take_reply_to(message);
    for (FormattedText& part : split_text(text)) {
        OutgoingText outgoing(std::move(part));
        outgoing.reply_to = std::exchange(reply_to, 0);
        outgoing.progress = progress;
        (void)co_await sender_->send(to, std::move(outgoing));
    }
}

/// Sends a file of a workspace as it is. One that may have arrived before is marked.
Task<> Outbox::send_file(Envelope message, ChatTarget to, ProgressPtr progress) {
    Task<std::optional<SentFile>> reading =
        read_sent_file(options_.runtime, message, max_file_bytes);
    std::optional<SentFile> file = co_await std::move(reading);
    if (!file) co_return;
    JsonObject parameters;
    if (is_resent(message)) parameters["caption"] = cubepi::detail::trimmed(resent_mark);
    UploadedFile upload;
    upload.field = "document";
    upload.name = std::move(file->name);
    upload.mime_type = "application/octet-stream";
    upload.bytes = std::move(file->bytes);
    co_await sender_->send_file(to, "sendDocument", std::move(parameters), std::move(upload),
                                std::move(progress));
}

Task<> Outbox::send_media(MediaItem item, ChatTarget to, ProgressPtr progress) {
    FileUpload upload = co_await file_upload(std::move(item));
    if (!upload.problem.empty()) {
        FormattedText note;
        note.text = upload.problem;
        OutgoingText outgoing(std::move(note));
        outgoing.progress = progress;
        (void)co_await sender_->send(to, std::move(outgoing));
        co_return;
    }
    co_await sender_->send_file(to, std::move(upload.method), std::move(upload.parameters),
                                std::move(upload.file), std::move(progress));
}

}  // namespace bub::telegram
