#include <bub/channel/telegram/message_sender.hpp>

#include <algorithm>
#include <chrono>

#include <cubepi/core/cancellation.hpp>
#include <cubepi/core/outcome.hpp>
#include <cubepi/core/support/json_member.hpp>
#include <cubepi/core/support/trimmed.hpp>

namespace bub::telegram {

namespace {

using cubepi::Outcome;
using cubepi::outcome_of;

constexpr std::chrono::seconds longest_delay{60};

/// Telegram documents about one message per second in a chat, 20 per minute in a group, 30 per second in all
/// (https://core.telegram.org/bots/faq).
constexpr shared::Rate rate_of_chat{std::chrono::seconds(1), 3};
constexpr shared::Rate rate_of_group{std::chrono::seconds(4), 5};
constexpr shared::Rate rate_of_all{std::chrono::milliseconds(67), 15};

shared::Rate rate_of(ChatTarget to) { return to.chat < 0 ? rate_of_group : rate_of_chat; }

void address(JsonObject& parameters, ChatTarget to) {
    parameters["chat_id"] = to.chat;
    if (to.thread != 0) parameters["message_thread_id"] = to.thread;
}

void add_keyboard(JsonObject& parameters, const shared::Buttons& buttons) {
    JsonArray rows;
    for (const std::vector<shared::Button>& row : buttons) {
        JsonArray& made = rows.emplace_back(JsonArray()).get_array();
        for (const shared::Button& one : row)
            made.push_back(JsonObject{{"text", one.label}, {"callback_data", one.data}});
    }
    parameters["reply_markup"] = JsonObject{{"inline_keyboard", std::move(rows)}};
}

JsonObject text_parameters(const OutgoingText& message) {
    JsonObject parameters;
    parameters["text"] = message.text.text;
    if (!message.text.entities.empty()) parameters["entities"] = to_json(message.text.entities);
    JsonObject preview;
    preview["is_disabled"] = true;
    parameters["link_preview_options"] = std::move(preview);
    if (!message.keyboard.empty()) add_keyboard(parameters, message.keyboard);
    if (message.reply_to != 0) {
        // A user may have deleted the message.
        parameters["reply_parameters"] =
            JsonObject{{"message_id", message.reply_to}, {"allow_sending_without_reply", true}};
    }
    return parameters;
}

JsonObject edit_parameters(ChatTarget in, std::int64_t message_id, const OutgoingText& message) {
    JsonObject parameters = text_parameters(message);
    parameters["chat_id"] = in.chat;
    parameters["message_id"] = message_id;
    return parameters;
}

std::int64_t id_of(const Json& message) {
    const JsonObject* const object = message.if_object();
    return object ? cubepi::detail::integer_member(*object, "message_id").value_or(0) : 0;
}

bool is_unmodified(const ApiFailure& failure) {
    return failure.status == 400 && failure.mentions("message is not modified");
}

bool is_gone(const ApiFailure& failure) {
    return failure.status == 400 &&
           (failure.mentions("message to edit not found") ||
            failure.mentions("message can't be edited") || failure.mentions("MESSAGE_ID_INVALID"));
}

/// Puts the mark into a call that is sent again. Returns false if the text would be too long.
bool mark(JsonObject& parameters) {
    if (Json* text = parameters.if_contains("text")) {
        std::string marked = std::string(resent_mark) + std::string(text->get_string());
        if (utf16_length(marked) > max_message_units) return false;
        *text = std::move(marked);
        if (Json* entities = parameters.if_contains("entities")) {
            for (Json& entity : entities->get_array())
                entity.as_object()["offset"] = entity.at("offset").to_number<std::int64_t>() +
                                               static_cast<std::int64_t>(resent_mark.size());
        }
    } else {
        const std::string caption = cubepi::detail::text_member(parameters, "caption");
        parameters["caption"] = std::string(resent_mark) + caption;
    }
    return true;
}

std::chrono::nanoseconds backoff(int failures) {
    return std::min<std::chrono::nanoseconds>(longest_delay,
                                              std::chrono::seconds(1 << std::min(failures, 6)));
}

}  // namespace

MessageSender::MessageSender(std::shared_ptr<const TelegramApi> api, cubepi::Clock& clock,
                             OnTrouble on_trouble, shared::RateLimiter::CountSenders count_senders)
    : api_(std::move(api)),
      clock_(clock),
      limiter_(clock, rate_of_all, std::move(count_senders)),
      on_trouble_(std::move(on_trouble)) {}

FormattedText with_prefix(std::string_view prefix, FormattedText text) {
    const std::size_t units = utf16_length(prefix);
    text.text.insert(0, prefix);
    for (Entity& entity : text.entities) entity.offset += units;
    return text;
}

Task<Json> MessageSender::call_once(std::shared_ptr<const RepeatedCall> repeated) const {
    if (repeated->is_announced) {
        JsonObject notice;
        notice["text"] = cubepi::detail::trimmed(resent_mark);
        address(notice, repeated->to);
        return api_->call("sendMessage", std::move(notice));
    }
    if (repeated->file)
        return api_->upload(repeated->method, repeated->parameters, *repeated->file);
    return api_->call(repeated->method, repeated->parameters);
}

void MessageSender::report(const std::exception_ptr& failure) {
    const bool in_trouble = failure != nullptr;
    if (in_trouble == in_trouble_) return;
    in_trouble_ = in_trouble;
    if (on_trouble_) on_trouble_(in_trouble ? cubepi::exception_text(failure) : std::string());
}

void MessageSender::note_pause(ChatTarget chat, const std::exception_ptr& failure) {
    const std::optional<ApiFailure> details = api_failure(failure);
    if (details && details->retry_after)
        limiter_.pause(std::to_string(chat.chat), rate_of(chat), *details->retry_after);
}

/// Changes a rejected call so that it may succeed. Returns false if there is no way.
bool MessageSender::adapt(RepeatedCall& repeated, const ApiFailure& failure) const {
    JsonObject& parameters = repeated.parameters;
    if (failure.migrated_to && repeated.to.chat != *failure.migrated_to) {
        repeated.to.chat = *failure.migrated_to;
        parameters["chat_id"] = repeated.to.chat;
        return true;
    }
    if (failure.status != 400) return false;
    // The text is worth more than its formats.
    if (parameters.contains("entities") && failure.mentions("entit")) {
        parameters.erase("entities");
        return true;
    }
    if (parameters.contains("message_thread_id") && failure.mentions("thread not found")) {
        parameters.erase("message_thread_id");
        return true;
    }
    return false;
}

std::chrono::nanoseconds MessageSender::prepare_retry(RepeatedCall& repeated,
                                                      const std::exception_ptr& failure) {
    const std::optional<ApiFailure> details = api_failure(failure);
    if (!details) std::rethrow_exception(failure);
    if (!details->is_transient()) {
        report(nullptr);
        if (!adapt(repeated, *details)) std::rethrow_exception(failure);
        return std::chrono::nanoseconds::zero();
    }
    if (details->is_unsettled && !repeated.is_repeatable &&
        !std::exchange(repeated.is_marked, true))
        repeated.is_announced = !mark(repeated.parameters);
    if (details->status == 429) {
        note_pause(repeated.to, failure);
        return std::chrono::nanoseconds::zero();
    }
    report(failure);
    return backoff(repeated.failures++);
}

/// Waits until a request may be made, and records that one is made.
Task<> MessageSender::wait_for_turn(std::shared_ptr<const RepeatedCall> repeated) {
    const std::shared_ptr<SendProgress> progress = repeated->progress;
    const std::string chat = std::to_string(repeated->to.chat);
    const shared::Rate rate = rate_of(repeated->to);
    if (progress && limiter_.must_wait(chat, rate)) co_await progress->wait();
    co_await limiter_.acquire(chat, rate);
    for (int failures = 0; progress; ++failures) {
        if (co_await progress->begin()) break;
        co_await clock_.sleep_for(backoff(failures));
    }
}

Task<Json> MessageSender::deliver(std::shared_ptr<RepeatedCall> repeated) {
    while (true) {
        co_await wait_for_turn(repeated);
        Task<Json> calling = call_once(repeated);
        Outcome<Json> answer = co_await outcome_of(std::move(calling));
        if (answer) report(nullptr);
        if (answer && std::exchange(repeated->is_announced, false)) continue;
        if (answer) co_return std::move(answer).value();
        if (answer.cancelled()) answer.rethrow();
        const std::optional<ApiFailure> details = api_failure(answer.failure());
        const std::shared_ptr<SendProgress> progress = repeated->progress;
        if (progress && details && !details->is_unsettled) progress->was_not_sent();
        const std::chrono::nanoseconds delay = prepare_retry(*repeated, answer.failure());
        if (delay.count() == 0) continue;
        if (progress) co_await progress->wait();
        co_await clock_.sleep_for(delay);
    }
}

Task<std::int64_t> MessageSender::send(ChatTarget to, OutgoingText message) {
    auto repeated = std::make_shared<RepeatedCall>();
    repeated->to = to;
    repeated->method = "sendMessage";
    repeated->parameters = text_parameters(message);
    address(repeated->parameters, to);
    repeated->progress = std::move(message.progress);
    const Json sent = co_await deliver(std::move(repeated));
    co_return id_of(sent);
}

Task<> MessageSender::send_file(ChatTarget to, std::string method, JsonObject parameters,
                                UploadedFile file, std::shared_ptr<SendProgress> progress) {
    auto repeated = std::make_shared<RepeatedCall>();
    repeated->to = to;
    repeated->method = std::move(method);
    repeated->parameters = std::move(parameters);
    address(repeated->parameters, to);
    repeated->progress = std::move(progress);
    if (!file.field.empty()) repeated->file = std::make_shared<const UploadedFile>(std::move(file));
    (void)co_await deliver(std::move(repeated));
}

Task<bool> MessageSender::edit(ChatTarget in, std::int64_t message_id, OutgoingText message) {
    auto repeated = std::make_shared<RepeatedCall>();
    repeated->to = in;
    repeated->method = "editMessageText";
    repeated->parameters = edit_parameters(in, message_id, message);
    repeated->progress = std::move(message.progress);
    repeated->is_repeatable = true;
    Task<Json> delivering = deliver(std::move(repeated));
    const Outcome<Json> edited = co_await outcome_of(std::move(delivering));
    if (edited) co_return true;
    const std::optional<ApiFailure> failure = api_failure(edited.failure());
    if (failure && is_unmodified(*failure)) co_return true;
    if (!failure || !is_gone(*failure)) edited.rethrow();
    co_return false;
}

Task<std::int64_t> MessageSender::try_send(ChatTarget to, OutgoingText message) {
    if (!limiter_.try_acquire(std::to_string(to.chat), rate_of(to))) co_return 0;
    JsonObject parameters = text_parameters(message);
    address(parameters, to);
    Task<Json> calling = api_->call("sendMessage", std::move(parameters));
    Outcome<Json> sent = co_await outcome_of(std::move(calling));
    if (!sent) note_pause(to, sent.failure());
    co_return id_of(sent.value());
}

Task<bool> MessageSender::try_edit(ChatTarget in, std::int64_t message_id, OutgoingText message) {
    if (!limiter_.try_acquire(std::to_string(in.chat), rate_of(in))) co_return false;
    JsonObject parameters = edit_parameters(in, message_id, message);
    Task<Json> calling = api_->call("editMessageText", std::move(parameters));
    const Outcome<Json> edited = co_await outcome_of(std::move(calling));
    if (edited) co_return true;
    note_pause(in, edited.failure());
    const std::optional<ApiFailure> failure = api_failure(edited.failure());
    if (!failure || !is_unmodified(*failure)) edited.rethrow();
    co_return true;
}

Task<> MessageSender::try_delete(ChatTarget in, std::int64_t message_id) {
    JsonObject parameters;
    parameters["chat_id"] = in.chat;
    parameters["message_id"] = message_id;
    return ignore_result(try_call(api_, "deleteMessage", std::move(parameters)));
}

Task<> show_buttons(std::shared_ptr<const TelegramApi> api, SentCard in, shared::Buttons buttons) {
    JsonObject parameters;
    parameters["chat_id"] = in.chat;
    parameters["message_id"] = in.id;
    add_keyboard(parameters, buttons);
    return ignore_result(try_call(std::move(api), "editMessageReplyMarkup", std::move(parameters)));
}

}  // namespace bub::telegram
