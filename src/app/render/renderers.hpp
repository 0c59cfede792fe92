#pragma once

#include <chrono>
#include <cstddef>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include <cubepi/agent/run_result.hpp>
#include <cubepi/core/agent_event.hpp>
#include <cubepi/core/clock.hpp>
#include <cubepi/core/task.hpp>

#include "../terminal/chat_view.hpp"
#include "../terminal/code_view.hpp"
#include "../terminal/console.hpp"
#include "../terminal/markdown.hpp"
#include "../terminal/terminal_stream.hpp"
#include "../terminal/text_layout.hpp"
#include "renderer.hpp"

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
    EditedCalls edits_;
    ProseWriter prose_;
    std::size_t columns_ = 80;
    TerminalText markdown_out_;
    bool thinking_ = false;
    std::chrono::steady_clock::time_point thinking_since_ = {};
    bool answering_ = false;
    bool repeats_ = false;  // the current answer is discarded, and its call made again
};

class SessionModel;

/// Prints the events of a prompt to standard output, one JSON object per line (docs/schema/agent-event.schema.json), and
/// everything else to standard error. `agent_start` names model and session; `agent_end` also has status, error, usage and
/// cost.
class JsonRenderer : public Renderer {
public:
    void begin(const Pipeline& pipeline) override;
    void show_event(const AgentEvent& event) override;
    void show_text(std::string_view) override {}
    void show_output(std::string_view, const JsonObject&) override {}
    void end_turn(const TurnEnd& end) override;
    void print(std::string_view text) override;
    void note(std::string_view text) override;
    void problem(std::string_view text) override;

protected:
    /// Notes the model if the event is the start of a run.
    void note_model(const AgentEvent& event);
    void add_model(JsonObject& line) const;

private:
    std::shared_ptr<const RunInfo> run_of(const AgentEvent& event);
    void print_ended_run(const TurnEnd* end);

    const Pipeline* pipeline_ = nullptr;
    std::optional<JsonObject> ended_;  ///< the agent_end that is not printed yet
    std::string model_;
    std::string provider_;
    std::shared_ptr<const RunInfo> original_;
    std::shared_ptr<const RunInfo> renamed_;
};

/// Prints one JSON object at the end of each prompt, and everything else to standard error.
class ResultRenderer final : public JsonRenderer {
public:
    void show_event(const AgentEvent& event) override { note_model(event); }
    void end_turn(const TurnEnd& end) override;
};

struct SessionPlan;

/// Prints on standard error which model was found and the notes of the plan.
void print_notes(const SessionPlan& plan);

/// Shows turns on standard output and standard error, one after another: `run`, and the chat where the terminal cannot show
/// a live prompt.
class PlainRenderer final : public Renderer {
public:
    enum class Opening : std::uint8_t {
        notes,    ///< the notes of the plan, on standard error
        greeting  ///< model, session and keys
    };
    /// `clock` outlives the object.
    PlainRenderer(Clock& clock, Executor executor, Opening opening);

    void begin(const Pipeline& pipeline) override;
    ReplaySpace replay_space() const override;
    void show_prompt(std::string_view text) override;
    void show_event(const AgentEvent& event) override;
    void show_text(std::string_view delta) override;
    void show_output(std::string_view text, const JsonObject& details) override;
    void end_turn(const TurnEnd& end) override;
    void note_accepted(std::string_view path, std::string_view diff) override {
        screen_.note_accepted(path, diff);
    }
    void pause() override { screen_.pause(); }
    void print(std::string_view text) override;
    void note(std::string_view text) override;
    void problem(std::string_view text) override;
    Style style() const override { return screen_.style(); }

private:
    Screen screen_;
    Opening opening_;
    bool wants_value_ = false;  ///< the output is the value alone, at the end
};

/// Shows the chat at a terminal whose prompt stays usable: text appears above the prompt.
class LiveRenderer final : public Renderer {
public:
    /// `clock` outlives the object.
    LiveRenderer(std::shared_ptr<Console> console, Clock& clock, Executor executor);

    ChatView& view() noexcept { return view_; }

    void begin(const Pipeline& pipeline) override;
    ReplaySpace replay_space() const override;
    void show_prompt(std::string_view text) override { view_.echo(text); }
    void name_session(const std::string& name) override {
        view_.name_session(name);
        show_title(name);
    }
    void begin_session(const std::string& name) override {
        view_.begin_session(name);
        show_title(name);
    }
    void begin_turn() override { view_.begin_turn(); }
    void note_accepted(std::string_view path, std::string_view diff) override {
        view_.note_accepted(path, diff);
    }
    void count_work(const JsonObject& data) override { view_.count_work(data); }
    void remember(const AgentEvent& event) override { view_.remember(event); }
    void remember_thinking(const std::string& text) override { view_.remember_thinking(text); }
    void begin_replay() override { view_.begin_replay(); }
    void show_mode(ApprovalMode mode) override { view_.show_mode(mode); }
    void show_event(const AgentEvent& event) override;
    void show_text(std::string_view delta) override { view_.add_text(delta); }
    void show_output(std::string_view text, const JsonObject& details) override {
        view_.show_output(text, details);
    }
    void show_error(std::string_view text) override { view_.problem(text); }
    void end_turn(const TurnEnd& end) override;
    void pause() override { view_.end_text(); }
    void print(std::string_view text) override;
    void note(std::string_view text) override { view_.note(text); }
    void warn(std::string_view text) override { view_.note(text); }
    void problem(std::string_view text) override;
    void show_items(std::vector<PagerItem> items) override;
    bool has_control() const override { return true; }
    void write_control(const TerminalText& sequence) override;
    Style style() const override { return console_->style(); }

private:
    void show_title(const std::string& session);
    void greet(const Pipeline& pipeline);

    std::shared_ptr<Console> console_;
    ChatView view_;
    std::shared_ptr<const SessionModel> models_ = {};  ///< null before begin()
};

}  // namespace cubepi::app
