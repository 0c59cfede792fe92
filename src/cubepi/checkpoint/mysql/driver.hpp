#pragma once

#include <memory>
#include <string>
#include <vector>

#include <cubepi/checkpoint/mysql/connection_string.hpp>
#include <cubepi/checkpoint/mysql_options.hpp>
#include <cubepi/checkpoint/server/driver.hpp>

namespace cubepi::detail {

class MyDriver final : public ServerDriver {
public:
    /// `for_store`: its sessions require the tables of a store. Throws CheckpointerError(invalid_argument).
    MyDriver(const MySQLOptions& options, bool for_store);

    const char* name() const noexcept override { return "mysql"; }
    const std::string& description() const noexcept override { return description_; }
    std::string without_secrets(std::string text) const override;
    const char* code_field() const noexcept override { return "errno"; }
    ServerRemedy remedy(const ServerFailure& failure) const override;

    std::vector<std::string> names_to_resolve() const override;
    bool is_reachable(const ServerAddresses& addresses) const override;
    std::unique_ptr<ServerConnection> connection() const override;

    ServerBatch set_up() const override { return set_up_; }
    void check(const ServerResults& results) const override;
    void begin_read(ServerBatch& batch) const override;
    void begin_write(ServerBatch& batch, const std::vector<std::string>& threads) const override;
    void end_write(ServerBatch& batch, const std::vector<std::string>& threads) const override;
    void write_extra(ServerBatch& batch, const std::string& thread_id,
                     const ExtraChange& change) const override;
    void write_fork_row(ServerBatch& batch, const ServerFork& fork, const JsonObject& added,
                        const JsonObject& merged) const override;
    std::string page_sql(const std::string& columns, const std::string& time) const override;
    std::string listing_sql() const override;
    std::vector<std::string> dependent_tables() const override;

private:
    MyParameters parameters_;
    std::string description_;
    std::shared_ptr<const Runtime> runtime_;
    bool for_store_;
    ServerBatch set_up_;
};

/// Makes a failure from an error number of the server or of the client library.
ServerFailure my_failure(ServerFailureKind kind, const std::string& reason, unsigned error);

ServerRemedy my_remedy(const ServerFailure& failure);

}  // namespace cubepi::detail
