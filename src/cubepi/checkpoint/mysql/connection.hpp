#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include <mysql.h>

#include <cubepi/checkpoint/mysql/connection_string.hpp>
#include <cubepi/checkpoint/server/connection.hpp>
#include <cubepi/checkpoint/server/driver.hpp>
#include <cubepi/core/runtime.hpp>

namespace cubepi::detail {

/// A connection of MariaDB's client library in its non-blocking form.
class MyConnection final : public SqlConnection {
public:
    /// `parameters` must outlive the connection. `runtime` has the threads for connecting to a name that TLS verifies, which
    /// the library resolves itself.
    MyConnection(const MyParameters& parameters, std::shared_ptr<const Runtime> runtime);
    ~MyConnection() override;

    Task<> connect(SqlAddresses addresses) override;
    bool is_idle() const noexcept override;
    bool is_open() noexcept override;
    std::function<void()> canceller() const override;
    void forget() noexcept override { handle_ = nullptr; }

private:
    Task<SqlResults> run(SqlBatch batch, bool cancellable) override;
    Task<> connect_to(std::string address);
    Task<> connect_blocking();
    Task<> send(std::string text, bool cancellable);
    Task<std::optional<SqlFailure>> read_results(const SqlBatch& batch, SqlResults& results,
                                                 bool cancellable);
    /// Reads the next result as a whole. Returns false if it failed.
    Task<bool> read_result(SqlResults& results, bool cancellable);
    /// Passes the rows of the next result to the sink while they arrive. Returns false if it failed.
    Task<bool> pass_rows(SqlRowSink& sink, bool cancellable);
    /// Waits for what the library waits for, and returns what became ready.
    Task<int> wait_for(int wanted, bool cancellable);
    SqlFailure failure() const;
    void close() noexcept;

    const MyParameters& parameters_;
    std::shared_ptr<const Runtime> runtime_;
    MYSQL* handle_ = nullptr;
    std::string address_;
    bool in_exchange_ = false;
};

}  // namespace cubepi::detail
