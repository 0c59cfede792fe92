#include "config_file.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <limits>
#include <string>
#include <string_view>
#include <system_error>

#include <sys/stat.h>
#include <yaml-cpp/yaml.h>

#include <bub/close_matches.hpp>
#include <cubepi/core/error.hpp>
#include <cubepi/core/support/posix_file.hpp>
#include <cubepi/sql/postgres_options.hpp>

#include "../shell_quoting.hpp"
#include "gateway_settings.hpp"
#include "paths.hpp"
#include "tool_names.hpp"

namespace cubepi::app {

namespace {

std::string variable(const char* name) {
    const char* value = std::getenv(name);
    return value ? value : "";
}

constexpr std::array<std::string_view, 41> known_keys{"provider",
                                                      "model",
                                                      "base_url",
                                                      "api_key",
                                                      "api_key_env",
                                                      "providers",
                                                      "allow",
                                                      "fallback_models",
                                                      "model_timeout",
                                                      "first_byte_timeout",
                                                      "idle_timeout",
                                                      "max_turns",
                                                      "max_tokens",
                                                      "plugins",
                                                      "environment",
                                                      "sandbox",
                                                      "trace",
                                                      "gateway",
                                                      "database",
                                                      "databases",
                                                      "thinking_tag",
                                                      "escape_timeout",
                                                      "max_repeated_calls",
                                                      "memory",
                                                      "notifications",
                                                      "theme",
                                                      "window_title",
                                                      "editing_mode",
                                                      "keys",
                                                      "context_window",
                                                      "compact_at",
                                                      "compact_model",
                                                      "hooks",
                                                      "mcp",
                                                      "max_listed_mcp_tools",
                                                      "mcp_start_wait",
                                                      "subagents",
                                                      "todos",
                                                      "ask",
                                                      "deny",
                                                      "trust"};
constexpr std::array<std::string_view, 6> provider_keys{"type",        "base_url", "api_key",
                                                        "api_key_env", "model",    "thinking_tag"};

[[noreturn]] void refuse(const std::filesystem::path& path, int line, const std::string& what) {
    throw Error(ErrorCode::parse, path.string() + ":" + std::to_string(line + 1) + ": " + what +
                                      "; 'man cubepi' lists the keys of the file");
}

std::string file_text(const std::filesystem::path& path) {
    std::error_code failed;
    if (!std::filesystem::exists(path, failed)) return {};
    if (const auto kind = detail::kind_if_not_regular(path); !kind.empty()) {
        throw Error(ErrorCode::io,
                    path.string() + " is " + std::string(kind) + "; it should be a file.");
    }
    std::ifstream file(path, std::ios::binary);
    std::string text((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
    if (!file.is_open() || file.bad()) {
        throw Error(ErrorCode::io, "cannot read " + path.string() +
                                       "; check its permissions: ls -l " + path.string());
    }
    return text;
}

YAML::Node parsed(const std::filesystem::path& path, const std::string& text) {
    try {
        YAML::Node node = YAML::Load(text);
        if (!node || node.IsNull()) return YAML::Node(YAML::NodeType::Map);
        if (!node.IsMap()) refuse(path, 0, "expected keys and values");
        (void)yaml_values(text);
        return node;
    } catch (const YAML::Exception& error) {
        refuse(path, std::max(error.mark.line, 0), error.msg);
    }
}

JsonObject values_of(const std::filesystem::path& path, const std::string& text) {
    parsed(path, text);  // reports the line of an error
    return yaml_values(text);
}

std::string text(const std::filesystem::path& path, const YAML::Node& node, const char* key) {
    const YAML::Node value = node[key];
    if (!value || value.IsNull()) return {};
    if (!value.IsScalar()) refuse(path, value.Mark().line, std::string(key) + " must be a string");
    return value.as<std::string>();
}

/// " (did you mean 'model'?)", or nothing.
std::string similar_key(std::string_view key, const std::vector<std::string>& keys) {
    const std::vector<std::string> close = bub::close_matches(key, keys);
    return close.empty() ? std::string() : " (did you mean '" + close.front() + "'?)";
}

template <class Keys>
void refuse_others(const std::filesystem::path& path, const YAML::Node& node, const Keys& keys) {
    for (const auto& entry : node) {
        const std::string key = entry.first.as<std::string>();
        if (std::find(keys.begin(), keys.end(), key) == keys.end())
            refuse(path, entry.first.Mark().line,
                   "unknown key '" + key + "'" + similar_key(key, {keys.begin(), keys.end()}));
    }
}

ProviderConfig read_provider(const std::filesystem::path& path, const YAML::Node& name,
                             const YAML::Node& node) {
    ProviderConfig provider;
    provider.name = name.as<std::string>();
    const int line = name.Mark().line;
    if (provider.name.empty() || provider.name.find('/') != std::string::npos)
        refuse(path, line, "a provider name must be a string without '/'");
    if (!node.IsMap())
        refuse(path, line,
               "provider " + provider.name + " must be a mapping (type, base_url, ...)");
    refuse_others(path, node, provider_keys);
    if (const std::string type = text(path, node, "type"); !type.empty()) {
        provider.type = provider_type(type);
        if (!provider.type) {
            std::string names;
            for (const ProviderKind& kind : provider_kinds())
                names += (names.empty() ? "" : ", ") + std::string(kind.name);
            refuse(path, node["type"].Mark().line,
                   "unknown type '" + type + "'; expected one of " + names);
        }
    }
    provider.base_url = text(path, node, "base_url");
    provider.api_key = text(path, node, "api_key");
    provider.api_key_env = text(path, node, "api_key_env");
    provider.model = text(path, node, "model");
    provider.thinking_tag = text(path, node, "thinking_tag");
    if (provider.base_url.empty() && !provider.type && !known_provider(provider.name))
        refuse(path, line, "provider " + provider.name + " has neither type nor base_url");
    return provider;
}

void read_providers(const std::filesystem::path& path, const YAML::Node& node, ConfigFile& config) {
    if (!node || node.IsNull()) return;
    if (!node.IsMap()) refuse(path, node.Mark().line, "providers must map names to endpoints");
    for (const auto& entry : node)
        config.providers.push_back(read_provider(path, entry.first, entry.second));
    for (const ProviderConfig& provider : config.providers) {
        if (provider.name != config.provider) continue;
        if (!config.base_url.empty() || !config.api_key.empty() || !config.api_key_env.empty()) {
            refuse(path, node.Mark().line - 1,
                   "base_url, api_key and api_key_env of the provider " + provider.name +
                       " must be set in its entry under providers");
        }
    }
}

std::vector<std::string> texts(const std::filesystem::path& path, const YAML::Node& node,
                               const char* key, const char* what) {
    const YAML::Node list = node[key];
    std::vector<std::string> found;
    if (!list || list.IsNull()) return found;
    const std::string expected = std::string(key) + " must be a list of " + what;
    if (!list.IsSequence()) refuse(path, list.Mark().line, expected);
    for (const YAML::Node& one : list) {
        if (!one.IsScalar()) refuse(path, one.Mark().line, expected);
        found.push_back(one.as<std::string>());
    }
    return found;
}

std::vector<std::string> rules(const std::filesystem::path& path, const YAML::Node& node,
                               const char* key) {
    return texts(path, node, key, "rules");
}

std::optional<double> number(const std::filesystem::path& path, const YAML::Node& node,
                             const char* key) {
    if (text(path, node, key).empty()) return std::nullopt;
    double value = 0;
    if (!YAML::convert<double>::decode(node[key], value) || !(value > 0) || value > 1e9)
        refuse(path, node[key].Mark().line, std::string(key) + " must be a number greater than 0");
    return value;
}

std::optional<std::chrono::milliseconds> seconds(const std::filesystem::path& path,
                                                 const YAML::Node& node, const char* key) {
    const std::optional<double> value = number(path, node, key);
    if (!value) return std::nullopt;
    return std::chrono::milliseconds(static_cast<std::int64_t>(*value * 1000));
}

template <class Integer>
std::optional<Integer> whole_number(const std::filesystem::path& path, const YAML::Node& node,
                                    const char* key) {
    const std::optional<double> value = number(path, node, key);
    if (!value) return std::nullopt;
    const auto whole = static_cast<Integer>(*value);
    if (static_cast<double>(whole) < *value)
        refuse(path, node[key].Mark().line, std::string(key) + " must be a whole number");
    return whole;
}

EnvironmentPolicy read_environment(const std::filesystem::path& path, const YAML::Node& node) {
    EnvironmentPolicy policy;
    if (!node || node.IsNull()) return policy;
    if (!node.IsMap())
        refuse(path, node.Mark().line,
               "environment must be a mapping of inherit, exclude and include");
    constexpr std::array<std::string_view, 3> keys{"inherit", "exclude", "include"};
    refuse_others(path, node, keys);
    const std::string inherit = text(path, node, "inherit");
    if (inherit == "core") {
        policy.inherit = InheritEnvironment::core;
    } else if (inherit == "none") {
        policy.inherit = InheritEnvironment::none;
    } else if (!inherit.empty() && inherit != "all") {
        refuse(path, node["inherit"].Mark().line, "inherit must be all, core or none");
    }
    policy.exclude = texts(path, node, "exclude", "names of variables, with * and ?");
    policy.include = texts(path, node, "include", "names of variables, with * and ?");
    return policy;
}

bool truth(const std::filesystem::path& path, const YAML::Node& node, const char* key) {
    bool value = false;
    const YAML::Node found = node[key];
    if (found && !YAML::convert<bool>::decode(found, value))
        refuse(path, found.Mark().line, std::string(key) + " must be true or false");
    return value;
}

/// Reads paths that begin with / or ~/.
std::vector<std::string> absolute_paths(const std::filesystem::path& path, const YAML::Node& node,
                                        const char* key) {
    std::vector<std::string> found = texts(path, node, key, "paths");
    for (std::string& one : found) {
        one = expand_home(one).string();
        if (!one.starts_with("/"))
            refuse(path, node[key].Mark().line,
                   "the paths of " + std::string(key) + " must begin with / or ~/");
    }
    return found;
}

SandboxSettings read_sandbox(const std::filesystem::path& path, const YAML::Node& node) {
    SandboxSettings settings;
    if (!node || node.IsNull()) return settings;
    constexpr std::array<std::string_view, 6> keys{"mode",     "network",  "unix_sockets",
                                                   "writable", "readable", "required"};
    if (!node.IsScalar() && !node.IsMap())
        refuse(path, node.Mark().line, "sandbox must be a mode, or a mapping of mode and others");
    std::string mode = node.IsScalar() ? node.Scalar() : std::string();
    if (node.IsMap()) {
        refuse_others(path, node, keys);
        mode = text(path, node, "mode");
        settings.network = truth(path, node, "network");
        settings.unix_sockets = truth(path, node, "unix_sockets");
        settings.required = truth(path, node, "required");
        settings.writable = absolute_paths(path, node, "writable");
        settings.readable = absolute_paths(path, node, "readable");
    }
    if (mode.empty()) return settings;
    const std::optional<SandboxSettings::Mode> named = sandbox_mode(mode);
    if (!named)
        refuse(path, node.Mark().line, "the mode of sandbox must be off, workspace or read-only");
    settings.mode = *named;
    return settings;
}

constexpr std::size_t most_hooks = 1000;

/// Reads the hooks of one matcher, in the form of codex and Claude Code.
void read_hook_group(const std::filesystem::path& path, const YAML::Node& group,
                     bub::HookPoint point, std::vector<bub::CommandHook>& hooks) {
    constexpr std::array<std::string_view, 2> group_keys{"matcher", "hooks"};
    constexpr std::array<std::string_view, 3> hook_keys{"type", "command", "timeout"};
    const YAML::Node commands = group.IsMap() ? group["hooks"] : YAML::Node();
    if (!commands || !commands.IsSequence())
        refuse(path, group.Mark().line,
               "a hook is a mapping of matcher and hooks, a list of {command, timeout}");
    refuse_others(path, group, group_keys);
    for (const YAML::Node& one : commands) {
        if (hooks.size() == most_hooks)
            refuse(path, one.Mark().line,
                   "more than " + std::to_string(most_hooks) + " hooks are not supported");
        if (!one.IsMap()) refuse(path, one.Mark().line, "a hook needs a command");
        refuse_others(path, one, hook_keys);
        const std::string type = text(path, one, "type");
        if (!type.empty() && type != "command")
            refuse(path, one.Mark().line, "hooks of the type '" + type + "' are not supported");
        bub::CommandHook hook{point, text(path, group, "matcher"), text(path, one, "command")};
        if (const auto limit = seconds(path, one, "timeout")) hook.timeout = *limit;
        try {
            bub::check_command_hook(hook);
            hook.note = hook_note(hook);
        } catch (const Error& error) {
            refuse(path, one.Mark().line, error.what());
        }
        hooks.push_back(std::move(hook));
    }
}

std::vector<bub::CommandHook> read_hooks(const std::filesystem::path& path,
                                         const YAML::Node& node) {
    std::vector<bub::CommandHook> hooks;
    if (!node || node.IsNull()) return hooks;
    if (!node.IsMap())
        refuse(path, node.Mark().line, "hooks must be a mapping of PreToolUse and other events");
    for (const auto& entry : node) {
        const std::string name = entry.first.Scalar();
        const std::optional<bub::HookPoint> point = bub::hook_point(name);
        if (!point)
            refuse(path, entry.first.Mark().line,
                   "'" + name +
                       "' is not an event of hooks: PreToolUse, PostToolUse, UserPromptSubmit, "
                       "Stop or Notification");
        if (!entry.second.IsSequence())
            refuse(path, entry.second.Mark().line, "the hooks of " + name + " must be a list");
        for (const YAML::Node& group : entry.second) read_hook_group(path, group, *point, hooks);
    }
    return hooks;
}

/// YAML's own form of "none" is easier to find than 0, which the other limits refuse.
bool is_off(const std::filesystem::path& path, const YAML::Node& node, const char* key) {
    return text(path, node, key) == "false";
}

SubagentSettings read_subagents(const std::filesystem::path& path, const YAML::Node& node) {
    SubagentSettings settings;
    if (!node || node.IsNull()) return settings;
    if (!node.IsMap())
        refuse(path, node.Mark().line,
               "subagents must be a mapping of max_background, max_turns and max_spend");
    constexpr std::array<std::string_view, 3> keys{"max_background", "max_turns", "max_spend"};
    refuse_others(path, node, keys);
    constexpr std::size_t most = 64;
    std::optional<std::size_t> background = 0;
    if (!is_off(path, node, "max_background"))
        background = whole_number<std::size_t>(path, node, "max_background");
    settings.max_background = background.value_or(settings.max_background);
    if (settings.max_background > most)
        refuse(path, node["max_background"].Mark().line,
               "subagents.max_background must be at most " + std::to_string(most));
    settings.max_turns = whole_number<std::size_t>(path, node, "max_turns");
    settings.max_spend = number(path, node, "max_spend");
    return settings;
}

TraceSettings read_trace(const std::filesystem::path& path, const YAML::Node& node) {
    TraceSettings settings;
    if (!node || node.IsNull()) return settings;
    if (node.IsScalar()) {
        settings.directory = node.Scalar();
    } else if (node.IsMap()) {
        constexpr std::array<std::string_view, 2> keys{"directory", "content"};
        refuse_others(path, node, keys);
        settings.directory = text(path, node, "directory");
        const YAML::Node content = node["content"];
        if (content && !YAML::convert<bool>::decode(content, settings.content))
            refuse(path, content.Mark().line, "trace.content must be true or false");
    } else {
        refuse(path, node.Mark().line,
               "trace must be a directory, or a mapping of directory and content");
    }
    const std::string directory = settings.directory.string();
    if (!directory.empty() && !directory.starts_with("/") && !directory.starts_with("~/"))
        refuse(path, node.Mark().line, "the directory of trace must begin with / or ~/");
    return settings;
}

std::string read_database(const std::filesystem::path& path, const YAML::Node& node) {
    std::string url = text(path, node, "database");
    const std::string problem = url.empty() ? url : database_problem(url);
    if (!problem.empty())
        refuse(path, node["database"].Mark().line, "the key database: " + problem);
    return url;
}

std::vector<DatabasePart> read_databases(const std::filesystem::path& path,
                                         const YAML::Node& node) {
    constexpr std::array<std::string_view, 4> keys{"name", "url", "sessions", "notify_database"};
    std::vector<DatabasePart> all;
    const YAML::Node list = node["databases"];
    if (!list || list.IsNull()) return all;
    const int line = list.Mark().line;
    if (!list.IsSequence())
        refuse(path, line, "databases must be a list of mappings with name, url and sessions");
    if (node["database"])
        refuse(path, line, "databases takes the place of database: remove one of the keys");
    for (const YAML::Node& one : list) {
        if (!one.IsMap())
            refuse(path, one.Mark().line, "a database must be a mapping: name, url, sessions");
        refuse_others(path, one, keys);
        DatabasePart& part = all.emplace_back();
        part.name = text(path, one, "name");
        part.url = text(path, one, "url");
        part.sessions = text(path, one, "sessions");
        part.notify = text(path, one, "notify_database");
        std::string problem = database_problem(part.url);
        if (problem.empty() && !part.notify.empty()) problem = database_problem(part.notify);
        if (!problem.empty())
            refuse(path, one.Mark().line, "the database '" + part.name + "': " + problem);
    }
    try {
        (void)database_map(all);
    } catch (const Error& error) {
        refuse(path, line, "databases: " + std::string(error.what()));
    }
    return all;
}

bool has_secret(const ConfigFile& config, const YAML::Node& gateway) {
    const auto has_token = [](const auto& part) {
        return part.second.IsMap() && part.second["token"];
    };
    return (gateway && gateway.IsMap() && std::any_of(gateway.begin(), gateway.end(), has_token)) ||
           !config.api_key.empty() || has_password(config.database) ||
           std::any_of(config.databases.begin(), config.databases.end(),
                       [](const DatabasePart& one) {
                           return has_password(one.url) || has_password(one.notify);
                       }) ||
           (gateway && gateway.IsMap() && gateway["notify_database"] &&
            gateway["notify_database"].IsScalar() &&
            has_password(gateway["notify_database"].Scalar())) ||
           std::any_of(config.providers.begin(), config.providers.end(),
                       [](const ProviderConfig& one) { return !one.api_key.empty(); });
}

std::vector<std::string> read_trust(const std::filesystem::path& path, const YAML::Node& node) {
    std::vector<std::string> directories;
    if (!node || node.IsNull()) return directories;
    constexpr const char* expected = "trust must be a list of directories that begin with / or ~/";
    if (!node.IsSequence()) refuse(path, node.Mark().line, expected);
    for (const YAML::Node& one : node) {
        const std::string directory = one.IsScalar() ? one.Scalar() : std::string();
        if (!directory.starts_with("/") && !directory.starts_with("~/"))
            refuse(path, one.Mark().line, expected);
        directories.push_back(directory);
    }
    return directories;
}

/// Of the prompt and its pager.
KeyBindings read_keys(const std::filesystem::path& path, const YAML::Node& node) {
    KeyBindings bindings;
    if (!node || node.IsNull()) return bindings;
    if (!node.IsMap()) refuse(path, node.Mark().line, "keys must map keys to actions");
    for (const auto& entry : node) {
        if (!entry.second.IsScalar())
            refuse(path, entry.first.Mark().line, "keys must map keys to actions");
        try {
            bindings.set(entry.first.Scalar(), entry.second.Scalar());
        } catch (const Error& error) {
            refuse(path, entry.first.Mark().line, error.what());
        }
    }
    return bindings;
}

/// notifications, theme, window_title, editing_mode and keys.
TerminalSettings read_terminal(const std::filesystem::path& path, const YAML::Node& node) {
    TerminalSettings settings;
    const auto choose = [&](const char* key, const auto& choices, auto& value) {
        const YAML::Node found = node[key];
        if (!found) return;
        const std::string name = found.IsScalar() ? found.Scalar() : std::string();
        for (const auto& [word, meaning] : choices) {
            if (name != word) continue;
            value = meaning;
            return;
        }
        std::string names;
        for (const auto& choice : choices)
            names += (names.empty() ? "" : ", ") + std::string(choice.first);
        refuse(path, found.Mark().line, std::string(key) + " must be one of " + names);
    };
    using Kinds = std::vector<std::pair<std::string, NotificationKind>>;
    const Kinds kinds = {{"off", NotificationKind::off},
                         {"false", NotificationKind::off},
                         {"bell", NotificationKind::bell},
                         {"osc9", NotificationKind::osc9}};
    choose("notifications", kinds, settings.notifications);
    choose("theme", theme_names, settings.theme);
    const std::vector<std::pair<std::string, bool>> editing = {{"emacs", false}, {"vi", true}};
    choose("editing_mode", editing, settings.vi_keys);
    if (const YAML::Node title = node["window_title"];
        title && !YAML::convert<bool>::decode(title, settings.title))
        refuse(path, title.Mark().line, "window_title must be true or false");
    settings.keys = read_keys(path, node["keys"]);
    return settings;
}

ConfigFile read_node(const std::filesystem::path& path, const YAML::Node& node) {
    refuse_others(path, node, known_keys);
    ConfigFile config;
    config.provider = text(path, node, "provider");
    config.model = text(path, node, "model");
    config.base_url = text(path, node, "base_url");
    config.api_key = text(path, node, "api_key");
    config.api_key_env = text(path, node, "api_key_env");
    config.thinking_tag = text(path, node, "thinking_tag");
    read_providers(path, node["providers"], config);
    config.trace = read_trace(path, node["trace"]);
    if (const YAML::Node todos = node["todos"];
        todos && !YAML::convert<bool>::decode(todos, config.todos))
        refuse(path, todos.Mark().line, "todos must be true or false");
    config.allow = rules(path, node, "allow");
    config.ask = rules(path, node, "ask");
    config.deny = rules(path, node, "deny");
    config.trust = read_trust(path, node["trust"]);
    config.environment = read_environment(path, node["environment"]);
    config.sandbox = read_sandbox(path, node["sandbox"]);
    config.hooks = read_hooks(path, node["hooks"]);
    config.fallback_models = texts(path, node, "fallback_models", "models");
    config.database = read_database(path, node);
    config.databases = read_databases(path, node);
    config.model_timeout = seconds(path, node, "model_timeout");
    config.first_byte_timeout = seconds(path, node, "first_byte_timeout");
    config.idle_timeout = seconds(path, node, "idle_timeout");
    config.escape_timeout = seconds(path, node, "escape_timeout");
    config.max_turns = whole_number<std::size_t>(path, node, "max_turns");
    config.max_repeated_calls = is_off(path, node, "max_repeated_calls")
                                    ? 0
                                    : whole_number<std::size_t>(path, node, "max_repeated_calls");
    config.max_listed_mcp_tools =
        is_off(path, node, "max_listed_mcp_tools")
            ? std::numeric_limits<std::size_t>::max()
            : whole_number<std::size_t>(path, node, "max_listed_mcp_tools");
    config.mcp_start_wait = seconds(path, node, "mcp_start_wait");
    config.subagents = read_subagents(path, node["subagents"]);
    config.terminal = read_terminal(path, node);
    if (const YAML::Node memory = node["memory"];
        memory && !YAML::convert<bool>::decode(memory, config.memory))
        refuse(path, memory.Mark().line, "memory must be true or false");
    config.max_tokens = whole_number<std::int64_t>(path, node, "max_tokens");
    config.context_window = whole_number<std::int64_t>(path, node, "context_window");
    config.compact_at = number(path, node, "compact_at");
    if (config.compact_at.value_or(0) > 1)
        refuse(path, node["compact_at"].Mark().line,
               "compact_at is a share of the context window, 1 at most");
    config.compact_model = text(path, node, "compact_model");
    config.has_secret = has_secret(config, node["gateway"]);
    return config;
}

ConfigFile read_text(const std::filesystem::path& path, const std::string& content) {
    const YAML::Node node = parsed(path, content);
    try {
        ConfigFile config = read_node(path, node);
        // Only a gateway uses them; a misspelt key is found before one is started.
        if (node["gateway"]) (void)gateway_settings(yaml_values(content), TimeZones::ignored);
        return config;
    } catch (const YAML::Exception& error) {
        refuse(path, std::max(error.mark.line, 0), error.msg);
    }
}

[[noreturn]] void cannot_write(const std::filesystem::path& path) {
    throw Error(ErrorCode::io, "cannot write " + path.string() + ": " + detail::errno_text(errno) +
                                   "; the file is unchanged");
}

/// Replaces the file once the new contents are complete and on the disk.
void replace_file(const std::filesystem::path& path, const std::string& text) {
    std::string fresh = path.string() + ".XXXXXX";
    detail::UniqueFd fd(mkostemp(fresh.data(), O_CLOEXEC));  // 0600
    detail::ReplacementFile file(std::move(fd), fresh);
    const bool done = file && detail::write_all(file.get(), text) &&
                      detail::sync_file(file.get()) && file.replace(path);
    if (!done) cannot_write(path);
}

/// The path of the file itself: it may be a symbolic link into a directory of dotfiles.
std::filesystem::path target_of(const std::filesystem::path& path) {
    std::error_code failed;
    std::filesystem::path target = std::filesystem::canonical(path, failed);
    return failed ? path : target;
}

}  // namespace

std::optional<SandboxSettings::Mode> sandbox_mode(std::string_view name) {
    using Mode = SandboxSettings::Mode;
    if (name == "off" || name == "false") return Mode::off;
    if (name == "workspace") return Mode::workspace;
    if (name == "read-only") return Mode::read_only;
    return std::nullopt;
}

std::string_view to_string(SandboxSettings::Mode mode) noexcept {
    switch (mode) {
        case SandboxSettings::Mode::off: return "off";
        case SandboxSettings::Mode::workspace: return "workspace";
        case SandboxSettings::Mode::read_only: return "read-only";
    }
    return {};
}

TraceSettings trace_settings(const TraceSettings& configured) {
    TraceSettings settings = configured;
    if (const std::string directory = variable("CUBEPI_TRACE"); !directory.empty())
        settings.directory = directory;
    settings.directory = expand_home(settings.directory);
    const std::string content = variable("OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT");
    if (!content.empty()) settings.content = content == "true" || content == "1";
    return settings;
}

bool is_postgres_url(const std::string& text) {
    return text.starts_with("postgres://") || text.starts_with("postgresql://");
}

bub::DatabaseMap database_map(const std::vector<DatabasePart>& databases) {
    std::vector<bub::DatabaseShare> shares;
    for (const DatabasePart& one : databases) shares.push_back({one.name, one.sessions});
    return bub::DatabaseMap(shares);
}

std::string database_problem(const std::string& url) {
    if (!is_postgres_url(url))
        return "the value is not the URL of a PostgreSQL database (postgres://...)";
    PostgresOptions options;
    options.connection = url;
    try {
        (void)postgres_description(options);
    } catch (const Error& error) {
        return error.what();
    }
    return {};
}

bool has_password(const std::string& url) {
    const std::string_view text = url;
    if (text.find("password=") != text.npos) return true;
    const std::size_t scheme = text.find("://");
    if (scheme == text.npos) return false;
    const std::string_view user = text.substr(scheme + 3, text.rfind('@') - scheme - 3);
    return text.rfind('@') != text.npos && user.find(':') != user.npos;
}

ConfigFile read_config(const std::filesystem::path& path) {
    ConfigFile config = read_text(path, file_text(path));
    struct stat info = {};
    config.too_open =
        config.has_secret && stat(path.c_str(), &info) == 0 && (info.st_mode & 077) != 0;
    return config;
}

ProjectConfig read_project_config(const std::filesystem::path& path, const std::string& text) {
    try {
        // Not with parsed(): conversion to JSON would copy the aliases of a text whose author is unknown.
        const YAML::Node node = YAML::Load(text);
        ProjectConfig config;
        if (!node || node.IsNull()) return config;
        if (!node.IsMap()) refuse(path, 0, "expected keys and values");
        constexpr std::array<std::string_view, 4> keys{"allow", "ask", "deny", "hooks"};
        refuse_others(path, node, keys);
        config.allow = rules(path, node, "allow");
        config.ask = rules(path, node, "ask");
        config.deny = rules(path, node, "deny");
        config.hooks = read_hooks(path, node["hooks"]);
        return config;
    } catch (const YAML::Exception& error) {
        refuse(path, std::max(error.mark.line, 0), error.msg);
    }
}

std::string open_key_file_note(const std::filesystem::path& path) {
    return "the configuration file has an API key or a password and is readable by other users: "
           "chmod 600 " +
           shell_word(path.string());
}

JsonObject config_values(const std::filesystem::path& path) {
    return values_of(path, file_text(path));
}

void save_config(const std::filesystem::path& path, const JsonObject& before,
                 const JsonObject& wanted,
                 const std::function<std::string(const std::string& text)>& decorate) {
    const std::string content = file_text(path);
    if (values_of(path, content) != before) {
        throw Error(
            ErrorCode::invalid_state,
            path.string() +
                " was changed in the meantime and was not overwritten; run the command again");
    }
    std::string edited = edit_yaml(content, wanted);
    if (decorate) {
        std::string decorated = decorate(edited);
        if (values_of(path, decorated) == wanted) edited = std::move(decorated);
    }
    read_text(path, edited);
    make_private_directory(path, "XDG_CONFIG_HOME");
    replace_file(target_of(path), edited);
}

void save_allow_rule(const std::filesystem::path& path, const std::string& rule) {
    const JsonObject before = config_values(path);
    JsonObject wanted = before;
    Json& allow = wanted["allow"];
    if (!allow.is_array()) allow.emplace_array();
    allow.get_array().emplace_back(rule);
    save_config(path, before, wanted);
}

bool remove_rule(const std::filesystem::path& path, RuleEffect effect, const ApprovalRule& rule) {
    const JsonObject before = config_values(path);
    const std::string_view key = to_string(effect);
    const Json* rules = before.if_contains(key);
    if (!rules || !rules->is_array()) return false;
    JsonArray left;
    for (const Json& one : rules->get_array()) {
        // Equal rules may be spelled differently.
        if (!one.is_string() || ApprovalRule::parse(std::string(one.get_string()), effect) != rule)
            left.push_back(one);
    }
    if (left.size() == rules->get_array().size()) return false;
    JsonObject wanted = before;
    if (left.empty()) {
        wanted.erase(key);
    } else {
        wanted[key] = std::move(left);
    }
    save_config(path, before, wanted);
    return true;
}

}  // namespace cubepi::app
