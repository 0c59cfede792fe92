#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace cubepi {

/// The variables of this process that commands inherit.
enum class InheritEnvironment : std::uint8_t {
    all,   ///< all but secrets
    core,  ///< PATH, HOME, the user, shell, terminal, locale, time zone and temporary directory
    none,
};

/// Selects the environment variables of commands (D58). Patterns support * and ?, and ignore case. Applied in this order: the
/// variables of `inherit`, without secrets (is_secret_variable, has_password) and without `exclude`; then those of `include`,
/// regardless of the other members; never a variable of `hidden`. Those of `set` are added, or replace others.
struct EnvironmentPolicy {
    InheritEnvironment inherit = InheritEnvironment::all;
    std::vector<std::string> exclude = {};
    std::vector<std::string> include = {};
    std::vector<std::string> hidden = {};
    std::map<std::string, std::string> set = {};

    bool allows(std::string_view name, std::string_view value) const;
};

/// True for a name that suggests that an environment variable holds a secret, ignoring case: *KEY, *TOKEN, *SECRET,
/// *PASSWORD and similar words, also with a number (HF_TOKEN_2), AWS_ACCESS_KEY_ID, DATABASE_URL and other known names. False for
/// SSH_AUTH_SOCK.
bool is_secret_variable(std::string_view name);

/// True for a URL with a password: "postgres://user:password@host".
bool has_password(std::string_view value);

/// Returns the variables of this process that the policy allows, as "NAME=value", for child processes (D58). No other thread
/// may change the environment during the call.
std::vector<std::string> child_environment(const EnvironmentPolicy& policy);

/// Returns the names of the variables of this process that the policy withholds from children; sorted.
std::vector<std::string> withheld_variables(const EnvironmentPolicy& policy);

}  // namespace cubepi
