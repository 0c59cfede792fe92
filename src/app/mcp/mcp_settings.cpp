#include "mcp_settings.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdlib>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include <cubepi/core/clock.hpp>
#include <cubepi/core/error.hpp>
#include <cubepi/core/event_signal.hpp>
#include <cubepi/core/outcome.hpp>
#include <cubepi/core/process.hpp>
#include <cubepi/core/support/json_member.hpp>
#include <cubepi/core/support/lower_case.hpp>
#include <cubepi/core/support/trimmed.hpp>
#include <cubepi/mcp/http_transport.hpp>
#include <cubepi/mcp/sampling.hpp>
#include <cubepi/mcp/stdio_transport.hpp>
#include <cubepi/process/local_process.hpp>
#include <cubepi/schema/json_text.hpp>
#include <cubepi/schema/parse_json.hpp>

#include "../config/config_file.hpp"
#include "../config/paths.hpp"

namespace cubepi::app {

namespace {

constexpr std::array<std::string_view, 13> server_keys = {
    "command", "args",     "env",  "cwd",      "url",   "headers",       "header_commands",
    "oauth",   "disabled", "type", "sampling", "roots", "header_max_age"};
constexpr std::array<std::string_view, 8> oauth_keys = {
    "client_id", "client_secret", "private_key",     "issuer",
    "scope",     "grant",         "client_metadata", "redirect_uri"};
constexpr std::size_t max_name = 32;

[[noreturn]] void refuse(const std::string& server, const std::string& reason) {
    throw Error(ErrorCode::parse, "the MCP server '" + server + "': " + reason);
}

/// Numbers and booleans of YAML are texts here: `env: {LEVEL: 1}`.
std::string text_of(const std::string& server, std::string_view key, const Json& value) {
    if (value.is_string()) return std::string(value.get_string());
    if (value.is_int64()) return std::to_string(value.get_int64());
    if (value.is_bool()) return value.get_bool() ? "true" : "false";
    refuse(server, std::string(key) + " must be a text");
}

std::map<std::string, std::string> texts_of(const std::string& server, std::string_view key,
                                            const Json& value) {
    const JsonObject* object = value.if_object();
    if (!object) refuse(server, std::string(key) + " must be a mapping");
    std::map<std::string, std::string> texts;
    for (const auto& entry : *object)
        texts.emplace(entry.key(), text_of(server, key, entry.value()));
    return texts;
}

bool is_name(std::string_view name) {
    return !name.empty() && name.size() <= max_name && std::ranges::all_of(name, [](char c) {
        return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
               c == '-' || c == '_';
    });
}

void check_oauth(const McpServerSettings& server) {
    const auto& oauth = server.oauth;
    if (oauth.empty()) return;
    if (server.url.empty()) refuse(server.name, "oauth is for a server with a url");
    for (const auto& [key, value] : oauth) {
        if (std::ranges::find(oauth_keys, key) == oauth_keys.end())
            refuse(server.name, "unknown key '" + key + "' of oauth");
    }
    // The server names its authorization server; the secret must not follow that alone.
    const bool has_secret = oauth.contains("client_secret") || oauth.contains("private_key");
    if (has_secret && !(oauth.contains("client_id") && oauth.contains("issuer")))
        refuse(server.name, "client_secret and private_key need client_id and issuer");
    const auto grant = oauth.find("grant");
    if (grant == oauth.end()) return;
    if (grant->second != "client_credentials" && grant->second != "authorization_code")
        refuse(server.name, "grant must be authorization_code or client_credentials");
    if (grant->second == "client_credentials" && !has_secret)
        refuse(server.name, "client_credentials needs client_secret or private_key");
}

McpServerSettings server_of(const std::string& name, const Json& value,
                            bool accepts_other_keys = false) {
    if (!is_name(name)) {
        refuse(name, "a name consists of at most " + std::to_string(max_name) +
                         " letters, digits, '-' and '_'");
    }
    const JsonObject* object = value.if_object();
    if (!object) refuse(name, "it must be a mapping");
    McpServerSettings server;
    server.name = name;
    for (const auto& entry : *object) {
        const std::string_view key = entry.key();
        if (!accepts_other_keys && std::ranges::find(server_keys, key) == server_keys.end())
            refuse(name, "unknown key '" + std::string(key) + "'");
        if (key == "command") server.command = text_of(name, key, entry.value());
        if (key == "cwd") server.cwd = text_of(name, key, entry.value());
        if (key == "url") server.url = text_of(name, key, entry.value());
        if (key == "env") server.env = texts_of(name, key, entry.value());
        if (key == "oauth") server.oauth = texts_of(name, key, entry.value());
        if (key == "headers") server.headers = texts_of(name, key, entry.value());
        // They run without a question, so they are the user's.
        if (key == "header_commands" && !accepts_other_keys)
            server.header_commands = texts_of(name, key, entry.value());
        if (key == "header_max_age" && !accepts_other_keys) {
            const Json& value = entry.value();
            if (!value.is_int64() || value.get_int64() < 1 || value.get_int64() > 30L * 86'400)
                refuse(name, "header_max_age must be seconds, from 1 to 2592000");
            server.header_max_age = std::chrono::seconds(value.get_int64());
        }
        if (key == "disabled") {
            if (!entry.value().is_bool()) refuse(name, "disabled must be true or false");
            server.disabled = entry.value().get_bool();
        }
        if (key == "roots") {
            if (!entry.value().is_bool()) refuse(name, "roots must be true or false");
            server.roots = entry.value().get_bool();
        }
        // The file of a project does not decide what the user pays for.
        if (key == "sampling" && !accepts_other_keys) {
            const bool is_off = entry.value() == Json("off") || entry.value() == Json(false);
            server.sampling = entry.value() == Json("ask");
            if (!server.sampling && !is_off) refuse(name, "sampling must be ask or off");
        }
        if (key == "args") {
            const JsonArray* list = entry.value().if_array();
            if (!list) refuse(name, "args must be a list");
            for (const Json& one : *list) server.args.push_back(text_of(name, key, one));
        }
    }
    if (server.command.empty() == server.url.empty())
        refuse(name, "it needs either a command or a url");
    if (!server.header_commands.empty() && server.url.empty())
        refuse(name, "header_commands are for a server with a url");
    check_oauth(server);
    return server;
}

bool is_hidden(const EnvironmentPolicy& environment, const std::string& name) {
    EnvironmentPolicy others;
    others.include = {"*"};
    others.hidden = environment.hidden;
    return !others.allows(name, {});
}

/// Replaces `${NAME}`. The error names the variable, never a value. The file of a project must not send our keys to its server.
std::string expanded(const McpServerSettings& server, const EnvironmentPolicy& environment,
                     const std::string& text) {
    std::string out;
    for (std::size_t at = 0; at < text.size();) {
        const std::size_t begin = text.find("${", at);
        const std::size_t end = begin == std::string::npos ? begin : text.find('}', begin);
        if (end == std::string::npos) return out + text.substr(at);
        const std::string name = text.substr(begin + 2, end - begin - 2);
        if (!server.project_file.empty() && is_hidden(environment, name)) {
            throw Error(ErrorCode::invalid_argument,
                        "The MCP server " + server.name + " of " + server.project_file +
                            " cannot have the variable " + name + ", which is a key of cubepi.");
        }
        const char* value = std::getenv(name.c_str());
        if (!value) {
            throw Error(ErrorCode::invalid_argument, "The MCP server " + server.name +
                                                         " needs the variable " + name +
                                                         ", which is not set.");
        }
        out += text.substr(at, begin - at) + value;
        at = end + 1;
    }
    return out;
}

constexpr std::chrono::seconds command_timeout(30);
/// Of a value, and of what a command writes to its standard error.
constexpr std::uint64_t max_output = std::uint64_t{64} << 10;

/// The headers of one server. Shared by its requests, which may outlive the transport.
class HeaderValues {
public:
    HeaderValues(const McpServerSettings& server, EnvironmentPolicy environment,
                 std::shared_ptr<const Runtime> runtime)
        : server_(server.name),
          max_age_(server.header_max_age),
          commands_(server.header_commands),
          environment_(std::move(environment)),
          runtime_(std::move(runtime)) {}

    static Task<HttpHeaders> current(std::shared_ptr<HeaderValues> self, bool is_refused);

private:
    static Task<HttpHeaders> run_all(std::shared_ptr<HeaderValues> self);
    Task<std::string> run(std::string header, std::string command) const;
    bool is_fresh() const {
        return made_ && runtime_->clock->now() < deadline_after(*made_, max_age_);
    }
    [[noreturn]] void fail(const std::string& header, const std::string& reason) const {
        throw Error(ErrorCode::auth, "The command for the header " + header +
                                         " of the MCP server " + server_ + " " + reason + ".");
    }

    const std::string server_;
    const std::chrono::seconds max_age_;
    const std::map<std::string, std::string> commands_;
    const EnvironmentPolicy environment_;
    const std::shared_ptr<const Runtime> runtime_;
    HttpHeaders values_;
    std::optional<Clock::time_point> made_;  ///< when `values_` were; absent: they must be made
    bool is_running_ = false;
    AsyncEvent ended_;
};

Task<HttpHeaders> HeaderValues::current(std::shared_ptr<HeaderValues> self, bool is_refused) {
    // While the commands run, the values of before may be those that the server has refused.
    if (is_refused && !self->is_running_) self->made_.reset();
    while (!self->is_fresh()) {
        if (self->is_running_) {
            co_await self->ended_.wait();
            continue;
        }
        struct Running {
            HeaderValues& values;
            explicit Running(HeaderValues& its_values) : values(its_values) {
                values.is_running_ = true;
            }
            ~Running() {
                values.is_running_ = false;
                values.ended_.pulse();
            }
        };
        const Running running(*self);
        self->made_.reset();
        const Clock::time_point begin = self->runtime_->clock->now();
        self->values_ = co_await run_all(self);
        self->made_ = begin;
        // Even if the commands have taken longer than the values last.
        co_return self->values_;
    }
    co_return self->values_;
}

Task<HttpHeaders> HeaderValues::run_all(std::shared_ptr<HeaderValues> self) {
    HttpHeaders made;
    for (const auto& one : self->commands_) {
        Task<std::string> running = self->run(one.first, one.second);
        std::string value = co_await std::move(running);
        made.add(one.first, std::move(value));
    }
    co_return made;
}

Task<std::string> HeaderValues::run(std::string header, std::string command) const {
    ProcessOptions options("sh");
    options.arguments = {"-c", std::move(command)};
    options.environment = child_environment(environment_);
    options.input = false;
    options.timeout = command_timeout;
    options.max_output_bytes = max_output;
    std::string output;
    ExitStatus status;
    try {
        Task<std::shared_ptr<Process>> starting = launcher_of(*runtime_)->start(std::move(options));
        const std::shared_ptr<Process> process = co_await std::move(starting);
        for (bool more = true; more;) more = co_await process->read(output);
        status = co_await process->wait();
    } catch (const TimeoutError&) {
        fail(header, "has not ended within 30 s");
    }
    // Its words may have secrets.
    if (!status.ok())
        fail(header, status.code ? "ended with status " + std::to_string(*status.code)
                                 : "was killed by a signal");
    std::string value(detail::trimmed(output));
    if (value.empty()) fail(header, "has printed nothing");
    if (!is_http_field_value(value)) fail(header, "has printed more than one line");
    co_return value;
}

}  // namespace

std::string McpServerSettings::identity() const {
    JsonArray parts = {Json(command), Json(cwd), Json(url), Json(project_file)};
    for (const std::string& argument : args) parts.emplace_back(argument);
    for (const auto& [key, value] : env) parts.emplace_back(key + "=" + value);
    return json_text(Json(std::move(parts)));
}

std::optional<std::string> server_identity(const std::vector<McpServerSettings>& servers,
                                           const std::string& tool) {
    const McpServerSettings* found = nullptr;
    for (const McpServerSettings& one : servers) {
        if (!tool.starts_with("mcp__" + one.name + "__")) continue;
        // The tool `b__x` of the server `a` has the name of the tool `x` of the server `a__b`: it may belong to either.
        if (found) return std::nullopt;
        found = &one;
    }
    if (!found) return std::nullopt;
    return found->identity();
}

std::string McpServerSettings::address() const {
    if (command.empty()) return url.substr(0, url.find('?'));
    std::string text = command;
    for (const std::string& argument : args) text += " " + argument;
    return text;
}

std::vector<McpServerSettings> mcp_settings(const Json& value) {
    std::vector<McpServerSettings> servers;
    if (value.is_null()) return servers;
    const JsonObject* object = value.if_object();
    if (!object) throw Error(ErrorCode::parse, "the key mcp must be a mapping of servers");
    for (const auto& entry : *object)
        servers.push_back(server_of(std::string(entry.key()), entry.value()));
    return servers;
}

std::vector<McpServerSettings> configured_mcp_servers(const std::filesystem::path& path) {
    const JsonObject values = config_values(path);
    const Json* value = values.if_contains("mcp");
    try {
        return mcp_settings(value ? *value : Json());
    } catch (const Error& error) {
        throw Error(error.code(), path.string() + ": " + error.what() +
                                      "; 'man cubepi' lists the keys of the file");
    }
}

std::shared_ptr<McpOAuthSession> mcp_session(const McpServerSettings& server,
                                             std::shared_ptr<McpLoginUi> ui,
                                             const EnvironmentPolicy& environment,
                                             std::shared_ptr<const Runtime> runtime) {
    const auto is_token = [](const auto& header) {
        return detail::lower_case(header.first) == "authorization";
    };
    const bool has_token = std::ranges::any_of(server.headers, is_token) ||
                           std::ranges::any_of(server.header_commands, is_token);
    if (server.url.empty() || has_token) return nullptr;
    const auto setting = [&](const std::string& key) {
        const auto found = server.oauth.find(key);
        return found == server.oauth.end() ? std::string()
                                           : expanded(server, environment, found->second);
    };
    McpOAuthOptions options;
    options.server = server.name;
    options.url = server.url;
    options.client.id = setting("client_id");
    options.client.secret = setting("client_secret");
    options.client.redirect_uri = setting("redirect_uri");
    if (const std::string file = setting("private_key"); !file.empty())
        options.client.private_key = read_small_file(expand_home(file));
    options.issuer = setting("issuer");
    options.scope = setting("scope");
    options.client_metadata_url = setting("client_metadata");
    options.is_service = setting("grant") == "client_credentials";
    options.store = credential_file(server.name, server.url, runtime);
    options.ui = std::move(ui);
    options.login_remedy = "run: cubepi mcp login " + server.name;
    try {
        return std::make_shared<McpOAuthSession>(std::move(options), std::move(runtime));
    } catch (const Error&) {
        // A server by http in the local network has no login, unless one is configured.
        if (!server.oauth.empty()) throw;
        return nullptr;
    }
}

ProjectMcpServers project_mcp_servers(const std::filesystem::path& path, const std::string& text) {
    ProjectMcpServers found;
    JsonTextError error;
    const Json json = parse_json(text, error);
    const JsonObject* object = error ? nullptr : json.if_object();
    const Json* servers = object ? object->if_contains("mcpServers") : nullptr;
    if (!servers || !servers->is_object()) {
        found.problems.push_back(path.string() + " is not loaded: " +
                                 (error ? error.reason : "it has no object mcpServers") + ".");
        return found;
    }
    for (const auto& entry : servers->get_object()) {
        try {
            McpServerSettings server = server_of(std::string(entry.key()), entry.value(), true);
            server.project_file = path.string();
            const std::filesystem::path directory = path.parent_path();
            if (!server.cwd.starts_with("~/")) server.cwd = (directory / server.cwd).string();
            if (server.command.find('/') != std::string::npos)
                server.command = (directory / expand_home(server.command)).string();
            found.servers.push_back(std::move(server));
        } catch (const Error& problem) {
            found.problems.push_back(path.string() + ": " + problem.what() + ".");
        }
    }
    return found;
}

std::vector<McpServerSettings> with_project_servers(std::vector<McpServerSettings> of_user,
                                                    std::vector<McpServerSettings> of_project) {
    for (McpServerSettings& server : of_project) {
        if (std::ranges::find(of_user, server.name, &McpServerSettings::name) == of_user.end())
            of_user.push_back(std::move(server));
    }
    return of_user;
}

std::shared_ptr<McpClient> mcp_client(const McpServerSettings& server,
                                      const EnvironmentPolicy& environment,
                                      std::shared_ptr<const Runtime> runtime, const McpHost& host) {
    McpClientOptions options;
    options.server = server.name;
    options.suspended_call_time = host.suspended_call_time;
    if (server.sampling && host.model) {
        auto sampling = std::make_shared<McpSamplingOptions>();
        sampling->model = host.model;
        options.sampling = std::move(sampling);
    }
    if (server.roots && !host.roots.empty()) {
        options.roots = [directories = host.roots] {
            std::vector<McpRoot> roots;
            for (const std::filesystem::path& one : directories) roots.push_back(mcp_root(one));
            return roots;
        };
    }
    std::unique_ptr<McpTransport> transport;
    if (server.command.empty()) {
        McpHttpOptions http;
        http.server = server.name;
        http.url = server.url;
        for (const auto& [name, value] : server.headers)
            http.headers.add(name, expanded(server, environment, value));
        http.fresh_headers = header_commands(server, environment, runtime);
        http.authorizer = mcp_session(server, nullptr, environment, runtime);
        transport = mcp_http_transport(std::move(http), runtime);
    } else {
        McpStdioOptions process;
        process.server = server.name;
        process.program = server.command;
        process.arguments = server.args;
        if (!server.cwd.empty()) process.directory = expand_home(server.cwd).string();
        process.environment.hidden = environment.hidden;
        for (const auto& [name, value] : server.env)
            process.environment.set[name] = expanded(server, environment, value);
        transport = mcp_stdio_transport(std::move(process), runtime);
    }
    return std::make_shared<McpClient>(std::move(options), std::move(transport),
                                       std::move(runtime));
}

std::function<Task<HttpHeaders>(bool is_refused)> header_commands(
    const McpServerSettings& server, const EnvironmentPolicy& environment,
    std::shared_ptr<const Runtime> runtime) {
    if (server.header_commands.empty()) return {};
    auto values = std::make_shared<HeaderValues>(server, environment, std::move(runtime));
    return [values](bool is_refused) { return HeaderValues::current(values, is_refused); };
}

}  // namespace cubepi::app
