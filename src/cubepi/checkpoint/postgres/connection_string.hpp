#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace cubepi::detail {

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

}  // namespace cubepi::detail
