#pragma once

#include <memory>
#include <optional>
#include <string>

#include <bub/tape/tape_store.hpp>

namespace bub {

/// Whose tape it is. The name of a tape is made of digests, which cannot be read back; so this is kept beside the tape (in
/// its side state, under `session`) from its first run on.
struct TapeSession {
    std::string id = {};           ///< e.g. "cli:plan"
    std::string workspace = {};    ///< the folder
    std::string copied_from = {};  ///< the database that its first messages came from; empty: none

    friend bool operator==(const TapeSession&, const TapeSession&) = default;
};

/// What a tape's side state says; nothing when nobody noted it: a tape that Bub has made, for example.
std::optional<TapeSession> session_of(const JsonObject& side_state);

/// Notes it in a tape's side state. Where the tape's messages came from is kept when `session` does not say.
void note_session(JsonObject& side_state, const TapeSession& session);

}  // namespace bub
