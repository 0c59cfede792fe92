#include "actor.hpp"

#include <optional>
#include <utility>

#include "faults.hpp"
#include "reading.hpp"

namespace conformance {

namespace {

using cubepi::AgentEvent;
using cubepi::Message;

/// The message that an event is about, if it is about one.
Message message_of(const AgentEvent& event) {
    if (const auto* start = event.get_if<cubepi::MessageStartEvent>()) return start->message;
    if (const auto* end = event.get_if<cubepi::MessageEndEvent>()) return end->message;
    if (const auto* turn = event.get_if<cubepi::TurnEndEvent>()) return turn->message;
    return Message();
}

std::string role_of(const AgentEvent& event) {
    if (event.get_if<cubepi::MessageUpdateEvent>()) return "assistant";
    const Message message = message_of(event);
    return message ? std::string(cubepi::to_string(message.role())) : std::string();
}

std::string call_id_of(const AgentEvent& event) {
    if (const auto* start = event.get_if<cubepi::ToolExecutionStartEvent>())
        return start->tool_call_id;
    if (const auto* update = event.get_if<cubepi::ToolExecutionUpdateEvent>())
        return update->tool_call_id;
    if (const auto* end = event.get_if<cubepi::ToolExecutionEndEvent>()) return end->tool_call_id;
    if (const auto* asked = event.get_if<cubepi::HitlRequestEvent>()) {
        const auto* approve = std::get_if<cubepi::ApproveRequest>(&asked->request.payload);
        return approve ? approve->tool_call_id : std::string();
    }
    const Message message = message_of(event);
    return message && message.tool_result() ? message.tool_result()->tool_call_id.str()
                                            : std::string();
}

bool matches(const Match& when, const AgentEvent& event) {
    if (when.event != cubepi::to_string(event.type())) return false;
    const cubepi::StreamEvent* stream = event.stream_event();
    if (!when.stream.empty() && (!stream || when.stream != cubepi::to_string(stream->type)))
        return false;
    if (!when.role.empty() && when.role != role_of(event)) return false;
    return when.id.empty() || when.id == call_id_of(event);
}

constexpr std::string_view wrong_question = "no-such-question";

cubepi::HitlChannel& channel_of(Stage& stage) {
    if (!stage.channel) throw cubepi::Error(cubepi::ErrorCode::no_channel, "no channel");
    return *stage.channel;
}

/// `question_id`: of the event, if it is a request.
cubepi::Task<> perform_waiting(Stage& stage, Action action, std::string question_id) {
    cubepi::Agent& agent = *stage.agent;
    if (action.name == "prompt") {
        cubepi::PromptInput input(as_text(action.value, "prompt"));
        cubepi::Task<cubepi::RunResult> run = agent.prompt(std::move(input));
        (void)co_await std::move(run);
    } else if (action.name == "resume") {
        cubepi::Task<cubepi::RunResult> run = agent.resume();
        (void)co_await std::move(run);
    } else if (action.name == "answer") {
        co_await channel_of(stage).answer(question_id, action.value);
    } else if (action.name == "answer_wrong_question") {
        co_await channel_of(stage).answer(std::string(wrong_question), action.value);
    } else if (action.name == "cancel") {
        co_await channel_of(stage).cancel(question_id, as_text(action.value, "cancel"));
    } else if (action.name == "detach") {
        (void)agent.detach();
        co_await agent.wait_for_idle();
    } else if (action.name == "abort_pending") {
        co_await agent.abort_pending(as_text(action.value, "abort_pending"));
    } else {
        throw Unsupported(action.name);
    }
}

/// The waiting actions of one rule, one after the other.
cubepi::Task<> perform_all(Stage& stage, std::vector<Action> actions, std::string question_id) {
    co_await cubepi::yield_now();
    for (const Action& action : actions) {
        std::exception_ptr failure;
        try {
            co_await perform_waiting(stage, action, question_id);
        } catch (...) {
            failure = std::current_exception();
        }
        JsonObject done;
        done["do"] = action.name;
        if (failure) done["raised"] = category_of(failure);
        stage.actions.emplace_back(std::move(done));
    }
}

}  // namespace

Actor::Actor(const std::vector<ActionRule>& rules, Stage& stage) : stage_(stage) {
    for (const ActionRule& rule : rules) rules_.push_back(Armed{rule});
}

void Actor::perform(const Action& action) {
    cubepi::Agent& agent = *stage_.agent;
    if (action.name == "abort") {
        agent.abort();
    } else if (action.name == "cancel_prompt") {
        if (stage_.step_stop) stage_.step_stop->request_stop();
    } else if (action.name == "steer") {
        (void)agent.steer(parse_queued(action.value));
    } else if (action.name == "follow_up") {
        (void)agent.follow_up(parse_queued(action.value));
    } else if (action.name == "cancel_steer") {
        JsonObject done;
        done["do"] = "cancel_steer";
        done["returned"] = agent.cancel_steer(as_text(action.value, "cancel_steer"));
        stage_.actions.emplace_back(std::move(done));
    } else if (action.name == "probe") {
        JsonObject probe;
        JsonArray pending;
        for (const std::string& id : agent.state().pending_tool_calls) pending.emplace_back(id);
        probe["pending"] = std::move(pending);
        probe["streaming"] = agent.state().is_streaming;
        stage_.probes.emplace_back(std::move(probe));
    }
}

void Actor::start_waiting(const AgentEvent& event, std::vector<Action> actions) {
    std::string question_id;
    if (const auto* asked = event.get_if<cubepi::HitlRequestEvent>())
        question_id = asked->request.question_id;
    stage_.background->spawn(perform_all(stage_, std::move(actions), std::move(question_id)));
}

void Actor::on_event(const AgentEvent& event) {
    if (event.type() == cubepi::AgentEventType::notice) return;
    std::optional<std::string> thrown;
    for (Armed& armed : rules_) {
        if (!matches(armed.rule.when, event)) continue;
        const bool fires = ++armed.matches == armed.rule.when.nth || armed.rule.when.every;
        if (!fires) continue;
        std::vector<Action> waiting;
        for (const Action& action : armed.rule.actions) {
            if (action.waits) {
                waiting.push_back(action);
            } else if (action.name == "throw") {
                thrown = as_text(action.value, "throw");
            } else {
                perform(action);
            }
        }
        if (!waiting.empty()) start_waiting(event, std::move(waiting));
    }
    if (thrown) throw ListenerFault(*thrown);
}

}  // namespace conformance
