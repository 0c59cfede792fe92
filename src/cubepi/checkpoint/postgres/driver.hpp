#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <cubepi/checkpoint/postgres/connection_string.hpp>
#include <cubepi/checkpoint/postgres_options.hpp>
#include <cubepi/checkpoint/server/driver.hpp>

namespace cubepi::detail {

class PgDriver : public SqlDriver {
public:
    /// `for_store`: its sessions require the tables of a store. Throws CheckpointerError(invalid_argument).
    PgDriver(const PostgresOptions& options, bool for_store);

    const char* name() const noexcept override { return "postgres"; }
    const std::string& description() const noexcept override { return parameters_.description(); }
    std::string without_secrets(std::string text) const override;
    const char* code_field() const noexcept override { return "sqlstate"; }
    SqlRemedy remedy(const SqlFailure& failure) const override;

    std::vector<std::string> names_to_resolve() const override;
    bool is_reachable(const SqlAddresses& addresses) const override;
    std::unique_ptr<SqlConnection> connection() const override;

    SqlBatch set_up() const override { return set_up_; }
    void check(const SqlResults& results) const override;
    void begin_read(SqlBatch& batch) const override;
    void begin_write(SqlBatch& batch, const std::vector<std::string>& threads) const override;
    void end_write(SqlBatch&, const std::vector<std::string>&) const override {}
    void write_extra(SqlBatch& batch, const std::string& thread_id,
                     const ExtraChange& change) const override;
    void write_fork_row(SqlBatch& batch, const SqlFork& fork, const JsonObject& added,
                        const JsonObject& merged) const override;
    std::string page_sql(const std::string& columns, const std::string& time) const override;
    std::string listing_sql() const override;
    std::vector<std::string> dependent_tables() const override { return {}; }

private:
    PgParameters parameters_;
    bool prepare_;
    bool for_store_;
    SqlBatch set_up_;
};

/// Returns the condition that an SQLSTATE means.
SqlCondition condition_of(std::string_view sqlstate);

/// Makes a failure with the condition that its SQLSTATE means.
SqlFailure pg_failure(SqlFailureKind kind, const std::string& reason, std::string sqlstate);

SqlRemedy pg_remedy(const SqlFailure& failure);

}  // namespace cubepi::detail
