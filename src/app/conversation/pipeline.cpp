#include "pipeline.hpp"

#include <algorithm>
#include <utility>
#include <vector>

#include <bub/channel.hpp>
#include <bub/channel/debounce.hpp>
#include <bub/questions.hpp>
#include <bub/tape/entry/entry_fields.hpp>
#include <bub/tape/memory_tape_store.hpp>
#include <bub/tape/tape_context.hpp>
#include <bub/turn_error.hpp>
#include <cubepi/agent/middleware.hpp>
#include <cubepi/core/cancellation.hpp>
#include <cubepi/core/outcome.hpp>
#include <cubepi/core/runtime.hpp>
#include <cubepi/mcp/deferred_mcp_tools.hpp>
#include <cubepi/process/sandbox.hpp>
#include <cubepi/provider/faux.hpp>
#include <cubepi/provider/structured.hpp>

#include "../failure.hpp"
#include "../process.hpp"
#include "../program.hpp"
#include "../project/git.hpp"
#include "../saved_sessions.hpp"
#include "../shell_quoting.hpp"
#include "approval_dialog.hpp"
#include "tool_approval.hpp"

namespace cubepi::app {

namespace {

/// Passes the events of a turn to a function and discards the answer as a whole, which has been shown by then.
class ShowingRouter final : public bub::OutboundChannelRouter {
public:
    ShowingRouter(Pipeline::Show show, FailureContext context)
        : show_(std::move(show)), context_(std::move(context)) {}

    bub::EventStream wrap_stream(const bub::Envelope& message, bub::EventStream stream) override {
        return bub::EventStream::map(std::move(stream), [this, &message](bub::StreamEvent event) {
            note_error(event);
            show_(event, message);
            return std::optional<bub::StreamEvent>(std::move(event));
        });
    }
    Task<bool> dispatch_output(bub::TurnOutput) override { co_return true; }

    /// The last error that the stream reported; empty: none.
    const std::string& error() const noexcept { return error_; }

private:
    void note_error(const bub::StreamEvent& event) {
        if (event.kind != bub::event_kind::error) return;
        error_ = explain_event(event.data, context_);
    }

    Pipeline::Show show_;
    FailureContext context_;
    std::string error_;
};

/// A copy of a tape in memory, which reads media of the original.
class CopiedTape final : public bub::TapeStore, public bub::TapeMediaStore {
public:
    explicit CopiedTape(std::shared_ptr<bub::TapeStore> original)
        : original_(std::move(original)),
          media_(dynamic_cast<bub::TapeMediaStore*>(original_.get())) {}

    Task<> copy(std::string tape) {
        std::vector<bub::TapeEntry> entries;
        try {
            entries = co_await original_->fetch(tape, bub::ContextStart::last_anchor().query());
        } catch (const Error& error) {
            // Before the first prompt there is no entry.
            if (error.code() != ErrorCode::not_found) throw;
        }
        // The state of middleware may be older than the context.
        for (const std::string_view name :
             {bub::detail::extra_event, bub::detail::extra_changes_event}) {
            std::optional<bub::TapeEntry> found =
                co_await original_->find_event(tape, std::string(name));
            if (!found) continue;
            const auto same =
                std::find_if(entries.begin(), entries.end(),
                             [&](const bub::TapeEntry& entry) { return entry.id == found->id; });
            if (same == entries.end()) entries.push_back(std::move(*found));
        }
        std::sort(entries.begin(), entries.end(),
                  [](const bub::TapeEntry& a, const bub::TapeEntry& b) { return a.id < b.id; });
        // The plan of the copy has the model of the session, or one that records.
        std::erase_if(entries, [](const bub::TapeEntry& entry) {
            return entry.kind == bub::entry_kind::event && bub::entry_name(entry) == "model_switch";
        });
        if (entries.empty()) co_return;
        co_await memory_.append(std::move(tape), std::move(entries), bub::TapeAppend().keep_ids());
    }

    Task<std::vector<std::string>> all_tapes() override { return memory_.all_tapes(); }
    Task<std::vector<bub::TapeEntry>> fetch(std::string tape, bub::TapeQuery query) override {
        return memory_.fetch(std::move(tape), std::move(query));
    }
    Task<bub::TapePosition> append(std::string tape, std::vector<bub::TapeEntry> entries,
                                   bub::TapeAppend options) override {
        return memory_.append(std::move(tape), std::move(entries), std::move(options));
    }
    Task<bub::TapePosition> position(std::string tape) override {
        return memory_.position(std::move(tape));
    }
    Task<Json> edit_state(std::string tape, std::function<Json(JsonObject& state)> edit) override {
        return memory_.edit_state(std::move(tape), std::move(edit));
    }
    Task<JsonObject> read_state(std::string tape) override {
        return memory_.read_state(std::move(tape));
    }
    Task<QuestionPage> list_requests(QuestionQuery query) override {
        return memory_.list_requests(std::move(query));
    }
    Task<std::string> put_media(std::string bytes) override {
        return memory_.put_media(std::move(bytes));
    }
    Task<std::optional<std::string>> get_media(std::string sha256) override {
        std::optional<std::string> own = co_await memory_.get_media(sha256);
        if (own || !media_) co_return own;
        own = co_await media_->get_media(std::move(sha256));
        co_return own;
    }

private:
    std::shared_ptr<bub::TapeStore> original_;
    bub::TapeMediaStore* media_ = nullptr;
    bub::MemoryTapeStore memory_;
};

/// Refuses all calls, with the definitions of the tools unchanged.
class RefuseCalls {
public:
    Task<std::optional<BeforeToolCallResult>> before_tool_call(BeforeToolCallContext&) {
        std::optional<BeforeToolCallResult> refused;
        refused.emplace().block = true;
        refused->reason =
            "A side question is answered without tools. Answer from the conversation.";
        co_return refused;
    }
};

/// A plan whose turns change nothing: neither the session nor files.
Task<SessionPlan> plan_of_copy(Pipeline& pipeline) {
    SessionPlan plan = pipeline.plan();
    auto copy = std::make_shared<CopiedTape>(plan.tapes);
    co_await copy->copy(tape_of(plan));
    plan.tapes = std::move(copy);
    plan.model = pipeline.model();
    plan.models = nullptr;
    plan.name.clear();
    plan.create = nullptr;
    plan.open.reset();
    plan.resumed.reset();
    plan.hooks.clear();
    plan.prompter = nullptr;
    plan.host = nullptr;
    plan.background_channel = nullptr;
    plan.suspends = false;
    plan.saves_failed = false;
    plan.wanted = nullptr;
    plan.confirm_command = nullptr;
    plan.equip = [equip = plan.equip](AgentOptions& options, const bub::TurnContext& turn, bool) {
        equip(options, turn, false);
        // Approvals would ask about a call that is refused anyway.
        options.middleware.insert(options.middleware.begin(),
                                  Middleware(std::make_shared<RefuseCalls>()));
    };
    co_return plan;
}

}  // namespace

Pipeline::Pipeline(SessionPlan plan, Parts parts)
    : plan_(std::move(plan)),
      framework_(framework_options(parts)),
      on_session_(std::move(parts.on_session)) {
    if (!plan_.models)
        plan_.models = std::make_shared<SessionModel>(ModelSources(), nullptr, plan_.model);
    framework_.add(bub::builtin_plugin(framework_, builtin_options(parts)));
    add_plugins(framework_, parts.plugins);
}

bub::FrameworkOptions Pipeline::framework_options(const Parts& parts) const {
    bub::FrameworkOptions options;
    options.runtime = Runtime::standard();
    options.on_warning = parts.on_warning;
    if (plan_.telemetry) {
        options.tracer = plan_.telemetry->tracer();
        options.meter = plan_.telemetry->meter();
    }
    return options;
}

bub::BuiltinOptions Pipeline::builtin_options(const Parts& parts) {
    bub::BuiltinOptions options;
    options.model = plan_.model.model;
    options.select_model = [models = plan_.models](const JsonObject& stored) {
        return models->select(stored);
    };
    options.find_model = [models = plan_.models](const std::string& id) {
        return models->find(id);
    };
    options.describe_endpoint = [models = plan_.models,
                                 flags = plan_.run_flags](const AssistantMessage& answer) {
        JsonObject endpoint = models->describe(answer);
        if (!endpoint.empty() && !flags.empty()) endpoint[run_flags_key] = flags;
        return endpoint;
    };
    options.model_at_endpoint = [models = plan_.models](const JsonObject& endpoint,
                                                        const std::string& id) {
        return models->continue_at(endpoint, id);
    };
    options.list_models = [models = plan_.models] { return models->list(); };
    options.choose_model = [models = plan_.models](std::string id, bool force) {
        return models->choose(std::move(id), force);
    };
    options.other_models = plan_.model.fallbacks;
    options.system_prompt = plan_.system_prompt;
    options.loaded_files = plan_.files;
    options.instructions = bub::InstructionScope::user;
    options.trusts = [trusts = plan_.trusts_project](const std::filesystem::path&) {
        return trusts;
    };
    options.environment = plan_.environment;
    options.command_hooks = plan_.hooks;
    options.shell = plan_.shell;
    if (plan_.sandboxes && plan_.sandboxes->is_on()) {
        options.sandbox = [sandboxes = plan_.sandboxes](const std::filesystem::path& workspace) {
            return sandboxes->profile(workspace);
        };
    }
    options.with_todos = plan_.todos;
    options.commands = commands_;
    set_subagents(options, plan_.subagents);
    options.agents = agents_;
    options.background_channel = plan_.background_channel;
    options.waits_for_tasks = plan_.waits_for_tasks;
    options.on_tasks = [host = plan_.host, changed = parts.on_tasks](const std::string&) {
        // A task that has ended withdraws its question.
        if (host) host->refresh();
        if (changed) changed();
    };
    options.deliver_results = parts.deliver_results;
    options.with_tools = false;  // the plan has its own, which need approval
    options.tape_store = plan_.tapes;
    options.sends_first_anchor = false;
    options.configure = [this](AgentOptions& agent, const bub::TurnContext& turn) {
        plan_.equip(agent, turn, plan_.suspends || turn.stores_requests);
        // The screen and the editor show where an answer begins again; scripts read the last one.
        agent.limits.repeats_shown_text = true;
    };
    options.on_agent = [this, on_agent = parts.on_agent](const std::shared_ptr<Agent>& agent,
                                                         const bub::TurnContext&) {
        agent_ = agent;
        failed_fallback_.reset();
        if (on_agent) on_agent(agent);
        if (!plan_.prompter) return;
        agent->subscribe([prompter = plan_.prompter, host = plan_.host](const AgentEvent& event) {
            prompter->emitted(event);
            if (host) host->refresh();
        });
    };
    options.on_result = [this](const RunResult& result, const bub::TurnContext&) {
        note_result(result);
    };
    if (plan_.servers) {
        options.defer_tools = [most = plan_.max_listed_mcp_tools](std::vector<AgentTool>& tools) {
            return defer_mcp_tools(tools, most);
        };
    }
    options.confirm_command = plan_.confirm_command;
    if (plan_.wanted) {
        options.answer_form.emplace();
        options.answer_form->schema = plan_.wanted->schema;
        options.answer_form->on_answer = [wanted = plan_.wanted](const Json& value) {
            wanted->value = value;
        };
    }
    if (plan_.set_compaction) plan_.set_compaction(options);
    if (plan_.suspends || plan_.host || plan_.channel) {
        // The plan's own tools ask; the plugin suspends runs and accepts the answers.
        options.questions.emplace();
        options.questions->with_ask_user = false;
    }
    // A session that is not saved leaves no file.
    options.archive_on_reset = !plan_.name.empty() || plan_.create;
    if (options.archive_on_reset) options.memory = plan_.memory;
    options.channels = parts.channels;
    return options;
}

std::vector<ShellSessions::Summary> Pipeline::background_commands() const {
    const std::shared_ptr<ShellSessions> commands = commands_->find(plan_.session_id);
    return commands ? commands->list() : std::vector<ShellSessions::Summary>();
}

std::shared_ptr<ShellSessions::Command> Pipeline::background_command(const std::string& id) const {
    const std::shared_ptr<ShellSessions> commands = commands_->find(plan_.session_id);
    return commands ? commands->find(id) : nullptr;
}

Pipeline::Ended Pipeline::move_to(SessionLocation place) {
    Ended ended;
    ended.commands = commands_->end(plan_.session_id);
    ended.agents = agents_->end(plan_.session_id);
    plan_.name = std::move(place.name);
    plan_.session_id = std::move(place.session_id);
    plan_.tapes = std::move(place.tapes);
    plan_.create = std::move(place.create);
    plan_.open = std::move(place.open);
    names_after_prompt_ = false;
    plan_.resumed.reset();
    const bool temporary = plan_.name.empty() && !plan_.create;
    if (plan_.changes && plan_.create) {
        // Until the session has a name.
        plan_.changes->follow(bub::MemoryTapeStore(), std::string());
    } else if (plan_.changes && !(temporary && place.continues_changes)) {
        plan_.changes->follow(*plan_.tapes, tape_of(plan_));
    }
    for_model_.clear();
    return ended;
}

void Pipeline::add_note_for_model(std::string text) {
    for_model_ += (for_model_.empty() ? "" : "; ") + std::move(text);
}

bub::Envelope Pipeline::message(std::string text, bool from_operator) {
    const bool is_command = from_operator && (text.empty() || text.front() == ',');
    bub::Envelope message(std::move(text));
    // Recorded with an answer.
    if (is_command) message.context["sender_id"] = local_user();
    message.channel = "cli";
    message.chat_id = "local";
    message.session_id = plan_.session_id;
    message.is_active = true;
    message.from_operator = from_operator;
    if (!is_command && plan_.approval && plan_.approval->mode() == ApprovalMode::plan)
        message.context["mode"] = "plan (only tools that read run; answer with a plan)";
    if (!is_command && !for_model_.empty())
        message.context["files"] = std::exchange(for_model_, {});
    message.note_arrival(Runtime::standard()->clock->wall());
    return message;
}

/// Tells the model the state of the repository with the first message of the process, and the branch when it changes.
Task<> Pipeline::add_git_state(bub::Envelope& message) {
    if (message.is_operator() && message.content_text().starts_with(',')) co_return;
    std::filesystem::path directory = std::filesystem::current_path();
    std::string branch = git_branch(directory);
    if (branch_ == branch) co_return;
    const bool is_first = !branch_;
    branch_ = branch;
    if (branch.empty()) co_return;
    std::shared_ptr<ProcessLauncher> launcher;
    if (is_first && plan_.trusts_project && plan_.sandboxes) {
        std::shared_ptr<const SandboxProfile> profile = plan_.sandboxes->profile(directory);
        if (profile) profile = std::make_shared<const SandboxProfile>(profile->without_writes());
        launcher = launcher_of(*Runtime::standard(), std::move(profile));
    }
    const std::string state = co_await git_state(std::move(directory), std::move(launcher));
    message.context["git"] = state;
}

Task<bub::Envelope> Pipeline::for_session(bub::Envelope message) {
    co_await add_git_state(message);
    // A comma command does not describe the conversation.
    std::string prompt = message.content_text();
    const bool is_command = message.from_operator && prompt.starts_with(',');
    if (is_command) prompt.clear();
    const auto must_name = [&] { return plan_.create || (names_after_prompt_ && !is_command); };
    // Messages that arrive while the first one creates the session wait for it.
    while (must_name() && creating_session_) co_await session_created_.wait();
    if (must_name()) {
        creating_session_ = true;
        std::exception_ptr failed;
        try {
            co_await name_session(std::move(prompt));
        } catch (...) {
            failed = std::current_exception();
        }
        creating_session_ = false;
        session_created_.pulse();
        if (failed) std::rethrow_exception(failed);
        names_after_prompt_ = is_command;
    }
    if (is_command) last_command_ = message.lifespan;
    message.session_id = plan_.session_id;
    co_return message;
}

/// Creates the session, or renames one that was created for commands.
Task<> Pipeline::name_session(std::string prompt) {
    if (plan_.create) {
        plan_.name = co_await plan_.create(std::move(prompt));
        plan_.create = nullptr;
    } else if (!last_command_.expired()) {
        co_return;  // a command still uses the tape
    } else {
        plan_.open = nullptr;  // its tape may be removed
        SavedSessions saved = SavedSessions::here();
        plan_.name = co_await saved.name_after(plan_.name, std::move(prompt));
    }
    plan_.session_id = session_id_of(plan_.name);
    plan_.open = co_await mark_open(plan_.tapes, tape_of(plan_));
    if (plan_.changes) plan_.changes->follow(*plan_.tapes, tape_of(plan_));
    if (on_session_) on_session_(plan_.name);
}

Task<Answer> Pipeline::ask(bub::Envelope message, Show show) {
    const auto router = std::make_shared<ShowingRouter>(std::move(show), context());
    framework_.bind_router(router);
    result_.reset();
    turn_.emplace();
    std::exception_ptr thrown;
    std::shared_ptr<bub::OpenQuestions> open;
    bool refused = false;
    const std::string prompt = message.content_text();
    try {
        bub::Envelope addressed = co_await for_session(std::move(message));
        Task<bub::TurnResult> turn = framework_.process_inbound(std::move(addressed), true);
        const bub::TurnResult over = co_await cancel_on(turn_->get_token(), std::move(turn));
        open = over.state.service<bub::OpenQuestions>();
        refused = over.state.service<bub::RefusedAnswer>() != nullptr;
    } catch (...) {
        thrown = std::current_exception();
    }
    turn_.reset();
    framework_.bind_router(nullptr);
    const auto state = co_await this_cancellation;
    const bool cancelled = state.cancelled() != boost::asio::cancellation_type::none;
    if (thrown && cancelled) std::rethrow_exception(thrown);
    Answer answer;
    answer.result = std::move(result_);
    if (answer.result && answer.result->outcome == RunOutcome::suspended && plan_.name.empty())
        co_await save(prompt);
    answer.failure = failure_of(answer, thrown, router->error());
    if (saves_failed(answer)) co_await save_failed(prompt, answer.failure);
    if (open && open->unread) answer.failure = unread(open->requests);
    if (refused && answer.failure.exit_code == exit_ok) {
        answer.failure.exit_code = exit_failed;
        answer.failure.text = "the answer was not accepted";
    }
    co_return answer;
}

void Pipeline::note_shown(const bub::StreamEvent& event) {
    if (plan_.prompter && event.agent_event) plan_.prompter->shown(*event.agent_event);
}

std::chrono::steady_clock::duration Pipeline::waited_for_user() const {
    return plan_.prompter ? plan_.prompter->waited() : std::chrono::steady_clock::duration(0);
}

void Pipeline::stop() {
    if (!turn_) return;
    const std::shared_ptr<Agent> agent = agent_.lock();
    if (agent && agent->state().is_streaming) {
        agent->abort();
    } else {
        turn_->request_stop();
    }
}

Task<std::optional<std::string>> Pipeline::steer(bub::Envelope message) {
    std::optional<std::string> id;
    if (!inbox_) inbox_ = co_await framework_.steering_inbox();
    const std::shared_ptr<Agent> agent = agent_.lock();
    // A command is a turn of its own.
    if (!turn_ || !agent || !agent->state().is_streaming || !bub::is_prompt(message)) co_return id;
    message.inbound_id = Runtime::standard()->ids->next();
    std::string its_id = bub::input_id_of(message);
    if (inbox_->enqueue(plan_.session_id, std::move(message))) id = std::move(its_id);
    co_return id;
}

void Pipeline::withdraw(const std::string& id) {
    std::vector<bub::Envelope> waiting = inbox_->drain(plan_.session_id);
    std::erase_if(waiting, [&](const bub::Envelope& one) { return bub::input_id_of(one) == id; });
    inbox_->put_back(plan_.session_id, std::move(waiting));
}

Failure Pipeline::failure_of(const Answer& answer, const std::exception_ptr& thrown,
                             const std::string& reported) const {
    // The error of the turn has the text of the run's error, but not its class.
    const bool failed = answer.result && answer.result->outcome == RunOutcome::failed;
    if (failed && dynamic_cast<const StructuredOutputError*>(&answer.result->error()))
        return app::explain(answer.result->error(), context());
    if (thrown) return explain(thrown);
    if (answer.result && answer.result->outcome == RunOutcome::suspended)
        return waiting(answer.result->pending_requests);
    // The turn of a run that reached a limit ends normally; the user who set the limit is notified.
    if (answer.result && !*answer.result) return app::explain(answer.result->error(), context());
    if (answer.result && reported.empty()) {
        if (std::optional<Failure> incomplete = incomplete_answer(*answer.result, context()))
            return std::move(*incomplete);
    }
    Failure none;
    none.exit_code = reported.empty() ? exit_ok : exit_failed;
    none.text = reported;
    return none;
}

Failure Pipeline::unread(const std::vector<HitlRequest>& requests) const {
    Failure failure;
    failure.exit_code = exit_waiting;
    failure.text = "session '" + visible(plan_.name) +
                   "' waits for an answer, so the message was not read." +
                   ways_to_answer(requests, plan_);
    return failure;
}

/// Returns true if there is work of a run that would be lost.
bool Pipeline::saves_failed(const Answer& answer) const {
    if (!plan_.saves_failed || !plan_.name.empty() || !answer.result) return false;
    const RunOutcome outcome = answer.result->outcome;
    if (outcome != RunOutcome::failed && outcome != RunOutcome::limited) return false;
    const MessageList& made = answer.result->new_messages;
    return std::any_of(made.begin(), made.end(), [](const Message& message) {
        const AssistantMessage* const one = message.assistant();
        return one && one->error_message.empty();
    });
}

/// Saves the session of a run that has failed, and adds to the failure how to continue it.
Task<> Pipeline::save_failed(std::string prompt, Failure& failure) {
    const Outcome<> saved = co_await outcome_of(save(std::move(prompt)));
    if (saved.cancelled()) saved.rethrow();
    if (!saved) {
        failure.text += "\n  The run could not be saved: " + bub::describe(saved.failure());
        co_return;
    }
    failure.text += "\n  The run is saved as session '" + visible(plan_.name) +
                    "'.\n  To continue: cubepi run --session " + shell_word(plan_.name) +
                    plan_.directory_flag + plan_.models->flags_to_resume() + " continue";
}

/// Saves the session of a run that was not saved until now, so that it can be continued.
Task<> Pipeline::save(std::string prompt) {
    SavedSessions saved = SavedSessions::here();
    Task<std::string> adopting = saved.adopt(plan_.tapes, tape_of(plan_), std::move(prompt));
    plan_.name = co_await std::move(adopting);
    plan_.session_id = session_id_of(plan_.name);
    plan_.tapes = saved.tapes();
    if (!plan_.changes) co_return;
    plan_.changes->copy_to(*plan_.tapes, tape_of(plan_));
    plan_.changes->follow(*plan_.tapes, tape_of(plan_));
}

Failure Pipeline::waiting(const std::vector<HitlRequest>& requests) const {
    Failure failure;
    failure.exit_code = exit_waiting;
    failure.text = "the run waits for an answer; it is saved as session '" + visible(plan_.name) +
                   "'." + ways_to_answer(requests, plan_);
    return failure;
}

namespace {

/// As many rows as leave the commands on the screen.
constexpr ScreenSize hint_size{100, 40};

/// Returns indented lines with the question, as a chat shows it.
std::string shown_question(const HitlRequest& request, const std::string& session) {
    std::string text;
    if (std::holds_alternative<ApproveRequest>(request.payload)) {
        bool complete = true;
        text = ApprovalDialog::shown(request, Style(), hint_size, complete).str();
        if (!complete)
            text += "To see all of it: cubepi inbox show " +
                    shell_word(bub::question_name(request)) + " --session " + shell_word(session);
    } else {
        text = bub::question_summary(request);
    }
    while (text.ends_with('\n')) text.pop_back();
    std::string indented = "  ";
    for (const char c : text) indented += c == '\n' ? std::string("\n  ") : std::string(1, c);
    return indented;
}

}  // namespace

std::string ways_to_answer(const std::vector<HitlRequest>& requests, const SessionPlan& plan) {
    const std::string place = " --session " + shell_word(plan.name) + plan.directory_flag +
                              plan.models->flags_to_continue();
    std::string lines;
    for (const HitlRequest& request : requests) {
        const bool approves = std::holds_alternative<ApproveRequest>(request.payload);
        lines += "\n" + shown_question(request, plan.name) + "\n  To answer: cubepi inbox " +
                 (approves ? "approve " : "answer ") + shell_word(bub::question_name(request)) +
                 (approves ? "" : " TEXT") + place;
    }
    return lines + "\n  In a chat: cubepi chat" + place;
}

Failure Pipeline::explain(const std::exception_ptr& failure) const {
    return app::explain(failure, context());
}

std::shared_ptr<const Model> Pipeline::running_model() const {
    const std::shared_ptr<Agent> agent = agent_.lock();
    return agent ? std::as_const(*agent).state().model : nullptr;
}

/// Finds the model that ended a run with an error, if it is a fallback model.
void Pipeline::note_result(const RunResult& result) {
    result_ = result;
    if (result || result.new_messages.empty()) return;
    if (const AssistantMessage* last = result.new_messages.back().assistant())
        failed_fallback_ = plan_.models->fallback_of(*last);
}

FailureContext Pipeline::context() const {
    FailureContext context;
    const ModelChoice& model = failed_fallback_ ? *failed_fallback_ : plan_.models->current();
    context.where = model.where;
    context.key_variable = model.key_variable;
    context.withheld_key = model.endpoint.withheld_key;
    context.address_from = model.endpoint.from.base_url;
    context.session = plan_.name;
    context.in_chat = plan_.in_chat;
    return context;
}

Task<AsideAnswer> ask_aside(Pipeline& pipeline, std::string question) {
    SessionPlan plan = co_await plan_of_copy(pipeline);
    // A hook may have to see each prompt; it decides before anything is sent.
    for (const bub::CommandHook& hook : pipeline.plan().hooks)
        if (hook.point == bub::HookPoint::user_prompt_submit) plan.hooks.push_back(hook);
    Pipeline copy(std::move(plan), Pipeline::Parts());
    AsideAnswer made;
    std::string of_pipeline;  // not of the model
    Pipeline::Show show = [&of_pipeline](const bub::StreamEvent& event, const bub::Envelope&) {
        if (event.kind == bub::event_kind::text && !event.agent_event) of_pipeline += event.delta();
    };
    bub::Envelope message = copy.message(std::move(question), false);
    made.answer = co_await copy.ask(std::move(message), std::move(show));
    if (made.answer.result) {
        made.text = made.answer.result->text();
    } else if (made.answer.failure.exit_code == exit_ok) {
        made.answer.failure.exit_code = exit_failed;
        made.answer.failure.text = std::move(of_pipeline);
    }
    co_return made;
}

Task<NextRequest> request_for(Pipeline& pipeline, std::string prompt) {
    SessionPlan plan = co_await plan_of_copy(pipeline);
    const auto recorded = std::make_shared<NextRequest>();
    std::vector<FauxStep> steps;
    steps.emplace_back([recorded](const ModelRequest& request) {
        recorded->request = request;
        return faux_assistant_message("recorded");
    });
    auto recorder = std::make_shared<FauxProvider>();
    recorder->set_responses(std::move(steps));
    plan.model.model = BoundModel(std::move(recorder), plan.model.model.shared_spec());
    plan.model.fallbacks.clear();
    // A new summary would be asked of the model that records; the stored one applies.
    plan.set_compaction = [](bub::BuiltinOptions& options) {
        if (!options.compaction) return;
        options.compaction->window_share = 0;
        options.compaction->max_tokens_before_compact = 0;
    };
    Pipeline copy(std::move(plan), Pipeline::Parts());
    Pipeline::Show show = [](const bub::StreamEvent&, const bub::Envelope&) {};
    bub::Envelope message = copy.message(std::move(prompt), false);
    const Answer answer = co_await copy.ask(std::move(message), std::move(show));
    recorded->failure = answer.failure;
    co_return std::move(*recorded);
}

}  // namespace cubepi::app
