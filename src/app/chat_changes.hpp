#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include <cubepi/core/task.hpp>
#include <cubepi/workspace/file_checkpoints.hpp>

#include "conversation/pipeline.hpp"
#include "render/renderer.hpp"
#include "transcript.hpp"

namespace cubepi::app {

/// An earlier prompt to return to.
struct RewindChoice {
    std::size_t prompt = 0;     ///< its index in prompts_of()
    bool conversation = false;  ///< continue from before it, in a new session
    bool files = false;         ///< take back the changes of files since
};

/// The commands of a chat that return to an earlier state: `/undo`, `/redo`, `/rewind`, `/fork`, and `/diff`, which shows what has
/// changed. Used on one executor. Throws what stores and workspaces throw.
class ChangeActions {
public:
    /// Both outlive the object.
    ChangeActions(Pipeline& pipeline, Renderer& renderer);

    /// Takes back the changes of files of the last prompt that has any (D158).
    Task<> undo();
    Task<> redo();
    /// Shows the changes of the working tree, or with the argument `last` those of the last prompt.
    Task<> diff(std::string argument);

    /// Lets the user choose an earlier prompt and what is restored; `number`: of the prompt, from the newest; empty: asks for
    /// it. Absent: the user has not chosen. Takes place between turns.
    Task<std::optional<RewindChoice>> choose(std::string number);
    /// Restores what was chosen (D159). Returns the prompt, so that the user can edit it; empty if the conversation stays.
    /// The conversation moves only if `is_idle` returns true then: a turn may have begun meanwhile.
    Task<std::string> rewind(RewindChoice choice, std::function<bool()> is_idle);
    /// Continues in a new session that has the conversation so far. Empty name: one is made from that of the session.
    Task<> fork(std::string name, std::function<bool()> is_idle);

private:
    struct Group;
    struct State;
    Task<State> load();
    Task<std::vector<RestoredFile>> take_back(std::vector<std::string> runs);
    void show(const std::vector<RestoredFile>& files, const std::string& headline);
    void add_note_for_model(const std::vector<RestoredFile>& files, std::string_view what);
    Task<bool> move(std::string after_run, std::string name, std::function<bool()> is_idle);

    Pipeline& pipeline_;
    Renderer& renderer_;
    std::set<std::string> passed_;  // runs of which no change could be taken back
};

}  // namespace cubepi::app
