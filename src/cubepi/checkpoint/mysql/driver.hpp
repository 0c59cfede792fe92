#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <cubepi/checkpoint/mysql_options.hpp>
#include <cubepi/checkpoint/mysql_schema.hpp>
#include <cubepi/checkpoint/server/connection.hpp>
#include <cubepi/checkpoint/server/driver.hpp>

namespace cubepi::detail {

enum class MyTls : std::uint8_t { disabled, preferred, required, verify_ca, verify_identity };

/// The parameters of a connection. Immutable.
struct MyParameters {
    /// Parses a connection string. Throws CheckpointerError(invalid_argument), without the text of the string, which may
    /// contain a password.
    explicit MyParameters(std::string_view connection);

    /// "MySQL database 'NAME' on HOST:PORT", for error messages.
    std::string description() const;
    std::string without_secrets(std::string text) const;
    /// Returns true if the host is a name that must be resolved.
    bool has_name() const;

    std::string user = {};
    std::string password = {};
    std::string host = {};
    unsigned port = 3306;
    std::string database = {};
    std::string socket = {};
    MyTls tls = MyTls::preferred;
    std::string ca = {};
    std::string certificate = {};
    std::string key = {};

private:
    void read_authority(std::string_view text);
    void read_parameters(std::string_view text);
};

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

/// Returns the statements that prepare a session; those of a store also read the versions of the tables.
SqlBatch session_set_up(const MySQLOptions& options, bool for_store);
/// Checks the results for a store. Throws CheckpointerError(schema_mismatch).
void check_session(const std::string& where, const SqlResults& results);

/// Returns the statements of mysql_schema_sql().
std::vector<std::string> mysql_schema_statements(const SqlSchemaStatus& from);

}  // namespace cubepi::detail
