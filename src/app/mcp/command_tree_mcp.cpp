#include "../command_tree.hpp"

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

}  // namespace

void add_mcp_commands(CLI::App& app, CommandLine& line) {
    using What = McpArguments::What;
    McpArguments& mcp = line.mcp;
    CLI::App* command =
        app.add_subcommand("mcp", "Use the tools of MCP servers, or be such a server");
    command->footer(mcp_examples);
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
    command->callback([&line] { line.verb = Verb::mcp; });
}

}  // namespace cubepi::app
