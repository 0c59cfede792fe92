#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include <bub/builtin/builtin.hpp>
#include <bub/builtin/project_files.hpp>
#include <bub/builtin/session_agents.hpp>
#include <bub/builtin/session_commands.hpp>
#include <bub/tape/tape.hpp>
#include <cubepi/workspace/local_workspace.hpp>
#include <cubepi/workspace/spill.hpp>

namespace bub::detail {

/// Returns true for an ephemeral session, which leaves no data.
bool is_temporary(std::string_view session_id) noexcept;

/// The texts of a workspace that become part of the system prompt.
struct ProjectTexts {
    std::string instructions = {};  ///< empty: there are none
    std::vector<Skill> skills = {};
};

/// The state of the builtin plugin that outlives a turn. Locked, since turns may run on several executors. A session
/// leaves nothing here between its turns, except background commands and sub-agents.
class BuiltinCore {
public:
    BuiltinCore(Framework& owner, BuiltinOptions given);

    const BuiltinOptions& options() const noexcept { return options_; }
    Framework& framework() const noexcept { return framework_; }
    const cubepi::Runtime& runtime() const noexcept { return *framework_.runtime(); }
    /// Returns the hooks of the user for one turn; null if there are none.
    std::shared_ptr<CommandHooks> command_hooks(std::string session_id,
                                                std::filesystem::path directory,
                                                bool is_subagent) const;

    /// Returns the directory in which the turn works.
    std::filesystem::path workspace_of(const TurnState& state) const;
    std::shared_ptr<cubepi::Workspace> workspace(const std::filesystem::path& directory);
    /// Keeps the long results of a workspace.
    std::shared_ptr<cubepi::FileSpillSink> spill(const std::filesystem::path& directory);
    /// Returns the commands of a session for one of its turns, which calls release_session() at its end.
    std::shared_ptr<cubepi::ShellSessions> shells(const std::string& session_id,
                                                  const std::filesystem::path& directory);
    /// Returns the sub-agents of a session for one of its turns, which calls release_session() at its end.
    std::shared_ptr<AgentsOfSession> agents(const std::string& session_id);
    /// Commands and sub-agents in the background continue, except those of a temporary session.
    void release_session(const std::string& session_id);
    /// Ends the background commands and sub-agents of a session.
    void end_session(const std::string& session_id);

    /// Returns the tapes of a turn without its lease (TurnTapes::base).
    Task<std::shared_ptr<TapeStore>> store(const TurnState& state);
    /// Returns the session's tape, with its sidecars. Accesses the file system.
    Task<Tape> tape(std::string session_id, const TurnState& state);

    /// Asks the plugins once for the variables of commands.
    Task<> load_environment();
    /// Reads the instructions and skills for turns in a workspace. Whether its user trusts it is looked up once for both.
    Task<std::shared_ptr<ProjectTexts>> project_texts(std::filesystem::path directory);
    /// Warns when what the files of the workspace load differs from what the user was told.
    Task<> announce_files(std::filesystem::path directory);

    /// Returns the model of a turn: the session's choice, or the configured one. Throws Error(not_found) if there is
    /// none.
    cubepi::BoundModel model(const TurnState& state) const;
    /// Returns the options of the compaction of a conversation with that model; nothing if there is none.
    std::optional<cubepi::CompactionOptions> compaction(const cubepi::BoundModel& model) const;
    /// Returns BuiltinOptions::metered_model() of a model; without it, the model.
    cubepi::BoundModel metered(const cubepi::BoundModel& model, const JsonObject& origin) const;

private:
    Framework& framework_;
    BuiltinOptions options_;
    cubepi::BoundModel default_model_;               ///< the configured model, with its fallbacks
    std::shared_ptr<const CommandHookTable> hooks_;  ///< null: none
    std::mutex mutex_;
    std::optional<EnvironmentVariables> variables_;  ///< of the plugins
    std::map<std::string, std::shared_ptr<cubepi::Workspace>> workspaces_;
    std::map<std::string, std::shared_ptr<cubepi::FileSpillSink>> spills_;  ///< by workspace
};

/// A comma command, between build_prompt and the model stage (B11).
struct PendingCommand {
    std::string line;         ///< with the comma
    bool pasted = false;      ///< the operator did not type the beginning of the line
    bool of_operator = true;  ///< false: a session_command() of any sender, with no others
    const Envelope* message = nullptr;  ///< with the command; set by run_command()'s caller
};

/// The end of a command that has not failed.
struct CommandOutput {
    std::string text = {};
    /// Facts for views, from the details of the result: `subagent` (the work of one that the command has called),
    /// `output_file` and `output_lines` (of an output of which the text has a part).
    JsonObject details = {};
};

/// Runs the command. Records the event `command` on the tape, even if the command throws; `,!`
/// also records a user message with the command and its output. A message whose command is on the tape is not run again: it has the
/// output, or throws the failure, that is recorded there (D171).
Task<CommandOutput> run_command(std::shared_ptr<BuiltinCore> core, PendingCommand pending,
                                std::string session_id, TurnState& state);

}  // namespace bub::detail
