#include <cubepi/mcp/tools/suspended_call.hpp>

#include <utility>

#include <cubepi/agent/call_notes.hpp>
#include <cubepi/agent/run_account.hpp>
#include <cubepi/agent/tool_context.hpp>
#include <cubepi/agent/transcript.hpp>
#include <cubepi/core/support/json_member.hpp>
#include <cubepi/schema/json_text.hpp>
#include <cubepi/schema/parse_json.hpp>

namespace cubepi::detail {

namespace {

/// Of a note: a server decides how much it sends.
constexpr std::size_t max_note_bytes = std::size_t{256} * 1024;

[[noreturn]] void throw_interrupted() {
    throw Error(ErrorCode::invalid_state, std::string(interrupted_call_text));
}

}  // namespace

McpSuspendedCall::McpSuspendedCall(const ToolContext& context, std::shared_ptr<HitlChannel> channel,
                                   std::shared_ptr<CallNotes> notes, Identity identity)
    : channel_(std::move(channel)),
      notes_(std::move(notes)),
      identity_(std::move(identity)),
      key_(context.call_key() + ".mcp"),
      is_repeated_(context.is_repeated()) {}

/// Stores that the call waits for the answers of the round, or else that it may be executing at the server.
Task<> McpSuspendedCall::save(std::optional<McpRound> round) {
    JsonObject note;
    if (round) {
        note["server"] = identity_.server;
        note["digest"] = identity_.digest;
        note["arguments"] = identity_.arguments;
        note["round"] = round->number;
        note["requests"] = std::move(round->requests);
        if (round->state) note["state"] = std::move(*round->state);
    } else {
        note["called"] = true;
    }
    std::string text = json_text(note);
    if (text.size() > max_note_bytes) {
        throw Error(ErrorCode::limit, "The MCP server " + identity_.server +
                                          " asks the user with more than can be stored (" +
                                          std::to_string(max_note_bytes) + " bytes).");
    }
    co_await notes_->save_note(key_, std::move(text));
}

Task<std::optional<McpRound>> McpSuspendedCall::begin() {
    std::optional<McpRound> round;
    std::optional<std::string> text;
    if (is_repeated_) text = co_await notes_->load_note(key_);
    if (!text) {
        // A repeated call without a note was suspended, or lost, before it began.
        co_await save(std::nullopt);
        co_return round;
    }
    const Json parsed = parse_json(*text);
    const JsonObject* note = parsed.if_object();
    const bool is_of_this_call = note && text_member(*note, "server") == identity_.server &&
                                 text_member(*note, "digest") == identity_.digest &&
                                 text_member(*note, "arguments") == identity_.arguments;
    const JsonObject* requests = note ? object_member(*note, "requests") : nullptr;
    if (!is_of_this_call || !requests) throw_interrupted();
    round.emplace();
    round->number = static_cast<std::size_t>(integer_member(*note, "round").value_or(0));
    round->requests = *requests;
    if (const Json* state = note->if_contains("state")) round->state = *state;
    co_return round;
}

Task<> McpSuspendedCall::ask(McpRound round) {
    round_ = round.number;
    asked_ = 0;
    is_sampling_ = false;
    co_await save(std::move(round));
}

Task<> McpSuspendedCall::send() { return save(std::nullopt); }

void McpSuspendedCall::begin_sampling() {
    if (is_sampling_) throw McpInputRefused("The server asks for several messages at once.");
    is_sampling_ = true;
}

Task<Json> McpSuspendedCall::request(HitlPayload payload, HitlOptions options) {
    options.question_id = key_ + "." + std::to_string(round_) + "." + std::to_string(asked_++);
    Json answer = co_await channel_->request(std::move(payload), std::move(options));
    // The model is asked once for each consent.
    if (is_sampling_) co_await save(std::nullopt);
    co_return answer;
}

std::shared_ptr<McpSuspendedCall> suspended_mcp_call(const ToolContext& context,
                                                     std::shared_ptr<HitlChannel> channel,
                                                     McpSuspendedCall::Identity identity) {
    if (!context.account() || context.call_key().empty()) return nullptr;
    auto notes = std::dynamic_pointer_cast<CallNotes>(context.account()->channel());
    if (!notes || !notes->can_store_notes()) return nullptr;
    return std::make_shared<McpSuspendedCall>(context, std::move(channel), std::move(notes),
                                              std::move(identity));
}

}  // namespace cubepi::detail
