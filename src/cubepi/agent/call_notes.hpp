#pragma once

#include <optional>
#include <string>

#include <cubepi/core/json.hpp>
#include <cubepi/core/task.hpp>

namespace cubepi {

/// Optional, for a durable HitlChannel: notes of the calls of the connected run, by which the body of a tool that begins again in another
/// process learns how far it was (ToolContext::is_repeated()). They are removed when the run completes. Used on the agent's executor.
class CallNotes {
public:
    virtual ~CallNotes() = default;
    /// False for a channel that passes notes on to one that has none.
    virtual bool can_store_notes() const noexcept { return true; }
    /// Returns true if the connected run is being suspended: a call that is cancelled while it waits for the user begins again later.
    virtual bool is_suspending() const noexcept { return false; }
    /// Stores a note in place of an earlier one of this id, which must not be that of a question. Choose one that begins with
    /// ToolContext::call_key(). Throws a CheckpointerError if that fails.
    virtual Task<> save_note(std::string id, std::string text) = 0;
    /// Returns the note; nothing if there is none in this run.
    virtual Task<std::optional<std::string>> load_note(std::string id) = 0;
};

}  // namespace cubepi
