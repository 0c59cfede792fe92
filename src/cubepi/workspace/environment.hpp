#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace cubepi {

/// Which variables of this process commands start from.
enum class InheritEnvironment : std::uint8_t {
    all,   ///< all but secrets
    core,  ///< PATH, HOME, the user, shell, terminal, locale, time zone and temporary directory
    none,
};

/// Which environment variables commands get (D58). Patterns have * and ?, and ignore case. In this order: what `inherit`
/// takes, without secrets (is_secret_variable, has_password) and without `exclude`; then what `include` names, whatever the
/// other members say; never a variable of `hidden`.
struct EnvironmentPolicy {
    InheritEnvironment inherit = InheritEnvironment::all;
    std::vector<std::string> exclude = {};
    std::vector<std::string> include = {};
    std::vector<std::string> hidden = {};

    bool allows(std::string_view name, std::string_view value) const;
};

/// True for the name of an environment variable that by its name holds a secret, in any case: *_KEY, *_TOKEN, *_SECRET,
/// *_PASSWORD and similar words, AWS_ACCESS_KEY_ID, DATABASE_URL and others that are known. SSH_AUTH_SOCK is not one.
bool is_secret_variable(std::string_view name);

/// True for a URL with a password: "postgres://user:password@host".
bool has_password(std::string_view value);

/// This process's environment as "NAME=value", as far as the policy allows. For child processes (D58). No other thread may
/// change the environment meanwhile.
std::vector<std::string> child_environment(const EnvironmentPolicy& policy);

/// The names of the variables of this process that the policy keeps from children; sorted.
std::vector<std::string> withheld_variables(const EnvironmentPolicy& policy);

}  // namespace cubepi
