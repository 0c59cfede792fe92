#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <cubepi/agent/tool.hpp>
#include <cubepi/core/error.hpp>
#include <cubepi/core/event_signal.hpp>
#include <cubepi/core/run.hpp>
#include <cubepi/mcp/json_rpc.hpp>
#include <cubepi/mcp/server.hpp>
#include <cubepi/schema/json_text.hpp>
#include <cubepi/schema/parse_json.hpp>

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

/// The two ends of a connection in memory.
struct Pipe {
    AsyncQueue<std::string> to_server{1000};
    std::vector<RpcMessage> received;
    AsyncEvent arrived;
    AsyncEvent may_write{true};
    bool is_broken = false;
};

class PipeStream final : public McpByteStream {
public:
    explicit PipeStream(std::shared_ptr<Pipe> pipe) : pipe_(std::move(pipe)) {}
    Task<bool> read(std::string& out) override {
        const std::optional<std::string> bytes = co_await pipe_->to_server.next();
        if (bytes) out += *bytes;
        co_return bytes.has_value();
    }
    Task<> write(std::string bytes) override {
        co_await pipe_->may_write.wait();
        if (pipe_->is_broken) throw Error(ErrorCode::disconnected, "broken");
        pipe_->received.push_back(read_rpc_message(std::string_view(bytes)));
        pipe_->arrived.pulse();
    }

private:
    std::shared_ptr<Pipe> pipe_;
};

inline const std::string meta =
    R"("_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{})";

inline std::string request(int id, const std::string& method, const std::string& params) {
    return R"({"jsonrpc":"2.0","id":)" + std::to_string(id) + R"(,"method":")" + method +
           R"(","params":{)" + params + "}}\n";
}

inline std::string modern(int id, const std::string& method, const std::string& params = {}) {
    return request(id, method, params.empty() ? meta + "}" : params + "," + meta + "}");
}

/// Sends the lines and returns what the server has answered until its end.
inline std::vector<RpcMessage> exchange(const std::vector<std::string>& lines,
                                        const TestServer& server = TestServer()) {
    const auto pipe = std::make_shared<Pipe>();
    for (const std::string& line : lines) (void)pipe->to_server.force_push(line);
    pipe->to_server.close();
    const auto served = server.make();
    run(served->serve(std::make_unique<PipeStream>(pipe)));
    return pipe->received;
}

inline std::string member(const RpcMessage& message, std::string_view name) {
    const Json* value = message.result.if_contains(name);
    return value ? json_text(*value) : "absent";
}

// Functions that use the protocol.

/// Asks for a name and then for a color, and counts how often it begins.
inline Task<McpToolResult> ask_twice(JsonObject, ToolContext&, McpRequest& request,
                                     std::shared_ptr<int> begun) {
    ++*begun;
    const std::string schema =
        R"({"type":"object","properties":{"value":{"type":"string"}},"required":["value"]})";
    McpQuestion first = mcp_form("name", "Your name?", parse_json(schema).as_object());
    const JsonObject name = co_await request.ask(std::move(first));
    McpQuestion second = mcp_form("color", "Your color?", parse_json(schema).as_object());
    const JsonObject color = co_await request.ask(std::move(second));
    co_return McpToolResult(json_text(Json(name)) + json_text(Json(color)));
}

inline Task<McpToolResult> write_to_log(JsonObject, ToolContext&, McpRequest& request) {
    co_await request.log(McpLogLevel::debug, Json("details"));
    co_await request.log(McpLogLevel::warning, Json("careful"), "tool");
    McpToolResult result("logged");
    result.content.push_back(mcp_content::audio("UklG", "audio/wav"));
    result.structured = JsonObject{{"lines", 2}};
    co_return result;
}

inline Task<McpPromptText> greet(std::map<std::string, std::string> arguments, McpRequest&) {
    McpPromptMessage message;
    message.content = mcp_content::text("Greet " + arguments["name"] + ".");
    McpPromptText text;
    text.messages.push_back(std::move(message));
    co_return text;
}

inline Task<std::vector<std::string>> complete_name(McpCompletion completion) {
    std::vector<std::string> values;
    for (int i = 0; i < 150; ++i) values.push_back(completion.value + std::to_string(i));
    co_return values;
}

inline Task<std::optional<std::vector<McpResourceContent>>> read_day(std::string uri,
                                                                     McpVariables variables,
                                                                     McpRequest&) {
    if (variables["day"] == "never") co_return std::nullopt;
    if (variables["day"] == "..") throw Error(ErrorCode::permission_denied, "not this one");
    std::vector<McpResourceContent> contents;
    contents.push_back(
        McpResourceContent::of_text(std::move(uri), "text/plain", "Log of " + variables["day"]));
    co_return contents;
}

/// Adds a tool that asks, one that logs, a prompt, a resource and a template.
inline std::shared_ptr<int> add_features(McpServerOptions& options) {
    auto begun = std::make_shared<int>(0);
    const Json schema = parse_json(R"({"type":"object","properties":{}})");
    options.server_tools.emplace_back(
        "ask", "Asks.", schema,
        [begun](JsonObject arguments, ToolContext& context, McpRequest& request) {
            return ask_twice(std::move(arguments), context, request, begun);
        });
    options.server_tools.emplace_back("log", "Logs.", schema, write_to_log);
    McpServerPrompt prompt;
    prompt.prompt.name = "greet";
    prompt.prompt.arguments.push_back({"name", "of the user", true});
    prompt.get = greet;
    prompt.complete = complete_name;
    options.prompts.push_back(std::move(prompt));
    options.resources.push_back(McpServerResource::of_text(
        McpResource("notes://today", "today", "Notes", "text/plain"), "Nothing."));
    McpServerResourceTemplate day;
    day.resource_template = McpResourceTemplate("logs://{day}.log", "log");
    day.read = read_day;
    options.resource_templates.push_back(std::move(day));
    options.announces_changes = true;
    return begun;
}

}  // namespace cubepi::mcp_test
