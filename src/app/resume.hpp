#pragma once

#include <memory>
#include <optional>

#include "session_list.hpp"
#include "terminal/console.hpp"

namespace cubepi::app {

/// Lets the user choose a saved session on the whole screen of the console. Nothing: the user chose none, or the console has
/// ended. `all`: those of other directories are shown from the beginning. `current`: the tape of the session that is open; empty: none.
/// Facts are read for the rows on the screen, messages only while a filter is set, one session after another; each key stops what it
/// makes obsolete, but not a change that the user has decided: a new title, or a deletion.
Task<std::optional<ListedSession>> pick_session(std::shared_ptr<Console> console,
                                                SavedSessions saved, bool all,
                                                std::string current = {});

}  // namespace cubepi::app
