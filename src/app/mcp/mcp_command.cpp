#include <algorithm>
#include <filesystem>
#include <iostream>
#include <memory>
#include <ostream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <bub/builtin/command_hooks.hpp>
#include <cubepi/core/error.hpp>
#include <cubepi/core/outcome.hpp>
#include <cubepi/core/run.hpp>
#include <cubepi/hitl/in_memory_channel.hpp>
#include <cubepi/mcp/server.hpp>
#include <cubepi/mcp/tools.hpp>
#include <cubepi/schema/parse_json.hpp>
#include <cubepi/workspace/local_workspace.hpp>
#include <cubepi/workspace/standard_tools.hpp>

#include "../config/config_file.hpp"
#include "../config/model_sources.hpp"
#include "../config/paths.hpp"
#include "../conversation/tool_approval.hpp"
#include "../failure.hpp"
#include "../program.hpp"
#include "../project/open_project.hpp"
#include "../terminal/safe_json.hpp"
#include "../terminal/terminal_stream.hpp"
#include "mcp_settings.hpp"

namespace cubepi::app {

namespace {

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

int call(const std::vector<McpServerSettings>& servers, const McpArguments& arguments,
         std::ostream& data) {
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
    const JsonObject result = run(call_tool(client, std::move(made)));
    if (arguments.json) {
        data_output(data, safe_json(Json(result)) + "\n");
    } else {
        TerminalStream out(data);
        out << for_terminal(mcp_tool_result(server.name, result, limit).text()) << "\n";
    }
    const Json* failed = result.if_contains("isError");
    return failed && failed->is_bool() && failed->get_bool() ? exit_failed : exit_ok;
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

/// Serves the tools of this directory, under the hooks of the user. No user can be asked: calls that no rule of the configuration
/// allows are refused.
int serve(bool allow_all) {
    const ConfigFile config = read_config(config_path());
    WorkspacePolicy policy;
    policy.environment = command_environment(config);
    auto workspace =
        std::make_shared<LocalWorkspace>(std::filesystem::current_path(), std::move(policy));
    ToolApproval::Options approval;
    const ApprovalMode mode = allow_all ? ApprovalMode::all : ApprovalMode::ask;
    approval.mode = std::make_shared<ApprovalMode>(mode);
    approval.write_target = [workspace](const std::string& path) {
        return workspace->write_target(path);
    };
    const ProjectSettings project = project_here(config, err());
    const auto decider = std::make_shared<ToolApproval>(rules_of(config, project),
                                                        std::make_shared<InMemoryChannel>(),
                                                        nullptr, std::move(approval));
    McpServerOptions options;
    options.instructions = "Tools for the files and commands of one directory.";
    options.tools = standard_tools(workspace);
    std::vector<Middleware> guards;
    std::vector<bub::CommandHook> hooks = config.hooks;
    hooks.insert(hooks.end(), project.hooks.begin(), project.hooks.end());
    if (!hooks.empty()) {
        auto table = std::make_shared<const bub::detail::CommandHookTable>(std::move(hooks));
        bub::detail::HookPlace place{"mcp", std::filesystem::current_path(),
                                     child_environment(command_environment(config)),
                                     Runtime::standard()};
        guards.emplace_back(bub::detail::CommandHooks(std::move(table), std::move(place)));
    }
    guards.emplace_back(decider);
    options.hooks = compose_middleware(guards);
    run(serve_streams(std::make_shared<McpServer>(std::move(options))));
    return exit_ok;
}

}  // namespace

int use_mcp(const McpArguments& arguments, std::ostream& out, std::ostream& err) {
    using What = McpArguments::What;
    if (arguments.what == What::serve) return serve(arguments.yes);
    const std::vector<McpServerSettings> servers = all_servers(err);
    if (servers.empty() && arguments.what != What::call) {
        TerminalStream(err) << "No MCP servers are configured; the key mcp of "
                            << for_terminal(config_path().string())
                            << " lists them, and .mcp.json of a directory that you trust.\n";
        return exit_ok;
    }
    switch (arguments.what) {
        case What::list: return list(servers, arguments.json, out);
        case What::check: return check(servers, arguments.server, out, err);
        case What::call: return call(servers, arguments, out);
        case What::serve: break;
    }
    return exit_usage;
}

int mcp_command(const CommandLine& line) { return use_mcp(line.mcp, std::cout, std::cerr); }

}  // namespace cubepi::app
