#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <cubepi/core/agent_event.hpp>
#include <cubepi/core/clock.hpp>
#include <cubepi/core/model.hpp>
#include <cubepi/core/task.hpp>
#include <cubepi/middleware/todo_list.hpp>
#include <cubepi/net/utf8.hpp>

#include "../conversation/tool_approval.hpp"
#include "code_view.hpp"
#include "console.hpp"
#include "event_text.hpp"
#include "full_screen.hpp"
#include "markdown.hpp"

namespace cubepi::app {

/// The view of a conversation at the console: answers as Markdown while they arrive, a card for each tool call, the
/// current wait, and in the status line the mode, the share of the context, tokens, money and time. Used on one executor.
class ChatView {
public:
    /// All three must outlive the view.
    ChatView(Console& console, Clock& clock, Executor executor);
    ~ChatView();
    ChatView(const ChatView&) = delete;
    ChatView& operator=(const ChatView&) = delete;

    /// Sets the beginning of the status line and the model whose prices apply.
    void introduce(std::string model, std::string session, std::shared_ptr<const Model> priced);
    /// Changes the model for the next turns.
    void show_model(std::string model, std::shared_ptr<const Model> priced);

    /// Directory and branch for the status line.
    void show_location(std::string place);
    void show_mode(ApprovalMode mode);
    /// The session's name for the status line, once it has one.
    void name_session(std::string session);
    /// `waited` returns how long questions have waited for the user so far; the time of a turn excludes it.
    void leave_out(std::function<std::chrono::steady_clock::duration()> waited);
    /// `running` returns how many commands run in the background, which the status line says.
    void count_commands(std::function<std::size_t()> running) { commands_ = std::move(running); }
    /// Resets the sums, for a session of this name.
    void begin_session(std::string session);

    /// Prints the input of the user; `remark` states its effect, e.g. "steers".
    void echo(std::string_view text, TerminalView remark = {});
    void begin_turn();
    void end_turn();
    void on_event(const AgentEvent& event);
    /// Prints a piece of an answer that is not from an agent.
    void add_text(std::string_view delta);
    /// Ends the answer that is being shown.
    void end_text();
    /// Prints a status line.
    void note(std::string_view text);
    /// The diff of a change that the user has accepted was shown; its result shows it no more.
    void note_accepted(std::string_view path, std::string_view diff) { accepted_.add(path, diff); }
    /// Counts the work of a sub-agent that a command has reported.
    void count_work(const JsonObject& data);
    void problem(std::string_view text);
    /// Shows what the chat does between two turns; empty: nothing.
    void show_work(TerminalText what);
    /// Sets the sub-agents in the background, of which those that run are shown.
    void set_tasks(std::vector<SubagentTask> tasks);
    /// Sets the inputs that wait for the running turn, oldest first.
    void set_waiting(std::vector<std::string> texts);
    /// Switches between full and folded tool cards and thinking, beginning with the last one.
    void toggle_details();
    /// Prints the output of a command of the user. Of a very long one only the end is printed; the pager has all of it. `details`: of
    /// the event.
    void show_output(std::string_view text, const JsonObject& details);
    /// The turn is that of a command, not of the model.
    void wait_for_command() { wait_for("running the command"); }

    /// Shows the results, outputs and thinking of the session in full, on the whole screen.
    void open_pager();
    /// Adds the results and the thinking of a resumed session, which are not all printed.
    void remember(const AgentEvent& event);
    void remember_thinking(std::string text);
    /// Events are printed, but not added to the pager, until the next turn: remember() has added them.
    void begin_replay() { replaying_ = true; }

private:
    struct Card {
        std::string tool = {};
        TerminalText title = {};
        std::string arguments = {};  // those that are not in the title
        std::string text = {};
        std::string outcome = {};      // one line
        std::string diff = {};         // of the file that the call changed
        std::string path = {};         // of that file
        bool diff_was_shown = false;   // in the question that the user has answered
        std::vector<Todo> todos = {};  // that the call has set
        std::size_t hidden = 0;        // changed lines that the diff does not have
        std::string tail = {};     // the last lines that a command has printed, also while it runs
        std::size_t earlier = 0;   // lines before those
        std::string refusal = {};  // the words by which a sandbox shows
        bool asks = false;         // the tool ask_user, whose questions are on the screen
        JsonObject asked = {};     // its arguments
        std::string answers = {};
        bool failed = false;
        bool stopped = false;
        std::chrono::steady_clock::time_point begun = {};
        std::string time = {};
        std::string work = {};  // of a sub-agent, so far
    };

    void on_stream(const StreamEvent& event);
    void on_tool_end(const ToolExecutionEndEvent& event, std::chrono::steady_clock::time_point now);
    void on_message_end(const Message& message);
    void count_summary(const JsonObject& details);
    void add_work(const std::optional<SubagentWork>& work);
    void wait_for(TerminalView what);
    void wait_to_retry(const JsonObject& details);
    void print_stopped_cards();
    void on_tool_update(const ToolExecutionUpdateEvent& event);
    void add_live_lines(std::vector<TerminalText>& lines, const Card& card) const;
    Card finished_card(const ToolExecutionEndEvent& event, Card card) const;
    void add_to_pager(const Card& card, const ToolExecutionEndEvent& event);
    void print_tail(const Card& card);
    TerminalText earlier_text(std::size_t lines) const;
    Card begun_card(const ToolExecutionStartEvent& event) const;
    /// Shows the arguments of the user in place of those of the model.
    void show_edit(Card& card, const JsonObject& arguments) const;
    void keep_card(Card card);
    void print_card(const Card& card, bool full);
    void print_diff(const Card& card, std::size_t max_lines);
    void print_lines(const std::string& text);
    void on_thinking(std::string_view delta);
    void end_thinking();
    void print_markdown();
    void refresh();
    void tick();
    TerminalText status_text() const;
    std::chrono::steady_clock::duration turn_time() const;

    Console& console_;
    Clock& clock_;
    Style style_;
    std::unique_ptr<ClockTimer> timer_;
    MarkdownStream markdown_;
    struct Piece {
        TerminalText text = {};
        Flow flow = Flow::prose;
    };
    std::vector<Piece> markdown_out_;
    std::string model_;
    std::string session_;
    std::string place_;
    std::optional<ApprovalMode> mode_;  // absent: there are no tools
    std::shared_ptr<const Model> priced_;

    bool busy_ = false;
    bool answering_ = false;
    bool details_ = false;
    std::size_t frame_ = 0;
    bool thinking_ = false;
    Utf8Splitter thinking_text_;
    std::chrono::steady_clock::time_point thinking_since_ = {};
    TerminalText waiting_for_;
    TerminalText idle_work_;
    std::chrono::steady_clock::time_point waiting_since_ = {};
    std::optional<std::chrono::steady_clock::time_point> retry_at_;  // then the model is waited for
    std::chrono::steady_clock::time_point turn_begun_ = {};
    std::function<std::chrono::steady_clock::duration()> waited_;
    std::function<std::size_t()> commands_;
    std::chrono::steady_clock::duration waited_before_{0};  // the turn
    std::chrono::steady_clock::duration last_turn_{0};
    std::vector<std::string> order_;  // of the running cards
    std::map<std::string, Card> running_;
    std::deque<Card> finished_;
    ShownChanges accepted_;
    EditedCalls edits_;
    PagerItems items_;
    bool replaying_ = false;
    std::string thought_;  // the thinking that is arriving
    std::vector<std::string> waiting_;
    std::vector<SubagentTask> tasks_;

    std::int64_t context_ = 0;    // tokens of the next request, as far as known
    std::int64_t tokens_in_ = 0;  // of the last request
    std::int64_t tokens_out_ = 0;
    double cost_ = 0;
    bool cost_known_ = true;
};

}  // namespace cubepi::app
