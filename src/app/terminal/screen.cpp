#include "screen.hpp"

#include <string_view>
#include <utility>

#include <unistd.h>

#include <cubepi/core/number_text.hpp>
#include <cubepi/middleware/goal.hpp>
#include <cubepi/provider/cost.hpp>

#include "event_text.hpp"
#include "job_control.hpp"
#include "text_layout.hpp"

namespace cubepi::app {

namespace {

constexpr std::chrono::milliseconds interval(100);
constexpr std::size_t shown_diff_lines = 12;
constexpr std::size_t outcome_columns = 200;

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
        if (notice->notice.code == "context_overflow")
            spinner_.start(TerminalView("compacting the conversation"));
        return;
    }
    const auto* message = event.get_if<MessageEndEvent>();
    const ToolResultMessage* const result = message ? message->message.tool_result() : nullptr;
    if (const JsonObject* const edited = result ? edited_arguments(result->details) : nullptr) {
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
    const std::string arguments = call_text(event.tool_name.str(), event.args);
    if (event.tool_name == "ask_user") asked_[event.tool_call_id] = event.args;
    err() << status_style_.cyan() << "● " << status_style_.off() << status_style_.bold()
          << spelled_out(tool_title(event.tool_name.str())) << status_style_.off() << " "
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

}  // namespace cubepi::app
