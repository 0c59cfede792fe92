#include <bub/channel/http/http_exchange.hpp>

#include <algorithm>
#include <array>
#include <functional>

#include <bub/questions.hpp>
#include <bub/turn_error.hpp>
#include <cubepi/core/cancellation.hpp>
#include <cubepi/core/error.hpp>
#include <cubepi/core/support/random_word.hpp>

namespace bub::detail {

namespace {

using cubepi::Error;
using cubepi::ErrorCode;

constexpr std::size_t longest_name = 200;
/// In the context of a message that names no session.
constexpr std::string_view new_session_key = "_new_session";

[[noreturn]] void refuse(const std::string& reason) { throw Error(ErrorCode::parse, reason); }

std::string new_name() {
    constexpr char digits[] = "0123456789abcdef";
    std::string name;
    for (int words = 0; words < 2; ++words) {
        std::uint64_t word = cubepi::detail::random_word();
        for (int i = 0; i < 16; ++i, word >>= 4U) name += digits[word & 15U];
    }
    return name;
}

std::string text(const JsonObject& object, std::string_view key, std::size_t limit) {
    const Json* value = object.if_contains(key);
    if (!value) return {};
    if (!value->is_string()) refuse("'" + std::string(key) + "' must be a string");
    const std::string_view given = value->get_string();
    if (given.size() > limit)
        refuse("'" + std::string(key) + "' is longer than " + std::to_string(limit) + " bytes");
    return std::string(given);
}

JsonObject body_of(const cubepi::HttpServerRequest& request) {
    boost::system::error_code failed;
    Json body = boost::json::parse(request.body, failed);
    if (failed || !body.is_object()) refuse("the body must be a JSON object with a 'text'");
    constexpr std::array<std::string_view, 6> keys{"session", "text",      "user",
                                                   "context", "answer_to", "answer"};
    for (const auto& member : body.get_object()) {
        if (std::find(keys.begin(), keys.end(), std::string_view(member.key())) == keys.end())
            refuse("unknown member '" + std::string(member.key()) + "'");
    }
    return std::move(body.get_object());
}

}  // namespace

HttpMessage read_message(const cubepi::HttpServerRequest& request,
                         const std::vector<std::string>& operators) {
    const JsonObject body = body_of(request);
    HttpMessage message;
    message.session = text(body, "session", longest_name);
    const bool is_new = message.session.empty();
    if (is_new) message.session = new_name();
    message.key = std::string(request.headers.get("idempotency-key"));
    if (message.key.size() > longest_name) refuse("the Idempotency-Key is longer than 200 bytes");
    if (message.key.empty()) message.key = new_name();
    message.user = text(body, "user", longest_name);

    Envelope& envelope = message.envelope;
    envelope.content = text(body, "text", request.body.size());
    if (const Json* context = body.if_contains("context")) {
        if (!context->is_object()) refuse("'context' must be an object");
        envelope.context = context->get_object();
    }
    // Identities come from the program that has the token, not from what it forwards.
    envelope.context.erase("sender_id");
    envelope.context.erase("private_chat");
    envelope.context.erase(new_session_key);
    if (is_new) envelope.context[new_session_key] = true;
    if (!message.user.empty()) envelope.context["sender_id"] = message.user;
    const std::string question = text(body, "answer_to", longest_name);
    if (!question.empty()) {
        envelope.rest[answer_to_key] = question;
        if (const Json* answer = body.if_contains("answer")) envelope.rest[answer_key] = *answer;
    } else if (envelope.content_text().empty()) {
        refuse("the message has no 'text'");
    }
    envelope.chat_id = message.session;
    envelope.inbound_id = message.key;
    envelope.is_active = true;
    envelope.from_operator = !message.user.empty() && std::find(operators.begin(), operators.end(),
                                                                message.user) != operators.end();
    return message;
}

std::size_t request_of(const Envelope& message) {
    JsonObject parts;
    parts["context"] = message.context;
    // The manager adds it.
    parts["context"].as_object().erase("redelivered");
    // The name of a new session is chosen for each request.
    if (!message.context.contains(new_session_key)) parts["session"] = message.chat_id.value_or("");
    parts["text"] = message.content_text();
    for (const std::string_view key : {answer_to_key, answer_key})
        if (const Json* value = message.rest.if_contains(key)) parts[key] = *value;
    return std::hash<std::string>()(boost::json::serialize(parts));
}

void HttpExchange::begin() {
    // The turn of a message that was kept until a question was answered begins a second time.
    outputs_.clear();
    text_.clear();
    error_.clear();
    done_ = false;
}

void HttpExchange::end(const std::exception_ptr& failure) {
    if (failure) {
        error_ = cubepi::is_cancellation(failure) ? "the turn was ended before it was complete"
                                                  : describe(failure);
    }
    done_ = true;
    changed_.pulse();
}

void HttpExchange::refuse(Refusal refusal) {
    error_ = refusal.text;
    refusal_ = std::move(refusal);
    done_ = true;
    changed_.pulse();
}

void HttpExchange::add_output(const Envelope& message) {
    JsonObject output;
    output["kind"] = message.kind.value_or(std::string(envelope_kind::normal));
    output["text"] = message.content_text();
    if (const Json* question = message.rest.if_contains(question_key))
        output["question"] = *question;
    if (message.context.contains("resent")) output["resent"] = true;
    outputs_.push_back(std::move(output));
    changed_.pulse();
}

void HttpExchange::add_text(std::string_view text, std::size_t limit) {
    if (!streaming || text_.size() + text.size() > limit) return;
    text_ += text;
    changed_.pulse();
}

std::shared_ptr<HttpExchange> HttpExchanges::find(const std::string& key) const {
    const auto found = exchanges_.find(key);
    return found == exchanges_.end() ? nullptr : found->second;
}

std::shared_ptr<HttpExchange> HttpExchanges::add(const Envelope& message) {
    const std::string key = message.inbound_id.value_or("");
    auto exchange =
        std::make_shared<HttpExchange>(key, message.chat_id.value_or(""), request_of(message));
    exchanges_[key] = exchange;
    return exchange;
}

void HttpExchanges::refuse(const std::shared_ptr<HttpExchange>& exchange,
                           HttpExchange::Refusal refusal) {
    exchange->refuse(std::move(refusal));
    exchanges_.erase(exchange->key());
}

std::shared_ptr<HttpExchange> HttpExchanges::current(const std::string& chat) const {
    const auto found = current_.find(chat);
    return found == current_.end() ? nullptr : found->second;
}

void HttpExchanges::begin_turn(const std::shared_ptr<HttpExchange>& exchange) {
    exchange->begin();
    current_[exchange->chat()] = exchange;
}

void HttpExchanges::end_turn(const std::shared_ptr<HttpExchange>& exchange,
                             const std::exception_ptr& failure) {
    exchange->end(failure);
    const auto found = current_.find(exchange->chat());
    if (found != current_.end() && found->second == exchange) current_.erase(found);
    if (exchange->key().empty()) return;
    ended_.push_back(exchange->key());
    while (ended_.size() > remembered_) {
        const std::shared_ptr<HttpExchange> oldest = find(ended_.front());
        if (oldest && oldest->done()) exchanges_.erase(ended_.front());
        ended_.pop_front();
    }
}

void HttpExchanges::wake_all() {
    for (const auto& [key, exchange] : exchanges_) exchange->wake();
}

}  // namespace bub::detail
