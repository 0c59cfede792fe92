#include "kinds.hpp"

#include <array>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <stop_token>
#include <string>
#include <utility>
#include <vector>

#include <cubepi/agent/agent.hpp>
#include <cubepi/core/cancellation.hpp>
#include <cubepi/core/error.hpp>
#include <cubepi/core/task_scope.hpp>
#include <cubepi/core/timeout.hpp>
#include <cubepi/hitl/ask_user_tool.hpp>
#include <cubepi/hitl/checkpointed_channel.hpp>
#include <cubepi/hitl/confirm_tool_calls.hpp>
#include <cubepi/hitl/in_memory_channel.hpp>

#include "normal_form.hpp"
#include "scenario.hpp"
#include "script.hpp"
#include "store.hpp"
#include "support.hpp"

namespace conformance {

namespace {

using cubepi::AgentEvent;
using cubepi::Message;
using cubepi::RunResult;
using cubepi::Task;

/// The objects that actions use and write to. Outlive the actor.
struct Stage {
    cubepi::Agent* agent = nullptr;
    cubepi::HitlChannel* channel = nullptr;  ///< of the agent; null: none
    std::stop_source* step_stop = nullptr;   ///< cancels the coroutine that awaits the current step
    cubepi::BackgroundScope* background = nullptr;
    JsonArray actions;
    JsonArray probes;
};

/// The second listener: performs the scenario's actions at events.
class Actor {
public:
    Actor(const std::vector<ActionRule>& rules, Stage& stage);
    /// Throws the error of a rule, after all other actions at this event.
    void on_event(const cubepi::AgentEvent& event);

private:
    struct Armed {
        const ActionRule& rule;
        std::int64_t matches = 0;
    };
    void perform(const Action& action);
    void start_waiting(const cubepi::AgentEvent& event, std::vector<Action> actions);

    std::vector<Armed> rules_;
    Stage& stage_;
};

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

constexpr std::chrono::seconds step_limit(10);

constexpr std::array ends_without_outcome = {
    "busy",       "no_messages", "cannot_continue", "stale_answer", "no_pending_request",
    "bad_answer", "no_channel",  "cancelled",       "hang"};

class Play {
public:
    Play(const Scenario& scenario, PlayOptions options)
        : scenario_(scenario),
          options_(std::move(options)),
          recorder_(known_, runs_),
          actor_(scenario.on, stage_),
          store_(scenario, options_.keep),
          provider_(std::make_shared<RecordingProvider>(
              scenario.script, scenario,
              [this](const cubepi::ModelRequest& request) { record_call(request); })),
          helper_(std::make_shared<RecordingProvider>(scenario.helper_script, scenario,
                                                      [](const cubepi::ModelRequest&) {})) {
        for (const cubepi::Message& message : scenario.history) {
            if (!message.run_id().empty()) runs_.keep(message.run_id().str());
            if (message.tool_result()) known_.results.insert(message.text());
        }
        for (const ActionRule& rule : scenario.on) {
            for (const Action& action : rule.actions) keep_reason(action.value);
        }
        for (const Step& step : scenario.run) keep_reason(step.value);
        for (const ScriptItem& item : scenario.script) {
            if (!item.message.error_message.empty())
                known_.errors.insert(item.message.error_message.str());
        }
    }

    Task<> perform();
    JsonObject result() &&;

private:
    /// The reason of a denied call is the text of its result.
    void keep_reason(const Json& answer) {
        const JsonObject* object = answer.if_object();
        const Json* reason = object ? object->if_contains("reason") : nullptr;
        if (reason && reason->is_string()) known_.results.insert(as_text(*reason, "reason"));
    }
    Task<> perform_step(const Step& step, JsonObject& form);
    Task<> await_run(Task<RunResult> run, JsonObject& form);
    Task<> put_outcome(const std::optional<RunResult>& result, JsonObject& form);
    Task<> read_store();
    std::shared_ptr<cubepi::HitlChannel> make_channel(const std::string& thread);
    Task<> perform_respond(const Step& step, JsonObject& form);
    void new_agent(const std::string& thread, bool first);
    void record_call(const cubepi::ModelRequest& request);

    const Scenario& scenario_;
    const PlayOptions options_;
    KnownTexts known_;
    RunNames runs_;
    Recorder recorder_;
    Stage stage_;
    Actor actor_;
    ScenarioStore store_;
    std::shared_ptr<RecordingProvider> provider_;
    std::shared_ptr<RecordingProvider> helper_;  ///< of the middleware's model
    std::shared_ptr<cubepi::HitlChannel> channel_;
    std::unique_ptr<cubepi::Agent> agent_;
    cubepi::TraceAttachment trace_;
    std::string thread_;
    std::set<std::string> threads_;
    std::int64_t late_ = 0;
    JsonArray steps_;
    JsonArray ran_;
    JsonArray calls_;
    JsonObject stored_;
    JsonObject extra_;
    JsonArray pending_;
};

void Play::record_call(const cubepi::ModelRequest& request) {
    JsonObject call;
    call["system_prompt"] = request.system_prompt.str();
    JsonArray tools;
    if (request.tools) {
        for (const cubepi::ToolDefinition& tool : *request.tools)
            tools.emplace_back(tool.name.str());
    }
    call["tools"] = std::move(tools);
    call["legal"] = is_legal_request(request.messages);
    call["messages"] = message_forms(request.messages, known_, Place::call);
    calls_.emplace_back(std::move(call));
}

std::shared_ptr<cubepi::HitlChannel> Play::make_channel(const std::string& thread) {
    const auto timeout = std::chrono::milliseconds(scenario_.channel_timeout_ms.value_or(0));
    if (scenario_.channel == "memory") {
        cubepi::InMemoryChannelOptions options;
        options.default_timeout = timeout;
        return std::make_shared<cubepi::InMemoryChannel>(std::move(options));
    }
    if (scenario_.channel == "checkpointed") {
        cubepi::CheckpointedChannelOptions options;
        options.default_timeout = timeout;
        return std::make_shared<cubepi::CheckpointedChannel>(store_.for_agents(), thread,
                                                             std::move(options));
    }
    return nullptr;
}

void Play::new_agent(const std::string& thread, bool first) {
    stage_.agent = nullptr;
    stage_.channel = nullptr;
    trace_.detach();
    agent_.reset();
    channel_.reset();
    if (!first) store_.reopen();
    cubepi::AgentOptions options;
    cubepi::Model model;
    model.id = "faux-1";
    model.provider_id = "faux";
    options.model = options_.model.value_or(cubepi::BoundModel(provider_, std::move(model)));
    cubepi::Model helper_model;
    helper_model.id = "helper-1";
    helper_model.provider_id = "faux";
    const cubepi::BoundModel helper(helper_, std::move(helper_model));
    options.system_prompt = scenario_.system_prompt;
    channel_ = make_channel(thread);
    stage_.channel = channel_.get();
    options.channel = channel_;
    const auto make = [this](const ToolSpec& spec) {
        if (spec.ask_user) return cubepi::ask_user_tool(channel_);
        return make_tool(
            spec, [this](std::string call) { ran_.emplace_back(std::move(call)); }, known_);
    };
    for (const ToolSpec& spec : scenario_.tools) options.tools.push_back(make(spec));
    MiddlewareParts parts{channel_, options.model, helper, make, {}};
    if (options_.attach) {
        parts.on_agent = [this](cubepi::Agent& agent) {
            return std::make_shared<cubepi::TraceAttachment>(options_.attach(agent));
        };
    }
    options.middleware = make_middleware(scenario_.middleware, parts, known_);
    set_explicit_hooks(options, scenario_.hooks, known_);
    options.steering_mode = scenario_.steering_mode;
    options.follow_up_mode = scenario_.follow_up_mode;
    if (scenario_.sequential_tools) options.tool_execution = cubepi::ExecutionMode::sequential;
    if (store_.exists()) {
        options.checkpointer = store_.for_agents();
        options.thread_id = thread;
        threads_.insert(thread);
    } else if (first) {
        options.messages = scenario_.history;
    }
    thread_ = thread;
    agent_ = std::make_unique<cubepi::Agent>(std::move(options));
    stage_.agent = agent_.get();
    if (options_.attach) trace_ = options_.attach(*agent_);
    (void)agent_->subscribe([this](const cubepi::AgentEvent& event) { recorder_.on_event(event); });
    (void)agent_->subscribe([this](const cubepi::AgentEvent& event) { actor_.on_event(event); });
    (void)agent_->subscribe([this](const cubepi::AgentEvent& event) {
        if (event.type() != cubepi::AgentEventType::notice) ++late_;
    });
}

Task<> Play::put_outcome(const std::optional<RunResult>& result, JsonObject& form) {
    if (const Json* raised = form.if_contains("raised")) {
        for (const char* name : ends_without_outcome) {
            if (*raised == name) co_return;
        }
    }
    const cubepi::AgentState& state = agent_->state();
    const bool none = state.last_outcome == cubepi::LastOutcome::none;
    form["outcome"] = none ? "abandoned" : cubepi::to_string(state.last_outcome);
    if (!state.error_message.empty()) form["error"] = true;
    if (!store_.exists() || !result) co_return;
    auto& runs = dynamic_cast<cubepi::RunStore&>(store_.itself());
    Task<bool> asked = runs.is_run_complete(thread_, result->run_id);
    const bool marked = co_await std::move(asked);
    form["marked"] = marked;
}

Task<> Play::await_run(Task<RunResult> run, JsonObject& form) {
    std::stop_source stop;
    stage_.step_stop = &stop;
    cubepi::SystemClock clock;
    Task<RunResult> cancellable = cubepi::cancel_on(stop.get_token(), std::move(run));
    Task<RunResult> limited =
        cubepi::with_timeout(clock, step_limit, std::move(cancellable), "step");
    std::optional<RunResult> result;
    std::exception_ptr failure;
    try {
        result.emplace(co_await std::move(limited));
    } catch (...) {
        failure = std::current_exception();
    }
    stage_.step_stop = nullptr;
    if (failure) {
        form["raised"] = category_of(failure);
        if (form["raised"] == "other") form["raised_text"] = cubepi::exception_text(failure);
    }
    co_await put_outcome(result, form);
}

Task<> Play::perform_respond(const Step& step, JsonObject& form) {
    const std::string question = step.wrong_question ? "no-such-question" : "";
    co_await await_run(agent_->respond(question, step.value), form);
}

Task<> Play::perform_step(const Step& step, JsonObject& form) {
    if (step.name == "prompt") {
        cubepi::MessageList messages;
        if (step.value.is_string()) {
            messages.push_back(cubepi::user_message(as_text(step.value, "prompt")));
        } else {
            for (const Json& message : as_array(step.value, "prompt"))
                messages.push_back(parse_message(message));
        }
        cubepi::PromptInput input(std::move(messages));
        cubepi::PromptOptions how =
            cubepi::PromptOptions().tags(step.context.tags).metadata(step.context.metadata);
        co_await await_run(agent_->prompt(std::move(input), std::move(how)), form);
    } else if (step.name == "resume") {
        co_await await_run(agent_->resume(), form);
    } else if (step.name == "respond") {
        co_await perform_respond(step, form);
    } else if (step.name == "abort_pending") {
        co_await agent_->abort_pending(as_text(step.value, "abort_pending"));
    } else if (step.name == "steer") {
        (void)agent_->steer(parse_queued(step.value));
    } else if (step.name == "follow_up") {
        (void)agent_->follow_up(parse_queued(step.value));
    } else if (step.name == "cancel_steer") {
        form["returned"] = agent_->cancel_steer(as_text(step.value, "cancel_steer"));
    } else if (step.name == "abort") {
        agent_->abort();
    } else if (step.name == "reset") {
        agent_->reset();
    } else if (step.name == "new_agent") {
        new_agent(text_or(as_object(step.value, "new_agent"), "thread", "t"), false);
    } else {
        throw Unsupported(step.name);
    }
}

Task<> Play::perform() {
    cubepi::BackgroundScope background(co_await cubepi::this_executor);
    stage_.background = &background;
    if (store_.exists() && !scenario_.history.empty()) {
        threads_.insert("t");
        Task<std::int64_t> appended =
            store_.itself().append("t", scenario_.history, cubepi::AppendOptions());
        (void)co_await std::move(appended);
    }
    new_agent("t", true);
    for (const Step& step : scenario_.run) {
        JsonObject form;
        form["step"] = step.name;
        std::exception_ptr failure;
        try {
            co_await perform_step(step, form);
        } catch (...) {
            failure = std::current_exception();
        }
        if (failure) form["raised"] = category_of(failure);
        steps_.emplace_back(std::move(form));
        co_await background.idle();
    }
    co_await background.close();
    stage_.background = nullptr;
    trace_.detach();
    if (store_.exists()) co_await read_store();
}

Task<> Play::read_store() {
    for (const std::string& thread : threads_) {
        Task<std::optional<cubepi::CheckpointData>> loading = store_.itself().load(thread);
        const std::optional<cubepi::CheckpointData> data = co_await std::move(loading);
        const cubepi::MessageList messages = data ? data->messages : cubepi::MessageList();
        const JsonArray stored = message_forms(messages, known_, Place::history, &runs_);
        const bool same =
            thread == thread_ &&
            stored == message_forms(agent_->state().messages, known_, Place::history, &runs_);
        stored_[thread] = same ? Json("=messages") : Json(stored);
        cubepi::JsonObject extra = data ? data->extra : cubepi::JsonObject();
        extra.erase("cubepi.suspended_turn");  // an addition of this library
        if (!extra.empty()) extra_[thread] = std::move(extra);
        auto& requests = dynamic_cast<cubepi::HitlStore&>(store_.itself());
        Task<std::vector<cubepi::PendingRequest>> asking = requests.load_pending_requests(thread);
        const std::vector<cubepi::PendingRequest> pending = co_await std::move(asking);
        for (const cubepi::PendingRequest& request : pending) {
            JsonObject form;
            form["thread"] = thread;
            put_request(form, request.request);
            pending_.emplace_back(std::move(form));
        }
    }
}

JsonObject Play::result() && {
    JsonObject result;
    result["steps"] = std::move(steps_);
    result["events"] = recorder_.events();
    result["partials"] = recorder_.partials();
    result["ran"] = std::move(ran_);
    result["calls"] = std::move(calls_);
    result["messages"] = message_forms(agent_->state().messages, known_, Place::history, &runs_);
    if (!stage_.actions.empty()) result["actions"] = stage_.actions;
    if (!stage_.probes.empty()) result["probes"] = stage_.probes;
    if (scenario_.late) result["late"] = late_;
    if (!scenario_.count.empty()) result["counts"] = recorder_.counts(scenario_.count);
    if (store_.exists()) result["stored"] = std::move(stored_);
    if (!extra_.empty()) result["extra"] = std::move(extra_);
    if (!pending_.empty()) result["pending"] = std::move(pending_);
    return result;
}

}  // namespace

JsonObject play(const Scenario& scenario, PlayOptions options) {
    auto play = std::make_unique<Play>(scenario, std::move(options));
    const auto limit = (scenario.run.size() + 1) * (step_limit + std::chrono::seconds(5));
    if (!run_within(play->perform(), limit)) {
        // Whatever still hangs in there refers to the play: it stays.
        (void)play.release();
        throw std::runtime_error(
            "hang: the scenario did not come to its end, even after its steps were cancelled");
    }
    return std::move(*play).result();
}

}  // namespace conformance
