#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <unordered_map>
#include <vector>

#include <libpq-fe.h>

#include <cubepi/checkpoint/postgres/connection_string.hpp>
#include <cubepi/checkpoint/server/connection.hpp>
#include <cubepi/checkpoint/server/driver.hpp>

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
    PgStatement& find(const SqlQuery& query);
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

/// A connection of libpq in pipeline mode.
class PgConnection final : public SqlConnection {
public:
    /// `parameters` must outlive the connection. `prepare`: whether statements are prepared.
    PgConnection(const PgParameters& parameters, bool prepare)
        : parameters_(parameters), statements_(prepare) {}
    ~PgConnection() override;

    Task<> connect(SqlAddresses addresses) override;
    bool is_idle() const noexcept override;
    bool is_open() noexcept override;
    std::function<void()> canceller() const override;
    void forget() noexcept override { connection_ = nullptr; }

private:
    Task<SqlResults> run(SqlBatch batch, bool cancellable) override;
    void send(const SqlBatch& batch);
    void send(const SqlQuery& query);
    SqlFailure failure_of(const PGresult* result);
    Task<> wait_for_socket(bool for_write, bool cancellable);
    Task<> wait_for_result(bool cancellable);
    [[noreturn]] void fail_lost();
    [[noreturn]] void fail_connecting();

    const PgParameters& parameters_;
    PGconn* connection_ = nullptr;
    PgStatements statements_;
    /// One for each result of the current exchange: the statement that is prepared, or null for a query.
    std::vector<PgStatement*> sent_;
    bool in_exchange_ = false;
};

}  // namespace cubepi::detail
