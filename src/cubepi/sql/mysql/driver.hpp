#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <cubepi/sql/mysql_options.hpp>
#include <cubepi/sql/support/connection.hpp>
#include <cubepi/sql/support/driver.hpp>

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
    /// Throws CheckpointerError(invalid_argument).
    explicit MyDriver(const MySQLOptions& options);

    const char* name() const noexcept override { return "mysql"; }
    const std::string& description() const noexcept override { return description_; }
    std::string without_secrets(std::string text) const override;
    const char* code_field() const noexcept override { return "errno"; }
    SqlRemedy remedy(const SqlFailure& failure) const override;

    std::vector<std::string> names_to_resolve() const override;
    bool is_reachable(const SqlAddresses& addresses) const override;
    std::unique_ptr<SqlConnection> connection() const override;

    SqlBatch migration_session() const override;
    SqlBatch store_session() const override;
    void begin_read(SqlBatch& batch) const override;
    void begin_write(SqlBatch& batch) const override;
    void begin_migration(SqlBatch& batch, const std::string& name) const override;
    bool migrates_at_once() const noexcept override { return false; }

private:
    MyParameters parameters_;
    std::string description_;
    std::shared_ptr<const Runtime> runtime_;
    std::chrono::milliseconds lock_timeout_;
    std::chrono::milliseconds query_timeout_;
};

/// Makes a failure from an error number of the server or of the client library.
SqlFailure my_failure(SqlFailureKind kind, const std::string& reason, unsigned error);

}  // namespace cubepi::detail
