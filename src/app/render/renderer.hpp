#pragma once

#include <chrono>
#include <cstddef>
#include <exception>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <cubepi/agent/run_result.hpp>
#include <cubepi/core/agent_event.hpp>

#include "../conversation/tool_approval.hpp"
#include "../failure.hpp"
#include "../terminal/full_screen.hpp"
#include "../terminal/terminal_stream.hpp"
#include "../terminal/terminal_text.hpp"

namespace cubepi::app {

class Pipeline;

/// How a turn ended.
struct TurnEnd {
    std::optional<RunResult> result =
        {};  ///< of the agent's run; absent if it did not begin, and in the live chat
    /// The answer: the text after the last tool call, or the JSON text of a value (WantedAnswer).
    std::string text = {};
    std::optional<Json> value = {};
    Failure failure = {};  ///< its exit code is exit_ok if the turn succeeded
    bool stopped = false;  ///< the user stopped the turn
    int ended_by = 0;      ///< the signal after which the program ends; 0: none
    std::chrono::steady_clock::duration time{
        0};  ///< without the time that questions waited for the user
};

/// Returns true for a notice that tells the user no more than that the user stopped a turn during a question.
bool is_redundant(const AgentEvent& event);

/// The lines that the end of a resumed conversation may take.
struct ReplaySpace {
    std::size_t columns = 80;
    std::size_t rows = 0;  ///< 0: nothing is replayed
};

/// Shows a conversation: as the answer alone (`run`), as JSON lines, as a chat of plain lines, or at the live prompt. All
/// text is untrusted; a renderer makes it safe for its output. Used on one executor.
class Renderer {
public:
    Renderer() = default;
    Renderer(const Renderer&) = delete;
    Renderer& operator=(const Renderer&) = delete;
    virtual ~Renderer() = default;

    // The conversation.

    /// Announces the model and the session, and shows the notes of the plan. `pipeline` outlives the renderer's use.
    virtual void begin(const Pipeline& pipeline) = 0;
    virtual ReplaySpace replay_space() const { return {}; }
    /// Shows an earlier prompt of the user.
    virtual void show_prompt(std::string_view) {}
    /// The session was saved under this name.
    virtual void name_session(const std::string&) {}
    /// The following turns belong to another session; it has no name yet if `name` is empty.
    virtual void begin_session(const std::string&) {}

    /// Takes a tool event of a resumed session, of which only the end is shown again.
    virtual void remember(const AgentEvent&) {}
    virtual void remember_thinking(const std::string&) {}
    /// The events up to the next turn are those of remember().
    virtual void begin_replay() {}
    /// The mode of the tools has changed.
    virtual void show_mode(ApprovalMode) {}

    // A turn.

    virtual void begin_turn() {}
    virtual void show_event(const AgentEvent& event) = 0;
    /// Shows a piece of an answer that comes from no agent.
    virtual void show_text(std::string_view delta) = 0;
    /// Shows the output of a comma command. `details`: of its event.
    virtual void show_output(std::string_view text, const JsonObject& details) = 0;
    /// Shows an error that the turn reports while it runs; it is also the failure of end_turn().
    virtual void show_error(std::string_view) {}
    virtual void end_turn(const TurnEnd& end) = 0;
    /// The user has accepted a change of a file after its diff was shown.
    virtual void note_accepted(std::string_view, std::string_view) {}
    /// Counts the work of a sub-agent that a command has reported, if `data` has one.
    virtual void count_work(const JsonObject&) {}

    // The program.

    /// Ends output that is incomplete, so that other text can follow.
    virtual void pause() {}
    /// Prints text that the user asked for, line ends included.
    virtual void print(std::string_view text) = 0;
    /// Prints a line about the state of the conversation.
    virtual void note(std::string_view text) = 0;
    virtual void warn(std::string_view text) { problem(text); }
    /// Reports a failure of the program or of a command.
    virtual void problem(std::string_view text) = 0;
    /// Shows texts that may be longer than the screen, beginning with the first one.
    virtual void show_items(std::vector<PagerItem> items);
    /// True if write_control() reaches a terminal.
    virtual bool has_control() const { return false; }
    /// Writes an escape sequence that does not change the screen.
    virtual void write_control(const TerminalText&) {}
    /// The style of questions to the user.
    virtual Style style() const { return {}; }
};

}  // namespace cubepi::app
