#include "renderers.hpp"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include <unistd.h>

#include <bub/tape/prompt_context.hpp>
#include <cubepi/core/message_json.hpp>
#include <cubepi/core/number_text.hpp>
#include <cubepi/core/support/json_member.hpp>
#include <cubepi/middleware/goal.hpp>
#include <cubepi/provider/cost.hpp>

#include "../conversation/pipeline.hpp"
#include "../failure.hpp"
#include "../terminal/event_text.hpp"
#include "../terminal/job_control.hpp"
#include "../terminal/terminal_stream.hpp"
#include "../terminal/terminal_text.hpp"
#include "../terminal/text_layout.hpp"

namespace cubepi::app {

namespace {

constexpr std::chrono::milliseconds interval(100);
constexpr std::size_t shown_diff_lines = 12;
constexpr std::size_t outcome_columns = 200;

void print_line(const JsonObject& line) {
    data_output(safe_json(line) + "\n");
    out().flush();
}

constexpr std::size_t replayed_rows = 16;

/// The outcome of a turn in JSON: a run that has completed may have an incomplete answer.
std::string_view status_of(const TurnEnd& end) {
    if (end.failure.exit_code == exit_incomplete) return "incomplete";
    if (end.result) return to_string(end.result->outcome);
    const bool waits = end.failure.exit_code == exit_waiting;
    return to_string(waits ? RunOutcome::suspended : RunOutcome::failed);
}

void greet(const SessionPlan& plan, const Style& style) {
    out() << style.bold() << "cubepi" << style.off() << " talks to "
          << spelled_out(plan.model.where) << ".";
    if (!plan.name.empty()) out() << " Session: " << for_terminal(plan.name) << ".";
    out() << "\n"
          << style.dim() << "Ctrl-C stops an answer, Ctrl-D or /quit leaves, /help says more."
          << style.off() << "\n\n";
    for (const std::string& note : plan.notes) out() << for_terminal(note) << "\n\n";
}

void print_warnings(const SessionPlan& plan) {
    for (const std::string& warning : plan.warnings)
        err() << "cubepi: " << for_terminal(warning) << "\n";
}

/// Leaves the channel and the date out of the message of a user, which the user has not written.
void leave_out_context(Json& message) {
    JsonObject* const members = message.if_object();
    if (!members || detail::string_member(*members, "role") != "user") return;
    Json* const content = members->if_contains("content");
    JsonArray* const parts = content ? content->if_array() : nullptr;
    if (!parts) return;
    for (Json& part : *parts) {
        JsonObject* const block = part.if_object();
        Json* const text = block ? block->if_contains("text") : nullptr;
        if (text && text->is_string())
            *text = std::string(bub::without_context(text->get_string()));
    }
}

}  // namespace

Spinner::Spinner(Style style, Clock& clock, Executor executor)
    : style_(style), timer_(clock.timer(std::move(executor))) {}

Spinner::~Spinner() { stop(); }

void Spinner::start(TerminalText what) {
    if (!style_.terminal || !style_.color || running_) return;
    what_ = std::move(what);
    running_ = true;
    tick();
}

void Spinner::tick() {
    // In the background it would overwrite the lines of the foreground job.
    if (in_foreground(STDERR_FILENO)) {
        err() << "\r" << style_.dim() << progress_frames[frame_++ % progress_frames.size()] << " "
              << what_ << style_.off() << flush_now;
        drawn_ = true;
    }
    timer_->expires_after(interval, [this] { tick(); });
}

void Spinner::stop() {
    if (!running_) return;
    running_ = false;
    timer_->cancel();
    if (!std::exchange(drawn_, false) || !in_foreground(STDERR_FILENO)) return;
    err() << "\r\x1b[K" << flush_now;
}

Screen::Screen(Clock& clock, Executor executor)
    : clock_(clock),
      style_(Style::of(STDOUT_FILENO)),
      status_style_(Style::of(STDERR_FILENO)),
      spinner_(status_style_, clock, std::move(executor)),
      markdown_(style_, [this](TerminalView text, Flow flow) {
          markdown_out_ += style_.terminal ? prose_.add(text, flow, columns_) : TerminalText(text);
      }) {}

void Screen::write_markdown() {
    out().write_laid_out(std::exchange(markdown_out_, {}));
    out().flush();
}

void Screen::pause() {
    spinner_.stop();
    end_thinking();
    if (answering_) markdown_.finish();
    markdown_out_ += prose_.finish();
    answering_ = false;
    write_markdown();
}

void Screen::end_thinking() {
    if (!std::exchange(thinking_, false)) return;
    err() << status_style_.dim() << "… thought for "
          << for_terminal(rounded_seconds_text(clock_.now() - thinking_since_))
          << status_style_.off() << "\n";
}

void Screen::on_event(const AgentEvent& event) {
    if (const StreamEvent* stream = event.stream_event()) return on_stream(*stream);
    edits_.note(event);
    if (const auto* start = event.get_if<ToolExecutionStartEvent>())
        return on_tool_start(*start, event.timestamp);
    if (const auto* end = event.get_if<ToolExecutionEndEvent>())
        return on_tool_end(*end, event.timestamp);
    if (const auto* notice = event.get_if<NoticeEvent>()) {
        if (!shows_notice(notice->notice)) return;
        pause();
        err() << status_style_.yellow() << "! " << status_style_.off()
              << line_for_terminal(notice->notice.text, 300) << "\n";
        if (notice->notice.code == "retry") spinner_.start(TerminalView("waiting to retry"));
        repeats_ = notice->notice.details.contains("discarded");
        if (notice->notice.code == "context_overflow")
            spinner_.start(TerminalView("compacting the conversation"));
        return;
    }
    const auto* message = event.get_if<MessageEndEvent>();
    const ToolResultMessage* const result = message ? message->message.tool_result() : nullptr;
    const JsonObject* const edited = result ? edited_arguments(result->details) : nullptr;
    // The line of the call has them, unless the question was not asked here.
    if (result && !edits_.take(result->tool_call_id) && edited) {
        pause();
        err() << status_style_.dim()
              << "  edited: " << line_for_terminal(arguments_text(*edited), 300)
              << status_style_.off() << "\n";
    }
    if (message && is_goal_continuation(message->message)) {
        pause();
        err() << status_style_.dim() << line_for_terminal(message->message.text(), 300)
              << status_style_.off() << "\n";
    }
    if (event.type() == AgentEventType::turn_start)
        spinner_.start(TerminalView("waiting for the model"));
    if (event.type() == AgentEventType::message_end || event.type() == AgentEventType::agent_end)
        pause();
    if (message && std::exchange(repeats_, false))
        spinner_.start(TerminalView("waiting for the model"));
}

void Screen::on_text(std::string_view delta) {
    spinner_.stop();
    end_thinking();
    answering_ = true;
    if (style_.terminal) {
        columns_ = static_cast<std::size_t>(Style::of(STDOUT_FILENO).columns);
        markdown_.set_columns(columns_);
    }
    markdown_.add(delta);
    write_markdown();
}

void Screen::on_stream(const StreamEvent& event) {
    switch (event.type) {
        case StreamEventType::thinking_delta:
            if (!std::exchange(thinking_, true)) thinking_since_ = clock_.now();
            return;
        case StreamEventType::text_delta: return on_text(event.delta);
        case StreamEventType::text_end: return pause();
        default: return;
    }
}

void Screen::on_tool_start(const ToolExecutionStartEvent& event,
                           std::chrono::steady_clock::time_point now) {
    pause();
    started_[event.tool_call_id] = now;
    const auto width = static_cast<std::size_t>(Style::of(STDERR_FILENO).columns);
    const JsonObject* const edited = edits_.find(event.tool_call_id);
    const std::string arguments = call_text(event.tool_name.str(), edited ? *edited : event.args);
    if (event.tool_name == "ask_user") asked_[event.tool_call_id] = event.args;
    err() << status_style_.cyan() << "● " << status_style_.off() << status_style_.bold()
          << spelled_out(tool_title(event.tool_name.str())) << status_style_.off()
          << (edited ? TerminalView(" (edited) ") : TerminalView(" "))
          << line_for_terminal(arguments, width > 30 ? width - 20 : 60) << "\n";
    spinner_.start("running " + spelled_out(tool_title(event.tool_name.str())));
}

void Screen::on_tool_end(const ToolExecutionEndEvent& event,
                         std::chrono::steady_clock::time_point now) {
    pause();
    const auto begun = started_.find(event.tool_call_id);
    err() << (event.is_error ? status_style_.red() : status_style_.green())
          << (event.is_error ? TerminalView("  ✗ ") : TerminalView("  ✓ ")) << status_style_.off()
          << status_style_.dim() << spelled_out(tool_title(event.tool_name.str())) << ": "
          << line_for_terminal(outcome_text(event), outcome_columns);
    // A result that is replayed has no times.
    if (begun != started_.end() && now > begun->second)
        err() << "  " << for_terminal(rounded_seconds_text(now - begun->second));
    err() << status_style_.off() << "\n";
    const DiffSource source = diff_source_of(event);
    if (!accepted_.take(source.path, source.diff))
        err() << diff_view(source, status_style_, shown_diff_lines).text;
    if (const auto asked = asked_.find(event.tool_call_id); asked != asked_.end()) {
        const auto width = static_cast<std::size_t>(Style::of(STDERR_FILENO).columns);
        err() << framed(answers_text(asked->second, event.result.details), width, answer_frame);
        asked_.erase(asked);
    }
    if (const auto todos = todos_set_by(event)) {
        const auto width = static_cast<std::size_t>(Style::of(STDERR_FILENO).columns);
        err() << todo_view(*todos, status_style_, width, shown_todos);
    }
    started_.erase(event.tool_call_id);
}

void Screen::summary(const RunResult& result, std::chrono::steady_clock::duration time) {
    if (!status_style_.terminal) return;
    err() << status_style_.dim() << "— ";
    const Usage& usage = result.usage;
    const std::int64_t in = usage.input_tokens.value_or(0) + usage.cache_read_tokens.value_or(0) +
                            usage.cache_write_tokens.value_or(0);
    if (usage.input_tokens || usage.output_tokens) {
        err() << in << " tokens in, " << usage.output_tokens.value_or(0) << " out, ";
    }
    if (result.cost) err() << for_terminal(money_text(*result.cost)) << ", ";
    err() << for_terminal(rounded_seconds_text(time)) << status_style_.off() << "\n";
}

bool is_redundant(const AgentEvent& event) {
    const auto* notice = event.get_if<NoticeEvent>();
    if (!notice || notice->notice.code != "hitl_request_ended") return false;
    const Json* outcome = notice->notice.details.if_contains("outcome");
    return outcome && *outcome == "aborted";
}

void JsonRenderer::begin(const Pipeline& pipeline) {
    pipeline_ = &pipeline;
    print_notes(pipeline.plan());
}

void JsonRenderer::show_event(const AgentEvent& event) {
    // An event after the end of a run: the run failed, and another one continues it.
    print_ended_run(nullptr);
    AgentEvent shown = event;
    shown.run = run_of(shown);
    JsonObject line = to_json(shown);
    if (Json* const message = line.if_contains("message")) leave_out_context(*message);
    note_model(shown);
    if (shown.type() == AgentEventType::agent_start) add_model(line);
    if (shown.type() == AgentEventType::agent_end ||
        shown.type() == AgentEventType::agent_suspended) {
        ended_ = std::move(line);
        return;
    }
    print_line(line);
}

void JsonRenderer::end_turn(const TurnEnd& end) {
    print_ended_run(&end);
    if (end.failure.exit_code != exit_ok) problem(end.failure.text);
}

void JsonRenderer::print(std::string_view text) { err() << for_terminal(text); }

void JsonRenderer::note(std::string_view text) { err() << for_terminal(text) << "\n"; }

void JsonRenderer::problem(std::string_view text) {
    err() << "cubepi: " << for_terminal(text) << "\n";
}

void JsonRenderer::note_model(const AgentEvent& event) {
    if (event.type() != AgentEventType::agent_start) return;
    if (const std::shared_ptr<const Model> model = pipeline_->running_model()) {
        model_ = model->id;
        provider_ = model->provider_id;
    }
}

void JsonRenderer::add_model(JsonObject& line) const {
    const std::string& session = pipeline_->plan().name;
    line["model"] = model_;
    line["provider"] = provider_;
    line["session"] = session.empty() ? Json() : Json(session);
}

void JsonRenderer::print_ended_run(const TurnEnd* end) {
    if (!ended_) return;
    JsonObject line = std::move(*ended_);
    ended_.reset();
    add_model(line);  // the session may have been saved at the end
    const RunResult* const result = end && end->result ? &*end->result : nullptr;
    const bool is_incomplete = end && end->failure.exit_code == exit_incomplete;
    line["status"] = end ? status_of(*end) : to_string(RunOutcome::failed);
    line["error"] = result && result->failure ? Json(result->failure->what())
                    : is_incomplete           ? Json(end->failure.text)
                                              : Json();
    if (result) {
        line["usage"] = to_json(result->usage);
        line["cost"] = result->cost ? Json(*result->cost) : Json();
    }
    print_line(line);
}

void ResultRenderer::end_turn(const TurnEnd& end) {
    JsonObject line;
    line["type"] = "result";
    line["status"] = status_of(end);
    line["exit_status"] = end.ended_by == 0 ? end.failure.exit_code : 128 + end.ended_by;
    line["error"] = end.failure.exit_code == exit_ok ? Json() : Json(end.failure.text);
    line["text"] = end.text;
    if (end.value) line["value"] = *end.value;
    add_model(line);
    std::int64_t calls = 0;
    if (end.result) {
        for (const Message& message : end.result->new_messages)
            calls += message.assistant() ? 1 : 0;
        line["usage"] = to_json(end.result->usage);
        line["cost"] = end.result->cost ? Json(*end.result->cost) : Json();
    }
    line["model_calls"] = calls;
    line["duration_ms"] = std::chrono::duration_cast<std::chrono::milliseconds>(end.time).count();
    print_line(line);
    if (end.failure.exit_code != exit_ok) problem(end.failure.text);
}

/// Replaces the name of the tape by that of the session.
std::shared_ptr<const RunInfo> JsonRenderer::run_of(const AgentEvent& event) {
    if (!event.run || event.run == original_) return renamed_;
    original_ = event.run;
    RunInfo info = *event.run;
    info.thread_id = pipeline_->plan().name;
    renamed_ = std::make_shared<const RunInfo>(std::move(info));
    return renamed_;
}

void print_notes(const SessionPlan& plan) {
    if (plan.model.found_locally) err() << "Using " << spelled_out(plan.model.where) << ".\n";
    for (const std::string& note : plan.notes) err() << for_terminal(note) << "\n";
    print_warnings(plan);
}

PlainRenderer::PlainRenderer(Clock& clock, Executor executor, Opening opening)
    : screen_(clock, std::move(executor)), opening_(opening) {}

void PlainRenderer::begin(const Pipeline& pipeline) {
    wants_value_ = pipeline.plan().wanted != nullptr;
    if (opening_ == Opening::notes) return print_notes(pipeline.plan());
    greet(pipeline.plan(), style());
    out().flush();
    print_warnings(pipeline.plan());
}

ReplaySpace PlainRenderer::replay_space() const {
    // The output of `run` is its answer.
    if (!style().terminal || opening_ == Opening::notes) return {};
    return {static_cast<std::size_t>(style().columns), replayed_rows};
}

void PlainRenderer::show_prompt(std::string_view text) {
    screen_.pause();
    out() << "> " << for_terminal(text) << "\n";
}

void PlainRenderer::show_event(const AgentEvent& event) {
    const StreamEvent* const stream = event.stream_event();
    const bool is_text = stream && stream->type == StreamEventType::text_delta;
    if (is_redundant(event) || (wants_value_ && is_text)) return;
    screen_.on_event(event);
}

void PlainRenderer::show_text(std::string_view delta) {
    if (!wants_value_) screen_.on_text(delta);
}

void PlainRenderer::show_output(std::string_view text, const JsonObject&) {
    screen_.pause();
    out() << for_terminal(text) << "\n";
}

void PlainRenderer::end_turn(const TurnEnd& end) {
    screen_.pause();
    if (end.value) data_output(end.text + "\n");
    if (end.result) screen_.summary(*end.result, end.time);
    if (end.failure.exit_code != exit_ok) problem(end.failure.text);
}

void PlainRenderer::print(std::string_view text) {
    screen_.pause();
    out() << for_terminal(text) << flush_now;
}

void PlainRenderer::note(std::string_view text) {
    screen_.pause();
    out() << for_terminal(text) << "\n";
}

void PlainRenderer::problem(std::string_view text) {
    screen_.pause();
    err() << "cubepi: " << for_terminal(text) << "\n";
}

LiveRenderer::LiveRenderer(std::shared_ptr<Console> console, Clock& clock, Executor executor)
    : console_(std::move(console)), view_(*console_, clock, std::move(executor)) {}

void LiveRenderer::begin(const Pipeline& pipeline) {
    greet(pipeline);
    const SessionPlan& plan = pipeline.plan();
    view_.introduce(plan.model.model.spec().id, plan.name, shown_spec(plan.model));
    models_ = plan.models;
    plan.models->on_change([this](const ModelChoice& model) {
        view_.show_model(model.model.spec().id, shown_spec(model));
    });
    view_.show_location(plan.location);
    if (plan.approval) view_.show_mode(plan.approval->mode());
    console_->attention().begin(plan.terminal);
    console_->set_key_bindings(plan.terminal.keys);
    if (plan.terminal.vi_keys) console_->use_vi_keys();
    show_title(plan.name);
    view_.count_commands([&pipeline] {
        const std::vector<ShellSessions::Summary> all = pipeline.background_commands();
        return static_cast<std::size_t>(
            std::count_if(all.begin(), all.end(), [](const auto& one) { return one.running; }));
    });
    if (plan.prompter) view_.leave_out([prompter = plan.prompter] { return prompter->waited(); });
}

void LiveRenderer::show_title(const std::string& session) {
    console_->attention().set_title(session);
}

void LiveRenderer::greet(const Pipeline& pipeline) {
    const SessionPlan& plan = pipeline.plan();
    const Style& style = console_->style();
    TerminalText text =
        style.bold() + "cubepi" + style.off() + " talks to " + spelled_out(plan.model.where) + ".";
    if (!plan.name.empty()) text += " Session: " + spelled_out(plan.name) + ".";
    text += "\n" + style.dim() + "Esc stops an answer, Ctrl-D or /quit leaves, /help says more." +
            style.off() + "\n\n";
    for (const std::string& note : plan.notes) text += for_terminal(note) + "\n\n";
    console_->print(text);
    for (const std::string& warning : plan.warnings) view_.problem(warning + "\n");
}

ReplaySpace LiveRenderer::replay_space() const {
    return {console_->columns(), console_->rows() > 14 ? console_->rows() - 8 : 6};
}

void LiveRenderer::show_event(const AgentEvent& event) {
    if (!is_redundant(event)) view_.on_event(event);
}

void LiveRenderer::end_turn(const TurnEnd& end) {
    view_.end_turn();
    // The turn may have found the window of the model.
    if (models_)
        view_.show_model(models_->current().model.spec().id, shown_spec(models_->current()));
    if (end.stopped) {
        view_.note("stopped.");
    } else if (end.failure.exit_code != exit_ok) {
        problem(end.failure.text);
    }
    console_->print("\n");
}

void LiveRenderer::print(std::string_view text) {
    view_.end_text();
    console_->print(for_terminal(text));
}

void Renderer::show_items(std::vector<PagerItem> items) {
    std::string text;
    for (const PagerItem& item : items) text += std::string(item.title.str()) + "\n" + item.text;
    print(text);
}

void LiveRenderer::show_items(std::vector<PagerItem> items) {
    view_.end_text();
    const std::deque<PagerItem> all(std::make_move_iterator(items.begin()),
                                    std::make_move_iterator(items.end()));
    console_->open_screen(std::make_shared<Pager>(all, style(), PagerStart::first_item));
}

void LiveRenderer::problem(std::string_view text) { view_.problem(text); }

void LiveRenderer::write_control(const TerminalText& sequence) {
    console_->write_control(sequence);
}

}  // namespace cubepi::app
