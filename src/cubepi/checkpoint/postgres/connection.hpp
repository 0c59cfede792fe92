#pragma once

#include <functional>
#include <string>

#include <libpq-fe.h>

#include <cubepi/checkpoint/postgres/connection_string.hpp>
#include <cubepi/checkpoint/server/connection.hpp>

namespace cubepi::detail {

/// A connection of libpq in pipeline mode.
class PgConnection final : public ServerConnection {
public:
    /// `parameters` must outlive the connection.
    explicit PgConnection(const PgParameters& parameters) : parameters_(parameters) {}
    ~PgConnection() override;

    Task<> connect(ServerAddresses addresses) override;
    bool is_idle() const noexcept override;
    bool is_open() noexcept override;
    std::function<void()> canceller() const override;
    void forget() noexcept override { connection_ = nullptr; }

private:
    Task<ServerResults> run(ServerBatch batch, bool cancellable) override;
    void send(const ServerBatch& batch);
    Task<> wait_for_socket(bool for_write, bool cancellable);
    Task<> wait_for_result(bool cancellable);
    [[noreturn]] void fail_lost();
    [[noreturn]] void fail_connecting();

    const PgParameters& parameters_;
    PGconn* connection_ = nullptr;
    bool in_exchange_ = false;
};

}  // namespace cubepi::detail
