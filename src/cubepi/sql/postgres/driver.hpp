#pragma once

#include <array>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <cubepi/sql/support/connection.hpp>
#include <cubepi/sql/support/driver.hpp>

namespace cubepi::detail {

/// How long a host that does not answer is waited for, unless the connection string has other values: at most ten seconds for what was
/// sent, and for an answer to a query that it has received before it lost its power, or its network.
inline constexpr std::array<std::pair<const char*, const char*>, 3> host_limits{
    {{"tcp_user_timeout", "10000"}, {"keepalives_idle", "5"}, {"keepalives_interval", "5"}}};

/// The parameters of a connection. Immutable.
class PgParameters {
public:
    /// Parses a connection string. Throws CheckpointerError(invalid_argument), without the text of the string, which may
    /// contain a password.
    explicit PgParameters(const std::string& connection);

    /// Returns the value that applies: of the string, else of the environment, else libpq's default. Empty if there is none.
    std::string effective(const std::string& key) const;

    /// Host names that must be resolved before libpq connects, which would block.
    std::vector<std::string> names_to_resolve() const;
    /// Returns the keywords and values for PQconnectStartParams. A host with several addresses occurs once for each; a name
    /// that is missing in `addresses` is left out.
    std::map<std::string, std::string> with_addresses(
        const std::map<std::string, std::vector<std::string>>& addresses) const;

    /// "PostgreSQL database 'NAME' on HOST:PORT", for error messages.
    const std::string& description() const noexcept { return description_; }
    /// Replaces passwords in the text.
    std::string without_secrets(std::string text) const;

private:
    struct Host {
        std::string name = {};
        std::string address = {};
        std::string port = {};
    };
    std::vector<Host> hosts() const;
    std::string describe() const;

    std::map<std::string, std::string> given_;
    std::map<std::string, std::string> defaults_;
    std::string description_;
};

/// `parameters` must outlive the connection. `prepare`: whether statements are prepared.
std::unique_ptr<SqlConnection> pg_connection(const PgParameters& parameters, bool prepare);

/// Returns the condition that an SQLSTATE means.
SqlCondition condition_of(std::string_view sqlstate);

/// Makes a failure with the condition that its SQLSTATE means.
SqlFailure pg_failure(SqlFailureKind kind, const std::string& reason, std::string sqlstate);

}  // namespace cubepi::detail
