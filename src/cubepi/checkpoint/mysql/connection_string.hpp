#pragma once

#include <cstdint>
#include <string>
#include <string_view>

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

}  // namespace cubepi::detail
