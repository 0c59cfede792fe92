#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <cubepi/core/error.hpp>
#include <cubepi/core/json.hpp>
#include <cubepi/core/task.hpp>

namespace bub {

class TapeAppend;
class TapeStore;
struct TapeEntry;
struct TapePosition;

/// The right of a process to write the turns of a session that several processes share: the fence with which it has the session. A
/// process that takes the session increases the fence, so every lease from before has ended. It is stored where the tapes are, in
/// the row `session` of the table bub_delivery_sessions, so that a write of a tape and a change of the fence exclude each other
/// (D227).
struct TurnLease {
    std::string session = {};  ///< the key of its row
    std::int64_t fence = 0;

    friend bool operator==(const TurnLease&, const TurnLease&) = default;
};

/// Another process has taken the session of a message, because it took this process for ended, and processes the message. Nothing was
/// stored.
class SessionTakenError : public cubepi::StaleAppendError {
public:
    explicit SessionTakenError(const std::string& message)
        : StaleAppendError(cubepi::ErrorCode::run_not_claimed, message) {}
};

/// Optional interface of a store: tapes that are written under the lease of a turn.
class LeasableTapes {
public:
    virtual ~LeasableTapes() = default;
    /// Returns the same tapes, for one turn. Each write checks the lease in its transaction, and throws SessionTakenError without effect if
    /// it has ended. The first use of a tape closes the turns of earlier leases of the session: their owners cannot write.
    virtual std::shared_ptr<TapeStore> leased(TurnLease lease) = 0;
};

/// Optional interface of a store in which each write is a transaction: an append and an edit of the side state in one (D272).
class AppendsWithState {
public:
    virtual ~AppendsWithState() = default;
    /// Does the same as TapeStore::append(), and edits the side state. Both are stored, or nothing: `edit` may have been called although
    /// the append is refused. The guard sees the side state before the edit. `edit` is called like that of TapeStore::edit_state().
    virtual cubepi::Task<TapePosition> append_and_edit(
        std::string tape, std::vector<TapeEntry> entries, TapeAppend options,
        std::function<void(cubepi::JsonObject& state)> edit) = 0;
};

}  // namespace bub
