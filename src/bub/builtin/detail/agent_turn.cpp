#include <bub/builtin/detail/agent_turn.hpp>

#include <algorithm>
#include <utility>

#include <bub/builtin/detail/earlier_turn.hpp>
#include <bub/builtin/detail/tool_names.hpp>
#include <bub/input_id.hpp>
#include <bub/tape/tape_checkpointer.hpp>
#include <cubepi/core/cancellation.hpp>
#include <cubepi/workspace/standard_tools.hpp>

namespace bub::detail {

namespace {

JsonObject call_json(const cubepi::ToolCall& call) {
    JsonObject function;
    function["name"] = call.name.str();
    function["arguments"] = boost::json::serialize(call.arguments);
    JsonObject form;
    form["id"] = call.id.str();
    form["type"] = "function";
    form["function"] = std::move(function);
    return form;
}

/// What was not reported is left out.
JsonObject usage_json(const cubepi::Usage& usage) {
    JsonObject form;
    const auto add = [&form](const char* key, cubepi::TokenCount tokens) {
        if (tokens) form[key] = *tokens;
    };
    add("input_tokens", usage.input_tokens);
    add("output_tokens", usage.output_tokens);
    add("cache_read_tokens", usage.cache_read_tokens);
    add("cache_write_tokens", usage.cache_write_tokens);
    return form;
}

/// A step of the model as Bub records it, for tape_info.
JsonObject run_json(const cubepi::AssistantMessage& answer) {
    const cubepi::Usage& usage = *answer.usage;
    const std::int64_t cached = usage.cache_read_tokens.value_or(0);
    const std::int64_t prompt =
        usage.input_tokens.value_or(0) + cached + usage.cache_write_tokens.value_or(0);
    const std::int64_t completion = usage.output_tokens.value_or(0);
    JsonObject details;
    details["cached_tokens"] = cached;
    JsonObject form;
    form["prompt_tokens"] = prompt;
    form["completion_tokens"] = completion;
    form["total_tokens"] = prompt + completion;
    form["prompt_tokens_details"] = std::move(details);
    JsonObject data;
    data["status"] = answer.error_message.empty() ? "ok" : "error";
    data["usage"] = std::move(form);
    if (!answer.provider_id.empty()) data["provider"] = answer.provider_id.str();
    if (!answer.model_id.empty()) data["model"] = answer.model_id.str();
    return data;
}

/// What `,reasoning_effort` has chosen; nothing for what is no effort.
std::optional<cubepi::ReasoningControl> reasoning_of(const TurnState& state) {
    using Effort = cubepi::ReasoningEffort;
    const std::string chosen = state.text("reasoning_effort");
    for (const Effort effort :
         {Effort::minimal, Effort::low, Effort::medium, Effort::high, Effort::max}) {
        if (chosen != cubepi::to_string(effort)) continue;
        cubepi::ReasoningControl control;
        control.mode = cubepi::ReasoningMode::on;
        control.effort = effort;
        return control;
    }
    return std::nullopt;
}

[[noreturn]] void throw_failure(const cubepi::Error& failure) {
    if (const auto* error = dynamic_cast<const cubepi::ProviderError*>(&failure)) {
        cubepi::throw_provider_error(error->info(), error->what());
    }
    throw cubepi::Error(failure.code(), failure.what());
}

void add_part(cubepi::UserMessage& message, const JsonObject& part) {
    const Json* text = part.if_contains("text");
    if (text && text->is_string()) {
        message.content.emplace_back(cubepi::TextContent{std::string(text->get_string())});
        return;
    }
    const Json* image = part.if_contains("image_url");
    const JsonObject* place = image ? image->if_object() : nullptr;
    const Json* url = place ? place->if_contains("url") : nullptr;
    if (!url || !url->is_string()) {
        const Json* type = part.if_contains("type");
        const std::string name =
            type && type->is_string() ? std::string(type->get_string()) : "part";
        message.content.emplace_back(
            cubepi::TextContent{"[" + name + ": cannot be shown to this model]"});
        return;
    }
    cubepi::ImageContent content;
    const std::string_view source = url->get_string();
    const std::size_t comma = source.find(";base64,");
    if (source.starts_with("data:") && comma != std::string_view::npos) {
        content.media_type = cubepi::SharedString(std::string(source.substr(5, comma - 5)));
        content.source = std::string(source.substr(comma + 8));
    } else {
        content.source = std::string(source);
    }
    message.content.emplace_back(std::move(content));
}

/// The history up to the answer whose calls are being made: an agent cannot go on from there.
cubepi::MessageList without_open_calls(cubepi::MessageList messages) {
    std::size_t results = 0;
    for (std::size_t i = messages.size(); i > 0; --i) {
        const cubepi::Message& message = messages[i - 1];
        if (message.tool_result()) ++results;
        const cubepi::AssistantMessage* answer = message.assistant();
        if (!answer) continue;
        if (answer->tool_calls().size() <= results) return messages;
        return cubepi::MessageList(messages.begin(),
                                   messages.begin() + static_cast<std::ptrdiff_t>(i - 1));
    }
    return messages;
}

/// Takes away what this turn's model is not to call. Hidden tools are commands of operators (B11). Throws
/// Error(invalid_argument) that lists the names in the plan that no tool has.
void keep_allowed(std::vector<cubepi::AgentTool>& tools, const AgentTurnPlan& plan) {
    std::erase_if(tools, [&plan](const cubepi::AgentTool& tool) {
        return !tool.expose_to_model || (plan.is_subagent && tool.name == "subagent") ||
               (plan.inherits && tool.name == "tape_handoff");
    });
    if (!plan.allowed_tools) return;
    std::set<std::string> unknown = *plan.allowed_tools;
    unknown.erase("subagent");
    for (const cubepi::AgentTool& tool : tools) unknown.erase(tool.name.str());
    std::string names;
    for (const std::string& name : unknown) names += (names.empty() ? "" : ", ") + name;
    if (!names.empty()) {
        throw cubepi::Error(cubepi::ErrorCode::invalid_argument,
                            "allowed_tools names what is no tool: " + names);
    }
    std::erase_if(tools, [&plan](const cubepi::AgentTool& tool) {
        return !plan.allowed_tools->contains(tool.name.str());
    });
}

}  // namespace

cubepi::Message user_message_of(const Prompt& prompt) {
    if (const std::string* text = prompt.if_text()) return cubepi::user_message(*text);
    cubepi::UserMessage message;
    for (const Json& part : *prompt.if_parts()) {
        if (const JsonObject* object = part.if_object()) add_part(message, *object);
    }
    return message;
}

AgentTurn::AgentTurn(std::shared_ptr<BuiltinCore> core, Prompt prompt, AgentTurnPlan plan,
                     TurnState& state)
    : core_(std::move(core)), prompt_(std::move(prompt)), plan_(std::move(plan)), state_(state) {}

AgentTurn::~AgentTurn() = default;

std::optional<StreamEvent> AgentTurn::ready() {
    if (events_.empty()) return std::nullopt;
    StreamEvent event = std::move(events_.front());
    events_.pop_front();
    return event;
}

Task<std::optional<StreamEvent>> AgentTurn::next() {
    while (true) {
        if (std::optional<StreamEvent> event = ready()) co_return event;
        if (over_) co_return std::nullopt;
        if (!std::exchange(begun_, true)) {
            co_await begin();
            continue;
        }
        std::optional<cubepi::AgentEvent> event = co_await run_->next();
        if (event) {
            translate(*event);
        } else {
            co_await finish();
        }
    }
}

Task<> AgentTurn::begin() {
    Tape tape = co_await core_->tape(plan_.session_id, state_);
    if (plan_.inherits) {
        tape_.emplace(tape.in(plan_.inherits));
    } else {
        TapeForkOptions options;
        options.turn_id = core_->runtime().ids->next();
        options.runtime = core_->framework().runtime();
        fork_ = tape.fork(std::move(options));
        tape_.emplace(tape.in(fork_));
        co_await tape_->bootstrap();
        state_.replace(std::make_shared<RunningTurn>(RunningTurn{fork_}));
    }
    state_.replace(std::make_shared<Tape>(*tape_));
    state_.mark_recorded();
    if (!plan_.input_id.empty()) co_await take_up();
    if (!over_) co_await start_agent();
}

/// The input may have come before, in a process that died (D42).
Task<> AgentTurn::take_up() {
    message_id_ = plan_.input_id;
    const std::optional<EarlierTurn> earlier = co_await find_earlier_turn(*tape_, message_id_);
    if (!earlier) co_return;
    message_id_ = earlier->message_id;
    run_id_ = earlier->run_id;
    over_ = earlier->answered;
    if (over_) status_ = TurnStatus::ok;
    if (over_ && earlier->joined) {
        // The turn that it came into has answered it.
        state_.mark_silent();
        co_return;
    }
    for (const std::string& text : earlier->texts) repeat(text);
    if (!over_) co_return;
    JsonObject data;
    data["ok"] = !earlier->texts.empty();
    data["text"] = earlier->texts.empty() ? std::string() : earlier->texts.back();
    push(event_kind::final, std::move(data), nullptr);
    if (!earlier->texts.empty()) co_return;
    JsonObject silence;
    silence["kind"] = "temporary";
    silence["message"] = "the turn was over without an answer";
    push(event_kind::error, std::move(silence), nullptr);
}

void AgentTurn::repeat(std::string text) {
    if (std::exchange(said_something_, true)) events_.push_back(StreamEvent::text("\n\n"));
    events_.push_back(StreamEvent::text(std::move(text)));
}

std::vector<cubepi::AgentTool> AgentTurn::tools(const std::filesystem::path& folder) {
    std::vector<cubepi::AgentTool> tools;
    if (core_->options().with_tools) {
        // An agent that inherits the conversation has its commands too.
        if (plan_.inherits) shells_ = state_.service<cubepi::ShellSessions>();
        if (!shells_) shells_ = core_->shells(plan_.session_id, folder);
        state_.replace(shells_);
        tools = cubepi::standard_tools(core_->workspace(folder), cubepi::StandardToolOptions(),
                                       shells_);
    }
    for (cubepi::AgentTool& tool : session_tools(core_, *tape_, plan_.session_id, state_)) {
        tools.push_back(std::move(tool));
    }
    return tools;
}

/// What the agent knows of the conversation, and where its messages go.
Task<> AgentTurn::remember(cubepi::AgentOptions& options) {
    TapeCheckpointerOptions how;
    how.clock = core_->runtime().clock;
    if (!is_passing(plan_.session_id)) {
        how.session.id = plan_.session_id;
        how.session.workspace = core_->workspace_of(state_).string();
    }
    how.context = co_await core_->framework().tape_context(plan_.session_id, state_);
    const std::shared_ptr<TapeFork> turn = plan_.inherits ? plan_.inherits : fork_;
    auto memory = std::make_shared<TapeCheckpointer>(turn, std::move(how));
    if (!plan_.inherits) {
        options.checkpointer = std::move(memory);
        options.thread_id = tape_->name();
        co_return;
    }
    options.checkpointer = nullptr;
    options.thread_id.clear();
    std::optional<cubepi::CheckpointData> data = co_await memory->load(tape_->name());
    if (data) options.messages = without_open_calls(std::move(data->messages));
}

Task<> AgentTurn::start_agent() {
    const std::filesystem::path folder = core_->workspace_of(state_);
    const BuiltinOptions& chosen = core_->options();
    cubepi::AgentOptions options;
    options.model = core_->model(state_);
    options.system_prompt = co_await system_prompt();
    options.tools = tools(folder);
    if (chosen.with_tools) options.spill = core_->spill();
    options.middleware = core_->framework().interception(plan_.session_id, state_);
    options.limits.max_turns = chosen.max_steps;
    options.reasoning = reasoning_of(state_);
    options.runtime = core_->framework().runtime();
    const AgentOccasion occasion{plan_.session_id, folder, state_};
    if (plan_.is_subagent) {
        // The memory that `configure` gives is that of the conversation it belongs to.
        if (chosen.configure) chosen.configure(options, occasion);
        co_await remember(options);
    } else {
        co_await remember(options);
        if (chosen.configure) chosen.configure(options, occasion);
    }
    std::vector<cubepi::AgentTool> tools(options.tools.begin(), options.tools.end());
    keep_allowed(tools, plan_);
    options.middleware.emplace_back(UnknownTools(tools));
    if (!run_id_.empty()) options.middleware.emplace_back(WithoutInterrupted(message_id_));
    options.tools = std::move(tools);
    agent_ = std::make_shared<cubepi::Agent>(std::move(options));
    agent_->subscribe([this](const cubepi::AgentEvent& event) { return on_agent_event(event); });
    if (chosen.on_agent && !plan_.is_subagent) chosen.on_agent(agent_, occasion);
    cubepi::Message message = user_message_of(prompt_);
    if (!message_id_.empty()) message = std::move(message).with_id(message_id_);
    run_.emplace(agent_->start(std::move(message), cubepi::PromptOptions().run_id(run_id_)));
}

Task<std::string> AgentTurn::system_prompt() {
    std::string text = co_await core_->framework().system_prompt(prompt_, state_);
    std::filesystem::path folder = core_->workspace_of(state_);
    std::vector<Skill> skills = co_await core_->skills(std::move(folder));
    if (plan_.allowed_skills) {
        std::erase_if(skills, [this](const Skill& skill) {
            return !plan_.allowed_skills->contains(skill.name);
        });
    }
    const std::string block = skills_block(skills, skill_hints(prompt_.text()));
    if (!text.empty() && !block.empty()) text += "\n\n";
    co_return text + block;
}

/// Runs inside the agent, in step with what it stores.
Task<> AgentTurn::on_agent_event(cubepi::AgentEvent event) {
    const std::string_view* delta = event.text_delta();
    if (delta && fork_) fork_->said(*delta);
    const auto* end = event.get_if<cubepi::TurnEndEvent>();
    const auto* message = event.get_if<cubepi::MessageEndEvent>();
    const bool answer_ended = message && message->message.role() == cubepi::Role::assistant;
    if (!end && !answer_ended) co_return;
    std::shared_ptr<SteeringInbox> inbox;
    if (!plan_.is_subagent) inbox = co_await core_->framework().steering_inbox();
    if (inbox && inbox->count(plan_.session_id) > 0) {
        for (Envelope& steering : inbox->drain(plan_.session_id)) {
            auto shared = std::make_shared<Envelope>(std::move(steering));
            const Prompt prompt =
                co_await core_->framework().build_prompt(shared, plan_.session_id, state_);
            cubepi::Message message = user_message_of(prompt);
            std::string id = is_passing(plan_.session_id) ? std::string() : input_id_of(*shared);
            if (!id.empty()) message = std::move(message).with_id(std::move(id));
            agent_->steer(std::move(message));
        }
    }
    const cubepi::AssistantMessage* answer = end ? end->message.assistant() : nullptr;
    if (answer && answer->usage) {
        TapeEntry step = event_entry("run", run_json(*answer), hidden_from_context());
        (void)co_await tape_->append(std::move(step));
    }
    if (!end || end->tool_results.empty()) co_return;
    std::string more =
        co_await core_->framework().continue_prompt(prompt_, plan_.session_id, state_);
    if (!more.empty()) {
        agent_->steer(cubepi::synthetic_user_message(std::move(more), "continue_prompt"));
    }
}

void AgentTurn::push(std::string_view kind, JsonObject data,
                     const std::shared_ptr<const cubepi::AgentEvent>& source) {
    StreamEvent event(kind, std::move(data));
    event.agent_event = source;
    events_.push_back(std::move(event));
}

void AgentTurn::translate(const cubepi::AgentEvent& event) {
    const auto source = std::make_shared<const cubepi::AgentEvent>(event);
    if (const std::string_view* delta = event.text_delta()) {
        // The texts of a turn's steps are apart from each other in what the turn returns (B19).
        if (said_something_ && !step_has_text_) {
            events_.push_back(StreamEvent::text("\n\n"));
        }
        step_has_text_ = true;
        StreamEvent text = StreamEvent::text(*delta);
        text.agent_event = source;
        events_.push_back(std::move(text));
        return;
    }
    if (const std::string_view* delta = event.thinking_delta()) {
        JsonObject data;
        data["delta"] = *delta;
        push(event_kind::reasoning, std::move(data), source);
        return;
    }
    push(event_kind::agent, JsonObject(), source);
    const auto* end = event.get_if<cubepi::TurnEndEvent>();
    if (!end) return;
    const cubepi::AssistantMessage* answer = end->message.assistant();
    if (!answer) return;
    JsonObject data;
    if (answer->has_tool_calls()) {
        JsonArray calls;
        for (const cubepi::ToolCall* call : answer->tool_calls()) calls.push_back(call_json(*call));
        JsonObject called;
        called["tool_calls"] = calls;
        push(event_kind::tool_call, std::move(called), nullptr);
        JsonArray results;
        for (const cubepi::Message& result : end->tool_results) {
            results.emplace_back(result.text());
        }
        JsonObject given;
        given["tool_results"] = std::move(results);
        push(event_kind::tool_result, std::move(given), nullptr);
        data["tool_calls"] = std::move(calls);
    }
    if (answer->usage) push(event_kind::usage, usage_json(*answer->usage), nullptr);
    data["ok"] = answer->error_message.empty();
    data["text"] = answer->text();
    push(event_kind::final, std::move(data), nullptr);
    said_something_ = said_something_ || step_has_text_;
    step_has_text_ = false;
}

Task<> AgentTurn::finish() {
    const cubepi::RunResult result = co_await run_->result();
    if (core_->options().on_result && !plan_.is_subagent) {
        const std::filesystem::path folder = core_->workspace_of(state_);
        const AgentOccasion occasion{plan_.session_id, folder, state_};
        core_->options().on_result(result, occasion);
    }
    if (plan_.inherits) made_ = result.new_messages;
    if (result) {
        status_ = TurnStatus::ok;
        over_ = true;
        co_return;
    }
    if (result.outcome == cubepi::RunOutcome::aborted) cubepi::throw_cancelled();
    const cubepi::Error& failure = result.error();
    const bool overflow =
        failure.code() == cubepi::ErrorCode::context_length || is_context_overflow(failure.what());
    if (overflow && !plan_.inherits && !std::exchange(handed_off_, true)) {
        co_await tape_->overflow_handoff(failure.what());
        run_.reset();
        agent_.reset();
        // It is said again behind the hand-off.
        if (!message_id_.empty()) message_id_ = next_message_id(message_id_);
        run_id_.clear();
        co_await start_agent();
        co_return;
    }
    over_ = true;
    if (result.outcome == cubepi::RunOutcome::failed) {
        status_ = TurnStatus::error;
        throw_failure(failure);
    }
    // A limit was reached, or a person is asked who is not here: the turn ends with what there is.
    status_ = TurnStatus::ok;
    JsonObject data;
    data["kind"] = "temporary";
    data["message"] = failure.what();
    push(event_kind::error, std::move(data), nullptr);
}

/// The messages of a turn that inherits, behind those of the turn that it belongs to.
Task<> AgentTurn::keep_inherited() {
    if (made_.empty()) co_return;
    const std::shared_ptr<TapeFork> own =
        std::make_shared<TapeFork>(plan_.inherits, plan_.inherits->tape());
    TapeCheckpointer memory(own);
    cubepi::AppendOptions options;
    cubepi::MessageList made = std::move(made_);
    made_.clear();
    (void)co_await memory.append(own->tape(), std::move(made), std::move(options));
    std::vector<TapeEntry> entries = own->entries();
    co_await plan_.inherits->append_behind(std::move(entries));
    co_await own->discard();
}

Task<> AgentTurn::close() {
    if (!tape_ || std::exchange(closed_, true)) co_return;
    run_.reset();  // aborts what still runs, whose last step goes to the tape
    if (agent_) co_await agent_->wait_for_idle();
    agent_.reset();
    tape_.reset();
    if (plan_.inherits) {
        co_await keep_inherited();
        co_return;
    }
    const std::shared_ptr<TapeFork> fork = std::exchange(fork_, nullptr);
    state_.replace(std::make_shared<RunningTurn>());
    // Whoever looks at the tape later in the turn looks at the one that the fork went into.
    Tape after = co_await core_->tape(plan_.session_id, state_);
    state_.replace(std::make_shared<Tape>(std::move(after)));
    if (is_passing(plan_.session_id)) {
        co_await fork->discard();
    } else {
        core_->keep_shells(plan_.session_id, std::move(shells_));
        co_await fork->merge(status_);
    }
}

}  // namespace bub::detail
