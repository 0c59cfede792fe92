#include <algorithm>
#include <iterator>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <bub/channel.hpp>
#include <bub/channel/channel_manager.hpp>
#include <bub/channel/debounce.hpp>
#include <bub/channel/http_channel.hpp>
#include <bub/framework.hpp>
#include <cubepi/core/error.hpp>
#include <cubepi/core/outcome.hpp>
#include <cubepi/core/runtime.hpp>
#include <cubepi/core/support/digest.hpp>

#include "../failure.hpp"
#include "console_channel.hpp"
#include "gateway_api.hpp"
#include "gateway_instance.hpp"
#include "typed_messages.hpp"

// Messages that operators write into sessions.

namespace cubepi::app {

namespace {

constexpr std::size_t longest_key = 64;
constexpr std::size_t longest_session = 200;

Error unknown_session(const std::string& session) {
    return Error(ErrorCode::not_found, "no session '" + session +
                                           "' is known to this gateway; a new one is begun with " +
                                           "POST /v1/admin/sessions");
}

void check_key(const std::string& key) {
    const bool is_word = std::all_of(key.begin(), key.end(), [](char c) {
        return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
               c == '-';
    });
    if (is_word && key.size() <= longest_key) return;
    throw Error(
        ErrorCode::invalid_argument,
        "'key' must have at most " + std::to_string(longest_key) + " letters, digits and '-'");
}

std::vector<bub::MediaItem> files_of(std::vector<JsonObject> files) {
    JsonArray list;
    for (JsonObject& file : files) list.emplace_back(std::move(file));
    JsonObject body;
    if (!list.empty()) body["files"] = std::move(list);
    try {
        return bub::message_files(body);
    } catch (const Error& error) {
        throw Error(ErrorCode::invalid_argument, error.what());
    }
}

/// Returns the message without an address. `pictures` are those that its text names.
bub::Envelope envelope_of(MessageArguments given, std::vector<bub::MediaItem> pictures) {
    check_key(given.key);
    bub::Envelope message;
    message.media = files_of(std::move(given.files));
    std::move(pictures.begin(), pictures.end(), std::back_inserter(message.media));
    message.content = std::move(given.text);
    const bool is_blank = message.content->find_first_not_of(" \t\r\n") == std::string::npos;
    if (is_blank && message.media.empty())
        throw Error(ErrorCode::invalid_argument, "the message has neither a text nor files");
    message.from_operator = true;
    message.is_active = true;
    // A repeated request is the same message (B18).
    if (given.key.empty()) given.key = Runtime::standard()->ids->next();
    message.inbound_id = "console-" + given.key;
    // A command is a turn of its own, and a turn in progress takes no files.
    if (given.steer && message.media.empty() && bub::is_prompt(message))
        message.rest[ConsoleChannel::steer_key] = true;
    return message;
}

bool serves(const std::vector<std::shared_ptr<bub::Channel>>& channels, std::string_view name) {
    return std::any_of(channels.begin(), channels.end(),
                       [name](const auto& one) { return one->name() == name; });
}

/// Addresses the message to a session: through its channel, whose users then read the answer. If the channel is not served, the answer
/// is only in the history.
Task<bub::Envelope> address(std::shared_ptr<GatewayInstance> instance, bub::Envelope message,
                            std::string session, std::string user) {
    const auto channels = co_await instance->manager().enabled_channels();
    if (!serves(channels, ConsoleChannel::channel_name))
        throw Error(ErrorCode::invalid_state,
                    "messages of operators need the channel console: set gateway.console to true, "
                    "and do not exclude it from gateway.channels");
    const std::size_t colon = session.find(':');
    const std::string channel = session.substr(0, colon);
    const std::string chat = colon == std::string::npos ? "" : session.substr(colon + 1);
    message.session_id = session;
    message.channel = std::string(ConsoleChannel::channel_name);
    message.chat_id = chat;
    message.context["sender_id"] = user;
    if (channel == ConsoleChannel::channel_name || chat.empty() || !serves(channels, channel))
        co_return message;
    auto of_channel = std::make_shared<bub::Envelope>();
    of_channel->channel = channel;
    of_channel->chat_id = chat;
    const std::string resolved = co_await instance->framework().resolve_session(of_channel);
    // A hook names the sessions of this channel, so that the chat is unknown.
    if (resolved != session) co_return message;
    message.channel = channel;
    // Rules for a user of the channel must not hold for an operator of that name.
    message.context["sender_id"] = user + " (console)";
    co_return message;
}

}  // namespace

Task<SentMessage> GatewayApi::begin(MessageArguments first, GatewayCaller caller) {
    if (first.key.empty()) first.key = Runtime::standard()->ids->next();
    // A repeated request is a message of the same session.
    const std::string word = detail::sha256_hex(caller.name + "\n" + first.key);
    first.id = gateway_.instance()->new_session_id(word);
    Task<SentMessage> sending = deliver(std::move(first), std::move(caller));
    SentMessage sent = co_await std::move(sending);
    co_return sent;
}

Task<SentMessage> GatewayApi::send(MessageArguments message, GatewayCaller caller) {
    const bool is_agent = message.id.find("/agent/") != std::string::npos ||
                          message.id.find("/call/") != std::string::npos ||
                          message.id.starts_with("temp/");
    if (is_agent || message.id.size() > longest_session)
        throw Error(ErrorCode::invalid_argument,
                    "a session of a sub-agent, or one that is not stored, takes no messages");
    const std::string id = message.id;
    const bool is_known = co_await knows_session(id);
    if (!is_known) throw unknown_session(id);
    Task<SentMessage> sending = deliver(std::move(message), std::move(caller));
    SentMessage sent = co_await std::move(sending);
    co_return sent;
}

Task<SentMessage> GatewayApi::deliver(MessageArguments given, GatewayCaller caller) {
    const std::shared_ptr<GatewayInstance> instance = gateway_.instance();
    SentMessage sent;
    sent.session = given.id;
    TypedMessage typed;
    if (given.typed) {
        Task<TypedMessage> reading = read_typed(instance, given.id, std::move(given.text));
        typed = co_await std::move(reading);
        given.text = std::move(typed.text);
    }
    if (!typed.attached.empty()) sent.attached = std::move(typed.attached);
    bub::Envelope unaddressed = envelope_of(std::move(given), std::move(typed.media));
    Task<bub::Envelope> addressing =
        address(instance, std::move(unaddressed), sent.session, caller.name);
    bub::Envelope message = co_await std::move(addressing);
    sent.message = *message.inbound_id;
    sent.channel = *message.channel;
    Task<> receiving = instance->manager().receive(std::move(message));
    const Outcome<> received = co_await outcome_of(std::move(receiving));
    if (received) co_return sent;
    if (received.cancelled()) received.rethrow();
    try {
        received.rethrow();
    } catch (const Error& error) {
        if (error.code() == ErrorCode::limit) throw;
    } catch (...) {
        // A hook has failed.
    }
    throw Error(ErrorCode::invalid_state,
                "the message was not accepted: " + explain(received.failure()).text);
}

Task<bool> GatewayApi::knows_session_here(std::string session) {
    const std::shared_ptr<GatewayInstance> instance = gateway_.instance();
    const bub::TurnSnapshot turn = instance->manager().snapshot(session);
    if (turn.is_running || turn.pending_count > 0) co_return true;
    const bub::Tape tape = co_await instance->tape_of(std::move(session));
    const bub::TapePosition end = co_await tape.store()->position(tape.name());
    co_return end.last_id > 0;
}

}  // namespace cubepi::app
