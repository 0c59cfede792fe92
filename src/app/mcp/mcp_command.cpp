#include <algorithm>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <iosfwd>
#include <iostream>
#include <memory>
#include <optional>
#include <ostream>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include <unistd.h>

#include <bub/builtin/command_hooks.hpp>
#include <cubepi/core/error.hpp>
#include <cubepi/core/event_signal.hpp>
#include <cubepi/core/outcome.hpp>
#include <cubepi/core/run.hpp>
#include <cubepi/core/task.hpp>
#include <cubepi/mcp/client_channel.hpp>
#include <cubepi/mcp/resource_server.hpp>
#include <cubepi/mcp/server.hpp>
#include <cubepi/mcp/server_routes.hpp>
#include <cubepi/mcp/tools.hpp>
#include <cubepi/net/http_server.hpp>
#include <cubepi/schema/parse_json.hpp>
#include <cubepi/workspace/local_workspace.hpp>
#include <cubepi/workspace/standard_tools.hpp>

#include "../config/command_sandbox.hpp"
#include "../config/config_file.hpp"
#include "../config/model_sources.hpp"
#include "../config/paths.hpp"
#include "../conversation/tool_approval.hpp"
#include "../failure.hpp"
#include "../program.hpp"
#include "../project/open_project.hpp"
#include "../terminal/safe_json.hpp"
#include "../terminal/terminal_stream.hpp"
#include "mcp_agent_tool.hpp"
#include "mcp_login.hpp"
#include "mcp_settings.hpp"

namespace cubepi::app {

namespace {

/// The access tokens that clients need.
struct McpTokens {
    std::string issuer =
        {};  ///< empty: clients need the token of the environment variable CUBEPI_MCP_TOKEN
    std::string url = {};  ///< McpResourceServerOptions::resource; empty: that of the address
    std::vector<std::string> scopes = {};
};

constexpr const char* token_variable = "CUBEPI_MCP_TOKEN";
constexpr std::size_t min_token_bytes = 16;

HttpServerOptions options_at(const std::string& address) {
    const std::size_t colon = address.rfind(':');
    const std::string host = address.substr(0, colon);
    const std::string_view port = colon == std::string::npos
                                      ? std::string_view()
                                      : std::string_view(address).substr(colon + 1);
    HttpServerOptions options;
    const auto [end, failed] =
        std::from_chars(port.data(), port.data() + port.size(), options.port);
    const bool is_port = !port.empty() && failed == std::errc() && end == port.data() + port.size();
    if (!is_port || (host != "127.0.0.1" && host != "localhost" && host != "[::1]")) {
        throw Error(
            ErrorCode::invalid_argument,
            "--listen: '" + address +
                "' is not an address of this machine such as 127.0.0.1:8080; other machines "
                "need a proxy with TLS");
    }
    options.host = host == "[::1]" ? "::1" : "127.0.0.1";
    return options;
}

std::string token() {
    const char* value = std::getenv(token_variable);
    std::string token = value ? value : "";
    if (token.size() < min_token_bytes) {
        throw Error(ErrorCode::invalid_argument,
                    std::string(token_variable) +
                        " must have a secret of at least 16 characters, which clients send as "
                        "'Authorization: Bearer ...'; make one: openssl rand -hex 32");
    }
    return token;
}

/// Returns the host of a URL, with its port.
std::string host_of(std::string_view url) {
    const std::size_t begin = url.find("://");
    if (begin != std::string_view::npos) url.remove_prefix(begin + 3);
    return std::string(url.substr(0, url.find_first_of("/?#")));
}

std::unique_ptr<McpResourceServer> resource_of(Executor executor, const McpTokens& tokens,
                                               const std::string& url) {
    McpResourceServerOptions options;
    options.issuer = tokens.issuer;
    options.resource = tokens.url.empty() ? url : tokens.url;
    options.scopes = tokens.scopes;
    return std::make_unique<McpResourceServer>(std::move(executor), std::move(options));
}

/// Reads the keys. A failure is not one of a model.
Task<> read_keys(McpResourceServer* resource, std::string issuer) {
    std::string problem;
    try {
        co_await resource->read_keys();
    } catch (const Error& error) {
        if (error.code() == ErrorCode::cancelled) throw;
        problem = error.what();
    }
    if (!problem.empty()) {
        throw Error(ErrorCode::invalid_argument,
                    "--issuer: the keys of " + issuer + " cannot be read: " + problem);
    }
}

/// Serves clients over HTTP at an address of this machine ("127.0.0.1:8080"; port 0: a free one) until the process ends, and writes the
/// URL to `output`. Clients need a token: every user of the machine can reach the address. Throws Error(invalid_argument) for another
/// address and for a missing token, and Error if the keys of the issuer cannot be read.
Task<> serve_mcp_http(std::shared_ptr<McpServer> server, std::string address, McpTokens tokens,
                      std::ostream& output) {
    const Executor executor = co_await this_executor;
    const HttpServerOptions options = options_at(address);
    HttpRouteOptions limits;
    if (tokens.issuer.empty()) limits.authentication = bearer_authentication(token());
    limits.max_body_bytes = server->options().max_message_bytes;
    McpRouteOptions settings;
    settings.resume_time = std::chrono::minutes(1);
    HttpServer http(executor, options);
    http.open();
    const std::string host = options.host == "::1" ? "[::1]" : options.host;
    const std::string url = "http://" + host + ":" + std::to_string(http.port()) + "/mcp";
    std::unique_ptr<McpResourceServer> resource;
    std::optional<HttpRoutes> metadata;
    if (!tokens.issuer.empty()) {
        resource = resource_of(executor, tokens, url);
        Task<> reading = read_keys(resource.get(), tokens.issuer);
        co_await std::move(reading);
        limits.authentication = resource->authentication();
        settings.client = resource->client();
        HttpRouteOptions without_body;
        without_body.max_body_bytes = 0;
        metadata.emplace(http, "mcp-metadata", without_body);
        resource->add_metadata_route(*metadata);
        metadata->serve();
    }
    if (!tokens.url.empty()) {
        // The names that a proxy leaves in its requests.
        HttpAccess access;
        access.allowed_hosts = {host_of(tokens.url)};
        http.set_access(std::move(access));
        settings.local_hosts_only = false;
    }
    HttpRoutes routes(http, "mcp", limits);
    add_mcp_routes(routes, std::move(server), std::move(settings));
    routes.serve();
    TerminalStream(output) << "Serving " << for_terminal(url) << "\n";
    output.flush();
    AsyncEvent never;
    co_await never.wait();
}

/// The time that `check` and `call` let a server take for a call or a list.
constexpr auto call_limit = std::chrono::minutes(5);

std::shared_ptr<McpClient> client_of(const McpServerSettings& server) {
    return mcp_client(server, command_environment(read_config(config_path())), Runtime::standard());
}

const McpServerSettings& named(const std::vector<McpServerSettings>& servers,
                               const std::string& name) {
    const auto found = std::ranges::find(servers, name, &McpServerSettings::name);
    if (found != servers.end()) return *found;
    throw Error(ErrorCode::invalid_argument, "there is no MCP server '" + name + "' in " +
                                                 config_path().string() +
                                                 "; list them: cubepi mcp list");
}

int list(const std::vector<McpServerSettings>& servers, bool as_json, std::ostream& data) {
    TerminalStream out(data);
    JsonArray listed;
    for (const McpServerSettings& server : servers) {
        JsonObject one;
        one["name"] = server.name;
        one["server"] = server.place();
        one["disabled"] = server.disabled;
        if (as_json) {
            listed.emplace_back(std::move(one));
        } else {
            out << for_terminal(server.name) << "  " << for_terminal(server.place())
                << (server.disabled ? TerminalView("  (disabled)") : TerminalView()) << "\n";
        }
    }
    if (as_json) data_output(data, safe_json(Json(std::move(listed))) + "\n");
    return exit_ok;
}

/// Splits "NAME=VALUE" or "NAME: VALUE" for each of `texts`.
JsonObject split_all(const std::vector<std::string>& texts, char separator, const char* form) {
    JsonObject members;
    for (const std::string& text : texts) {
        const std::size_t end = text.find(separator);
        if (end == std::string::npos || end == 0)
            throw Error(
                ErrorCode::invalid_argument,
                "a value of --env, --header or --header-command is not " + std::string(form));
        std::string value = text.substr(end + 1);
        value.erase(0, std::min(value.find_first_not_of(' '), value.size()));
        members[text.substr(0, end)] = std::move(value);
    }
    return members;
}

int add_server(const McpArguments& arguments, std::ostream& data) {
    const std::string& first = arguments.command.front();
    const bool is_url = first.starts_with("http://") || first.starts_with("https://");
    if (is_url &&
        (arguments.command.size() > 1 || !arguments.env.empty() || !arguments.cwd.empty()))
        throw Error(ErrorCode::invalid_argument, "a URL has neither arguments nor --env or --cwd");
    if (!is_url && (!arguments.headers.empty() || !arguments.header_commands.empty()))
        throw Error(ErrorCode::invalid_argument,
                    "--header and --header-command are for URLs; a command has --env");
    JsonObject server;
    server[is_url ? "url" : "command"] = first;
    JsonArray rest;
    for (std::size_t i = 1; i < arguments.command.size(); ++i)
        rest.emplace_back(arguments.command[i]);
    if (!rest.empty()) server["args"] = std::move(rest);
    if (!arguments.env.empty()) server["env"] = split_all(arguments.env, '=', "NAME=VALUE");
    if (!arguments.headers.empty())
        server["headers"] = split_all(arguments.headers, ':', "'NAME: VALUE'");
    if (!arguments.header_commands.empty())
        server["header_commands"] = split_all(arguments.header_commands, ':', "'NAME: COMMAND'");
    if (!arguments.cwd.empty()) server["cwd"] = arguments.cwd;
    const std::filesystem::path path = config_path();
    const JsonObject before = config_values(path);
    JsonObject wanted = before;
    Json& servers = wanted["mcp"];
    if (!servers.is_object()) servers.emplace_object();
    if (servers.get_object().contains(arguments.server)) {
        throw Error(ErrorCode::invalid_argument, "there is an MCP server '" + arguments.server +
                                                     "' already; remove it: cubepi "
                                                     "mcp remove " +
                                                     arguments.server);
    }
    servers.get_object()[arguments.server] = std::move(server);
    (void)mcp_settings(servers);  // throws for what cannot be used
    save_config(path, before, wanted);
    TerminalStream(data) << "Added " << for_terminal(arguments.server)
                         << ".\nTry it: cubepi mcp check " << for_terminal(arguments.server)
                         << "\n";
    return exit_ok;
}

int remove_server(const McpArguments& arguments, std::ostream& data) {
    const std::filesystem::path path = config_path();
    const JsonObject before = config_values(path);
    JsonObject wanted = before;
    Json* servers = wanted.if_contains("mcp");
    JsonObject* all = servers ? servers->if_object() : nullptr;
    if (!all || all->erase(arguments.server) == 0) {
        throw Error(ErrorCode::invalid_argument, "there is no MCP server '" + arguments.server +
                                                     "' in " + path.string() +
                                                     "; list them: cubepi mcp list");
    }
    if (all->empty()) wanted.erase("mcp");
    save_config(path, before, wanted);
    (void)remove_credential_file(arguments.server);
    TerminalStream(data) << "Removed " << for_terminal(arguments.server) << "\n";
    return exit_ok;
}

/// The result of one check.
struct Checked {
    McpServerInfo info = {};
    McpTools tools = {};
};

Task<Checked> check_server(std::shared_ptr<McpClient> client) {
    Checked checked;
    checked.info = co_await client->connect();
    checked.tools = co_await mcp_tools(client);
    co_await client->close();
    co_return checked;
}

void show(const McpServerSettings& server, const Checked& checked, TerminalStream& out) {
    const McpImplementation& program = checked.info.implementation;
    out << for_terminal(server.name) << ": " << for_terminal(program.name) << " "
        << for_terminal(program.version) << ", protocol " << for_terminal(checked.info.version)
        << ", " << checked.tools.tools.size()
        << (checked.tools.tools.size() == 1 ? TerminalView(" tool\n") : TerminalView(" tools\n"));
    for (const AgentTool& tool : checked.tools.tools)
        out << "  " << for_terminal(tool.name.str()) << "\n";
    for (const std::string& problem : checked.tools.problems)
        out << "  left out: " << for_terminal(problem) << "\n";
}

int check(const std::vector<McpServerSettings>& servers, const std::string& name,
          std::ostream& data, std::ostream& error_output) {
    TerminalStream out(data);
    TerminalStream err(error_output);
    std::vector<McpServerSettings> wanted = servers;
    if (!name.empty()) wanted = {named(servers, name)};
    int status = exit_ok;
    for (const McpServerSettings& server : wanted) {
        if (server.disabled && name.empty()) continue;
        try {
            const Checked checked = run(check_server(client_of(server)));
            show(server, checked, out);
        } catch (const Error& error) {
            err << for_terminal(server.name) << ": " << for_terminal(error.what()) << "\n";
            status = exit_failed;
        }
    }
    return status;
}

Task<JsonObject> call_tool(std::shared_ptr<McpClient> client, McpCall call) {
    (void)co_await client->tools();  // the headers of its parameters
    JsonObject result = co_await client->call(std::move(call));
    co_await client->close();
    co_return result;
}

/// Reports the failure of a server, which is not one of a model. Rethrows others.
int report(const McpServerSettings& server, const Error& error, std::ostream& error_output) {
    const ErrorCode code = error.code();
    if (code == ErrorCode::invalid_argument || code == ErrorCode::cancelled) throw;
    TerminalStream(error_output) << for_terminal(server.name) << ": " << for_terminal(error.what())
                                 << "\n";
    return exit_failed;
}

int call(const std::vector<McpServerSettings>& servers, const McpArguments& arguments,
         std::ostream& data, std::ostream& error_output) {
    McpCall made;
    made.tool = arguments.tool;
    made.timeout = call_limit;
    if (!arguments.arguments.empty()) {
        Json json = parse_json(arguments.arguments);
        if (!json.is_object()) {
            throw Error(
                ErrorCode::invalid_argument,
                "the arguments of a tool are a JSON object, such as '{\"city\": \"Rome\"}'");
        }
        made.arguments = std::move(json.get_object());
    }
    const McpServerSettings& server = named(servers, arguments.server);
    const std::shared_ptr<McpClient> client = client_of(server);
    const std::size_t limit = client->limits().max_result_bytes;
    JsonObject result;
    try {
        result = run(call_tool(client, std::move(made)));
    } catch (const Error& error) {
        return report(server, error, error_output);
    }
    if (arguments.json) {
        data_output(data, safe_json(Json(result)) + "\n");
    } else {
        TerminalStream out(data);
        out << for_terminal(mcp_tool_result(server.name, result, limit).text()) << "\n";
    }
    const Json* failed = result.if_contains("isError");
    return failed && failed->is_bool() && failed->get_bool() ? exit_failed : exit_ok;
}

Task<> log_in(std::shared_ptr<McpOAuthSession> session) { co_await session->login(); }

int login(const McpServerSettings& server, std::ostream& output, std::ostream& error_output) {
    const std::shared_ptr<McpOAuthSession> session =
        mcp_session(server, login_prompt(error_output),
                    command_environment(read_config(config_path())), Runtime::standard());
    if (!session) {
        throw Error(ErrorCode::invalid_argument,
                    "the MCP server '" + server.name +
                        "' needs no login: it is a program, has a token in headers, or a URL "
                        "without https");
    }
    try {
        run(log_in(session));
    } catch (const Error& error) {
        return report(server, error, error_output);
    }
    TerminalStream(output) << "Logged in at " << for_terminal(server.name)
                           << ". List its tools: cubepi mcp check " << for_terminal(server.name)
                           << "\n";
    return exit_ok;
}

int logout(const McpServerSettings& server, std::ostream& output) {
    const bool is_removed = remove_credential_file(server.name);
    TerminalStream(output) << (is_removed ? TerminalView("The tokens of ")
                                          : TerminalView("There were no tokens of "))
                           << for_terminal(server.name)
                           << (is_removed ? TerminalView(" are removed from this machine.\n")
                                          : TerminalView(" on this machine.\n"));
    return exit_ok;
}

Task<> serve_streams(std::shared_ptr<McpServer> server) {
    const Executor executor = co_await this_executor;
    co_await server->serve(mcp_standard_streams(executor));
}

/// Returns the settings of the project of this directory. Says what is not trusted, and what is invalid.
ProjectSettings project_here(const ConfigFile& config, TerminalStream& err) {
    const Project project =
        find_project(std::filesystem::current_path(), TrustSettings{config.trust});
    if (const std::string note = untrusted_note(project, {}); !note.empty())
        err << "cubepi: " << for_terminal(visible(note)) << "\n";
    ProjectSettings settings = settings_of(project);
    for (const std::string& problem : settings.problems)
        err << "cubepi: " << for_terminal(visible(problem)) << "\n";
    return settings;
}

/// Returns the servers of the user and those of the project, if it is trusted.
std::vector<McpServerSettings> all_servers(std::ostream& error_output) {
    TerminalStream err(error_output);
    const ConfigFile config = read_config(config_path());
    return with_project_servers(configured_mcp_servers(config_path()),
                                project_here(config, err).servers);
}

/// Serves the tools and the agent of this directory, under the hooks of the user. Calls that no rule of the configuration allows are
/// questions to the user of the client; if it does not answer questions, they are refused.
int serve(const McpArguments& arguments, std::ostream& error_output) {
    const bool has_tokens = !arguments.issuer.empty();
    if (has_tokens && arguments.listen.empty())
        throw Error(ErrorCode::invalid_argument, "--issuer needs --listen");
    if (!has_tokens && !(arguments.url.empty() && arguments.scopes.empty()))
        throw Error(ErrorCode::invalid_argument, "--url and --scope need --issuer");
    const bool allow_all = arguments.yes;
    const ConfigFile config = read_config(config_path());
    WorkspacePolicy policy;
    policy.environment = command_environment(config);
    const CommandSandboxes sandboxes(config.sandbox, std::string());
    policy.sandbox = sandboxes.profile(std::filesystem::current_path());
    auto workspace =
        std::make_shared<LocalWorkspace>(std::filesystem::current_path(), std::move(policy));
    ToolApproval::Options approval;
    const ApprovalMode mode = allow_all ? ApprovalMode::all : ApprovalMode::ask;
    approval.mode = std::make_shared<ApprovalMode>(mode);
    approval.workspace = workspace;
    TerminalStream err(error_output);
    const ProjectSettings project = project_here(config, err);
    ToolRules rules = rules_of(config, project);
    rules.confine_commands(sandboxes.confinement());
    McpServerOptions options;
    options.instructions =
        "Tools for the files and commands of one directory, and the agent of this directory.";
    options.tools = standard_tools(workspace);
    ConversationFlags flags;
    flags.yes = allow_all;
    options.tools.push_back(mcp_agent_tool(std::move(flags)));
    options.tasks.tools = {"agent"};
    std::vector<bub::CommandHook> hooks = config.hooks;
    hooks.insert(hooks.end(), project.hooks.begin(), project.hooks.end());
    std::shared_ptr<const bub::detail::CommandHookTable> commands;
    if (!hooks.empty())
        commands = std::make_shared<const bub::detail::CommandHookTable>(std::move(hooks));
    options.call_hooks = [rules = std::move(rules), approval, commands, allow_all, has_tokens,
                          environment = command_environment(config)](McpRequest& request) {
        std::vector<Middleware> guards;
        if (commands) {
            bub::detail::HookPlace place{"mcp", std::filesystem::current_path(),
                                         child_environment(environment), Runtime::standard()};
            guards.emplace_back(bub::detail::CommandHooks(commands, std::move(place)));
        }
        ToolApproval::Options how = approval;
        // A client with a token of an issuer need not be the owner of this directory.
        how.can_wait = !allow_all && !has_tokens && request.can_ask("elicitation/create");
        guards.emplace_back(std::make_shared<ToolApproval>(rules, mcp_client_channel(request),
                                                           nullptr, std::move(how)));
        return compose_middleware(guards);
    };
    const auto server = std::make_shared<McpServer>(std::move(options));
    if (!arguments.listen.empty()) {
        McpTokens tokens;
        tokens.issuer = arguments.issuer;
        tokens.url = arguments.url;
        tokens.scopes = arguments.scopes;
        run(serve_mcp_http(server, arguments.listen, std::move(tokens), error_output));
        return exit_ok;
    }
    if (::isatty(STDIN_FILENO) != 0) {
        err << "This is an MCP server for another program, which writes JSON to standard input.\n"
               "Name it in the configuration of that program, with this directory: command "
               "\"cubepi\", arguments \"mcp\", \"serve\".\n";
    }
    try {
        run(serve_streams(server));
    } catch (const Error& error) {
        // Of the client; it is not a failure of a model.
        if (error.code() != ErrorCode::disconnected) throw;
        err << "cubepi: " << for_terminal(error.what()) << "\n";
        return exit_failed;
    }
    return exit_ok;
}

}  // namespace

int use_mcp(const McpArguments& arguments, std::ostream& out, std::ostream& err) {
    using What = McpArguments::What;
    if (arguments.what == What::serve) return serve(arguments, err);
    if (arguments.what == What::add) return add_server(arguments, out);
    if (arguments.what == What::remove) return remove_server(arguments, out);
    const std::vector<McpServerSettings> servers = all_servers(err);
    const bool needs_one = arguments.what != What::list && arguments.what != What::check;
    if (servers.empty() && !needs_one) {
        TerminalStream(err) << "No MCP servers are configured; the key mcp of "
                            << for_terminal(config_path().string())
                            << " lists them, and .mcp.json of a directory that you trust.\n";
        return exit_ok;
    }
    switch (arguments.what) {
        case What::list: return list(servers, arguments.json, out);
        case What::check: return check(servers, arguments.server, out, err);
        case What::call: return call(servers, arguments, out, err);
        case What::login: return login(named(servers, arguments.server), out, err);
        case What::logout: return logout(named(servers, arguments.server), out);
        case What::add:
        case What::remove:
        case What::serve: break;
    }
    return exit_usage;
}

int mcp_command(const CommandLine& line) { return use_mcp(line.mcp, std::cout, std::cerr); }

}  // namespace cubepi::app
