#include <bub/builtin/builtin.hpp>

#include <utility>

#include <bub/builtin/plugin/core.hpp>
#include <bub/builtin/reasoning_effort.hpp>
#include <bub/builtin/tools/session_files.hpp>
#include <bub/builtin/tools/subagent_tool.hpp>
#include <bub/builtin/turn/agent_turn.hpp>
#include <bub/channel.hpp>
#include <bub/channel/debounce.hpp>
#include <bub/envelope.hpp>
#include <bub/questions.hpp>
#include <bub/session_tape.hpp>
#include <bub/tape/file_tape_store.hpp>
#include <bub/tape/tape_session.hpp>
#include <bub/turn_usage.hpp>
#include <cubepi/core/outcome.hpp>
#include <cubepi/core/support/json_member.hpp>
#include <cubepi/core/support/trimmed.hpp>

namespace bub {

using cubepi::detail::text_member;

namespace {

using detail::BuiltinCore;
using CorePtr = std::shared_ptr<BuiltinCore>;

constexpr std::string_view default_prompt =
    "<general_instruct>\n"
    "Finish the task with the tools and skills you have. Say when you are not sure.\n"
    "</general_instruct>\n"
    "<response_instruct>\n"
    "What you answer goes back to where the message came from. When a skill for the message's "
    "channel (the $name in its context) says that answers are sent with it, send them that way.\n"
    "</response_instruct>\n"
    "<context_contract>\n"
    "A context that grows too long fails. tape_info says how long it is; tape_handoff begins a new "
    "chapter with a summary.\n"
    "</context_contract>";

/// The lifespan of a turn's message: closed once, and only if it was opened.
struct OpenLifespan {
    explicit OpenLifespan(std::shared_ptr<Lifespan> given) : lifespan(std::move(given)) {}
    std::shared_ptr<Lifespan> lifespan;
};

Task<> close_lifespan(std::shared_ptr<OpenLifespan> open, std::exception_ptr error) {
    const std::shared_ptr<Lifespan> lifespan = std::exchange(open->lifespan, nullptr);
    if (lifespan) co_await lifespan->close(std::move(error));
}

/// Ends the sub-agents in the background before the framework.
class AgentsLifespan final : public Lifespan {
public:
    explicit AgentsLifespan(std::shared_ptr<SessionAgents> agents) : agents_(std::move(agents)) {}
    Task<> open() override { co_return; }
    Task<> close(std::exception_ptr) override { return agents_->close(); }

private:
    std::shared_ptr<SessionAgents> agents_;
};

std::optional<std::string> resolve_session(ResolveSessionCall& call) {
    const std::optional<std::string>& id = call.message.session_id;
    if (id && id->find_first_not_of(" \t\r\n") != std::string::npos) return *id;
    return default_session(call.message);
}

/// Returns the data of the last event with that name on the tape; written by `,model` and similar commands.
Task<JsonObject> last_choice(std::shared_ptr<TapeStore> store, std::string tape,
                             std::string event) {
    if (!store) co_return JsonObject();
    const std::optional<TapeEntry> entry = co_await store->find_event(tape, event);
    const JsonObject* data = detail::data_of(entry);
    if (!data) co_return JsonObject();
    co_return *data;
}

constexpr std::string_view model_event = "model_switch";
constexpr std::string_view effort_event = "reasoning_effort_switch";

/// Returns what each turn looks up before its run begins.
std::vector<TapeLookup> lookups_of(const Envelope& message) {
    std::vector<TapeLookup> lookups;
    for (const std::string_view event : {model_event, effort_event})
        lookups.push_back(TapeLookup{TapeKey::event, std::string(event)});
    if (message.answer || message.context.contains("private_chat"))
        lookups.push_back(TapeLookup{TapeKey::event, std::string(detail::answer_event)});
    const std::string input_id = input_id_of(message);
    if (input_id.empty()) return lookups;
    lookups.push_back(TapeLookup{TapeKey::message, input_id});
    lookups.push_back(TapeLookup{TapeKey::message, plugin_answer_id(input_id)});
    return lookups;
}

/// A turn that shows the questions of sub-agents in the background: one that receives their results, or that begins while questions were not
/// shown yet.
struct ShowingTurn {
    std::string session_id = {};
    Envelope message;
    std::vector<cubepi::HitlRequest> shown = {};
};

/// A turn of results that fails, also while a plugin renders its outputs, may have shown nothing: another one, without the model, shows the
/// questions; or else the next turn of the session.
Task<> end_showing_turn(CorePtr core, std::shared_ptr<ShowingTurn> turn,
                        std::exception_ptr failure) {
    const auto agents = core->options().agents->find(turn->session_id);
    if (agents && !failure) agents->note_shown(turn->shown);
    const auto& deliver = core->options().deliver_results;
    Envelope& again = turn->message;
    if (!agents || !failure || !deliver || !agents->has_new_questions() ||
        !detail::is_results_message(again) || again.rest.contains(detail::questions_only_key))
        co_return;
    again.inbound_id.reset();
    again.rest[detail::questions_only_key] = true;
    deliver(std::move(again));
}

Task<std::optional<JsonObject>> load_state(CorePtr core, LoadStateCall& call) {
    const auto agents = core->options().agents->find(call.session_id);
    if (detail::is_results_message(call.message) || (agents && agents->has_new_questions())) {
        auto turn = std::make_shared<ShowingTurn>(ShowingTurn{call.session_id, call.message});
        call.state.replace(turn);
        call.state.at_end([core, turn](std::exception_ptr failure) {
            return end_showing_turn(core, turn, std::move(failure));
        });
    }
    if (call.message.lifespan) {
        auto open = std::make_shared<OpenLifespan>(call.message.lifespan);
        call.state.replace(open);
        call.state.at_end(
            [open](std::exception_ptr error) { return close_lifespan(open, std::move(error)); });
        co_await open->lifespan->open();
    }
    co_await core->load_environment();
    JsonObject values;
    values["session_id"] = call.session_id;
    const std::string context = call.message.context_text();
    if (!context.empty()) values["context"] = context;
    expect_lookups(call.state, lookups_of(call.message));
    const Tape tape = co_await core->tape(call.session_id, call.state);
    const JsonObject stored = co_await stored_model_choice(tape.store(), tape.name());
    const auto& select = core->options().select_model;
    std::string model = select ? select(stored) : text_member(stored, "model");
    const std::string wanted = text_member(call.message.context, "model");
    if (!wanted.empty()) model = wanted;
    if (!model.empty()) values["model"] = std::move(model);
    values["reasoning_effort"] = co_await stored_effort(tape.store(), tape.name());
    if (const Json* thread = call.message.context.if_contains("thread_id")) {
        values["_runtime_thread_id"] = *thread;
    }
    std::optional<JsonObject> given(std::move(values));
    co_return given;
}

/// The member of Envelope::rest of a message whose sender knows what is wrong with its files.
constexpr std::string_view file_problems_key = "_file_problems";

/// Sends an output of kind `error` to the chat of a message.
Task<> notify_sender(CorePtr core, const Envelope& message, std::string text) {
    auto made = std::make_shared<Envelope>(std::move(text));
    made->session_id = message.session_id.value_or("unknown");
    made->channel = message.channel.value_or("default");
    made->chat_id = message.chat_id.value_or("default");
    made->inbound_id = message.inbound_id;
    made->kind = envelope_kind::error;
    co_await core->framework().dispatch_outbound(std::move(made));
}

Task<std::optional<Prompt>> build_prompt(CorePtr core, BuildPromptCall& call) {
    const std::string& content = call.message.content_text();
    const bool is_answer = core->options().questions && call.message.answer;
    const std::string_view own = session_command(content);
    const bool of_operator = content.starts_with(',') && call.message.is_operator();
    if ((of_operator || !own.empty()) && !is_answer) {
        std::string command = own.empty() ? content : std::string(own);
        call.message.kind = envelope_kind::command;
        const Json* pasted = call.message.rest.if_contains(pasted_key);
        const bool is_pasted = pasted && *pasted == Json(true);
        call.state.replace(std::make_shared<detail::PendingCommand>(
            detail::PendingCommand{command, is_pasted, own.empty()}));
        std::optional<Prompt> line(std::move(command));
        co_return line;
    }
    auto message = std::make_shared<Envelope>(call.message);
    if (core->options().files && !is_answer && !message->media.empty()) {
        std::filesystem::path workspace = core->workspace_of(call.state);
        const std::vector<std::string> problems =
            co_await detail::take_attachments(core, message, std::move(workspace));
        // Once, also if the turn is tried again (D90).
        const bool was_notified = call.message.rest.contains(file_problems_key);
        if (!problems.empty()) call.message.rest[file_problems_key] = true;
        for (const std::string& problem : problems)
            if (!was_notified) co_await notify_sender(core, call.message, problem);
    }
    const auto now = core->runtime().clock->wall();
    std::optional<Prompt> prompt = co_await detail::prompt_of(std::move(message), now);
    co_return prompt;
}

/// Returns the command in this prompt; null if the prompt is for the model.
std::shared_ptr<detail::PendingCommand> command_of(const RunModelCall& call) {
    auto command = call.state.service<detail::PendingCommand>();
    const std::string* text = call.prompt.if_text();
    return command && text && *text == command->line ? command : nullptr;
}

/// `details`: CommandOutput::details.
EventStream answer_at_once(std::string text, bool ok, const JsonObject& details = {}) {
    JsonObject end;
    end["ok"] = ok;
    end["text"] = text;
    std::vector<StreamEvent> events;
    events.push_back(StreamEvent::text(text));
    for (const auto& [key, value] : details) events.back().data[key] = value;
    events.emplace_back(event_kind::final, std::move(end));
    return EventStream::of(std::move(events));
}

Task<EventStream> answer(CorePtr core, RunModelCall& call) {
    std::optional<Answer> given;
    if (core->options().questions) given = call.message.answer;
    // The answer of a button has no text.
    if (call.prompt.empty() && !given) co_return answer_at_once("error: empty prompt", false);
    if (const auto command = command_of(call)) {
        detail::PendingCommand pending = *command;
        pending.message = &call.message;
        detail::CommandOutput output =
            co_await detail::run_command(core, std::move(pending), call.session_id, call.state);
        co_return answer_at_once(std::move(output.text), true, output.details);
    }
    detail::AgentTurnPlan plan;
    plan.session_id = call.session_id;
    plan.message = &call.message;
    plan.receives_results = detail::is_results_message(call.message);
    plan.answer = std::move(given);
    if (!detail::is_temporary(call.session_id)) plan.input_id = input_id_of(call.message);
    co_return EventStream(
        std::make_unique<detail::AgentTurn>(core, call.prompt, std::move(plan), call.state));
}

/// Reads a stream as text; notifies the observers of errors in it (B7).
Task<std::optional<std::string>> read_text(CorePtr core, EventStream& stream,
                                           const Envelope& inbound) {
    std::optional<std::string> text(std::in_place);
    while (std::optional<StreamEvent> event = co_await stream.next()) {
        if (event->kind == event_kind::text) {
            *text += event->delta();
        } else if (event->kind == event_kind::error) {
            auto message = std::make_shared<Envelope>(inbound);
            auto error = std::make_exception_ptr(error_from_event(event->data));
            co_await core->framework().notify_error("run_model", std::move(error),
                                                    std::move(message));
        }
    }
    co_return text;
}

Task<> close_stream(EventStream& stream) { co_await stream.close(); }

/// Returns the whole answer as text.
Task<std::optional<std::string>> answer_text(CorePtr core, RunModelCall& call) {
    EventStream stream = co_await answer(core, call);
    Task<std::optional<std::string>> reading = read_text(core, stream, call.message);
    co_return co_await cubepi::with_cleanup(std::move(reading), close_stream(stream));
}

Task<> save_state(SaveStateCall& call) {
    auto open = call.state.service<OpenLifespan>();
    if (open && open->lifespan) co_await close_lifespan(std::move(open), call.error);
}

Envelope answer_to(const RenderOutboundCall& call, std::string text, std::string kind) {
    Envelope made(std::move(text));
    made.session_id = call.session_id;
    made.channel = call.message.channel.value_or("default");
    made.chat_id = call.message.chat_id.value_or("default");
    made.output_channel = call.message.output_channel;
    made.kind = std::move(kind);
    return made;
}

/// Tells the sender of an unread message what the session waits for.
Envelope unread_notice(const RenderOutboundCall& call, const OpenQuestions& open) {
    std::string text =
        "This session waits for an answer, so the message has not been read yet. Answer first, or "
        "withdraw the question with ,abandon";
    JsonArray requests;
    for (const cubepi::HitlRequest& one : open.requests) {
        text += "\n\n" + question_text(one);
        requests.push_back(cubepi::to_json(one));
    }
    Envelope notice = answer_to(call, std::move(text), std::string(envelope_kind::error));
    notice.rest[open_questions_key] = std::move(requests);
    return notice;
}

/// Returns the questions of sub-agents in the background that this turn shows.
std::vector<cubepi::HitlRequest> task_questions(const CorePtr& core,
                                                const RenderOutboundCall& call) {
    const auto agents = core->options().agents->find(call.session_id);
    const auto turn = call.state.service<ShowingTurn>();
    if (!agents || !turn) return {};
    turn->shown = agents->new_questions();
    core->options().agents->note_questions(call.session_id, agents->questions->pending());
    return turn->shown;
}

/// The form of usage_key.
JsonObject usage_json(const cubepi::Usage& usage) {
    const std::int64_t cached = usage.cache_read_tokens.value_or(0);
    JsonObject made;
    made["input"] = usage.input_tokens.value_or(0) + cached + usage.cache_write_tokens.value_or(0);
    made["cached"] = cached;
    made["output"] = usage.output_tokens.value_or(0);
    made["reasoning"] = usage.reasoning_tokens.value_or(0);
    return made;
}

/// The answer of the model, and the questions with which its turn has ended.
EnvelopeBatch render(const CorePtr& core, RenderOutboundCall& call) {
    const auto open = call.state.service<OpenQuestions>();
    std::vector<Envelope> outputs;
    if (open && open->unread) {
        outputs.push_back(unread_notice(call, *open));
        return EnvelopeBatch(std::move(outputs));
    }
    const auto finish = call.state.service<detail::TurnFinish>();
    // A complete answer is an envelope like Bub's.
    const bool is_incomplete = finish && finish->end != cubepi::AnswerEnd::complete;
    const auto add = [&](std::string text, std::string kind) {
        outputs.push_back(answer_to(call, std::move(text), std::move(kind)));
        if (call.state.service<RefusedAnswer>()) outputs.back().rest[refused_answer_key] = true;
        if (is_incomplete) outputs.back().rest[finish_key] = cubepi::to_string(finish->end);
    };
    std::vector<cubepi::HitlRequest> questions = task_questions(core, call);
    if ((!open && questions.empty()) || !call.model_output.empty())
        add(call.model_output, call.message.kind.value_or(std::string(envelope_kind::normal)));
    if (finish && !finish->problem.empty()) {
        std::string problem = finish->problem + ".";
        problem.front() = 'T';
        add(std::move(problem), std::string(envelope_kind::error));
    }
    if (open) questions.insert(questions.begin(), open->requests.begin(), open->requests.end());
    for (const cubepi::HitlRequest& request : questions) {
        Envelope question =
            answer_to(call, question_text(request), std::string(envelope_kind::question));
        question.rest[question_key] = cubepi::to_json(request);
        outputs.push_back(std::move(question));
    }
    const auto used = call.state.service<detail::TurnUsage>();
    if (used && !outputs.empty() && call.message.rest.contains(usage_key))
        outputs.back().rest[usage_key] = usage_json(used->usage);
    return EnvelopeBatch(std::move(outputs));
}

Task<std::optional<bool>> dispatch(CorePtr core, DispatchOutboundCall& call) {
    const std::shared_ptr<OutboundChannelRouter> router = core->framework().router();
    std::optional<bool> sent(false);
    if (router) {
        TurnOutput output = call.output();
        sent = co_await router->dispatch_output(std::move(output));
    }
    co_return sent;
}

Task<> show_error(CorePtr core, OnErrorCall& call) {
    if (!call.message) co_return;
    // The channel manager tries again, or tells the sender that the message is held (D90).
    if (!call.message->receipts.empty() && cause_of(call.error) != FailureCause::turn) co_return;
    const FailureText& describes = core->options().failure_text;
    std::string text = describes ? describes(call.error)
                                 : "An error occurred at stage '" + std::string(call.stage) +
                                       "': " + describe(call.error);
    co_await notify_sender(core, *call.message, std::move(text));
}

Task<std::optional<std::string>> system_prompt(CorePtr core, SystemPromptCall& call) {
    const std::string& own = core->options().system_prompt;
    std::string text = own.empty() ? std::string(default_prompt) : own;
    const std::filesystem::path directory = core->workspace_of(call.state);
    co_await core->announce_files(directory);
    // Those that the turn has read with its skills.
    auto texts = call.state.service<detail::ProjectTexts>();
    if (!texts) texts = co_await core->project_texts(directory);
    if (!texts->instructions.empty()) text += "\n\n" + texts->instructions;
    std::optional<std::string> given(std::move(text));
    co_return given;
}

bool is_quit(const Envelope& message) {
    if (!is_command(message)) return false;
    const std::string_view line = std::string_view(message.content_text()).substr(1);
    return cubepi::detail::trimmed(line, " \t\n") == "quit";
}

Task<std::optional<AdmitDecision>> admit(CorePtr core, AdmitMessageCall& call) {
    const std::shared_ptr<OutboundChannelRouter> router = core->framework().router();
    std::optional<AdmitDecision> decision;
    if (!router) co_return decision;
    decision = co_await router->admit_message(call.session_id, call.message, call.turn);
    // A turn in progress receives the results itself: they do not steer it.
    if (detail::is_results_message(call.message) && call.turn.is_running) {
        decision.emplace();
        decision->action = AdmitAction::follow_up;
    }
    if (is_quit(call.message)) {
        // Turns of a session run one after the other (B8): a quit queued after the turns that it should end would have
        // no effect.
        co_await router->quit(call.session_id);
        router->cancel_turn(call.session_id);
        decision = AdmitDecision();
    }
    co_return decision;
}

std::optional<ModelOptions> model_options(const CorePtr& core) {
    ModelOptions options;
    const auto add = [&options](const std::string& id) {
        for (const ModelChoice& known : options.models) {
            if (known.id == id) return;
        }
        ModelChoice choice;
        choice.id = id;
        choice.name = id;
        options.models.push_back(std::move(choice));
    };
    if (core->options().model) add(core->options().model.spec().id);
    for (const std::string& id : core->options().other_models) add(id);
    if (options.models.empty()) return std::nullopt;
    options.current_model = options.models.front().id;
    return options;
}

void add_turn_hooks(Plugin& plugin, const CorePtr& core) {
    plugin.resolve_session = resolve_session;
    plugin.load_state = [core](LoadStateCall& call) { return load_state(core, call); };
    plugin.build_prompt = [core](BuildPromptCall& call) { return build_prompt(core, call); };
    plugin.run_model = [core](RunModelCall& call) { return answer_text(core, call); };
    plugin.run_model_stream = [core](RunModelCall& call) { return answer(core, call); };
    plugin.save_state = [](SaveStateCall& call) { return save_state(call); };
    plugin.render_outbound = [core](RenderOutboundCall& call) { return render(core, call); };
    plugin.dispatch_outbound = [core](DispatchOutboundCall& call) { return dispatch(core, call); };
    plugin.on_error = [core](OnErrorCall& call) { return show_error(core, call); };
    plugin.system_prompt = [core](SystemPromptCall& call) { return system_prompt(core, call); };
    plugin.admit_message = [core](AdmitMessageCall& call) { return admit(core, call); };
}

void add_services(Plugin& plugin, const CorePtr& core) {
    plugin.provide_steering_inbox = [core](ProvideCall&) -> std::shared_ptr<SteeringInbox> {
        return std::make_shared<MemorySteeringInbox>(core->options().max_steering);
    };
    plugin.provide_tape_store = [core](ProvideCall& call) -> std::shared_ptr<TapeStore> {
        if (core->options().tape_store) return core->options().tape_store;
        FileTapeOptions options;
        options.directory = core->options().home / "tapes";
        options.clock = call.framework.runtime()->clock;
        options.workers = call.framework.runtime()->workers;
        return std::make_shared<FileTapeStore>(std::move(options));
    };
    // Bub's store of long results: this library uses files, but a tape of Bub must be archived and emptied as a whole.
    plugin.provide_tape_sidecar = [](ProvideCall&) {
        TapeSidecar spill;
        spill.name = "spill";
        return spill;
    };
    plugin.provide_lifespan = [core](ProvideCall&) -> std::shared_ptr<Lifespan> {
        return std::make_shared<AgentsLifespan>(core->options().agents);
    };
    plugin.provide_model_options = [core](ModelOptionsCall&) { return model_options(core); };
    plugin.onboard_config = core->options().onboard;
    if (core->options().channels) {
        plugin.provide_channels = [core](ProvideChannelsCall& call) {
            return core->options().channels(call);
        };
    }
}

}  // namespace

Task<JsonObject> stored_model_choice(std::shared_ptr<TapeStore> store, std::string tape) {
    return last_choice(std::move(store), std::move(tape), std::string(model_event));
}

Task<std::string> stored_effort(std::shared_ptr<TapeStore> store, std::string tape) {
    const JsonObject switched =
        co_await last_choice(std::move(store), std::move(tape), std::string(effort_event));
    std::string effort = text_member(switched, "reasoning_effort");
    if (effort.empty()) effort = reasoning_efforts.front();
    co_return effort;
}

Task<JsonObject> suspended_endpoint(std::shared_ptr<TapeStore> store, std::string tape,
                                    bool continues) {
    const JsonObject state = co_await store->read_state(tape);
    if (!continues && !has_suspended_run(state)) co_return JsonObject();
    co_return co_await last_choice(std::move(store), std::move(tape),
                                   std::string(detail::endpoint_event));
}

TapeEntry endpoint_entry(JsonObject endpoint) {
    return event_entry(std::string(detail::endpoint_event), std::move(endpoint),
                       hidden_from_context());
}

Plugin builtin_plugin(Framework& framework, BuiltinOptions options) {
    auto core = std::make_shared<BuiltinCore>(framework, std::move(options));
    Plugin plugin;
    plugin.name = "builtin";
    add_turn_hooks(plugin, core);
    add_services(plugin, core);
    return plugin;
}

}  // namespace bub
