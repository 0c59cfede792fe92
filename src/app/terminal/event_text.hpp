#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <cubepi/core/agent_event.hpp>
#include <cubepi/core/json.hpp>
#include <cubepi/core/message.hpp>
#include <cubepi/core/notice.hpp>
#include <cubepi/middleware/subagents.hpp>
#include <cubepi/middleware/todo_list.hpp>

#include "code_view.hpp"
#include "terminal_stream.hpp"
#include "text_layout.hpp"

namespace cubepi::app {

// Texts of the events of a run, for its views: counts, ages, arguments and results.

/// "12,345"
std::string count_text(std::int64_t count);
/// The same in a short form: "12.3k".
std::string short_count_text(std::int64_t count);

/// "just now", "1 minute ago", "2 days ago".
std::string age_text(std::chrono::seconds age);

/// "path: src, limit: 3", on one line.
std::string arguments_text(const JsonObject& args);
/// The name of a tool for the user: "tracker:search" for mcp__tracker__search, of an MCP server.
std::string tool_title(const std::string& tool);
/// The arguments for the line of a call: the path of a file tool alone, whose diff or content follows, and nothing for calls whose
/// content is shown elsewhere.
std::string call_text(const std::string& tool, const JsonObject& args);
/// The arguments with several lines or many characters, each under its name. Cut at 64 KiB each.
std::string long_arguments_text(const JsonObject& args);

/// Returns the arguments with which the user let a call run, instead of those of the model; null: there are none. `details` are those of its
/// result.
const JsonObject* edited_arguments(const Json& details);

/// The arguments that the user has put in place of those of the model, from the answer to the question about a call until its result:
/// the events of the call have those of the model.
class EditedCalls {
public:
    void note(const AgentEvent& event);
    /// Returns null if the arguments of the call are those of the model.
    const JsonObject* find(const std::string& tool_call_id) const;
    /// Forgets a call. Returns whether it was edited.
    bool take(const std::string& tool_call_id) { return edits_.erase(tool_call_id) > 0; }
    void clear() {
        asked_.clear();
        edits_.clear();
    }

private:
    std::map<std::string, std::string> asked_;  // the calls of open questions, by request id
    std::map<std::string, JsonObject> edits_;   // by id of the call
};

/// Returns false for notices whose content the terminal shows elsewhere: the end of a question, the last failure of
/// a fallback chain.
bool shows_notice(const Notice& notice) noexcept;

/// Summarizes the result of a call in one line: "read 7 lines", "exit status 1: make: *** [all] Error 2", "path:
/// field required". Uses the details of the result, or the text for tools without details.
std::string outcome_text(const ToolExecutionEndEvent& event);

/// The end of the output of a command.
struct CommandOutput {
    std::string tail = {};    ///< the last lines that are not blank at the end
    std::size_t earlier = 0;  ///< lines before those
};
/// Of a line that a carriage return has overwritten, its last state counts.
CommandOutput last_output_lines(std::string_view output, std::size_t max_lines);
/// The output of a call that ran a command, without the tool's note about its end; empty for other results.
CommandOutput command_output(const ToolExecutionEndEvent& event, std::size_t max_lines);

constexpr std::size_t shown_todos = 10;  ///< items of a list that is not shown in full
/// Formats a to-do list: one line of at most `columns` for each item. With `max_items` (0: all) the completed items at the beginning
/// and those beyond the limit are counted instead.
TerminalText todo_view(const std::vector<Todo>& todos, const Style& style, std::size_t columns,
                       std::size_t max_items);

/// The path of the file with the whole output of a command, of which the result has only a part; empty: it has all of it.
std::string whole_output_file(const ToolExecutionEndEvent& event);

/// The diff in a result's details, which must outlive it; empty: none.
DiffSource diff_source_of(const ToolExecutionEndEvent& event);

// Texts of the tool ask_user, whose arguments and result are JSON. The texts are untrusted.

/// Returns the questions of a call, one a line with its options: "Which color? (red, teal)". Empty if the arguments have none.
std::string questions_text(const JsonObject& arguments);

/// Returns the answers, one a line with its question: "Which color? → teal". Empty if the details of the result have none, as those of
/// a request that was not answered.
std::string answers_text(const JsonObject& arguments, const Json& details);

/// Below the line of a call.
inline constexpr Frame answer_frame{"    ", "      "};

// Texts about sub-agents, for the views of a conversation.

/// The work of a sub-agent, as the details of its call or its message report it.
struct SubagentWork {
    std::int64_t turns = 0;  ///< calls of its model
    std::int64_t calls = 0;  ///< of tools; 0 also if they were not counted
    std::int64_t tokens_in = 0;
    std::int64_t tokens_out = 0;
    std::optional<double> cost = {};  ///< USD; absent: unknown
};

/// Reads the member `subagent` of a JSON object; nothing if there is none.
std::optional<SubagentWork> subagent_work(const Json& reported);
/// Returns the work that a message of a conversation reports: the result of a call, or a result in the background.
std::optional<SubagentWork> subagent_work(const Message& message);
SubagentWork work_of(const SubagentResult& result);

/// Returns the call that a sub-agent makes at the moment, or has made last, as its progress reports it: "shell command: make test".
/// Empty if there is none.
std::string subagent_call(const Json& reported);

/// "3 calls, 12.2k tokens, $0.0210"; turns if it has called no tool.
std::string work_text(const SubagentWork& work);

/// Returns a line of at most `columns` for each sub-agent that runs in the background.
std::vector<TerminalText> task_lines(const std::vector<SubagentTask>& tasks, const Style& style,
                                     std::size_t columns);

}  // namespace cubepi::app
