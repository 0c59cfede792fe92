#pragma once

#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

#include <libpq-fe.h>

#include <cubepi/checkpoint/server/query.hpp>

namespace cubepi::detail {

/// A statement that a session has executed.
struct PgStatement {
    enum class State : std::uint8_t { unprepared, requested, prepared };

    std::string sql = {};   ///< with its escapes expanded
    std::string name = {};  ///< on the server
    std::vector<Oid> types = {};
    State state = State::unprepared;
    bool was_used = false;
};

/// The statements of a session. Those with parameters are prepared at their second use, so that a statement that is executed
/// once, such as those that set up a session, costs nothing.
///
/// A name contains the hash of the statement: if a pooler hands the session of another process to this one, the statement of
/// that name is the same one.
class PgStatements {
public:
    explicit PgStatements(bool prepare) : prepares_(prepare) {}

    /// Returns the statement of a query that has parameters. The reference is valid until forget().
    PgStatement& find(const ServerQuery& query);
    /// Returns true if the statement must be prepared before it is executed now.
    bool must_prepare(PgStatement& statement) const noexcept;

    /// Prepares the statements again when they are used next, with new names: a table has changed.
    void forget();
    /// The same, after the server did not know a statement. If that occurs repeatedly, the session is not ours alone (a pooler
    /// assigns another one to each transaction), and nothing is prepared any longer.
    void forget_lost();

private:
    bool prepares_;
    int losses_ = 0;
    int generation_ = 0;
    std::unordered_map<std::string, PgStatement> statements_;
};

}  // namespace cubepi::detail
