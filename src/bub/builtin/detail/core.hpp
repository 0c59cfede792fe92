#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include <bub/builtin/builtin.hpp>
#include <bub/builtin/project_files.hpp>
#include <bub/tape/tape.hpp>
#include <cubepi/workspace/local_workspace.hpp>
#include <cubepi/workspace/shell_sessions.hpp>
#include <cubepi/workspace/spill.hpp>

namespace bub::detail {

/// Whether nothing of the session is kept.
bool is_passing(std::string_view session_id) noexcept;

/// What the builtin plugin keeps from turn to turn. Locked, since turns may run on several executors. A session leaves
/// nothing here between its turns, background commands excepted.
class BuiltinCore {
public:
    BuiltinCore(Framework& owner, BuiltinOptions given);

    const BuiltinOptions& options() const noexcept { return options_; }
    Framework& framework() const noexcept { return framework_; }
    const cubepi::Runtime& runtime() const noexcept { return *framework_.runtime(); }

    /// The folder that the turn works in.
    std::filesystem::path workspace_of(const TurnState& state) const;
    std::shared_ptr<cubepi::Workspace> workspace(const std::filesystem::path& folder);
    /// Keeps the long results of a workspace.
    std::shared_ptr<cubepi::FileSpillSink> spill(const std::filesystem::path& folder);
    /// The commands of a session; new ones when it has none.
    std::shared_ptr<cubepi::ShellSessions> shells(const std::string& session_id,
                                                  const std::filesystem::path& folder);
    /// Keeps them for the next turn while commands run or have output to read.
    void keep_shells(const std::string& session_id, std::shared_ptr<cubepi::ShellSessions> shells);
    /// Ends the session's commands; how many there were.
    std::size_t kill_shells(const std::string& session_id);

    Task<std::shared_ptr<TapeStore>> store();
    /// The session's tape, with its sidecars. Looks at the file system.
    Task<Tape> tape(std::string session_id, const TurnState& state);

    /// AGENTS.md of the workspace; empty: none.
    Task<std::string> agents_file(std::filesystem::path folder);
    /// Warns when what the files of the workspace load differs from what the user was told.
    Task<> announce_files(std::filesystem::path folder);
    Task<std::vector<Skill>> skills(std::filesystem::path folder);

    /// The model of a turn: what the session chose, or the configured one. Throws Error(not_found) when there is none.
    cubepi::BoundModel model(const TurnState& state) const;

private:
    Framework& framework_;
    BuiltinOptions options_;
    cubepi::BoundModel usual_;  ///< the configured model, with those that it falls back to
    std::mutex mutex_;
    std::map<std::string, std::shared_ptr<cubepi::Workspace>> workspaces_;
    std::map<std::string, std::shared_ptr<cubepi::ShellSessions>> shells_;
    std::map<std::string, std::shared_ptr<cubepi::FileSpillSink>> spills_;  ///< by workspace
};

}  // namespace bub::detail
