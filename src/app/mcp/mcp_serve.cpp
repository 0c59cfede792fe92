#include "mcp_serve.hpp"

#include <chrono>
#include <cstddef>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include <unistd.h>

#include <bub/builtin/command_hooks.hpp>
#include <bub/builtin/session_commands.hpp>
#include <bub/event_stream.hpp>
#include <bub/turn_span.hpp>
#include <cubepi/core/agent_event.hpp>
#include <cubepi/core/cancellation.hpp>
#include <cubepi/core/error.hpp>
#include <cubepi/core/event_signal.hpp>
#include <cubepi/core/run.hpp>
#include <cubepi/core/support/parsed_number.hpp>
#include <cubepi/core/task_scope.hpp>
#include <cubepi/mcp/client_channel.hpp>
#include <cubepi/mcp/resource_server.hpp>
#include <cubepi/mcp/server.hpp>
#include <cubepi/mcp/server_routes.hpp>
#include <cubepi/net/http_server.hpp>
#include <cubepi/workspace/local_workspace.hpp>
#include <cubepi/workspace/standard_tools.hpp>

#include "../config/command_sandbox.hpp"
#include "../config/tool_names.hpp"
#include "../conversation/pipeline.hpp"
#include "../conversation/session.hpp"
#include "../conversation/tool_approval.hpp"
#include "../failure.hpp"
#include "../program.hpp"
#include "../terminal/terminal_stream.hpp"

namespace cubepi::app {

namespace {

struct AgentArguments {
    std::string prompt;
};

/// Reports that the client has not received yet; further ones are dropped.
constexpr std::size_t max_queued_reports = 64;
using Reports = AsyncQueue<Json>;

Task<> report(std::shared_ptr<Reports> reports, ToolContext* context) {
    while (true) {
        std::optional<Json> text = co_await reports->next();
        if (!text) co_return;
        co_await context->update(std::move(*text));
    }
}

Task<> ask(Pipeline* pipeline, std::string prompt, std::string traceparent,
           std::shared_ptr<Reports> reports, Answer* answer) {
    struct Closing {
        Reports& reports;
        ~Closing() { reports.close(); }
    };
    const Closing closing{*reports};
    Pipeline::Show show = [pipeline, reports](const bub::StreamEvent& event, const bub::Envelope&) {
        pipeline->note_shown(event);
        if (!event.agent_event) return;
        if (const auto* start = std::get_if<ToolExecutionStartEvent>(&event.agent_event->body))
            (void)reports->try_push(Json("calls " + start->tool_name.str()));
    };
    // The text of a client is never a command (B11).
    bub::Envelope message = pipeline->message(std::move(prompt), false);
    if (!traceparent.empty()) message.context[bub::trace_key::traceparent] = traceparent;
    *answer = co_await pipeline->ask(std::move(message), std::move(show));
}

Task<> ask_and_report(Pipeline* pipeline, std::string prompt, ToolContext* context,
                      Answer* answer) {
    const auto reports = std::make_shared<Reports>(max_queued_reports);
    std::vector<Task<>> both;
    const auto& trace = context->run().origin.trace;
    both.push_back(ask(pipeline, std::move(prompt), trace ? trace->traceparent : std::string(),
                       reports, answer));
    both.push_back(report(reports, context));
    co_await when_all(std::move(both));
}

Task<AgentToolResult> run_agent(ConversationFlags flags, std::string prompt, ToolContext* context) {
    SessionParts parts;
    parts.with_servers = false;
    SessionPlan plan = co_await plan_session(std::move(flags), std::move(parts));
    plan.waits_for_tasks = true;
    plan.shell.background_note = "it ends with this answer";
    Pipeline pipeline(std::move(plan), Pipeline::Parts());
    Answer answer;
    Task<> asking = ask_and_report(&pipeline, std::move(prompt), context, &answer);
    co_await with_cleanup(std::move(asking), pipeline.close());
    if (answer.failure.exit_code != exit_ok) co_return AgentToolResult::error(answer.failure.text);
    std::string text = answer.result ? answer.result->text() : std::string();
    co_return AgentToolResult(text.empty() ? "The agent has answered nothing." : std::move(text));
}

using ShellTool = AgentTool (*)(std::shared_ptr<ShellSessions> commands);

Task<McpToolResult> run_tool(AgentTool tool, JsonObject arguments, ToolContext* context) {
    MaybeTask<AgentToolResult> running = tool.execute(std::move(arguments), *context);
    AgentToolResult ran;
    if (running.is_pending()) {
        ran = co_await std::move(running).task();
    } else {
        ran = std::move(running).value();
    }
    McpToolResult result(ran.text());
    result.is_error = ran.is_error.value_or(false);
    co_return result;
}

/// Returns a tool for the commands of the client that calls it: with an issuer, clients are different users, of whom none reads or ends what
/// another one has started.
McpServerTool tool_of_client(std::shared_ptr<Workspace> workspace,
                             std::shared_ptr<bub::SessionCommands> commands, ShellTool make) {
    const auto open = [workspace = std::move(workspace)] {
        return ShellSessions::create(workspace);
    };
    McpServerTool offered;
    offered.definition = make(open());
    offered.run = [open, commands = std::move(commands), make](
                      JsonObject arguments, ToolContext& context, McpRequest& request) {
        return run_tool(make(commands->open(request.client(), open)), std::move(arguments),
                        &context);
    };
    return offered;
}

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
    const auto number = detail::parsed_number<std::uint16_t>(port);
    options.port = number.value_or(0);
    if (!number || (host != "127.0.0.1" && host != "localhost" && host != "[::1]")) {
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

Task<> serve_streams(std::shared_ptr<McpServer> server) {
    const Executor executor = co_await this_executor;
    co_await server->serve(mcp_standard_streams(executor));
}

}  // namespace

AgentTool mcp_agent_tool(ConversationFlags flags) {
    flags.no_save = true;
    return tool<AgentArguments>(
               "agent",
               "Runs the coding agent of this directory with a prompt and returns its answer. It "
               "reads and changes files and runs commands as its user allows. Each call is a new "
               "conversation, so the prompt must say everything.",
               [flags](AgentArguments arguments, ToolContext& context) {
                   return run_agent(flags, std::move(arguments.prompt), &context);
               })
        .describe("prompt", "The task, with all that the agent needs to know")
        .risk(ToolRisk::writes)
        .timeout(std::chrono::milliseconds::zero());
}

void check_mcp_serve(const McpArguments& arguments) {
    const bool has_tokens = !arguments.issuer.empty();
    if (has_tokens && arguments.listen.empty())
        throw Error(ErrorCode::invalid_argument, "--issuer needs --listen");
    if (!has_tokens && !(arguments.url.empty() && arguments.scopes.empty()))
        throw Error(ErrorCode::invalid_argument, "--url and --scope need --issuer");
    if (arguments.listen.empty()) return;
    (void)options_at(arguments.listen);
    if (!has_tokens) (void)token();
}

int serve_mcp(const McpArguments& arguments, const ConfigFile& config,
              const ProjectSettings& project, std::ostream& error_output) {
    const bool has_tokens = !arguments.issuer.empty();
    const bool allow_all = arguments.yes;
    WorkspacePolicy policy;
    policy.environment = command_environment(config);
    const CommandSandboxes sandboxes(config.sandbox, std::string());
    if (sandboxes.is_on()) {
        policy.sandbox = [sandboxes, directory = std::filesystem::current_path()] {
            return sandboxes.profile(directory);
        };
    }
    auto workspace =
        std::make_shared<LocalWorkspace>(std::filesystem::current_path(), std::move(policy));
    ToolApproval::Options approval;
    const ApprovalMode mode = allow_all ? ApprovalMode::all : ApprovalMode::ask;
    approval.mode = std::make_shared<ApprovalMode>(mode);
    approval.workspace = workspace;
    TerminalStream err(error_output);
    ToolRules rules = rules_of(config, project);
    restrict_hidden(rules, config.sandbox, {std::filesystem::current_path()});
    rules.confine_commands(sandboxes.confinement());
    McpServerOptions options;
    options.instructions =
        "Tools for the files and commands of one directory, and the agent of this directory.";
    StandardToolOptions offered;
    offered.with_shell = false;
    options.tools = standard_tools(workspace, std::move(offered));
    const auto commands_of_clients = std::make_shared<bub::SessionCommands>();
    const ShellTool shell = [](std::shared_ptr<ShellSessions> of_client) {
        return shell_tool(std::move(of_client));
    };
    for (const ShellTool make : {shell, ShellTool(shell_output_tool), ShellTool(shell_kill_tool)})
        options.server_tools.push_back(tool_of_client(workspace, commands_of_clients, make));
    ConversationFlags flags;
    flags.yes = allow_all;
    options.tools.push_back(mcp_agent_tool(std::move(flags)));
    options.tasks.tools = {"agent"};
    std::vector<bub::CommandHook> hooks = hooks_of(config, project);
    for (const std::string& warning : hook_warnings(hooks))
        err << "cubepi: " << for_terminal(visible(warning)) << "\n";
    std::shared_ptr<const bub::detail::CommandHookTable> commands;
    if (!hooks.empty())
        commands = std::make_shared<const bub::detail::CommandHookTable>(std::move(hooks));
    options.call_hooks = [rules = std::move(rules), approval, commands, allow_all, has_tokens,
                          environment = command_environment(config)](McpRequest& request) {
        std::vector<Middleware> guards;
        if (commands) {
            bub::detail::HookTurn turn{"mcp", std::filesystem::current_path(),
                                       child_environment(environment), Runtime::standard()};
            guards.emplace_back(bub::detail::CommandHooks(commands, std::move(turn)));
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

}  // namespace cubepi::app
