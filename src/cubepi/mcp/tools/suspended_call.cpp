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
      key_(context.call_key() + ".mcp") {}

Task<> McpSuspendedCall::save(const McpRound* round) {
    JsonObject note;
    if (round) {
        note["server"] = identity_.server;
        note["digest"] = identity_.digest;
        note["arguments"] = identity_.arguments;
        note["round"] = round->number;
        note["requests"] = round->requests;
        if (round->state) note["state"] = *round->state;
        if (!round->responses.empty()) note["responses"] = round->responses;
        if (!round->task.empty()) note["task"] = round->task;
        if (!round->waiting_call.empty()) note["waiting_call"] = round->waiting_call;
        if (samplings_ > 0) note["samplings"] = samplings_;
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

/// Reads the note also for a call that has not begun here: a process that has slept for longer than its claim may find that another one
/// has made the call.
Task<std::optional<McpRound>> McpSuspendedCall::begin() {
    std::optional<McpRound> round;
    const std::optional<std::string> text = co_await notes_->load_note(key_);
    if (!text) {
        // A repeated call without a note was suspended, or lost, before it began.
        co_await save(nullptr);
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
    if (const JsonObject* known = object_member(*note, "responses")) round->responses = *known;
    round->task = text_member(*note, "task");
    round->waiting_call = text_member(*note, "waiting_call");
    samplings_ = static_cast<std::size_t>(integer_member(*note, "samplings").value_or(0));
    co_return round;
}

Task<> McpSuspendedCall::ask(McpRound round) {
    std::size_t wanted = 0;
    for (const auto& entry : round.requests) {
        const JsonObject* request = entry.value().if_object();
        if (request && text_member(*request, "method") == "sampling/createMessage" &&
            !round.responses.contains(entry.key()))
            ++wanted;
    }
    // Before a model is paid for an answer that the server does not get.
    if (wanted > 0 && samplings_ + wanted > max_samplings_)
        throw McpInputRefused("The call has asked for messages too many times.");
    round_ = std::move(round);
    asked_ = 0;
    is_sampling_ = false;
    co_await save(&round_);
}

Task<> McpSuspendedCall::answered(std::string key, JsonObject response) {
    round_.responses[key] = std::move(response);
    co_await save(&round_);
}

Task<> McpSuspendedCall::send() { return save(nullptr); }

bool McpSuspendedCall::is_suspending() const noexcept { return notes_->is_suspending(); }

/// The ids do not depend on how many answers of models are known already.
Task<Json> McpSuspendedCall::request(HitlPayload payload, HitlOptions options) {
    const std::string place =
        is_sampling_ ? "s" + std::to_string(round_.responses.size()) : std::to_string(asked_++);
    options.question_id = key_ + "." + std::to_string(round_.number) + "." + place;
    const bool is_consent = std::exchange(is_sampling_, false);
    Json answer = co_await channel_->request(std::move(payload), std::move(options));
    if (is_consent) {
        // The model is asked once for each consent.
        ++samplings_;
        co_await save(nullptr);
    }
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
