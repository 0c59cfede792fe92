#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <cubepi/checkpoint/postgres/connection_string.hpp>
#include <cubepi/checkpoint/postgres_options.hpp>
#include <cubepi/checkpoint/server/driver.hpp>

namespace cubepi::detail {

class PgDriver : public ServerDriver {
public:
    /// `for_store`: its sessions require the tables of a store. Throws CheckpointerError(invalid_argument).
    PgDriver(const PostgresOptions& options, bool for_store);

    const char* name() const noexcept override { return "postgres"; }
    const std::string& description() const noexcept override { return parameters_.description(); }
    std::string without_secrets(std::string text) const override;
    const char* code_field() const noexcept override { return "sqlstate"; }
    ServerRemedy remedy(const ServerFailure& failure) const override;

    std::vector<std::string> names_to_resolve() const override;
    bool is_reachable(const ServerAddresses& addresses) const override;
    std::unique_ptr<ServerConnection> connection() const override;

    ServerBatch set_up() const override { return set_up_; }
    void check(const ServerResults& results) const override;
    void begin_read(ServerBatch& batch) const override;
    void begin_write(ServerBatch& batch, const std::vector<std::string>& threads) const override;
    void end_write(ServerBatch&, const std::vector<std::string>&) const override {}
    void write_extra(ServerBatch& batch, const std::string& thread_id,
                     const ExtraChange& change) const override;
    void write_fork_row(ServerBatch& batch, const ServerFork& fork, const JsonObject& added,
                        const JsonObject& merged) const override;
    std::string page_sql(const std::string& columns, const std::string& time) const override;
    std::string listing_sql() const override;
    std::vector<std::string> dependent_tables() const override { return {}; }

private:
    PgParameters parameters_;
    bool prepare_;
    bool for_store_;
    ServerBatch set_up_;
};

/// Returns the condition that an SQLSTATE means.
ServerCondition condition_of(std::string_view sqlstate);

/// Makes a failure with the condition that its SQLSTATE means.
ServerFailure pg_failure(ServerFailureKind kind, const std::string& reason, std::string sqlstate);

ServerRemedy pg_remedy(const ServerFailure& failure);

}  // namespace cubepi::detail
