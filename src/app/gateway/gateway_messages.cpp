#include "gateway_messages.hpp"

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <filesystem>
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
#include <bub/envelope.hpp>
#include <bub/framework.hpp>
#include <cubepi/core/error.hpp>
#include <cubepi/core/offload.hpp>
#include <cubepi/core/outcome.hpp>
#include <cubepi/core/runtime.hpp>
#include <cubepi/core/support/digest.hpp>
#include <cubepi/core/support/json_member.hpp>
#include <cubepi/core/support/trimmed.hpp>
#include <cubepi/core/task.hpp>
#include <cubepi/workspace/files/content.hpp>

#include "../chat_commands.hpp"
#include "../conversation/attachments.hpp"
#include "../conversation/prompt_templates.hpp"
#include "../failure.hpp"
#include "../terminal/popup.hpp"
#include "gateway_api.hpp"
#include "gateway_http.hpp"
#include "gateway_instance.hpp"
#include "live_answers.hpp"

// Messages that operators write into sessions.

namespace cubepi::app {

namespace {

constexpr std::size_t longest_notice = 2'000;

bool is_flagged(const bub::Envelope& message, std::string_view key) {
    return detail::flag_member(message.context, key);
}

/// Returns the text of what no tape has; empty: the history shows the message. Files have a text of their own.
std::string notice_text(const bub::Envelope& message) {
    const std::string kind = message.kind.value_or("");
    const bool is_shown = kind == bub::envelope_kind::error || is_flagged(message, "rejected") ||
                          is_flagged(message, "postponed");
    return is_shown ? message.content_text() : std::string();
}

Task<std::string> digest_of(std::shared_ptr<const Runtime> runtime, std::string bytes) {
    auto work = [bytes = std::move(bytes)] { return detail::sha256_hex(bytes); };
    co_return co_await offload(*runtime->workers, std::move(work));
}

/// A message as it was typed into a chat: its slash command is replaced, and the files that it names with `@` are a part of it.
struct TypedMessage {
    std::string text = {};
    std::vector<bub::MediaItem> media = {};  ///< pictures
    std::string attached = {};               ///< as Attachments::remark
};

constexpr std::size_t most_files = 20;
/// While a user types a name, its characters are not requests to git.
constexpr std::chrono::seconds names_lifetime{3};

Task<PromptTemplates> templates_of(std::shared_ptr<GatewayInstance> instance) {
    // Not the instance: a worker that ends late must not be the one that destroys it.
    std::vector<ProjectPrompt> prompts = instance->project_prompts();
    auto reading = [prompts = std::move(prompts)] { return load_templates(prompts); };
    Task<PromptTemplates> loading = offload(*Runtime::standard()->workers, std::move(reading));
    PromptTemplates loaded = co_await std::move(loading);
    co_return loaded;
}

ChatAbilities abilities_with(const PromptTemplates& templates) {
    ChatAbilities chat;
    chat.trusted = true;
    chat.templates = &templates;
    return chat;
}

/// Returns true for what the terminal itself does.
bool is_of_terminal(const ChatInput& input) {
    return input.is_aside ||
           (input.kind == ChatInput::Kind::action && input.action != ChatAction::help);
}

/// Returns true if the console takes the command, with an argument or without.
bool is_taken(const std::string& name, const ChatAbilities& chat) {
    return name.starts_with('/') && !is_of_terminal(read_chat_input(name, chat)) &&
           !is_of_terminal(read_chat_input(name + " x", chat));
}

ChatInput read_input(const std::string& text, const PromptTemplates& templates) {
    ChatInput input = read_chat_input(text, abilities_with(templates));
    if (input.kind == ChatInput::Kind::refused)
        throw Error(ErrorCode::invalid_argument, input.text);
    if (is_of_terminal(input))
        throw Error(ErrorCode::invalid_argument,
                    "'" + std::string(detail::trimmed(text)) + "' is a command of the terminal");
    if (input.kind == ChatInput::Kind::action) {
        input.kind = ChatInput::Kind::pipeline;
        input.text = ",help";
    }
    // The text of a template is never a command (B11).
    if (input.argument && detail::trimmed(input.text).starts_with(','))
        throw Error(ErrorCode::invalid_argument, "the text of this template begins with a comma");
    return input;
}

/// Reads the text by the rules of the terminal (D241). Files are those below the directory of the session. Throws
/// Error(invalid_argument) for a command that is not one of the console.
Task<TypedMessage> read_typed(std::shared_ptr<GatewayInstance> instance, std::string session,
                              std::string text) {
    const PromptTemplates templates = co_await templates_of(instance);
    ChatInput input = read_input(text, templates);
    TypedMessage typed;
    typed.text = std::move(input.text);
    // Of a template only the user's part names files.
    const std::string naming = input.argument.value_or(typed.text);
    const std::filesystem::path directory = instance->workspace_of(session);
    const bool names_files = input.kind == ChatInput::Kind::prompt && !directory.empty() &&
                             naming.find('@') != std::string::npos;
    if (!names_files) co_return typed;
    auto reading = [naming, directory] { return attach_files(naming, directory); };
    Task<Attachments> attaching = offload(*Runtime::standard()->workers, std::move(reading));
    Attachments attached = co_await std::move(attaching);
    typed.text += attached.text.substr(naming.size());
    typed.media = std::move(attached.media);
    typed.attached = std::move(attached.remark);
    co_return typed;
}

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
    // As a chat in a terminal, which can ask.
    if (given.pasted && detail::trimmed(*message.content).starts_with(','))
        throw Error(ErrorCode::invalid_argument,
                    "pasted text does not run as a command; empty the field and type it");
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

Task<> ConsoleChannel::start(std::stop_token) { co_return; }

Task<> ConsoleChannel::stop() { co_return; }

Task<> ConsoleChannel::send(bub::Envelope message) {
    const std::shared_ptr<const Runtime> runtime = Runtime::standard();
    Notice notice;
    SessionNotice& shown = notice.shown;
    // It throws if the file cannot be sent, as every channel does.
    Task<std::optional<bub::SentFile>> reading =
        bub::read_sent_file(runtime, message, max_file_bytes_);
    std::optional<bub::SentFile> file = co_await std::move(reading);
    if (file) {
        shown.file.emplace();
        shown.file->id = runtime->ids->next();
        shown.file->name = file->name;
        shown.file->size = static_cast<std::int64_t>(file->bytes.size());
        shown.file->is_image = !detail::image_type(file->bytes).empty();
        shown.text = "File sent: " + file->name;
        notice.digest = co_await digest_of(runtime, std::move(file->bytes));
        notice.message = message;
    } else {
        shown.text = notice_text(message);
    }
    if (shown.text.empty()) co_return;
    (void)shorten(shown.text, longest_notice);
    shown.is_error = message.kind.value_or("") == bub::envelope_kind::error;
    shown.date = bub::local_date(runtime->clock->wall());
    const std::string session = message.session_id.value_or(bub::default_session(message));
    std::deque<Notice>& of_session = notices_[session];
    if (of_session.empty()) order_.push_back(session);
    of_session.push_back(std::move(notice));
    if (of_session.size() > max_notices) of_session.pop_front();
    while (order_.size() > max_sessions) {
        notices_.erase(order_.front());
        order_.pop_front();
    }
    if (live_) live_->touch(session);
}

std::vector<SessionNotice> ConsoleChannel::notices(const std::string& session) const {
    const auto found = notices_.find(session);
    if (found == notices_.end()) return {};
    std::vector<SessionNotice> all;
    for (const Notice& one : found->second) all.push_back(one.shown);
    return all;
}

Task<bub::SentFile> ConsoleChannel::file(std::string session, std::string id) const {
    const auto found = notices_.find(session);
    bub::Envelope message;
    std::string digest;
    if (found != notices_.end()) {
        for (const Notice& one : found->second) {
            if (!one.shown.file || one.shown.file->id != id) continue;
            message = one.message;
            digest = one.digest;
        }
    }
    if (digest.empty())
        throw Error(ErrorCode::not_found, "the gateway has no such file of the session any more");
    const std::shared_ptr<const Runtime> runtime = Runtime::standard();
    Task<std::optional<bub::SentFile>> reading =
        bub::read_sent_file(runtime, std::move(message), max_file_bytes_);
    std::optional<bub::SentFile> file = co_await std::move(reading);
    const std::string now = co_await digest_of(runtime, file->bytes);
    if (now != digest) throw Error(ErrorCode::not_found, "the file was changed after it was sent");
    co_return std::move(*file);
}

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

// Slash commands, and files after `@`, as in the terminal, for operators who type in the console.

Task<TypedCommands> GatewayApi::commands(NoArguments) {
    const std::shared_ptr<GatewayInstance> instance = gateway_.instance();
    const PromptTemplates templates = co_await templates_of(instance);
    const ChatAbilities chat = abilities_with(templates);
    TypedCommands known;
    for (const Command& command : chat_completions(chat)) {
        const std::string name(detail::trimmed(command.name));
        if (!is_taken(name, chat)) continue;
        TypedCommand one;
        one.name = name;
        one.help = command.help;
        one.takes_argument = command.name.ends_with(' ');
        known.commands.push_back(std::move(one));
    }
    co_return known;
}

Task<SessionFileNames> GatewayApi::files(FileNameArguments which) {
    const std::shared_ptr<GatewayInstance> instance = gateway_.instance();
    SessionFileNames found;
    const std::filesystem::path directory = instance->workspace_of(which.id);
    if (directory.empty()) co_return found;
    const Clock::time_point now = Runtime::standard()->clock->now();
    std::shared_ptr<const ListedFiles> listed = listed_files_;
    if (!listed || listed->directory != directory || now - listed->read > names_lifetime) {
        auto reading = std::make_shared<ListedFiles>();
        reading->directory = directory;
        reading->read = now;
        Task<std::vector<std::string>> naming = project_names(Runtime::standard(), directory);
        reading->names = co_await std::move(naming);
        listed = reading;
        listed_files_ = reading;
    }
    for (const std::size_t index : fuzzy_matches(which.search, listed->names, most_files, true))
        found.files.push_back(listed->names[index]);
    co_return found;
}

}  // namespace cubepi::app
