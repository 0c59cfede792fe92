#include <cubepi/process/environment.hpp>

#include <algorithm>
#include <array>

#include <unistd.h>

namespace cubepi {

namespace {

constexpr std::array<std::string_view, 15> secret_words = {
    "KEY", "TOKEN", "SECRET", "PASSWORD",   "PASSWD",      "PASSPHRASE", "PASS",  "PWD",
    "PAT", "DSN",   "AUTH",   "CREDENTIAL", "CREDENTIALS", "JWT",        "COOKIE"};

/// Names that end in one of these words by chance, or name a program that asks.
constexpr std::array<std::string_view, 9> innocent_patterns = {
    "PWD", "OLDPWD", "*ASKPASS", "*BYPASS", "*COMPASS", "*COMPAT", "*MONKEY", "*TURKEY", "LESSKEY"};

/// One of several secrets of a kind: HF_TOKEN_2, DB_PASS_OLD.
constexpr std::array<std::string_view, 9> qualifiers = {
    "_OLD", "_NEW", "_PROD", "_PRODUCTION", "_DEV", "_TEST", "_LIVE", "_STAGING", "_BASE64"};

/// Names that do not end in a word of the list above.
constexpr std::array<std::string_view, 35> secret_patterns = {"*_TOKEN_*",
                                                              "*_SECRET_*",
                                                              "*ACCESS_KEY*",
                                                              "*API_KEY*",
                                                              "*APIKEY*",
                                                              "*PRIVATE_KEY*",
                                                              "*SECRET_KEY*",
                                                              "*ACCESS_TOKEN*",
                                                              "*AUTH_TOKEN*",
                                                              "*AUTHTOKEN*",
                                                              "*CLIENT_SECRET*",
                                                              "*_SECRETS",
                                                              "*PASSWORD*",
                                                              "*PASSWD*",
                                                              "*PASSPHRASE*",
                                                              "*CREDENTIALS*",
                                                              "*CONNECTION_STRING*",
                                                              "*CONN_STR",
                                                              "*WEBHOOK*",
                                                              "*DATABASE_UR?",
                                                              "DB_UR?",
                                                              "*_DB_UR?",
                                                              "*JDBC*URL",
                                                              "*MONGO*_UR?",
                                                              "*REDIS*_UR?",
                                                              "*POSTGRES*_UR?",
                                                              "*MYSQL*_UR?",
                                                              "*AMQP*_UR?",
                                                              "*RABBITMQ*_UR?",
                                                              "*BROKER_UR?",
                                                              "*ELASTICSEARCH*_UR?",
                                                              "CLOUDINARY_URL",
                                                              "DOCKER_AUTH_CONFIG",
                                                              "PGPASSFILE",
                                                              "NPM_CONFIG_*AUTH*"};

constexpr std::array<std::string_view, 22> core_patterns = {"PATH",
                                                            "HOME",
                                                            "USER",
                                                            "LOGNAME",
                                                            "SHELL",
                                                            "TERM",
                                                            "COLORTERM",
                                                            "LANG",
                                                            "LANGUAGE",
                                                            "LC_*",
                                                            "TZ",
                                                            "TMPDIR",
                                                            "TMP",
                                                            "TEMP",
                                                            "PWD",
                                                            "HOSTNAME",
                                                            "XDG_RUNTIME_DIR",
                                                            "XDG_CONFIG_HOME",
                                                            "XDG_CACHE_HOME",
                                                            "XDG_DATA_HOME",
                                                            "XDG_STATE_HOME",
                                                            "DISPLAY"};

char upper(char c) { return c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c; }

/// Matches a pattern: * is any text, ? one character; case is ignored.
bool matches(std::string_view pattern, std::string_view name) {
    std::size_t at = 0;
    std::size_t in_name = 0;
    std::size_t star = std::string_view::npos;
    std::size_t resume = 0;
    while (in_name < name.size()) {
        if (at < pattern.size() && pattern[at] == '*') {
            star = at++;
            resume = in_name;
        } else if (at < pattern.size() &&
                   (pattern[at] == '?' || upper(pattern[at]) == upper(name[in_name]))) {
            ++at;
            ++in_name;
        } else if (star != std::string_view::npos) {
            at = star + 1;
            in_name = ++resume;
        } else {
            return false;
        }
    }
    while (at < pattern.size() && pattern[at] == '*') ++at;
    return at == pattern.size();
}

template <class Patterns>
bool matches_any(const Patterns& patterns, std::string_view name) {
    return std::any_of(patterns.begin(), patterns.end(),
                       [name](std::string_view pattern) { return matches(pattern, name); });
}

bool ends_in(std::string_view name, std::string_view word) {
    return name.size() >= word.size() && matches(word, name.substr(name.size() - word.size()));
}

std::string_view without_qualifier(std::string_view name) {
    for (const std::string_view qualifier : qualifiers) {
        if (ends_in(name, qualifier)) name.remove_suffix(qualifier.size());
    }
    const std::size_t last = name.find_last_not_of("0123456789");
    if (last + 1 == name.size() || last == std::string_view::npos) return name;
    return name.substr(0, name[last] == '_' ? last : last + 1);
}

/// Calls `visit` with name, value and the whole entry of each variable.
template <class Visit>
void for_each_variable(Visit visit) {
    for (char** entry = ::environ; entry != nullptr && *entry != nullptr; ++entry) {
        const std::string_view line(*entry);
        const std::size_t end = line.find('=');
        if (end == std::string_view::npos) continue;
        visit(line.substr(0, end), line.substr(end + 1), line);
    }
}

}  // namespace

bool is_secret_variable(std::string_view name) {
    if (matches_any(secret_patterns, name)) return true;
    const std::string_view kind = without_qualifier(name);
    return !matches_any(innocent_patterns, kind) &&
           std::any_of(secret_words.begin(), secret_words.end(),
                       [kind](std::string_view word) { return ends_in(kind, word); });
}

bool has_password(std::string_view value) {
    const std::size_t scheme = value.find("://");
    if (scheme == std::string_view::npos) return false;
    const std::string_view rest = value.substr(scheme + 3);
    const std::string_view authority = rest.substr(0, rest.find_first_of("/?# "));
    const std::size_t at = authority.rfind('@');
    return at != std::string_view::npos && authority.substr(0, at).find(':') < at;
}

bool EnvironmentPolicy::allows(std::string_view name, std::string_view value) const {
    if (matches_any(hidden, name)) return false;
    if (matches_any(include, name)) return true;
    if (inherit == InheritEnvironment::none) return false;
    if (inherit == InheritEnvironment::core && !matches_any(core_patterns, name)) return false;
    if (is_secret_variable(name) || matches_any(exclude, name)) return false;
    // A build behind a proxy cannot download anything without this variable.
    return !has_password(value) || matches("*_proxy", name);
}

std::vector<std::string> child_environment(const EnvironmentPolicy& policy) {
    std::vector<std::string> allowed;
    for_each_variable([&](std::string_view name, std::string_view value, std::string_view line) {
        if (policy.allows(name, value) && !policy.set.contains(std::string(name)))
            allowed.emplace_back(line);
    });
    for (const auto& [name, value] : policy.set) allowed.push_back(name + "=" + value);
    return allowed;
}

std::vector<std::string> withheld_variables(const EnvironmentPolicy& policy) {
    std::vector<std::string> names;
    for_each_variable([&](std::string_view name, std::string_view value, std::string_view) {
        if (!policy.allows(name, value)) names.emplace_back(name);
    });
    std::sort(names.begin(), names.end());
    return names;
}

}  // namespace cubepi
