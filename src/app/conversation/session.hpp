#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <bub/builtin/builtin.hpp>
#include <bub/tape/tape_store.hpp>
#include <cubepi/agent/agent.hpp>

#include "../command_line.hpp"
#include "../config/command_sandbox.hpp"
#include "../config/config_file.hpp"
#include "../config/model_choice.hpp"
#include "../mcp/mcp_settings.hpp"
#include "../project/project.hpp"
#include "../terminal/attention.hpp"
#include "../terminal/terminal_stream.hpp"
#include "question_host.hpp"
#include "session_changes.hpp"
#include "telemetry.hpp"
#include "tool_approval.hpp"

namespace cubepi::app {

class McpHub;

/// A saved session that is resumed.
struct ResumedSession {
    std::string title = {};  ///< the beginning of its first prompt
    double used_at = 0;      ///< Unix seconds
    std::int64_t messages = 0;
};

/// "“add a flag” · 12 messages · last used 2 days ago"
std::string resumed_text(const ResumedSession& session, std::chrono::system_clock::time_point now);

/// Adds tools, approvals and limits to the agent of a turn. `stores_requests`: its requests are stored with the session.
using Equip =
    std::function<void(AgentOptions& options, const bub::TurnContext& turn, bool stores_requests)>;

/// The form of answers: a JSON value.
struct WantedAnswer {
    Json schema = {};
    std::optional<Json> value = {};  ///< of the last answer
};

/// The member of a stored endpoint with the flags of its run.
inline constexpr std::string_view run_flags_key = "flags";

/// The parts of a conversation. All its turns share the tools and the rules that were added for the session.
struct SessionPlan {
    ModelChoice model = {};                      ///< at the start; `models` knows the current one
    std::shared_ptr<SessionModel> models = {};   ///< null: `model` alone
    std::string name = {};                       ///< empty: temporary, or not named yet
    std::string session_id = {};                 ///< its name in the pipeline
    std::shared_ptr<bub::TapeStore> tapes = {};  ///< in memory if the session is temporary
    /// Creates the session once its first prompt is known, and returns its name. Null: it has one, or is temporary.
    std::function<Task<std::string>(std::string first_prompt)> create = {};
    std::shared_ptr<const void> open = {};       ///< `sessions delete` of other processes refuses
    std::optional<ResumedSession> resumed = {};  ///< absent: a new session
    std::string system_prompt = {};
    JsonObject run_flags =
        {};  ///< stored with the endpoint of a suspended run, under run_flags_key
    std::vector<std::string> notes = {};     ///< shown to the user before the first prompt
    std::vector<std::string> warnings = {};  ///< the same, about what is wrong
    /// Returns the warnings about work in the background since the last call; null: there is no such work.
    std::function<std::vector<std::string>()> take_warnings = {};
    std::shared_ptr<McpHub> servers = {};  ///< the MCP servers; null: none are configured
    std::size_t max_listed_mcp_tools = 0;  ///< more of them are deferred, if there are servers
    bub::LoadedFiles files = {};           ///< of the project; the notes list them
    bool trusts_project = false;           ///< its instructions and skills are loaded
    ProjectSettings project = {};          ///< of its trusted files
    std::shared_ptr<TurnPrompter> prompter = {};  ///< as in SessionParts
    EnvironmentPolicy environment = {};           ///< of commands
    std::vector<bub::CommandHook> hooks = {};     ///< of the user
    ShellOptions shell = {};                      ///< of commands
    std::shared_ptr<const CommandSandboxes> sandboxes =
        {};  ///< of commands; null: there are no tools
    bub::MemoryScope memory = bub::MemoryScope::none;
    Equip equip = {};
    /// Asks before a comma command destroys data or runs pasted text; null: the user cannot be asked.
    std::function<Task<bool>(bub::CommandQuestion question)> confirm_command = {};
    std::function<void(bub::BuiltinOptions& options)> set_compaction = {};  ///< null: the default
    std::shared_ptr<ToolApproval> approval = {};                            ///< null: no tools
    std::shared_ptr<SessionChanges> changes = {};                           ///< null: no tools
    bool todos = true;  ///< the model may write to-do lists
    SubagentSettings subagents = {};
    /// Receives the questions of sub-agents in the background, which `host` answers; null: they are refused.
    std::shared_ptr<HitlChannel> background_channel = {};
    bool waits_for_tasks = false;  ///< a turn ends after its sub-agents in the background
    bool suspends = false;         ///< a run that asks is suspended; its session is saved
    /// A session without a name is saved when its run fails or reaches a limit after an answer of the model.
    bool saves_failed = false;
    std::shared_ptr<Telemetry> telemetry = {};  ///< null: nothing is traced
    std::shared_ptr<QuestionHost> host =
        {};  ///< answers the requests of the agents; null: the user cannot be asked
    std::shared_ptr<HitlChannel> channel = {};  ///< as in SessionParts
    std::string location = {};  ///< directory and branch, of the status line: "~/src/app (main)"
    TerminalSettings terminal = {};   ///< of the live chat
    std::string directory_flag = {};  ///< of commands that are printed: " -C DIR" or empty
    std::shared_ptr<WantedAnswer> wanted = {};  ///< null: answers are text
    bool in_chat = false;                       ///< the user can enter the commands of a chat
};

/// The place where a session is stored.
struct SessionLocation {
    std::string name = {};
    std::string session_id = {};
    std::shared_ptr<bub::TapeStore> tapes = {};
    std::function<Task<std::string>(std::string first_prompt)> create = {};
    std::shared_ptr<const void> open = {};  ///< as in SessionPlan
    bool continues_changes =
        false;  ///< the files that the session before has changed can be restored
};

/// Returns the place of a new session, which is temporary if the session of `plan` is, and otherwise saved once its first
/// prompt is known.
SessionLocation next_session(const SessionPlan& plan);

/// Marks the tape as open in this process, so that `sessions delete` of another process refuses. Null if no file can
/// be written; the conversation then works without the mark.
Task<std::shared_ptr<const void>> mark_open(std::shared_ptr<bub::TapeStore> tapes,
                                            std::string tape);

/// Returns the name of the session's tape.
std::string tape_of(const SessionPlan& plan);

/// The front end of a session.
struct SessionParts {
    std::shared_ptr<TurnPrompter> prompter = {};  ///< null: no user can be asked
    /// The channel of the requests, which its owner answers in the place of a prompter. Null: the prompter does.
    std::shared_ptr<HitlChannel> channel = {};
    std::vector<McpServerSettings> more_servers = {};  ///< besides the configured ones, which win
    Style style = {};
    bool with_servers = true;     ///< uses the configured MCP servers
    bool asks_for_trust = false;  ///< in the files of the directory; else they are not trusted
    ShowWork show_work = {};      ///< may be empty
};

/// Returns the line that names the command which resumes the session; empty if the session is temporary or has no prompt yet.
std::string resume_hint(const SessionPlan& plan);
/// Returns the command that resumes the session, which has a name.
std::string resume_command(const SessionPlan& plan);

/// Makes the plan that the flags describe. Throws Error: no model, no such session, storage.
Task<SessionPlan> plan_session(ConversationFlags flags, SessionParts parts);

}  // namespace cubepi::app
