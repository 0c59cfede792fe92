#include <cubepi/agent/run/suspended_turn.hpp>

#include <utility>

#include <cubepi/core/message_json.hpp>

namespace cubepi::detail {

namespace {

constexpr std::string_view turn_key = "cubepi.suspended_turn";

/// Returns the saved state if it belongs to this answer; else null.
const JsonObject* saved_turn(const AgentState& state, const std::string& answer_id) {
    const Json* saved = state.extra.if_contains(turn_key);
    const JsonObject* object = saved ? saved->if_object() : nullptr;
    if (!object) return nullptr;
    const Json* id = object->if_contains("message_id");
    return id && *id == Json(answer_id) ? object : nullptr;
}

}  // namespace

Task<> save_turn(const RunCore& core, const std::string& answer_id,
                 const MessageList& inject_messages) {
    JsonObject turn;
    turn["message_id"] = answer_id;
    JsonArray messages;
    for (const Message& message : inject_messages) messages.emplace_back(to_json(message));
    if (!messages.empty()) turn["inject_messages"] = std::move(messages);
    if (const PrefixGuard* guard = core.parts().prefix_guard) turn["prompt"] = guard->digest();
    core.state().extra[turn_key] = std::move(turn);
    return core.parts().log->save_extra();
}

MessageList restore_turn(const RunCore& core, const std::string& answer_id) {
    MessageList messages;
    const JsonObject* turn = saved_turn(core.state(), answer_id);
    if (!turn) return messages;
    PrefixGuard* guard = core.parts().prefix_guard;
    const Json* prompt = turn->if_contains("prompt");
    if (guard && prompt) guard->restore(*prompt);
    const Json* saved = turn->if_contains("inject_messages");
    if (!saved || !saved->is_array()) return messages;
    for (const Json& message : saved->get_array()) messages.push_back(message_from_json(message));
    return messages;
}

void forget_turn(AgentState& state) {
    if (Json* saved = state.extra.if_contains(turn_key)) *saved = nullptr;
}

}  // namespace cubepi::detail
