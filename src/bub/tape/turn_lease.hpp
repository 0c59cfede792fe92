#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include <cubepi/core/error.hpp>

namespace bub {

class TapeStore;

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

}  // namespace bub
