#pragma once

#include <cubepi/sql/options.hpp>

namespace cubepi {

/// `connection` is mysql://USER:PASSWORD@HOST:PORT/DATABASE, with special characters as %XX. The port is 3306 if absent.
/// Parameters follow a '?', separated by '&':
///
///     socket=PATH        a Unix socket instead of host and port
///     ssl-mode=MODE      disabled, preferred (the default: TLS if the server has it), required (without checking the
///                        certificate), verify-ca (needs ssl-ca) or verify-identity
///     ssl-ca=FILE        the certificates to check the server's with
///     ssl-cert=FILE, ssl-key=FILE   a certificate of the client
///
/// If the password is absent, the environment variable MYSQL_PWD applies. `lock_timeout` is rounded up to whole seconds.
struct MySQLOptions : SqlOptions {};

/// Returns the name of the database for messages, without a password. Throws CheckpointerError(invalid_argument) for an invalid
/// connection string.
std::string mysql_description(const MySQLOptions& options);

}  // namespace cubepi
