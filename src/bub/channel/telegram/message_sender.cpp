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

/// Beyond this number, chats without recent messages are forgotten.
constexpr std::size_t max_chats = 4096;

constexpr std::chrono::seconds longest_delay{60};

void address(JsonObject& parameters, ChatTarget to) {
    parameters["chat_id"] = to.chat;
    if (to.thread != 0) parameters["message_thread_id"] = to.thread;
}

void add_keyboard(JsonObject& parameters, const JsonArray& keyboard) {
    JsonObject markup;
    markup["inline_keyboard"] = keyboard;
    parameters["reply_markup"] = std::move(markup);
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

RateLimiter::TimePoint RateLimiter::reserve(TimePoint& due, const Rate& rate, TimePoint now) {
    const TimePoint at = std::max(now, earliest(due, rate));
    due = std::max(due, now) + rate.interval;
    return at;
}

RateLimiter::TimePoint& RateLimiter::bucket(std::int64_t chat) {
    if (chats_.size() >= max_chats) forget_idle(clock_.now());
    return chats_[chat];
}

void RateLimiter::forget_idle(TimePoint now) {
    std::erase_if(chats_, [now](const auto& entry) { return entry.second <= now; });
}

Task<> RateLimiter::acquire(std::int64_t chat) {
    const TimePoint at = reserve(bucket(chat), rate_of(chat), clock_.now());
    if (at > clock_.now()) co_await clock_.sleep_until(at);
    const TimePoint of_all = reserve(all_, limits_.all, clock_.now());
    if (of_all > clock_.now()) co_await clock_.sleep_until(of_all);
}

bool RateLimiter::must_wait(std::int64_t chat) {
    const TimePoint now = clock_.now();
    return earliest(bucket(chat), rate_of(chat)) > now || earliest(all_, limits_.all) > now;
}

bool RateLimiter::try_acquire(std::int64_t chat) {
    if (must_wait(chat)) return false;
    const TimePoint now = clock_.now();
    (void)reserve(bucket(chat), rate_of(chat), now);
    (void)reserve(all_, limits_.all, now);
    return true;
}

void RateLimiter::pause(std::int64_t chat, std::chrono::nanoseconds delay) {
    const Rate& rate = rate_of(chat);
    TimePoint& due = bucket(chat);
    due = std::max(due, clock_.now() + delay + rate.interval * (rate.burst - 1));
}

FormattedText with_prefix(std::string_view prefix, FormattedText text) {
    const std::size_t units = utf16_length(prefix);
    text.text.insert(0, prefix);
    for (Entity& entity : text.entities) entity.offset += units;
    return text;
}

Task<Json> MessageSender::call_once(std::shared_ptr<const Attempt> attempt) const {
    if (attempt->is_announced) {
        JsonObject notice;
        notice["text"] = cubepi::detail::trimmed(resent_mark);
        address(notice, attempt->to);
        return api_->call("sendMessage", std::move(notice));
    }
    if (attempt->file) return api_->upload(attempt->method, attempt->parameters, *attempt->file);
    return api_->call(attempt->method, attempt->parameters);
}

void MessageSender::report(const std::exception_ptr& failure) {
    const bool in_trouble = failure != nullptr;
    if (in_trouble == in_trouble_) return;
    in_trouble_ = in_trouble;
    if (on_trouble_) on_trouble_(in_trouble ? cubepi::exception_text(failure) : std::string());
}

void MessageSender::note_pause(ChatTarget chat, const std::exception_ptr& failure) {
    const std::optional<ApiFailure> details = api_failure(failure);
    if (details && details->retry_after) limiter_.pause(chat.chat, *details->retry_after);
}

/// Changes a rejected call so that it may succeed. Returns false if there is no way.
bool MessageSender::adapt(Attempt& attempt, const ApiFailure& failure) const {
    JsonObject& parameters = attempt.parameters;
    if (failure.migrated_to && attempt.to.chat != *failure.migrated_to) {
        attempt.to.chat = *failure.migrated_to;
        parameters["chat_id"] = attempt.to.chat;
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

std::chrono::nanoseconds MessageSender::prepare_retry(Attempt& attempt,
                                                      const std::exception_ptr& failure) {
    const std::optional<ApiFailure> details = api_failure(failure);
    if (!details) std::rethrow_exception(failure);
    if (!details->is_transient()) {
        report(nullptr);
        if (!adapt(attempt, *details)) std::rethrow_exception(failure);
        return std::chrono::nanoseconds::zero();
    }
    if (details->is_unsettled && !attempt.is_repeatable && !std::exchange(attempt.is_marked, true))
        attempt.is_announced = !mark(attempt.parameters);
    if (details->status == 429) {
        note_pause(attempt.to, failure);
        return std::chrono::nanoseconds::zero();
    }
    report(failure);
    return backoff(attempt.failures++);
}

/// Waits until a request may be made, and records that one is made.
Task<> MessageSender::wait_for_turn(std::shared_ptr<const Attempt> attempt) {
    const std::shared_ptr<SendProgress> progress = attempt->progress;
    if (progress && limiter_.must_wait(attempt->to.chat)) co_await progress->wait();
    co_await limiter_.acquire(attempt->to.chat);
    for (int failures = 0; progress; ++failures) {
        if (co_await progress->begin()) break;
        co_await clock_.sleep_for(backoff(failures));
    }
}

Task<Json> MessageSender::deliver(std::shared_ptr<Attempt> attempt) {
    while (true) {
        co_await wait_for_turn(attempt);
        Task<Json> calling = call_once(attempt);
        Outcome<Json> answer = co_await outcome_of(std::move(calling));
        if (answer) report(nullptr);
        if (answer && std::exchange(attempt->is_announced, false)) continue;
        if (answer) co_return std::move(answer).value();
        if (answer.cancelled()) answer.rethrow();
        const std::optional<ApiFailure> details = api_failure(answer.failure());
        const std::shared_ptr<SendProgress> progress = attempt->progress;
        if (progress && details && !details->is_unsettled) progress->was_not_sent();
        const std::chrono::nanoseconds delay = prepare_retry(*attempt, answer.failure());
        if (delay.count() == 0) continue;
        if (progress) co_await progress->wait();
        co_await clock_.sleep_for(delay);
    }
}

Task<std::int64_t> MessageSender::send(ChatTarget to, OutgoingText message) {
    auto attempt = std::make_shared<Attempt>();
    attempt->to = to;
    attempt->method = "sendMessage";
    attempt->parameters = text_parameters(message);
    address(attempt->parameters, to);
    attempt->progress = std::move(message.progress);
    const Json sent = co_await deliver(std::move(attempt));
    co_return id_of(sent);
}

Task<> MessageSender::send_file(ChatTarget to, std::string method, JsonObject parameters,
                                UploadedFile file, std::shared_ptr<SendProgress> progress) {
    auto attempt = std::make_shared<Attempt>();
    attempt->to = to;
    attempt->method = std::move(method);
    attempt->parameters = std::move(parameters);
    address(attempt->parameters, to);
    attempt->progress = std::move(progress);
    if (!file.field.empty()) attempt->file = std::make_shared<const UploadedFile>(std::move(file));
    (void)co_await deliver(std::move(attempt));
}

Task<bool> MessageSender::edit(ChatTarget in, std::int64_t message_id, OutgoingText message) {
    auto attempt = std::make_shared<Attempt>();
    attempt->to = in;
    attempt->method = "editMessageText";
    attempt->parameters = edit_parameters(in, message_id, message);
    attempt->is_repeatable = true;
    Task<Json> delivering = deliver(std::move(attempt));
    const Outcome<Json> edited = co_await outcome_of(std::move(delivering));
    if (edited) co_return true;
    const std::optional<ApiFailure> failure = api_failure(edited.failure());
    if (failure && is_unmodified(*failure)) co_return true;
    if (!failure || !is_gone(*failure)) edited.rethrow();
    co_return false;
}

Task<std::int64_t> MessageSender::try_send(ChatTarget to, OutgoingText message) {
    if (!limiter_.try_acquire(to.chat)) co_return 0;
    JsonObject parameters = text_parameters(message);
    address(parameters, to);
    Task<Json> calling = api_->call("sendMessage", std::move(parameters));
    Outcome<Json> sent = co_await outcome_of(std::move(calling));
    if (!sent) note_pause(to, sent.failure());
    co_return id_of(sent.value());
}

Task<bool> MessageSender::try_edit(ChatTarget in, std::int64_t message_id, OutgoingText message) {
    if (!limiter_.try_acquire(in.chat)) co_return false;
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
    Task<Json> calling = api_->call("deleteMessage", std::move(parameters));
    const Outcome<Json> deleted = co_await outcome_of(std::move(calling));
    if (deleted.cancelled()) deleted.rethrow();
}

Task<> MessageSender::try_set_buttons(ChatTarget in, std::int64_t message_id, JsonArray keyboard) {
    JsonObject parameters;
    parameters["chat_id"] = in.chat;
    parameters["message_id"] = message_id;
    add_keyboard(parameters, keyboard);
    Task<Json> calling = api_->call("editMessageReplyMarkup", std::move(parameters));
    const Outcome<Json> edited = co_await outcome_of(std::move(calling));
    if (edited.cancelled()) edited.rethrow();
}

}  // namespace bub::telegram
