// The server under test of the conformance suite (tools/check-mcp): conformance_server PORT serves http://127.0.0.1:PORT/mcp until
// it is killed, with the tools that the suite asks for. The only code of the server side that knows the suite.

#include <cstdint>
#include <cstdlib>
#include <iostream>
#include <memory>
#include <string>

#include <boost/asio/io_context.hpp>

#include <cubepi/agent/tool.hpp>
#include <cubepi/core/event_signal.hpp>
#include <cubepi/core/run.hpp>
#include <cubepi/mcp/server.hpp>
#include <cubepi/mcp/server_routes.hpp>

namespace {

using namespace cubepi;

const std::string red_pixel =
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8DwHwAFBQIAX8jx0gAAAABJRU5ErkJggg"
    "==";

Task<std::string> report_progress(JsonObject, ToolContext& ctx) {
    for (const int progress : {0, 50, 100}) {
        JsonObject report;
        report["progress"] = progress;
        report["total"] = 100;
        report["message"] = "Completed step " + std::to_string(progress) + " of 100";
        co_await ctx.update(Json(std::move(report)));
    }
    co_return "Done.";
}

ToolList tools() {
    ToolList list;
    list.push_back(tool<JsonObject>("test_simple_text", "Returns a text.", [](JsonObject) {
        return std::string("This is a simple text response for testing.");
    }));
    list.push_back(tool<JsonObject>("test_image_content", "Returns an image.", [](JsonObject) {
        ImageContent image;
        image.source = red_pixel;
        image.media_type = SharedString("image/png");
        return AgentToolResult(Content(std::move(image)));
    }));
    list.push_back(tool<JsonObject>("test_error_handling", "Fails.", [](JsonObject) {
        return AgentToolResult::error("This tool intentionally returns an error for testing");
    }));
    list.push_back(
        tool<JsonObject>("test_tool_with_progress", "Reports progress.", report_progress));
    return list;
}

Task<> wait_forever() {
    AsyncEvent never;
    co_await never.wait();
}

}  // namespace

int main(int argc, char** argv) {
    const int port = argc == 2 ? std::atoi(argv[1]) : -1;
    if (port < 0 || port > 65535) {
        std::cerr << "usage: cubepi_mcp_conformance_server PORT\n";
        return 2;
    }
    McpServerOptions options;
    options.implementation = McpImplementation("cubepi-conformance", "1");
    options.tools = tools();
    HttpServerOptions http;
    http.port = static_cast<std::uint16_t>(port);
    HttpServer server(this_thread_context().get_executor(), http);
    HttpRoutes routes(server, "mcp");
    add_mcp_routes(routes, std::make_shared<McpServer>(options));
    routes.serve();
    std::cout << "http://127.0.0.1:" << server.port() << "/mcp" << std::endl;
    run(wait_forever());
}
