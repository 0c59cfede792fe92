#pragma once

#include <functional>
#include <string>
#include <vector>

#include <libpq-fe.h>

#include <cubepi/checkpoint/postgres/connection_string.hpp>
#include <cubepi/checkpoint/postgres/statements.hpp>
#include <cubepi/checkpoint/server/connection.hpp>
#include <cubepi/checkpoint/server/failure.hpp>

namespace cubepi::detail {

/// A connection of libpq in pipeline mode.
class PgConnection final : public ServerConnection {
public:
    /// `parameters` must outlive the connection. `prepare`: whether statements are prepared.
    PgConnection(const PgParameters& parameters, bool prepare)
        : parameters_(parameters), statements_(prepare) {}
    ~PgConnection() override;

    Task<> connect(ServerAddresses addresses) override;
    bool is_idle() const noexcept override;
    bool is_open() noexcept override;
    std::function<void()> canceller() const override;
    void forget() noexcept override { connection_ = nullptr; }

private:
    Task<ServerResults> run(ServerBatch batch, bool cancellable) override;
    void send(const ServerBatch& batch);
    void send(const ServerQuery& query);
    ServerFailure failure_of(const PGresult* result);
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
