#pragma once

#include <memory>
#include <optional>
#include <string>

#include <bub/tape/tape_store.hpp>

namespace bub {

/// The session of a tape. The name of a tape consists of digests, which cannot be reversed; therefore the session is
/// stored in the tape's side state, under `session`, by its first run.
struct TapeSession {
    std::string id = {};           ///< e.g. "cli:plan"
    std::string workspace = {};    ///< the directory
    std::string copied_from = {};  ///< the source database of its first messages; empty: none

    friend bool operator==(const TapeSession&, const TapeSession&) = default;
};

/// Returns the session recorded in a tape's side state; nothing if none was recorded, e.g. for a tape created by Bub.
std::optional<TapeSession> session_of(const JsonObject& side_state);

/// Records the session in a tape's side state. A recorded `copied_from` is preserved if `session` has none.
void note_session(JsonObject& side_state, const TapeSession& session);

/// Returns whether a run of the tape is suspended: it waits for answers, or has some with which no process has continued it.
bool has_suspended_run(const JsonObject& side_state);

}  // namespace bub
