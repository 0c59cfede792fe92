#include <bub/channel/http/http_message.hpp>

#include <algorithm>
#include <array>
#include <string_view>

#include <bub/input_id.hpp>
#include <bub/questions.hpp>
#include <cubepi/core/error.hpp>
#include <cubepi/core/support/random_word.hpp>

namespace bub::detail {

namespace {

using cubepi::Error;
using cubepi::ErrorCode;

constexpr std::size_t longest_name = 200;

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
    if (message.session.empty()) message.session = new_name();
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

}  // namespace bub::detail
