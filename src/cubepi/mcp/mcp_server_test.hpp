#pragma once

#include <memory>
#include <string>
#include <utility>

#include <cubepi/agent/tool.hpp>
#include <cubepi/core/event_signal.hpp>
#include <cubepi/mcp/server.hpp>

// A server with a few tools, for tests.

namespace cubepi::mcp_test {

struct EchoArguments {
    std::string text;
};

inline Task<std::string> report_steps(JsonObject, ToolContext& ctx) {
    co_await ctx.update(Json("step one"));
    JsonObject second;
    second["progress"] = 2;
    second["total"] = 2;
    second["message"] = "step two";
    co_await ctx.update(Json(std::move(second)));
    co_return "done";
}

/// Waits until its call is aborted, and sets `aborted`.
inline Task<std::string> wait_for_abort(JsonObject, ToolContext& ctx,
                                        std::shared_ptr<AsyncEvent> started,
                                        std::shared_ptr<AsyncEvent> aborted) {
    struct Mark {
        AsyncEvent& event;
        ~Mark() { event.set(); }
    };
    const Mark mark{*aborted};
    started->set();
    (void)ctx;
    AsyncEvent never;
    co_await never.wait();
    co_return "never";
}

struct TestServer {
    std::shared_ptr<AsyncEvent> started = std::make_shared<AsyncEvent>();
    std::shared_ptr<AsyncEvent> aborted = std::make_shared<AsyncEvent>();
    McpServerOptions options;

    TestServer() {
        options.implementation = McpImplementation("test", "1");
        options.tools.push_back(tool<EchoArguments>("echo", "Returns the text.",
                                                    [](EchoArguments args) { return args.text; }));
        options.tools.push_back(tool<JsonObject>("steps", "Reports steps.", report_steps));
        options.tools.push_back(tool<JsonObject>(
            "wait", "Waits.",
            [start = started, abort = aborted](JsonObject arguments, ToolContext& ctx) {
                return wait_for_abort(std::move(arguments), ctx, start, abort);
            }));
        options.tools.push_back(tool<JsonObject>("hidden", "Is not offered.", [](JsonObject) {
                                    return std::string("secret");
                                }).hidden());
        Json schema(JsonObject{
            {"type", "object"},
            {"properties",
             JsonObject{{"region", JsonObject{{"type", "string"}, {"x-mcp-header", "Region"}}}}}});
        options.tools.push_back(tool(
            "region", "Has a header.", std::move(schema),
            [](JsonObject arguments) { return std::string(arguments.at("region").as_string()); }));
    }

    std::shared_ptr<McpServer> make() const { return std::make_shared<McpServer>(options); }
};

}  // namespace cubepi::mcp_test
