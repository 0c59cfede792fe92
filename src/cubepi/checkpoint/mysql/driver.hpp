#pragma once

#include <memory>
#include <string>
#include <vector>

#include <cubepi/checkpoint/mysql/connection_string.hpp>
#include <cubepi/checkpoint/mysql_options.hpp>
#include <cubepi/checkpoint/server/driver.hpp>

namespace cubepi::detail {

class MyDriver final : public SqlDriver {
public:
    /// `for_store`: its sessions require the tables of a store. Throws CheckpointerError(invalid_argument).
    MyDriver(const MySQLOptions& options, bool for_store);

    const char* name() const noexcept override { return "mysql"; }
    const std::string& description() const noexcept override { return description_; }
    std::string without_secrets(std::string text) const override;
    const char* code_field() const noexcept override { return "errno"; }
    SqlRemedy remedy(const SqlFailure& failure) const override;

    std::vector<std::string> names_to_resolve() const override;
    bool is_reachable(const SqlAddresses& addresses) const override;
    std::unique_ptr<SqlConnection> connection() const override;

    SqlBatch set_up() const override { return set_up_; }
    void check(const SqlResults& results) const override;
    void begin_read(SqlBatch& batch) const override;
    void begin_write(SqlBatch& batch, const std::vector<std::string>& threads) const override;
    void end_write(SqlBatch& batch, const std::vector<std::string>& threads) const override;
    void write_extra(SqlBatch& batch, const std::string& thread_id,
                     const ExtraChange& change) const override;
    void write_fork_row(SqlBatch& batch, const SqlFork& fork, const JsonObject& added,
                        const JsonObject& merged) const override;
    std::string page_sql(const std::string& columns, const std::string& time) const override;
    std::string listing_sql() const override;
    std::vector<std::string> dependent_tables() const override;

private:
    MyParameters parameters_;
    std::string description_;
    std::shared_ptr<const Runtime> runtime_;
    bool for_store_;
    SqlBatch set_up_;
};

/// Makes a failure from an error number of the server or of the client library.
SqlFailure my_failure(SqlFailureKind kind, const std::string& reason, unsigned error);

SqlRemedy my_remedy(const SqlFailure& failure);

}  // namespace cubepi::detail
