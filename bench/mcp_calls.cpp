// Calls of a tool of an MCP server, for bench/peers/run: over standard streams and over HTTP, one after the other, and an agent with the
// tools of many servers.
//
//   mcp_calls server [PORT]               a server with the tool "add", over standard streams or at a port of 127.0.0.1
//   mcp_calls measure CALLS SERVERS       prints microseconds of a call, and the milliseconds until an agent has the tools of all SERVERS
//
// The peers (bench/peers/node/mcp_calls.mjs, bench/peers/python/mcp_calls.py) have the same interface.

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <signal.h>
#include <sys/types.h>

#include <cubepi/agent/agent.hpp>
#include <cubepi/core/event_signal.hpp>
#include <cubepi/core/run.hpp>
#include <cubepi/core/task_scope.hpp>
#include <cubepi/mcp/client.hpp>
#include <cubepi/mcp/http_transport.hpp>
#include <cubepi/mcp/server.hpp>
#include <cubepi/mcp/server_routes.hpp>
#include <cubepi/mcp/stdio_transport.hpp>
#include <cubepi/mcp/tools.hpp>
#include <cubepi/net/http_server.hpp>
#include <cubepi/provider/faux.hpp>

namespace {

using namespace cubepi;
using Microseconds = std::chrono::duration<double, std::micro>;

struct Numbers {
    std::int64_t a;
    std::int64_t b;
};

std::shared_ptr<McpServer> make_server() {
    McpServerOptions options;
    options.tools.push_back(tool<Numbers>("add", "Adds two numbers.", [](Numbers numbers) {
        return std::to_string(numbers.a + numbers.b);
    }));
    return std::make_shared<McpServer>(options);
}

Task<> serve_streams(std::shared_ptr<McpServer> server) {
    const Executor executor = co_await this_executor;
    co_await server->serve(mcp_standard_streams(executor));
}

Task<> serve_http(std::shared_ptr<McpServer> server, int port) {
    HttpServerOptions options;
    options.port = static_cast<std::uint16_t>(port);
    HttpServer http(co_await this_executor, options);
    HttpRoutes routes(http, "mcp");
    add_mcp_routes(routes, server);
    routes.serve();
    std::printf("http://127.0.0.1:%d/mcp\n", http.port());
    std::fflush(stdout);
    AsyncEvent never;
    co_await never.wait();
}

std::shared_ptr<McpClient> client_of(const std::string& program, int number) {
    const auto runtime = Runtime::standard();
    McpStdioOptions process;
    process.server = "server" + std::to_string(number);
    process.program = program;
    process.arguments = {"server"};
    McpClientOptions options;
    options.server = process.server;
    return std::make_shared<McpClient>(options, mcp_stdio_transport(process, runtime), runtime);
}

std::shared_ptr<McpClient> client_at(const std::string& url) {
    const auto runtime = Runtime::standard();
    McpHttpOptions http;
    http.server = "server";
    http.url = url;
    McpClientOptions options;
    options.server = "server";
    return std::make_shared<McpClient>(options, mcp_http_transport(http, runtime), runtime);
}

/// Returns the time of one call. The connection exists before.
Task<double> time_of_a_call(std::shared_ptr<McpClient> client, int calls) {
    JsonObject arguments;
    arguments["a"] = 2;
    arguments["b"] = 3;
    std::chrono::steady_clock::time_point begin;
    const int warm_up = calls / 10;
    for (int i = 0; i < calls + warm_up; ++i) {
        if (i == warm_up) begin = std::chrono::steady_clock::now();
        McpCall call("add", arguments);
        (void)co_await client->call(std::move(call));
    }
    const double us = Microseconds(std::chrono::steady_clock::now() - begin).count() / calls;
    co_await client->close();
    co_return us;
}

/// Starts the servers, and makes an agent with their tools.
Task<double> time_to_attach(std::string program, int servers) {
    const auto begin = std::chrono::steady_clock::now();
    std::vector<std::shared_ptr<McpClient>> clients;
    std::vector<Task<McpTools>> reading;
    for (int i = 0; i < servers; ++i) {
        clients.push_back(client_of(program, i));
        reading.push_back(mcp_tools(clients.back()));
    }
    std::vector<McpTools> all = co_await when_all(std::move(reading));
    std::vector<AgentTool> tools;
    for (McpTools& one : all) {
        for (const AgentTool& tool : one.tools) tools.push_back(tool);
    }
    AgentOptions options;
    options.model = FauxProvider().model();
    options.tools = ToolList(std::move(tools));
    const Agent agent(std::move(options));
    const double ms = Microseconds(std::chrono::steady_clock::now() - begin).count() / 1000;
    for (const auto& client : clients) co_await client->close();
    co_return ms;
}

/// A server over HTTP in a process of its own.
struct HttpProcess {
    std::FILE* output;
    pid_t id;
    std::string url;

    explicit HttpProcess(const std::string& program)
        : output(::popen(("echo $$; exec '" + program + "' server 0").c_str(), "r")),
          id(std::atoi(next_line().c_str())),
          url(next_line()) {}
    HttpProcess(const HttpProcess&) = delete;
    HttpProcess& operator=(const HttpProcess&) = delete;
    ~HttpProcess() {
        if (id > 0) ::kill(id, SIGTERM);
        ::pclose(output);
    }

    std::string next_line() const {
        char line[256] = {};
        std::string text = output && std::fgets(line, sizeof line, output) ? line : "";
        while (!text.empty() && text.back() == '\n') text.pop_back();
        return text;
    }
};

}  // namespace

int main(int argc, char** argv) {
    const std::string mode = argc > 1 ? argv[1] : "";
    if (mode == "server") {
        if (argc > 2) {
            run(serve_http(make_server(), std::atoi(argv[2])));
        } else {
            run(serve_streams(make_server()));
        }
        return 0;
    }
    if (mode != "measure" || argc != 4) {
        std::fputs("usage: mcp_calls server [PORT] | measure CALLS SERVERS\n", stderr);
        return 2;
    }
    const std::string program = argv[0];
    const int calls = std::atoi(argv[2]);
    const int servers = std::atoi(argv[3]);
    const double stdio = run(time_of_a_call(client_of(program, 0), calls));
    const HttpProcess http(program);
    const double over_http = run(time_of_a_call(client_at(http.url), calls));
    const double attach = run(time_to_attach(program, servers));
    std::printf("{\"stdio\": %.1f, \"http\": %.1f, \"attach\": %.1f}\n", stdio, over_http, attach);
    return 0;
}
