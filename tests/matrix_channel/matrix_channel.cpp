#include "matrix_channel.hpp"

#include <algorithm>
#include <array>
#include <exception>
#include <string_view>
#include <utility>

#include <cubepi/core/error.hpp>
#include <cubepi/core/http_transport.hpp>
#include <cubepi/core/outcome.hpp>
#include <cubepi/net/http_client.hpp>

namespace matrix {

namespace {

using cubepi::Error;
using cubepi::ErrorCode;
using cubepi::HttpRequest;
using cubepi::HttpResponse;
using cubepi::Outcome;
using cubepi::outcome_of;

// words: allowed, the terms of Matrix
constexpr std::string_view chats_key = "rooms";
constexpr std::string_view message_type = "m.room.message";

constexpr std::chrono::seconds poll_time{30};
constexpr std::size_t max_answer_bytes = 16 << 20;
/// An event has at most 65,536 bytes; a character of the text may need six of them in JSON.
constexpr std::size_t longest_text = 10'000;

const JsonObject& object_at(const JsonObject& parent, std::string_view key) {
    static const JsonObject none;
    const Json* const value = parent.if_contains(key);
    const JsonObject* const object = value ? value->if_object() : nullptr;
    return object ? *object : none;
}

std::string text_at(const JsonObject& parent, std::string_view key) {
    const Json* const value = parent.if_contains(key);
    return value && value->is_string() ? std::string(value->get_string()) : std::string();
}

ErrorCode code_of(int status) {
    switch (status) {
        case 401: return ErrorCode::auth;
        case 404: return ErrorCode::not_found;
        case 429: return ErrorCode::rate_limited;
        default: return status >= 500 ? ErrorCode::unavailable : ErrorCode::invalid_argument;
    }
}

/// The failures that another request may not have.
bool may_pass(const std::exception_ptr& failure) {
    try {
        std::rethrow_exception(failure);
    } catch (const Error& error) {
        constexpr std::array lasting{ErrorCode::auth, ErrorCode::not_found,
                                     ErrorCode::invalid_argument, ErrorCode::too_large};
        return std::find(lasting.begin(), lasting.end(), error.code()) == lasting.end();
    } catch (...) {
        return false;
    }
}

/// The message was rejected, as opposed to not stored (docs/guides/bub/adding-a-channel.md).
bool is_rejection(const std::exception_ptr& failure) {
    try {
        std::rethrow_exception(failure);
    } catch (const Error& error) {
        constexpr std::array later{ErrorCode::invalid_state,  ErrorCode::unavailable,
                                   ErrorCode::not_found,      ErrorCode::storage,
                                   ErrorCode::storage_locked, ErrorCode::io};
        return std::find(later.begin(), later.end(), error.code()) == later.end();
    } catch (...) {
        return false;
    }
}

std::string chat_path(const std::string& id) {
    return std::string(chats_key) + "/" + path_part(id);
}

}  // namespace

std::string path_part(const std::string& text) {
    constexpr std::string_view plain =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~";
    constexpr std::string_view digits = "0123456789ABCDEF";
    std::string part;
    for (const char c : text) {
        const auto byte = static_cast<unsigned char>(c);
        if (plain.find(c) != std::string_view::npos) {
            part += c;
        } else {
            part += {'%', digits[byte >> 4U], digits[byte & 15U]};
        }
    }
    return part;
}

Task<JsonObject> Homeserver::call(std::string method, std::string path, JsonObject body,
                                  std::chrono::seconds limit) const {
    HttpRequest request(std::move(method), url_ + "/_matrix/client/v3/" + path);
    request.headers.set("authorization", "Bearer " + token_);
    if (request.method != "GET") {
        request.headers.set("content-type", "application/json");
        request.body = boost::json::serialize(body);
    }
    request.timeouts.first_byte = limit;
    request.timeouts.total = 2 * limit;
    request.max_response_bytes = max_answer_bytes;
    const std::shared_ptr<cubepi::HttpTransport> transport = cubepi::transport_of(*runtime_);
    Task<HttpResponse> sending = transport->send(std::move(request));
    const HttpResponse response = co_await std::move(sending);
    std::string text;
    for (bool more = true; more;) more = co_await response.body->read(text);
    boost::system::error_code failed;
    const Json answer = boost::json::parse(text, failed);
    JsonObject members = !failed && answer.is_object() ? answer.get_object() : JsonObject();
    if (response.status == 200 && !failed) co_return members;
    // A server answers errors with {errcode, error}; the token is in neither.
    throw Error(code_of(response.status), "the homeserver answered " +
                                              std::to_string(response.status) + " " +
                                              text_at(members, "errcode"));
}

Task<JsonObject> Homeserver::call_until_answered(std::string method, std::string path,
                                                 JsonObject body) const {
    for (int failures = 0;; ++failures) {
        Outcome<JsonObject> answer = co_await outcome_of(call(method, path, body));
        if (answer) co_return std::move(answer).value();
        if (answer.cancelled() || !may_pass(answer.failure())) answer.rethrow();
        co_await runtime_->clock->sleep_for(std::chrono::seconds(1 << std::min(failures, 5)));
    }
}

MatrixChannel::MatrixChannel(MatrixOptions options, bub::MessageHandler handler)
    : options_(std::move(options)),
      handler_(std::move(handler)),
      server_(options_.homeserver, options_.token, options_.runtime) {}

bool MatrixChannel::is_listed(const std::string& user) const {
    return options_.users.contains(user) || options_.operators.contains(user);
}

Task<> MatrixChannel::prepare() {
    Task<JsonObject> asking = server_.call("GET", "account/whoami");
    const JsonObject answer = co_await std::move(asking);
    self_ = text_at(answer, "user_id");
}

Task<> MatrixChannel::start(std::stop_token stopping) {
    (void)stopping;
    if (self_.empty()) co_await prepare();
    const cubepi::Executor executor = co_await cubepi::this_executor;
    work_ = std::make_unique<cubepi::BackgroundScope>(
        executor, [this](const std::exception_ptr& failure) { warn(failure); });
    work_->spawn(receive());
}

Task<> MatrixChannel::stop() {
    if (work_) co_await work_->close();
}

void MatrixChannel::warn(const std::exception_ptr& failure) const {
    if (options_.on_warning)
        options_.on_warning("matrix: cannot receive messages: " + cubepi::exception_text(failure));
}

Task<> MatrixChannel::receive() {
    co_await find_position();
    for (int failures = 0;;) {
        const Outcome<> synced = co_await outcome_of(sync());
        if (synced) {
            failures = 0;
            continue;
        }
        if (synced.cancelled()) synced.rethrow();
        if (failures == 0) warn(synced.failure());
        const std::chrono::seconds delay(1 << std::min(failures++, 5));
        co_await server_.runtime().clock->sleep_for(delay);
    }
}

/// Messages from before the first start are not answered.
Task<> MatrixChannel::find_position() {
    const std::string path = "user/" + path_part(self_) + "/account_data/cubepi.position";
    Task<JsonObject> reading = server_.call_until_answered("GET", path, JsonObject());
    Outcome<JsonObject> stored = co_await outcome_of(std::move(reading));
    if (stored) {
        position_ = text_at(stored.value(), "since");
        co_return;
    }
    if (stored.cancelled()) stored.rethrow();
    Task<JsonObject> syncing = server_.call_until_answered("GET", "sync?timeout=0", JsonObject());
    const JsonObject now = co_await std::move(syncing);
    co_await store_position(text_at(now, "next_batch"));
}

Task<> MatrixChannel::store_position(std::string position) {
    const std::string path = "user/" + path_part(self_) + "/account_data/cubepi.position";
    JsonObject data{{"since", position}};
    Task<JsonObject> storing = server_.call_until_answered("PUT", path, std::move(data));
    (void)co_await std::move(storing);
    position_ = std::move(position);
}

Task<> MatrixChannel::sync() {
    const std::string path = "sync?timeout=" + std::to_string(poll_time.count() * 1000) +
                             "&since=" + path_part(position_);
    Task<JsonObject> asking =
        server_.call("GET", path, JsonObject(), poll_time + std::chrono::seconds(15));
    const JsonObject news = co_await std::move(asking);
    const JsonObject& chats = object_at(news, chats_key);
    Task<> joining = join_chats(object_at(chats, "invite"));
    co_await std::move(joining);
    for (const auto& [chat, state] : object_at(chats, "join")) {
        const JsonObject* const members = state.if_object();
        if (!members) continue;
        Task<bool> accepting = accept_events(std::string(chat), object_at(*members, "timeline"));
        const bool accepted = co_await std::move(accepting);
        if (!accepted) throw Error(ErrorCode::unavailable, "messages cannot be stored now");
    }
    const std::string next = text_at(news, "next_batch");
    if (next != position_) co_await store_position(next);
}

Task<> MatrixChannel::join_chats(JsonObject invitations) {
    for (const auto& [chat, state] : invitations) {
        const JsonObject* const members = state.if_object();
        const Json* const events =
            members ? object_at(*members, "invite_state").if_contains("events") : nullptr;
        if (!events || !events->is_array()) continue;
        const bub::JsonArray& all = events->get_array();
        const bool is_wanted = std::any_of(all.begin(), all.end(), [this](const Json& event) {
            const JsonObject* const object = event.if_object();
            return object && text_at(*object, "state_key") == self_ &&
                   is_listed(text_at(*object, "sender"));
        });
        if (!is_wanted) continue;
        const std::string path = chat_path(std::string(chat)) + "/join";
        Task<JsonObject> joining = server_.call_until_answered("POST", path, JsonObject());
        (void)co_await std::move(joining);
    }
}

bub::Envelope MatrixChannel::envelope_of(const std::string& chat, const JsonObject& event) const {
    const std::string sender = text_at(event, "sender");
    bub::Envelope message = bub::Envelope(text_at(object_at(event, "content"), "body"));
    message.channel = name_;
    message.chat_id = chat;
    message.inbound_id = text_at(event, "event_id");
    message.is_active = true;
    message.from_operator = options_.operators.contains(sender);
    message.context["sender_id"] = sender;
    return message;
}

Task<bool> MatrixChannel::accept_events(std::string chat, JsonObject timeline) {
    const Json* const events = timeline.if_contains("events");
    if (!events || !events->is_array()) co_return true;
    for (const Json& one : events->get_array()) {
        const JsonObject* const event = one.if_object();
        const bool is_message = event && text_at(*event, "type") == message_type &&
                                text_at(object_at(*event, "content"), "msgtype") == "m.text" &&
                                !text_at(*event, "event_id").empty();
        if (!is_message || !is_listed(text_at(*event, "sender"))) continue;
        Task<bool> accepting = accept(envelope_of(chat, *event));
        const bool accepted = co_await std::move(accepting);
        if (!accepted) co_return false;
    }
    co_return true;
}

Task<bool> MatrixChannel::accept(bub::Envelope message) {
    const Outcome<> passed = co_await outcome_of(handler_(std::move(message)));
    if (passed.cancelled()) passed.rethrow();
    co_return passed || is_rejection(passed.failure());
}

Task<> MatrixChannel::send(bub::Envelope message) {
    std::string text = message.content_text();
    if (message.context.contains("resent")) text = "(sent again) " + text;
    while (!text.empty()) {
        std::size_t end = std::min(text.size(), longest_text);
        while (end < text.size() && (static_cast<unsigned char>(text[end]) & 0xC0U) == 0x80U) --end;
        JsonObject content{{"msgtype", "m.text"}, {"body", text.substr(0, end)}};
        text.erase(0, end);
        // The transaction id makes a repeated request the same message.
        const std::string path = chat_path(message.chat_id.value_or("")) + "/send/" +
                                 std::string(message_type) + "/" + server_.runtime().ids->next();
        Task<JsonObject> sending = server_.call_until_answered("PUT", path, std::move(content));
        (void)co_await std::move(sending);
    }
}

}  // namespace matrix
