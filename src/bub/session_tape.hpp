#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <bub/tape/tape_store.hpp>
#include <bub/tape/turn_reads.hpp>
#include <bub/turn_state.hpp>

namespace bub {

/// The names of the tapes of a host's sessions (D100), as a service of the turn's state. A plugin offers it in load_state, and sets
/// TurnState::workspace_key there, before later hooks use the tape. Without it the names are Bub's (tape_name()).
struct SessionTapes {
    std::string name_space = {};
    /// The workspace from which an earlier version derived Bub's names. A tape of such a name remains the session's tape.
    std::filesystem::path earlier_workspace = {};
    std::map<std::string, std::string, std::less<>> known =
        {};  ///< names that the turn has found, by session
};

/// The tapes of a turn, if it does not use those of the framework: under the lease of its session (LeasableTapes), as a service of the
/// turn's state. A plugin offers it in load_state.
struct TurnTapes {
    std::shared_ptr<TapeStore> store = {};  ///< null: those of `base`
    /// The same tapes without a lease, for what is not a part of the turn: those of the session's database (DividedTapeStore). Null: those of
    /// the framework.
    std::shared_ptr<TapeStore> base = {};
};

/// The event on a tape of SessionTapes whose session continues on a tape of an earlier version, for hosts that cannot derive its
/// name. Its data: `tape`.
inline constexpr std::string_view tape_link_event = "session.tape";

/// Announces to the tapes of the turn what it looks up (TurnReads). Call it in load_state, before the first look-up.
void expect_lookups(const TurnState& state, std::vector<TapeLookup> lookups);

/// Returns the id of the message with which the kernel records a plugin's answer to an input.
std::string plugin_answer_id(const std::string& input_id);
/// Returns the id under which the same input is repeated: after a hand-off in its turn (D42), and when it is late (D90).
std::string next_message_id(const std::string& message_id);
/// Returns true if the id has the form of one of these. A channel must not use such an Envelope::inbound_id: it could name the answer or the
/// repetition of another message.
bool is_derived_id(std::string_view id) noexcept;

/// Returns the name of the tape of a session on every host with this namespace: 16 hex digits of the SHA-256 of the namespace, "__",
/// and 32 of that of the session id.
std::string shared_tape_name(std::string_view name_space, std::string_view session_id);

/// Returns the name of the tape of a session. Accesses the store, and the file system.
Task<std::string> session_tape_name(std::shared_ptr<TapeStore> store, const TurnState& state,
                                    std::string session_id);
/// Returns the same for a reader outside of a turn, with the members of SessionTapes. Writes nothing.
Task<std::string> find_session_tape(std::shared_ptr<TapeStore> store, std::string name_space,
                                    std::filesystem::path earlier_workspace,
                                    std::string session_id);

}  // namespace bub
