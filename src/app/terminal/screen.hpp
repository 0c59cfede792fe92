#pragma once

#include <chrono>
#include <map>
#include <memory>
#include <string>
#include <string_view>

#include <cubepi/agent/run_result.hpp>
#include <cubepi/core/agent_event.hpp>
#include <cubepi/core/clock.hpp>

#include "markdown.hpp"
#include "prose_writer.hpp"
#include "spinner.hpp"
#include "style.hpp"

namespace cubepi::app {

/// Shows a run: the answer on standard output, everything else (tools, thinking, notices, times) on standard error, so
/// that a pipe gets the answer alone. Used on one executor.
class Screen {
public:
    Screen(Clock& clock, Executor executor);

    /// Shows the progress sign until the output of the next event.
    void wait(TerminalView what) { spinner_.start(what); }
    void on_event(const AgentEvent& event);
    /// Prints a piece of an answer that is not from an agent.
    void on_text(std::string_view delta);
    /// Tokens, money and time, after the run.
    void summary(const RunResult& result, std::chrono::steady_clock::duration time);
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
    ProseWriter prose_;
    std::size_t columns_ = 80;
    TerminalText markdown_out_;
    bool thinking_ = false;
    std::chrono::steady_clock::time_point thinking_since_ = {};
    bool answering_ = false;
};

}  // namespace cubepi::app
