#include "conversation.hpp"

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <limits>
#include <string_view>
#include <utility>

#include <bub/questions.hpp>
#include <bub/tape/tape_checkpointer.hpp>
#include <bub/turn_error.hpp>
#include <cubepi/core/cancellation.hpp>
#include <cubepi/core/outcome.hpp>
#include <cubepi/core/runtime.hpp>
#include <cubepi/core/support/trimmed.hpp>
#include <cubepi/core/task_scope.hpp>
#include <cubepi/schema/json_text.hpp>

#include "../failure.hpp"
#include "../process.hpp"
#include "../sessions.hpp"
#include "../terminal/keys.hpp"
#include "../terminal/text_layout.hpp"
#include "../transcript.hpp"
#include "pipeline.hpp"

namespace cubepi::app {

namespace {

/// More entries than fit on any screen.
constexpr std::size_t replayed_entries = 300;

/// Stops a turn at the first signal, and ends the program at the second.
class TurnSignals {
public:
    TurnSignals(Executor executor, Pipeline& pipeline)
        : watch_(std::move(executor),
                 [this, &pipeline](int signal) { on_signal(signal, pipeline); }) {}
    /// Returns the signal after which the program is to end; 0: none. Ctrl-C only stops the turn.
    int ended_by() const noexcept { return ended_by_; }
    bool stopped() const noexcept { return stopped_; }

private:
    void on_signal(int signal, Pipeline& pipeline) {
        // Each write to a closed pipe is another signal, and not a second request.
        if (stopped_ && signal == SIGPIPE) return;
        // The second request does not wait for cleanup.
        if (std::exchange(stopped_, true)) std::_Exit(128 + signal);
        if (signal != SIGINT) ended_by_ = signal;
        pipeline.stop();
    }

    int ended_by_ = 0;
    bool stopped_ = false;
    SignalWatch watch_;
};

}  // namespace

Conversation::Conversation(SessionPlan plan, Renderer& renderer, Parts parts)
    : renderer_(renderer),
      on_event_(std::move(parts.on_event)),
      on_end_(std::move(parts.on_end)),
      pipeline_(std::move(plan), pipeline_parts(parts)),
      actions_(pipeline_, renderer),
      changes_(pipeline_, renderer) {}

Conversation::~Conversation() {
    if (!plan().telemetry) return;
    plan().telemetry->end();
    show_telemetry();
}

/// Shows the notices of the exporters, which come from another thread.
void Conversation::show_telemetry() {
    if (!plan().telemetry) return;
    for (const std::string& text : plan().telemetry->take_notices()) renderer_.warn(text);
}

/// Shows which changes of files cannot be undone.
void Conversation::show_problems_of_changes() {
    if (!plan().changes) return;
    for (const std::string& text : plan().changes->take_problems()) renderer_.warn(text);
}

void Conversation::begin_turn() {
    show_telemetry();
    show_problems_of_changes();
    if (plan().take_warnings) {
        for (const std::string& text : plan().take_warnings()) renderer_.warn(text);
    }
    renderer_.begin_turn();
}

Pipeline::Parts Conversation::pipeline_parts(Parts& parts) {
    Pipeline::Parts made;
    made.plugins = parts.plugins;
    made.channels = std::move(parts.channels);
    made.on_tasks = std::move(parts.on_tasks);
    made.deliver_results = std::move(parts.deliver_results);
    made.on_warning = [this](const std::string& text) { renderer_.warn(text); };
    made.on_session = [this](const std::string& name) { renderer_.name_session(name); };
    return made;
}

Task<> Conversation::begin(bool shows_questions) {
    renderer_.begin(pipeline_);
    co_await replay();
    if (!plan().resumed) co_return;
    const JsonObject state = co_await plan().tapes->read_state(tape_of(plan()));
    if (const std::string title = session_title(state); !title.empty())
        renderer_.name_session(title);
    const std::vector<HitlRequest> open = co_await open_questions();
    if (shows_questions && !open.empty() && !plan().host) co_await show_open_questions();
}

/// Returns the questions of a suspended session, which must be answered first.
Task<std::vector<HitlRequest>> Conversation::open_questions() {
    const SessionPlan& plan = pipeline_.plan();
    std::vector<HitlRequest> requests;
    if (plan.name.empty()) co_return requests;
    bub::TapeCheckpointer memory(plan.tapes);
    const std::vector<PendingRequest> pending =
        co_await memory.load_pending_requests(tape_of(plan));
    for (const PendingRequest& one : pending) {
        if (!one.expired) requests.push_back(one.request);
    }
    waits_for_answer_ = !requests.empty();
    co_return requests;
}

Task<> Conversation::show_open_questions() {
    const std::vector<HitlRequest> open = co_await open_questions();
    if (open.empty()) co_return;
    renderer_.problem("session '" + visible(plan().name) + "' waits for an answer." +
                      ways_to_answer(open, plan()));
}

Task<std::optional<bub::Envelope>> Conversation::ask_open_question() {
    std::optional<bub::Envelope> message;
    const std::shared_ptr<QuestionHost> host = plan().host;
    if (!host) co_return message;
    std::vector<HitlRequest> open = co_await open_questions();
    if (open.empty()) co_return message;
    std::string id = bub::question_name(open.front());
    Json answer = co_await host->ask(std::move(open.front()));
    if (answer.is_null()) co_return message;
    message = pipeline_.message("", true);
    message->answer.emplace().question = std::move(id);
    message->answer->value = std::move(answer);
    co_return message;
}

void Conversation::next_mode() {
    const std::shared_ptr<ToolApproval>& approval = plan().approval;
    if (!approval) return renderer_.note("There are no tools (--no-tools).");
    approval->set_mode(mode_after(approval->mode()));
    renderer_.show_mode(approval->mode());
    if (approval->mode() != ApprovalMode::all || std::exchange(explained_all_, true)) return;
    renderer_.note("Mode " + std::string(name_of(ApprovalMode::all).str()) + ": " +
                   std::string(effect_of(ApprovalMode::all).str()) + ". " +
                   KeyBindings::hint(KeyCode::back_tab, "/mode") + " leaves it.");
}

Task<std::optional<std::string>> Conversation::ask_to_carry_out() {
    std::optional<std::string> prompt;
    const std::shared_ptr<ToolApproval> approval = plan().approval;
    const std::shared_ptr<Prompter> prompter = plan().prompter;
    const std::shared_ptr<QuestionHost> host = plan().host;
    if (!approval || approval->mode() != ApprovalMode::plan || !host || !prompter ||
        !prompter->can_ask())
        co_return prompt;
    co_await prompter->prepare();
    Choices choices;
    choices.text = TerminalView("  Carry out the plan?");
    choices.all = yes_and_no();
    Choice edits;
    edits.key = 'a';
    edits.label = TerminalView("[a]ccept edits");
    choices.all.insert(choices.all.begin() + 1, std::move(edits));
    choices.on_enter = 'n';
    // A sub-agent in the background may ask at the same time.
    Task<char> asking = choose_key(prompter, std::move(choices));
    const char answer = co_await host->alone(std::move(asking));
    if (answer != 'y' && answer != 'a') co_return prompt;
    approval->set_mode(answer == 'a' ? ApprovalMode::accept_edits : ApprovalMode::ask);
    renderer_.show_mode(approval->mode());
    prompt = "Carry out the plan.";
    co_return prompt;
}

Task<> Conversation::replay() {
    const SessionPlan& plan = pipeline_.plan();
    const ReplaySpace space = renderer_.replay_space();
    if (!plan.resumed || space.rows == 0) co_return;
    const MessageList messages =
        co_await read_end(plan.tapes, tape_of(plan), replayed_entries, shown_bytes);
    // All of it, for the pager.
    Replay all;
    all.tool = [this](const AgentEvent& event) { renderer_.remember(event); };
    all.thinking = [this](const std::string& text) { renderer_.remember_thinking(text); };
    (void)replay_end(messages, space.columns, std::numeric_limits<std::size_t>::max(), all);
    renderer_.begin_replay();
    Replay replay;
    replay.prompt = [this, first = true](const std::string& text) mutable {
        if (!std::exchange(first, false)) renderer_.print("\n");
        renderer_.show_prompt(text);
    };
    replay.answer = [this](const std::string& text) {
        renderer_.show_text(text);
        renderer_.pause();
    };
    replay.tool = [this](const AgentEvent& event) { renderer_.show_event(event); };
    (void)replay_end(messages, space.columns, space.rows, replay);
    renderer_.note(resumed_text(*plan.resumed, std::chrono::system_clock::now()));
    renderer_.print("\n");
}

Task<int> Conversation::run_turn(bub::Envelope message) {
    const Executor executor = co_await this_executor;
    const TurnSignals signals(executor, pipeline_);
    const auto begin = std::chrono::steady_clock::now();
    const auto waited_before = pipeline_.waited_for_user();
    begin_turn();
    answer_.clear();
    if (plan().wanted) plan().wanted->value.reset();
    Answer answer;
    co_await answer_requests_during(ask_pipeline(std::move(message), answer));
    renderer_.pause();
    if (signals.ended_by() == SIGPIPE) co_return exit_closed_pipe;
    TurnEnd end;
    end.result = std::move(answer.result);
    end.failure = std::move(answer.failure);
    end.stopped = signals.stopped();
    end.ended_by = signals.ended_by();
    end.time =
        std::chrono::steady_clock::now() - begin - (pipeline_.waited_for_user() - waited_before);
    if (plan().wanted && end.result && *end.result) end.value = plan().wanted->value;
    end.text = end.value    ? json_text(*end.value)
               : end.result ? end.result->text()
                            : std::string(detail::trimmed(answer_));
    renderer_.end_turn(end);
    show_problems_of_changes();
    if (on_end_) on_end_(end);
    co_return end.ended_by == 0 ? end.failure.exit_code : 128 + end.ended_by;
}

Task<> Conversation::ask_pipeline(bub::Envelope message, Answer& answer) {
    Pipeline::Show show_one = [this](const bub::StreamEvent& event, const bub::Envelope& about) {
        show(event, about);
    };
    answer = co_await pipeline_.ask(std::move(message), std::move(show_one));
}

Task<> Conversation::answer_requests_during(Task<> work) {
    const std::shared_ptr<QuestionHost> host = plan().host;
    if (!host) co_return co_await std::move(work);
    BackgroundScope scope(co_await this_executor);
    scope.spawn(host->run());
    co_await with_cleanup(std::move(work), scope.close());
}

void Conversation::show(const bub::StreamEvent& event, const bub::Envelope& message) {
    if (event.agent_event) {
        // The text before a call belongs to the work.
        if (event.agent_event->type() == AgentEventType::tool_execution_start) answer_.clear();
        if (on_event_) on_event_(*event.agent_event);
        renderer_.show_event(*event.agent_event);
        return pipeline_.note_shown(event);
    }
    if (event.kind == bub::event_kind::error)
        return renderer_.show_error(explain_event(event.data, pipeline_.context()));
    if (event.kind != bub::event_kind::text) return;
    const std::string_view delta = event.delta();
    answer_ += delta;
    renderer_.count_work(event.data);
    // Renderers separate the steps of a turn themselves.
    if (delta.find_first_not_of(" \n") == std::string_view::npos) return;
    if (message.kind == bub::envelope_kind::command)
        return renderer_.show_output(delta, event.data);
    renderer_.show_text(delta);
}

void Conversation::end_turn(const std::exception_ptr& failure) {
    TurnEnd end;
    end.failure.exit_code = exit_ok;
    end.stopped = failure && is_cancellation(failure);
    if (failure && !end.stopped) end.failure = pipeline_.explain(failure);
    renderer_.end_turn(end);
    show_problems_of_changes();
}

void Conversation::report(const std::exception_ptr& failure) {
    renderer_.problem(pipeline_.explain(failure).text);
}

Task<bool> Conversation::ask_aside(std::string question, std::function<bool()> during_turn) {
    Task<AsideAnswer> asking = app::ask_aside(pipeline_, std::move(question));
    Outcome<AsideAnswer> outcome = co_await outcome_of(std::move(asking));
    if (!outcome) {
        if (outcome.cancelled()) std::rethrow_exception(outcome.failure());
        report(outcome.failure());
        co_return false;
    }
    const AsideAnswer& made = outcome.value();
    if (made.answer.failure.exit_code != exit_ok || made.text.empty()) {
        const std::string& reason = made.answer.failure.text;
        renderer_.problem("no answer to the side question" +
                          (reason.empty() ? std::string() : ": " + reason));
        co_return false;
    }
    if (during_turn && during_turn()) {
        renderer_.print("\nbtw: " + made.text + "\n\n");
        co_return true;
    }
    renderer_.show_text(made.text);
    renderer_.pause();
    renderer_.note("(not a part of the session)");
    co_return true;
}

namespace {

/// Shows the failure of a command; a cancellation is rethrown.
void show_failure(Renderer& renderer, const std::exception_ptr& failure) {
    if (!failure) return;
    if (is_cancellation(failure)) std::rethrow_exception(failure);
    renderer.problem(bub::describe(failure));
}

bool always() { return true; }

}  // namespace

Task<> Conversation::perform(ChatAction action, std::string argument, ChatAbilities abilities,
                             std::function<bool()> is_idle) {
    if (action == ChatAction::help) {
        co_return show_help(chat_help(abilities));
    }
    if (!is_change_action(action)) co_return co_await actions_.perform(action, std::move(argument));
    if (!is_idle) is_idle = always;
    Task<> changing = change(action, std::move(argument), std::move(is_idle));
    const Outcome<> done = co_await outcome_of(std::move(changing));
    show_failure(renderer_, done.failure());
}

/// Shows a text that is longer than the screen in the pager.
void Conversation::show_help(std::string text) {
    const ReplaySpace space = renderer_.replay_space();
    const std::string shown = wrapped(text, space.columns);
    const auto rows = static_cast<std::size_t>(std::count(shown.begin(), shown.end(), '\n'));
    if (space.rows == 0 || rows <= space.rows) return renderer_.print(text);
    PagerItem item;
    item.title = TerminalView("Commands and keys");
    item.is_prose = true;
    item.text = std::move(text);
    std::vector<PagerItem> items;
    items.push_back(std::move(item));
    renderer_.show_items(std::move(items));
}

Task<> Conversation::change(ChatAction action, std::string argument,
                            std::function<bool()> is_idle) {
    const bool edits = action == ChatAction::undo || action == ChatAction::redo;
    if (!plan().changes && edits) co_return renderer_.print("There are no tools (--no-tools).\n");
    switch (action) {
        case ChatAction::undo: co_return co_await changes_.undo();
        case ChatAction::redo: co_return co_await changes_.redo();
        case ChatAction::diff: co_return co_await changes_.diff(std::move(argument));
        case ChatAction::fork:
            co_await changes_.fork(std::move(argument), std::move(is_idle));
            waits_for_answer_ = false;
            co_return;
        default: break;
    }
    const std::optional<RewindChoice> chosen = co_await choose_rewind(std::move(argument));
    if (!chosen) co_return;
    const std::string prompt = co_await rewind(*chosen, std::move(is_idle));
    if (!prompt.empty()) renderer_.print("The prompt was:\n" + prompt + "\n");
}

Task<std::optional<RewindChoice>> Conversation::choose_rewind(std::string number) {
    Task<std::optional<RewindChoice>> choosing = changes_.choose(std::move(number));
    // A key is for one question, and a sub-agent in the background may ask meanwhile.
    if (const auto& host = plan().host) choosing = host->alone(std::move(choosing));
    Outcome<std::optional<RewindChoice>> chosen = co_await outcome_of(std::move(choosing));
    show_failure(renderer_, chosen.failure());
    if (!chosen.ok()) co_return std::nullopt;
    co_return std::move(chosen).value();
}

Task<std::string> Conversation::rewind(RewindChoice choice, std::function<bool()> is_idle) {
    if (!is_idle) is_idle = always;
    Task<std::string> rewinding = changes_.rewind(choice, std::move(is_idle));
    Outcome<std::string> prompt = co_await outcome_of(std::move(rewinding));
    show_failure(renderer_, prompt.failure());
    if (!prompt.ok()) co_return std::string();
    if (choice.conversation) waits_for_answer_ = false;
    co_return std::move(prompt).value();
}

SessionParts session_parts(Renderer& renderer, std::shared_ptr<Prompter> prompter,
                           Executor executor) {
    SessionParts parts;
    parts.style = renderer.style();
    if (prompter) {
        parts.prompter = std::make_shared<TurnPrompter>(
            std::move(prompter), *Runtime::standard()->clock, std::move(executor),
            [&renderer] { renderer.pause(); },
            [&renderer](std::string_view path, std::string_view diff) {
                renderer.note_accepted(path, diff);
            });
    }
    return parts;
}

}  // namespace cubepi::app
