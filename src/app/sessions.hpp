#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "saved_sessions.hpp"

namespace cubepi::app {

// Saved sessions as lists show them. A history is never loaded for it: a session's details are its side state, its position and
// its first prompt, read when its row is shown.

/// A row of a list of sessions.
struct ListedSession {
    std::string tape = {};  ///< empty: the session is in the database of older versions
    double used_at = 0;     ///< Unix seconds
    bool is_here = true;    ///< it belongs to the current directory
    bool is_loaded = false;
    // From here on only if it is loaded.
    std::string name = {};  ///< empty: the tape is not a session of this program
    std::string workspace = {};
    std::string title = {};        ///< that the user has set; empty: none
    std::string first_line = {};   ///< of the first prompt
    std::string forked_from = {};  ///< the name of the session that it continues; empty: none
    std::int64_t messages = 0;
    std::string problem = {};  ///< why the details could not be read; empty: they were

    /// The title, or what stands for it: the first line, or the name.
    const std::string& heading() const noexcept;
};

/// The title that the user has set for the session of a tape; empty: none.
std::string session_title(const JsonObject& side_state);
/// `title` on one line and bounded, as it is stored.
std::string clean_title(std::string_view title);
/// Stores the title in the side state of the tape. Empty: removes it.
Task<> set_session_title(std::shared_ptr<bub::TapeStore> tapes, std::string tape,
                         std::string title);

/// Returns the session of which the session of a tape is a fork; empty: none.
std::string forked_from(const JsonObject& side_state);
/// Stores the name of the session of which the tape's is a fork.
Task<> note_fork(std::shared_ptr<bub::TapeStore> tapes, std::string tape, std::string forked_from);

/// Lists the sessions of one or of all directories, most recently used first, without reading one of them.
Task<std::vector<ListedSession>> list_sessions(SavedSessions saved,
                                               SessionsOf which = SessionsOf::everything);
/// Reads the details of a listed session. A session that cannot be read has `problem`.
Task<ListedSession> load_details(std::shared_ptr<bub::SessionTapeStore> tapes,
                                 ListedSession listed);

/// A search of the messages of one session, which may be long. Another thread may stop it.
struct MessageSearch {
    std::string pattern = {};
    std::atomic<bool> stopped = false;
};
/// Returns the words around the first match, newest message first; nothing without a match, or if the search was stopped. Letters
/// match in either case if they are ASCII. Memory use does not grow with the session.
Task<std::optional<std::string>> search_messages(std::shared_ptr<bub::SessionTapeStore> tapes,
                                                 std::string tape,
                                                 std::shared_ptr<MessageSearch> search);

/// Returns the session of this directory that `wanted` names: by its name, or by its title if no other session has it. Throws
/// Error(not_found) with the nearest names.
Task<std::string> find_session_named(SavedSessions saved, std::string wanted);

}  // namespace cubepi::app
