#pragma once

#include <chrono>
#include <cstddef>
#include <map>
#include <memory>
#include <string>
#include <string_view>

#include <cubepi/agent/run_result.hpp>
#include <cubepi/core/agent_event.hpp>
#include <cubepi/core/clock.hpp>
#include <cubepi/core/task.hpp>

#include "code_view.hpp"
#include "markdown.hpp"
#include "terminal_stream.hpp"
#include "text_layout.hpp"

namespace cubepi::app {

/// A progress sign on standard error. Only at a terminal, and only in its foreground job. Used on one executor.
class Spinner {
public:
    /// `clock` must outlive the object.
    Spinner(Style style, Clock& clock, Executor executor);
    ~Spinner();
    void start(TerminalText what);
    void stop();

private:
    void tick();

    Style style_;
    std::unique_ptr<ClockTimer> timer_;
    TerminalText what_;
    std::size_t frame_ = 0;
    bool running_ = false;
    bool drawn_ = false;
};

/// Shows a run: the answer on standard output, everything else (tools, thinking, notices, times) on standard error, so
/// that a pipe gets the answer alone. Used on one executor.
class Screen {
public:
    Screen(Clock& clock, Executor executor);

    void on_event(const AgentEvent& event);
    /// Prints a piece of an answer that is not from an agent.
    void on_text(std::string_view delta);
    /// Tokens, money and time, after the run.
    void summary(const RunResult& result, std::chrono::steady_clock::duration time);
    /// The diff of a change that the user has accepted was shown; its result shows it no more.
    void note_accepted(std::string_view path, std::string_view diff) { accepted_.add(path, diff); }
    /// Ends incomplete output, so that other text can be written.
    void pause();

    const Style& style() const noexcept { return style_; }

private:
    void on_stream(const StreamEvent& event);
    void on_tool_start(const ToolExecutionStartEvent& event,
                       std::chrono::steady_clock::time_point now);
    void on_tool_end(const ToolExecutionEndEvent& event, std::chrono::steady_clock::time_point now);
    void end_thinking();
    void write_markdown();

    Clock& clock_;
    Style style_;         // of standard output
    Style status_style_;  // of standard error
    Spinner spinner_;
    MarkdownStream markdown_;
    std::map<std::string, std::chrono::steady_clock::time_point> started_;
    std::map<std::string, JsonObject> asked_;  // the arguments of ask_user
    ShownChanges accepted_;
    ProseWriter prose_;
    std::size_t columns_ = 80;
    TerminalText markdown_out_;
    bool thinking_ = false;
    std::chrono::steady_clock::time_point thinking_since_ = {};
    bool answering_ = false;
};

}  // namespace cubepi::app
