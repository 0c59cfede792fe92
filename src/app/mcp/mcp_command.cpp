#include <algorithm>
#include <cstddef>
#include <filesystem>
#include <iosfwd>
#include <iostream>
#include <memory>
#include <ostream>
#include <string>
#include <utility>
#include <vector>

#include <cubepi/core/error.hpp>
#include <cubepi/core/outcome.hpp>
#include <cubepi/core/run.hpp>
#include <cubepi/core/task.hpp>
#include <cubepi/mcp/tools.hpp>
#include <cubepi/schema/parse_json.hpp>

#include "../command_tree.hpp"
#include "../config/config_file.hpp"
#include "../config/model_sources.hpp"
#include "../config/paths.hpp"
#include "../failure.hpp"
#include "../program.hpp"
#include "../project/trust.hpp"
#include "../terminal/terminal_stream.hpp"
#include "../terminal/terminal_text.hpp"
#include "mcp_serve.hpp"
#include "mcp_settings.hpp"

namespace cubepi::app {

namespace {

constexpr const char* mcp_examples = R"(Examples:
  cubepi mcp list                              the servers of the configuration file
  cubepi mcp add git -- uvx mcp-server-git     adds one; for a URL: cubepi mcp add issues https://mcp.example.com/mcp
  cubepi mcp check git                         connects, and lists the tools
  cubepi mcp call git git_log '{"max": 3}'     calls a tool
  cubepi mcp login issues                      logs in at a server, in a browser on any machine
  cubepi mcp serve                             offers the tools of this directory to an MCP client

The key mcp of the configuration file lists servers:
  mcp:
    git: {command: uvx, args: [mcp-server-git], env: {LOG: "1"}}
    issues: {url: "https://mcp.example.com/mcp", headers: {Authorization: "Bearer ${ISSUES_TOKEN}"}})";

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
        one["server"] = server.address();
        one["disabled"] = server.disabled;
        if (as_json) {
            listed.emplace_back(std::move(one));
        } else {
            out << for_terminal(server.name) << "  " << for_terminal(server.address())
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
    (void)mcp_settings(JsonObject{{arguments.server, server}});  // throws for what cannot be used
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
    (void)mcp_settings(servers);  // of the other servers, too
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

/// Returns the arguments of a call; throws Error(invalid_argument) if they are not a JSON object.
JsonObject tool_arguments(const McpArguments& arguments) {
    if (arguments.arguments.empty()) return {};
    Json json = parse_json(arguments.arguments);
    if (!json.is_object()) {
        throw Error(ErrorCode::invalid_argument,
                    "the arguments of a tool are a JSON object, such as '{\"city\": \"Rome\"}'");
    }
    return std::move(json.get_object());
}

int call(const std::vector<McpServerSettings>& servers, const McpArguments& arguments,
         std::ostream& data, std::ostream& error_output) {
    McpCall made;
    made.tool = arguments.tool;
    made.timeout = call_limit;
    made.arguments = tool_arguments(arguments);
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

}  // namespace

void add_mcp_commands(CLI::App& app, CommandLine& line) {
    using What = McpArguments::What;
    McpArguments& mcp = line.mcp;
    CLI::App* command =
        add_command(app, line, Verb::mcp, "mcp",
                    "Use the tools of MCP servers, or be such a server", mcp_examples);
    command->require_subcommand(1);
    const auto add = [&](const char* name, const char* description, What what) -> CLI::App& {
        return add_action(*command, name, description, mcp.what, what);
    };
    add("list", "List the configured servers, without connecting to them", What::list)
        .add_flag("--json", mcp.json, "Print a JSON array");
    CLI::App& add_one = add("add", "Add a server to the configuration file", What::add);
    option(add_one, "server", mcp.server, "Its name: letters, digits, _ and -", "SERVER")
        ->required();
    option(add_one, "command", mcp.command, "A command with its arguments, or a URL", "COMMAND")
        ->required();
    option(add_one, "--env", mcp.env, "A variable of the command; ${NAME} in it is one of yours",
           "NAME=VALUE")
        ->allow_extra_args(false);
    option(add_one, "--header", mcp.headers, "A header for the URL; ${NAME} as above",
           "NAME: VALUE")
        ->allow_extra_args(false);
    option(add_one, "--header-command", mcp.header_commands,
           "A command that prints the value of a header, for keys that expire", "NAME: COMMAND")
        ->allow_extra_args(false);
    option(add_one, "--cwd", mcp.cwd, "The directory in which the command runs", "DIR");
    CLI::App& remove = add("remove", "Remove a server from the configuration file", What::remove);
    option(remove, "server", mcp.server, "Its name", "SERVER")->required();
    CLI::App& check = add("check", "Connect to servers and list their tools", What::check);
    option(check, "server", mcp.server, "Its name in the configuration file (default: all)",
           "SERVER");
    CLI::App& call = add("call", "Call a tool and print its result", What::call);
    option(call, "server", mcp.server, "Its name in the configuration file", "SERVER")->required();
    option(call, "tool", mcp.tool, "The tool, as the server names it", "TOOL")->required();
    option(call, "arguments", mcp.arguments, "A JSON object (default: {})", "JSON");
    call.add_flag("--json", mcp.json, "Print the server's result as JSON");
    CLI::App& login = add("login", "Log in at a server that wants it (OAuth)", What::login);
    option(login, "server", mcp.server, "Its name in the configuration file", "SERVER")->required();
    CLI::App& logout = add("logout", "Forget the tokens of a server on this machine", What::logout);
    option(logout, "server", mcp.server, "Its name in the configuration file", "SERVER")
        ->required();
    CLI::App& serve =
        add("serve", "Serve the tools and the agent of this directory on standard input and output",
            What::serve);
    serve.add_flag("-y,--yes", mcp.yes,
                   "Allow all calls; otherwise 'allow' in the configuration decides");
    option(serve, "--listen", mcp.listen,
           "Serve HTTP at this address of this machine instead; clients send the token in the "
           "environment variable CUBEPI_MCP_TOKEN as a bearer token",
           "HOST:PORT");
    option(serve, "--issuer", mcp.issuer,
           "With --listen: accept the access tokens (JWT) of this OAuth authorization server "
           "instead of that token",
           "URL");
    option(
        serve, "--url", mcp.url,
        "With --issuer: the URL of the clients, for which their tokens are (default: the address)",
        "URL");
    option(serve, "--scope", mcp.scopes, "With --issuer: a scope that each token must have",
           "SCOPE")
        ->allow_extra_args(false);
}

int use_mcp(const McpArguments& arguments, std::ostream& out, std::ostream& err) {
    using What = McpArguments::What;
    // A wrong argument is reported whatever the configuration file has.
    if (arguments.what == What::call) (void)tool_arguments(arguments);
    if (arguments.what == What::serve) {
        check_mcp_serve(arguments);
        TerminalStream notes(err);
        const ConfigFile config = read_config(config_path());
        return serve_mcp(arguments, config, project_here(config, notes), err);
    }
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
