#pragma once

#include <chrono>
#include <cstddef>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <bub/builtin/command_hooks.hpp>
#include <bub/builtin/project_files.hpp>
#include <bub/builtin/session_agents.hpp>
#include <bub/builtin/session_commands.hpp>
#include <bub/framework.hpp>
#include <bub/tape/tape_store.hpp>
#include <cubepi/agent/agent.hpp>
#include <cubepi/hitl/confirm_tool_calls.hpp>
#include <cubepi/middleware/compaction.hpp>
#include <cubepi/middleware/deferred_tools.hpp>
#include <cubepi/middleware/subagents.hpp>
#include <cubepi/process/environment.hpp>
#include <cubepi/workspace/tool_rules.hpp>

namespace bub {

/// The turn for which an agent is created; see BuiltinOptions::configure.
struct TurnContext {
    const std::string& session_id;
    const std::filesystem::path& workspace;
    TurnState& state;
    /// For which the run acts: that the turn answers. In the turn of an answer, one with the origin of the question (asker_key), whose sender
    /// is not an operator. Null for a subagent.
    const Envelope* message = nullptr;
    /// The turn continues a run whose requests are stored, or is one of a subagent whose requests must be: a channel that
    /// `configure` sets has to store them, too.
    bool stores_requests = false;
};

namespace detail {
CUBEPI_DETAIL_SLOT(configure,
                   "BuiltinOptions::configure must be callable as void (cubepi::AgentOptions&, "
                   "const TurnContext&); a Task would never run")
CUBEPI_DETAIL_SLOT(on_agent,
                   "BuiltinOptions::on_agent must be callable as void (const "
                   "std::shared_ptr<cubepi::Agent>&, const TurnContext&); a Task would never run")
CUBEPI_DETAIL_SLOT(on_result,
                   "BuiltinOptions::on_result must be callable as void (const cubepi::RunResult&, "
                   "const TurnContext&); a Task would never run")
}  // namespace detail

/// The key of Envelope::rest that marks a message as pasted by its operator (true): a comma command that would run in
/// the shell then needs consent.
inline constexpr std::string_view pasted_key = "pasted";

/// A comma command that needs the operator's consent.
struct CommandQuestion {
    std::string effect = {};  ///< the effect of the command, for the operator
};

/// The rules of the configuration for the sender of a message.
struct SenderRules {
    cubepi::ToolRules allow = {};          ///< these calls run unasked
    std::vector<std::string> refuse = {};  ///< names of tools that never run
    /// Returns the rule that allows a tool as it is defined now, as those of MCP servers (D148). Null: there are no such rules.
    std::function<std::optional<cubepi::ApprovalRule>(const cubepi::AgentTool& tool)> definition =
        {};
};

/// How turns ask their users (B23 to B26). A turn does not wait for an answer: its run is suspended on the tape, the turn
/// ends with the questions as envelopes of kind `question`, and an answer (questions.hpp) is a turn that continues the
/// run, also in another process.
struct TurnQuestions {
    /// Decides about each tool call: run it, refuse it, or ask. Null: `rules` decide.
    cubepi::ApprovalPolicy policy = {};
    /// Returns the rules for the calls of a turn, by channel, chat and user of its message (B26). A call of a tool above
    /// ToolRisk::read_only that no rule allows is asked about. Null: no rules.
    std::function<SenderRules(const Envelope& message)> rules = {};
    /// Offers the tool `ask_user` to the model.
    bool with_ask_user = true;
    /// Time to answer. Zero: no limit.
    std::chrono::nanoseconds timeout = std::chrono::nanoseconds::zero();
    /// Returns true if the sender of `message`, who is not an operator, may answer this request (B25). Null: only the
    /// user whose message started the turn may, and only questions of the kind `ask`. Operators may answer everything. Who may
    /// answer all requests of a run may withdraw them.
    std::function<bool(const Envelope& message, const cubepi::HitlRequest& request)> may_answer =
        {};
};

/// Limits of the files of users, and of those that the model sends (D99). The numbers are those of the directory `attachments` of a
/// workspace.
struct SessionFiles {
    std::size_t max_file_bytes = 20'000'000;
    std::size_t max_files = 100;
    std::size_t max_total_bytes = 200'000'000;
};

/// The form of the answers of turns: JSON values (D80). Sub-agents and turns that answer a question have none.
struct AnswerForm {
    Json schema = {};                                       ///< JSON Schema
    std::function<void(const Json& value)> on_answer = {};  ///< receives each valid answer
};

/// The owner of the notes of the tool `memory`.
enum class MemoryScope : std::uint8_t { none, workspace, session };

/// The options of the builtin plugin. All are optional except the model, which is required by the first turn that calls
/// a model.
struct BuiltinOptions {
    cubepi::BoundModel model = {};
    /// Tried in order if `model` fails (FallbackBoundModel). A model that the session selected has no fallbacks.
    std::vector<cubepi::BoundModel> fallback_models = {};
    /// Returns the model for an id given with `,model`; if empty, the provider of `model` is used.
    std::function<cubepi::BoundModel(const std::string& id)> find_model = {};
    /// Selects the model of a session's turn. `stored` is the data of the last `model_switch` event on its tape, empty if
    /// there is none. Returns the id for `find_model`; empty selects `model`. Null: the stored id.
    std::function<std::string(const JsonObject& stored)> select_model = {};
    /// The answer to `,model` without an argument. Null: lists `model` and `other_models`.
    std::function<Task<std::string>()> list_models = {};
    /// Checks an id given with `,model` and returns the data of the `model_switch` event, whose "model" is the id.
    /// Throws Error if the id is rejected; `force` overrides what cannot be checked. Null: accepts every id.
    std::function<Task<JsonObject>(std::string id, bool force)> choose_model = {};
    /// Describes the endpoint that has produced an answer with tool calls. The description is stored with the run, for the case
    /// that it is suspended. Null: a suspended run continues with the model of the turn that answers.
    std::function<JsonObject(const cubepi::AssistantMessage& answer)> describe_endpoint = {};
    /// Returns the model at a stored endpoint, for the turn that continues the run (D86): the one that was used, or `id` if
    /// a subagent of the run names one. Throws Error if this process has other settings. Set if `describe_endpoint` is.
    std::function<cubepi::BoundModel(const JsonObject& endpoint, const std::string& id)>
        model_at_endpoint = {};
    /// Returns true if the model of a turn may choose the model `id` for a sub-agent, as it may always choose its own. May throw Error. Null:
    /// it may choose any.
    std::function<bool(const std::string& id)> may_name_model = {};
    /// Returns the model that a turn calls instead of `model`, for example one whose calls are counted; also for its sub-agents, summaries
    /// and goals. `origin`: of the message that has caused the turn or the command (asker_key). Called on the threads of turns. Null: `model`.
    std::function<cubepi::BoundModel(const cubepi::BoundModel& model, const JsonObject& origin)>
        metered_model = {};
    /// Listed as choices, in addition to `model`.
    std::vector<std::string> other_models = {};

    /// Adds the tool `memory` to the turns of saved sessions: its notes are below `home`/memory, of one workspace or of one session
    /// (memory_directory). Sub-agents do not have it.
    MemoryScope memory = MemoryScope::none;
    /// Where tapes and results that are too long for a model go (spill_directory); empty: $BUB_HOME, or ~/.bub.
    std::filesystem::path home = {};
    /// Null: files under `home`/tapes.
    std::shared_ptr<TapeStore> tape_store = {};
    /// Skill directories in addition to those of the workspace and ~/.agents/skills.
    std::vector<std::filesystem::path> skill_directories = {};
    bool with_user_skills = true;  ///< includes ~/.agents/skills
    /// Which files with instructions become part of the system prompt.
    InstructionScope instructions = InstructionScope::workspace;

    /// Returns true if the user trusts a workspace. Of another one neither instructions nor skills are loaded. Called on a worker
    /// thread by each turn. Null: all are trusted.
    std::function<bool(const std::filesystem::path& workspace)> trusts = {};

    /// The project files that were shown to the user (look_at_project_files). A warning follows when a turn loads
    /// something else. Absent: none.
    std::optional<LoadedFiles> loaded_files = {};

    /// Put before the instructions in the system prompt; empty: the builtin text.
    std::string system_prompt = {};
    /// Adds the standard tools of the workspace (files, shell, fetch).
    bool with_tools = true;
    /// The options of shell commands. Without a `spill` there is one below `home`.
    cubepi::ShellOptions shell = {};
    /// The shell commands of the sessions, for a program that lists or ends them. A turn without the standard tools has those
    /// of its session as the service cubepi::ShellSessions of its state. Null: not shared with the program.
    std::shared_ptr<SessionCommands> commands = {};
    /// The limits of the sub-agents of a session, which start none themselves. `max_total` and `max_spend` hold for those of one prompt
    /// of a user, with the turns that receive their results (D127). With `max_background`, the model may start them in the background,
    /// and the results arrive as messages (D126); each may then spend half of what is left.
    cubepi::SubagentLimits subagents = {};
    std::size_t max_subagent_steps = 0;  ///< model calls of one sub-agent; 0: `max_steps`
    /// A turn ends when the sub-agents in the background have ended and the model has received their results: for a program that ends
    /// with the turn.
    bool waits_for_tasks = false;
    /// The sub-agents of the sessions, for a program that lists or ends them. Null: not shared with the program.
    std::shared_ptr<SessionAgents> agents = {};
    /// Receives the questions of sub-agents in the background, for example an InMemoryChannel that the host watches. It must not be
    /// the channel of an agent. Null: these questions are refused.
    std::shared_ptr<cubepi::HitlChannel> background_channel = {};
    /// Called when a sub-agent in the background has started, made progress, or ended. May be empty.
    std::function<void(const std::string& session_id)> on_tasks = {};
    /// Called when a sub-agent in the background has ended, with a message for the channel manager or process_inbound(): its turn
    /// receives the results that no turn has received, and is silent if there are none. Empty: the next turn receives them.
    std::function<void(Envelope message)> deliver_results = {};
    /// Called when a sub-agent in the background has started, with that message, whose turn is held back until it has ended
    /// (Envelope::held): a channel manager with a delivery log stores it, so that the session stays with this process, and the next one
    /// tells the session that the task was interrupted. Empty: deliver_results is called at the end.
    std::function<void(Envelope message)> expect_results = {};
    /// Which environment variables commands get, those of operators included.
    cubepi::EnvironmentPolicy environment = {};
    /// Returns the sandbox of the model's commands in a workspace; called when the first one starts, and must not return null. Commands
    /// of operators are never sandboxed. Empty: no sandbox.
    std::function<std::shared_ptr<const cubepi::SandboxProfile>(
        const std::filesystem::path& workspace)>
        sandbox = {};
    /// Commands of the user that run at points of each turn. They bind sub-agents too.
    std::vector<CommandHook> command_hooks = {};
    /// More tools, for the model and as comma commands.
    std::vector<cubepi::AgentTool> tools = {};
    /// Absent: turns do not ask their users. Temporary sessions and subagents never do.
    std::optional<TurnQuestions> questions = {};
    /// False: requests leave out the first anchor of a tape, "session/start", which Bub sends and which tells a model nothing.
    bool sends_first_anchor = true;
    /// The compaction of conversations that become too long; see CompactionMiddleware. Without a summary model, that of the
    /// turn writes the summaries. Absent: a request that does not fit is a failure.
    std::optional<cubepi::CompactionOptions> compaction = cubepi::CompactionOptions();
    /// Returns the context window of the model of a turn, in tokens, or nothing if it is unknown. Null: that of the model.
    std::function<std::optional<std::int64_t>(const cubepi::BoundModel& model)> context_window = {};
    /// Finds the window of a model for which `context_window` returns nothing; see CompactionOptions::find_window. Null: it stays
    /// unknown.
    std::function<Task<std::optional<std::int64_t>>(const cubepi::BoundModel& model)>
        find_context_window = {};
    /// Offers the tool `write_todos` to the model, and the command `,todo` (cubepi/middleware/todo_list.hpp). Each session has its
    /// own list; subagents have none.
    bool with_todos = true;
    /// A message `/goal CONDITION` continues its turn until the model finds the condition met, at most after this many evaluations
    /// (cubepi/middleware/goal.hpp). 0: such a message is text.
    int max_goal_evaluations = 10;
    /// The form of the answers; absent: text.
    std::optional<AnswerForm> answer_form = {};
    std::size_t max_steps = 250;  ///< model calls of one turn
    /// AgentLimits::max_repeated_calls of each turn and of its sub-agents.
    std::size_t max_repeated_calls = 10;
    std::optional<std::int64_t> max_tokens = {};
    std::size_t max_steering = 64;  ///< limit of queued messages for one session's turn

    /// Adjusts the options of each turn's agent. Add middleware rather than explicit hooks: an explicit hook replaces
    /// the interception hooks of the plugins.
    cubepi::detail::SlotFunction<void(cubepi::AgentOptions& options, const TurnContext& occasion),
                                 detail::configure_slot>
        configure = {};
    /// Receives the tools of each turn's agent when they are complete, those of a subagent restricted to what it may use. Moves some
    /// of them to a middleware that it returns, by which the model loads their definitions; nothing: they stay.
    std::function<std::optional<cubepi::DeferredToolsMiddleware>(
        std::vector<cubepi::AgentTool>& tools)>
        defer_tools = {};
    /// Receives each turn's agent before it runs. Keep only a weak pointer to listen to the agent or to abort it: the
    /// agent is destroyed at the end of the turn.
    cubepi::detail::SlotFunction<void(const std::shared_ptr<cubepi::Agent>& agent,
                                      const TurnContext& occasion),
                                 detail::on_agent_slot>
        on_agent = {};
    /// Called with the result of a turn's agent, whatever the outcome; before a failure is thrown. Usage and cost are
    /// those of the whole turn, including summaries of its conversation.
    cubepi::detail::SlotFunction<void(const cubepi::RunResult& result, const TurnContext& occasion),
                                 detail::on_result_slot>
        on_result = {};
    /// Asks the operator before a comma command destroys data or runs pasted text in the shell; returns true to run it.
    /// If empty, pasted text does not run, and `,tape_reset` requires an explicit `archive` argument.
    std::function<Task<bool>(CommandQuestion question)> confirm_command = {};
    /// If true, a confirmed `,tape_reset` without an `archive` argument archives the tape.
    bool archive_on_reset = true;
    /// The channels of the plugin's `provide_channels`. Empty: none. Bub's plugin makes `cli` and `telegram` from its own settings; here
    /// the host does, because a terminal and a bot belong to one process: the program passes its terminal and the channels of its
    /// gateway, another host a TelegramChannel (bub/channel/telegram_channel.hpp).
    std::function<std::vector<std::shared_ptr<Channel>>(ProvideChannelsCall& call)> channels = {};
    /// The text for the sender of a message whose processing fails. Null: the stage and the description of the failure, which may
    /// name models, addresses and files.
    FailureText failure_text = {};
    /// Stores the files of users in the workspace of their session, and offers the tool `send_file` to the model. Absent: only images
    /// reach the model.
    std::optional<SessionFiles> files = {};
    /// Asks the questions of `onboard_config`; supplied by the program, which knows its own settings. May be empty.
    Hook<std::optional<JsonObject>(OnboardCall)> onboard = {};
};

/// Returns the plugin `builtin`, a default for every hook of the pipeline (docs/guides/bub/turn.md). Register it first,
/// so that every other plugin takes precedence. `framework` must outlive it.
Plugin builtin_plugin(Framework& framework, BuiltinOptions options);

/// Returns the data of the last `model_switch` event of a tape, which `,model` writes; empty if there is none.
Task<JsonObject> stored_model_choice(std::shared_ptr<TapeStore> store, std::string tape);

/// Returns the stored endpoint of the suspended run of a tape, as BuiltinOptions::describe_endpoint described it; empty if
/// no run is suspended. `continues`: a run that was suspended continues, and is not suspended any more.
Task<JsonObject> suspended_endpoint(std::shared_ptr<TapeStore> store, std::string tape,
                                    bool continues = false);
/// Returns an entry with an endpoint, for a copy of such a tape.
TapeEntry endpoint_entry(JsonObject endpoint);

/// Returns $BUB_HOME, or ~/.bub.
std::filesystem::path default_bub_home();

/// Returns where the notes of the tool `memory` are: below `home`, outside of the workspace, so that no project brings its own.
std::filesystem::path memory_directory(const std::filesystem::path& home,
                                       const std::filesystem::path& workspace,
                                       std::string_view session_id, MemoryScope scope);

/// Where results that are too long for a model are kept: below `home`, a directory of its own for each workspace, so that the
/// tools of one project cannot read what another one has put there.
std::filesystem::path spill_directory(const std::filesystem::path& home,
                                      const std::filesystem::path& workspace);

}  // namespace bub
