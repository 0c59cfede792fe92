#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include <cubepi/core/runtime.hpp>
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

/// `parameters` must outlive the connection. `runtime` has the threads for connecting to a name that TLS verifies, which the
/// client library resolves itself.
std::unique_ptr<SqlConnection> my_connection(const MyParameters& parameters,
                                             std::shared_ptr<const Runtime> runtime);

/// Makes a failure from an error number of the server or of the client library.
SqlFailure my_failure(SqlFailureKind kind, const std::string& reason, unsigned error);

}  // namespace cubepi::detail
