#include "gateway_sessions.hpp"

#include <functional>
#include <iterator>
#include <memory>
#include <numeric>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include <bub/builtin/recorded_reply.hpp>
#include <bub/channel/postgres_delivery_log.hpp>
#include <bub/questions.hpp>
#include <bub/tape/prompt_context.hpp>
#include <bub/tape/tape_checkpointer.hpp>
#include <bub/tape/tape_context.hpp>
#include <bub/turn_usage.hpp>
#include <cubepi/core/message.hpp>
#include <cubepi/core/outcome.hpp>
#include <cubepi/core/support/json_member.hpp>
#include <cubepi/schema/json_convert.hpp>

#include "gateway_instance.hpp"
#include "live_answers.hpp"
#include "turn_reports.hpp"

namespace cubepi::app {

namespace {

constexpr const char* channel = "http";
/// Limits of a page of a session's history, in bytes of a text and in entries of the tape.
constexpr std::size_t longest_text = 16 * 1024;
constexpr std::size_t longest_result = 2'000;
constexpr std::size_t searched_entries = 20'000;

Task<std::vector<PendingRequest>> open_requests(bub::Tape tape) {
    bub::TapeCheckpointer memory(tape.store());
    std::vector<PendingRequest> open = co_await memory.load_pending_requests(tape.name());
    std::erase_if(open, [](const PendingRequest& one) { return one.expired; });
    co_return open;
}

JsonObject output_of(std::string_view kind, std::string text) {
    return JsonObject{{"kind", kind}, {"text", std::move(text)}};
}

/// Returns what a client is told about a failure that the tape describes (D98).
std::string shown_failure(std::string recorded, bool with_details) {
    const bool is_neutral = recorded.empty() || recorded == bub::ended_turn_text ||
                            recorded == bub::stopped_text || recorded == bub::refused_stop_text;
    return with_details || is_neutral ? std::move(recorded) : std::string(general_failure);
}

/// Sets the members of a message whose turn has ended.
void set_reply(JsonObject& message, bub::RecordedReply reply, bool with_details) {
    reply.failure = shown_failure(std::move(reply.failure), with_details);
    message["ok"] = reply.answered;
    JsonArray outputs;
    if (!reply.text.empty())
        outputs.push_back(
            output_of(reply.is_command ? bub::envelope_kind::command : bub::envelope_kind::normal,
                      reply.text));
    message["state"] = reply.answered ? "answered" : "failed";
    if (!reply.answered)
        message["error"] =
            JsonObject{{"message", reply.failure.empty() ? "the turn ended without an answer"
                                                         : reply.failure}};
    if (!reply.finish.empty()) message["finish"] = reply.finish;
    message["outputs"] = std::move(outputs);
}

void set_questions(JsonObject& message, const std::vector<PendingRequest>& open,
                   const std::string& run_id) {
    JsonArray outputs;
    for (const PendingRequest& one : open) {
        if (one.run_id != run_id) continue;
        JsonObject output =
            output_of(bub::envelope_kind::question, bub::question_text(one.request));
        output["question"] = to_json(one.request);
        outputs.push_back(std::move(output));
    }
    if (outputs.empty()) return;
    message.erase("error");
    message["ok"] = true;
    message["state"] = "waiting";
    JsonArray& texts = message["outputs"].as_array();
    for (Json& output : outputs) texts.push_back(std::move(output));
}

void set_text(HistoryMessage& message, std::string text, std::size_t limit) {
    if (shorten(text, limit)) message.truncated = true;
    message.text = std::move(text);
}

std::string thinking_of(const AssistantMessage& answer) {
    std::string all;
    for (const AssistantContent& content : answer.content) {
        const auto* const thinking = std::get_if<ThinkingContent>(&content);
        if (!thinking || thinking->thinking.empty()) continue;
        all += (all.empty() ? "" : "\n\n") + thinking->thinking;
    }
    (void)shorten(all, longest_text);
    return all;
}

HistoryCall history_call(const ToolCall& call, HistoryDetail detail) {
    HistoryCall made;
    made.id = call.id.str();
    made.name = call.name.str();
    if (detail != HistoryDetail::all) return made;
    made.arguments = boost::json::serialize(call.arguments);
    (void)shorten(*made.arguments, longest_result);
    return made;
}

/// Returns the id that the client of a channel has given the message; empty: none. Clients of the channel http see only their own.
std::string client_id_of(const Message& message, HistoryDetail detail) {
    const std::string& id = message.id();
    const std::size_t colon = id.find(':');
    if (colon == std::string::npos) return {};
    const bool is_shown = detail == HistoryDetail::all || id.substr(0, colon) == channel;
    return is_shown ? id.substr(colon + 1) : std::string();
}

/// Returns the sender in the lines before a prompt (D106); empty: none.
std::string sender_in(std::string_view context) {
    constexpr std::string_view key = "sender_id=";
    std::size_t at = context.find(key);
    // Not the end of another key.
    while (at != std::string_view::npos && at > 0 && context[at - 1] != '|')
        at = context.find(key, at + 1);
    if (at == std::string_view::npos) return {};
    context.remove_prefix(at + key.size());
    return std::string(context.substr(0, context.find_first_of("|\n")));
}

/// Returns a command of an operator and its output, newest first; empty for another event.
std::vector<HistoryMessage> command_messages(const bub::TapeEntry& entry) {
    std::vector<HistoryMessage> made;
    const JsonObject* const data = detail::object_member(entry.payload, "data");
    if (!data || detail::string_member(entry.payload, "name") != "command") return made;
    HistoryMessage& output = made.emplace_back();
    output.role = "command";
    output.name = detail::text_member(*data, "name");
    if (detail::string_member(*data, "status") != "ok") output.is_error = true;
    set_text(output, detail::text_member(*data, "output"), longest_text);
    HistoryMessage& command = made.emplace_back();
    command.role = "user";
    const std::string input = detail::text_member(*data, "input");
    if (const std::size_t colon = input.find(':'); colon != std::string::npos)
        command.message = input.substr(colon + 1);
    set_text(command, detail::text_member(*data, "raw"), longest_text);
    return made;
}

template <class Blocks>
void add_images(std::vector<const ImageContent*>& images, const Blocks& content) {
    for (const auto& block : content) {
        const auto* const image = std::get_if<ImageContent>(&block);
        if (image && image->source.find(':') == std::string::npos) images.push_back(image);
    }
}

/// Returns the pictures of a message that are on the tape, and not at an address.
std::vector<const ImageContent*> images_of(const Message& message) {
    std::vector<const ImageContent*> images;
    if (const ToolResultMessage* const result = message.tool_result())
        add_images(images, result->content);
    if (const UserMessage* const user = message.user()) add_images(images, user->content);
    if (const AssistantMessage* const answer = message.assistant())
        add_images(images, answer->content);
    return images;
}

HistoryMessage history_message(const Message& message, HistoryDetail detail) {
    const bool with_details = detail != HistoryDetail::plain;
    HistoryMessage made;
    if (const AssistantMessage* const answer = message.assistant()) {
        made.role = "assistant";
        set_text(made, message.text(), longest_text);
        std::vector<HistoryCall> calls;
        for (const ToolCall* const call : answer->tool_calls())
            calls.push_back(history_call(*call, detail));
        if (!calls.empty()) made.calls = std::move(calls);
        std::string thinking = thinking_of(*answer);
        if (detail == HistoryDetail::all && !thinking.empty()) made.thinking = std::move(thinking);
        if (answer->stop_reason == stop_reason::aborted) {
            made.error = std::string(bub::ended_turn_text);
        } else if (!answer->error_message.empty()) {
            made.error = shown_failure(answer->error_message.str(), with_details);
        }
    } else if (const ToolResultMessage* const result = message.tool_result()) {
        made.role = "tool";
        made.call = result->tool_call_id.str();
        made.name = result->tool_name.str();
        if (result->is_error) made.is_error = true;
        set_text(made, message.text(), longest_result);
    } else if (message.user()) {
        made.role = "user";
        if (std::string id = client_id_of(message, detail); !id.empty())
            made.message = std::move(id);
        const std::string text = message.text();
        const std::string_view shown = bub::without_context(text);
        const std::string sender =
            sender_in(std::string_view(text).substr(0, text.size() - shown.size()));
        if (detail == HistoryDetail::all && !sender.empty()) made.from = sender;
        set_text(made, std::string(shown), longest_text);
    }
    return made;
}

/// A page of a history, newest first while it is read.
struct HistoryPage {
    std::vector<HistoryMessage> messages = {};
    std::int64_t last_entry = 0;  ///< the oldest that was read
    bool has_more = false;
};

Task<HistoryPage> read_page(bub::Tape tape, std::size_t limit, std::int64_t before,
                            HistoryDetail detail) {
    auto page = std::make_shared<HistoryPage>();
    std::size_t searched = 0;
    std::function<bool(const bub::TapeEntry&)> take = [&](const bub::TapeEntry& entry) {
        if (before > 0 && entry.id >= before) return true;
        page->has_more = page->messages.size() >= limit || searched >= searched_entries;
        if (page->has_more) return false;
        ++searched;
        page->last_entry = entry.id;
        for (HistoryMessage& made : command_messages(entry)) {
            made.entry = entry.id;
            made.date = entry.date;
            page->messages.push_back(std::move(made));
        }
        const MessageList messages = bub::agent_messages({entry});
        std::int64_t images = 0;
        for (const Message& message : messages)
            images += static_cast<std::int64_t>(images_of(message).size());
        for (std::size_t at = messages.size(); at > 0; --at) {
            HistoryMessage made = history_message(messages[at - 1], detail);
            std::vector<std::int64_t> numbers(images_of(messages[at - 1]).size());
            images -= static_cast<std::int64_t>(numbers.size());
            std::iota(numbers.begin(), numbers.end(), images);
            if (detail == HistoryDetail::all && !numbers.empty()) made.images = std::move(numbers);
            made.entry = entry.id;
            made.date = entry.date;
            page->messages.push_back(std::move(made));
        }
        return true;
    };
    std::vector<std::string> kinds;
    for (const std::string_view kind :
         {bub::entry_kind::message, bub::entry_kind::tool_call, bub::entry_kind::tool_result})
        kinds.emplace_back(kind);
    // The outputs of commands, which clients of channels receive as replies.
    if (detail == HistoryDetail::all) kinds.emplace_back(bub::entry_kind::event);
    bub::TapeQuery query = bub::TapeQuery().kinds(std::move(kinds)).newest_first();
    co_await tape.store()->visit(tape.name(), std::move(query), std::move(take));
    co_return std::move(*page);
}

const char* state_of(bub::MessageProgress progress) {
    switch (progress) {
        case bub::MessageProgress::running: return "running";
        case bub::MessageProgress::held: return "held";
        default: return "pending";
    }
}

}  // namespace

Task<std::optional<JsonObject>> GatewaySessions::message(std::string id) {
    std::optional<JsonObject> none;
    std::optional<bub::FoundMessage> found;
    // In the history a message that was repeated has the id of the repetition, such as KEY+ (D42).
    constexpr std::size_t most_repetitions = 8;
    for (std::size_t repetitions = 0; repetitions <= most_repetitions; ++repetitions) {
        Task<std::optional<bub::FoundMessage>> finding =
            instance_.manager().find_message(channel, id);
        found = co_await std::move(finding);
        if (found || !id.ends_with('+')) break;
        id.pop_back();
    }
    // Logs of older versions do not have the session of a finished message.
    if (!found || found->message.chat_id.value_or("").empty()) co_return none;
    JsonObject message;
    message["session"] = *found->message.chat_id;
    message["id"] = id;
    message["state"] = state_of(found->progress);
    if (std::string user = bub::sender_of(found->message); !user.empty())
        message["user"] = std::move(user);
    for (const std::string_view key : {bub::stop_key, bub::background_key})
        if (found->message.rest.contains(key)) message[key] = true;
    const std::string digest = detail::text_member(found->message.rest, bub::request_digest_key);
    if (!digest.empty()) message[bub::request_digest_key] = digest;
    if (found->progress != bub::MessageProgress::finished) co_return message;
    JsonObject whole = message;
    Task<bool> adding = add_reply(*found, false, &whole);
    const bool is_explained = co_await std::move(adding);
    if (is_explained) co_return whole;
    Task<bool> asking = add_reply(*found, true, &message);
    (void)co_await std::move(asking);
    co_return message;
}

Task<bool> GatewaySessions::add_reply(bub::FoundMessage found, bool asks_others,
                                      JsonObject* message) {
    const bub::Tape tape = co_await instance_.tape_of(found.session_id);
    // In this order: without an open question its answer was received, whose turn runs or has recorded the reply.
    const std::vector<PendingRequest> open = co_await open_requests(tape);
    const bub::TurnSnapshot session = instance_.manager().snapshot(found.session_id);
    bool is_busy = session.is_running || session.pending_count > 0;
    if (asks_others && !is_busy)
        is_busy = co_await instance_.manager().has_unfinished(found.message);
    std::optional<bub::RecordedReply> reply =
        co_await bub::find_reply(tape, bub::input_id_of(found.message));
    const JsonObject& rest = found.message.rest;
    // A request to stop has a turn of its own only if none was running.
    const std::string stop = detail::text_member(rest, bub::stop_key);
    if (!reply && detail::flag_member(rest, bub::turn_stopped_key)) {
        // The record of a turn that is stopped is finished before the turn ends (D96).
        (*message)["state"] = state_of(bub::MessageProgress::running);
        co_return true;
    }
    if (!reply) reply.emplace();
    if (!reply->answered && rest.contains(bub::turn_stopped_key))
        reply->failure = bub::stopped_text;
    if (stop == bub::stop_was_refused) reply->failure = bub::refused_stop_text;
    if (stop == bub::stop_succeeded) {
        reply->answered = reply->is_command = true;
        reply->text = bub::stopped_text;
    }
    set_reply(*message, *reply, instance_.settings().show_error_details);
    if (!reply->digest.empty()) (*message)[bub::request_digest_key] = reply->digest;
    if (reply->answered || reply->run_id.empty()) co_return true;
    set_questions(*message, open, reply->run_id);
    if (message->at("state") != "failed" || !reply->failure.empty()) co_return true;
    // A run continues in the turn of the answer to its question.
    if (!is_busy) co_return false;
    for (const char* key : {"ok", "error", "outputs"}) message->erase(key);
    (*message)["state"] = "running";
    co_return true;
}

Task<std::optional<SessionHistory>> GatewaySessions::history(std::string session, std::size_t limit,
                                                             std::int64_t before,
                                                             HistoryDetail detail) {
    std::optional<SessionHistory> found;
    const bub::TurnSnapshot turn = instance_.manager().snapshot(session);
    const bub::Tape tape = co_await instance_.tape_of(session);
    // Before the history is read: what is stored meanwhile is then shown twice, and not missing.
    std::optional<LiveAnswer> live;
    if (detail == HistoryDetail::all && before == 0 && turn.is_running)
        live = instance_.live_answer(session);
    HistoryPage page = co_await read_page(tape, limit, before, detail);
    const std::vector<PendingRequest> open = co_await open_requests(tape);
    const bool is_busy = turn.is_running || turn.pending_count > 0;
    const auto& console = instance_.console_channel();
    std::vector<SessionNotice> notices;
    if (console && detail == HistoryDetail::all && before == 0) notices = console->notices(session);
    if (page.messages.empty() && open.empty() && notices.empty() && !is_busy && before == 0)
        co_return found;
    found.emplace();
    found->session = std::move(session);
    found->state = turn.is_running ? "running"
                   : !open.empty() ? "waiting"
                   : is_busy       ? "pending"
                                   : "idle";
    found->pending = turn.pending_count;
    for (const PendingRequest& one : open) found->questions.push_back(to_json(one.request));
    for (const HitlRequest& one : instance_.task_questions()) {
        if (detail::text_member(bub::asker_of(one.extra), "session") == found->session)
            found->questions.push_back(to_json(one));
    }
    found->messages.assign(std::move_iterator(page.messages.rbegin()),
                           std::move_iterator(page.messages.rend()));
    found->live = std::move(live);
    if (!notices.empty()) found->notices = std::move(notices);
    if (page.has_more) found->before = page.last_entry;
    co_return found;
}

Task<std::optional<bub::MediaItem>> GatewaySessions::image(std::string session, std::int64_t entry,
                                                           std::int64_t number) {
    const bub::Tape tape = co_await instance_.tape_of(std::move(session));
    auto found = std::make_shared<std::optional<bub::MediaItem>>();
    std::size_t searched = 0;
    std::function<bool(const bub::TapeEntry&)> take = [&, entry](const bub::TapeEntry& one) {
        if (one.id > entry) return ++searched < searched_entries;
        if (one.id < entry) return false;
        std::vector<const ImageContent*> images;
        const MessageList messages = bub::agent_messages({one});
        for (const Message& message : messages)
            for (const ImageContent* const image : images_of(message)) images.push_back(image);
        if (number < 0 || static_cast<std::size_t>(number) >= images.size()) return false;
        const ImageContent& image = *images[static_cast<std::size_t>(number)];
        found->emplace();
        (*found)->url = "data:image/png;base64," + image.source;
        return false;
    };
    std::vector<std::string> kinds;
    for (const std::string_view kind :
         {bub::entry_kind::message, bub::entry_kind::tool_call, bub::entry_kind::tool_result})
        kinds.emplace_back(kind);
    bub::TapeQuery query = bub::TapeQuery().kinds(std::move(kinds)).newest_first();
    co_await tape.store()->visit(tape.name(), std::move(query), std::move(take));
    co_return std::move(*found);
}

Task<std::optional<JsonObject>> GatewaySessions::session(std::string session, std::size_t limit,
                                                         std::int64_t before) {
    auto address = std::make_shared<bub::Envelope>();
    address->channel = channel;
    address->chat_id = session;
    std::string id =
        co_await instance_.framework().resolve_session(std::make_shared<bub::Envelope>(*address));
    const bool with_failures = instance_.settings().show_error_details;
    Task<std::optional<SessionHistory>> reading =
        history(std::move(id), limit, before,
                with_failures ? HistoryDetail::failures : HistoryDetail::plain);
    std::optional<SessionHistory> found = co_await std::move(reading);
    if (!found || found->state == "idle") {
        // Another gateway may have its turn.
        const bool is_busy = co_await instance_.manager().has_unfinished(*address);
        if (is_busy && !found) found.emplace();
        if (is_busy) found->state = "running";
    }
    std::optional<JsonObject> result;
    if (!found) co_return result;
    found->session = std::move(session);
    result = to_json(*found);
    co_return result;
}

Task<bub::StopOutcome> GatewaySessions::stop(bub::Envelope by) {
    Task<bub::StopOutcome> stopping = instance_.manager().stop_turn(by);
    bub::StopOutcome outcome = co_await std::move(stopping);
    if (outcome == bub::StopOutcome::idle && instance_.api()) {
        Task<bub::StopOutcome> asking = instance_.api()->stop_elsewhere(std::move(by));
        Outcome<bub::StopOutcome> asked = co_await outcome_of(std::move(asking));
        if (asked.cancelled()) asked.rethrow();
        // The message that follows is read by the gateway that has the session (D253).
        if (asked) outcome = asked.value();
    }
    co_return outcome;
}

Task<bool> GatewaySessions::wait_for_end(std::string id, std::string session,
                                         std::chrono::milliseconds limit) {
    if (!instance_.deliveries())
        return HttpSessions::wait_for_end(std::move(id), std::move(session), limit);
    bub::Envelope address;
    address.channel = channel;
    address.chat_id = std::move(session);
    address.inbound_id = std::move(id);
    return instance_.deliveries()->wait_finished(std::move(address), limit);
}

bool GatewaySessions::is_shared() const {
    return instance_.api() && instance_.deliveries() && instance_.deliveries()->peers();
}

Task<std::optional<JsonObject>> GatewaySessions::ask_elsewhere(JsonObject request,
                                                               std::string gateway) {
    std::optional<JsonObject> found;
    if (!instance_.api()) co_return found;
    found = co_await instance_.api()->ask_channel(std::move(request), std::move(gateway));
    co_return found;
}

}  // namespace cubepi::app
