// Our side of tools/check-mcp-peers: a client that tries a server, and a server for other clients.
//
//   peer client PLAN VERSION URL            prints {"FEATURE": "ok" or why not, ...}
//   peer client PLAN VERSION PROGRAM ARGUMENT...
//   peer server                             serves standard input and output
//   peer server PORT                        serves http://127.0.0.1:PORT/mcp until it is killed
//
// PLAN is JSON that names the tools, see tests/mcp/peers/run_peers.py. VERSION "" lets both sides agree.

#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <exception>
#include <iostream>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <cubepi/agent/tool.hpp>
#include <cubepi/core/event_signal.hpp>
#include <cubepi/core/outcome.hpp>
#include <cubepi/core/run.hpp>
#include <cubepi/core/support/json_member.hpp>
#include <cubepi/mcp/client.hpp>
#include <cubepi/mcp/elicitation.hpp>
#include <cubepi/mcp/http_transport.hpp>
#include <cubepi/mcp/server.hpp>
#include <cubepi/mcp/server_routes.hpp>
#include <cubepi/mcp/stdio_transport.hpp>
#include <cubepi/schema/json_text.hpp>
#include <cubepi/schema/parse_json.hpp>

namespace {

using namespace cubepi;

// The client.

struct Attempt {
    McpClient* client;
    JsonObject plan;
    JsonObject results = {};

    bool names(std::string_view feature) const { return plan.contains(feature); }
    McpCall call(std::string_view feature) const {
        const JsonArray& step = plan.at(feature).as_array();
        return McpCall(std::string(step.at(0).as_string()), step.at(1).as_object());
    }
    std::string expected(std::string_view feature) const {
        return std::string(plan.at(feature).as_array().at(2).as_string());
    }
};

bool is_error(const JsonObject& result) { return detail::flag_member(result, "isError"); }

void need(bool holds, const JsonObject& seen) {
    if (!holds) throw Error(ErrorCode::protocol, json_text(Json(seen)).substr(0, 300));
}

bool has_text(const JsonObject& result, const std::string& text) {
    return json_text(Json(result)).find(text) != std::string::npos;
}

Task<JsonObject> accept_form(std::string method, JsonObject params) {
    if (method != "elicitation/create") throw Error(ErrorCode::unsupported, method);
    JsonObject answers;
    answers["name"] = "Ann";
    JsonObject result;
    result["action"] = "accept";
    result["content"] = detail::elicitation_content(params, answers);
    co_return result;
}

Task<> try_list(Attempt* attempt) {
    const auto list = co_await attempt->client->tools();
    if (list->tools.empty()) throw Error(ErrorCode::protocol, "no tools");
    if (!list->problems.empty()) throw Error(ErrorCode::protocol, list->problems.front());
}

Task<> try_call(Attempt* attempt) {
    const JsonObject result = co_await attempt->client->call(attempt->call("call"));
    need(!is_error(result) && has_text(result, attempt->expected("call")), result);
}

Task<> try_error(Attempt* attempt) {
    const JsonObject result = co_await attempt->client->call(attempt->call("error"));
    need(is_error(result), result);
    McpCall unknown("no_such_tool", JsonObject());
    Task<JsonObject> calling = attempt->client->call(std::move(unknown));
    Outcome<JsonObject> outcome = co_await outcome_of(std::move(calling));
    if (outcome.ok()) need(is_error(outcome.value()), outcome.value());
}

Task<> try_progress(Attempt* attempt) {
    std::vector<JsonObject> reports;
    McpCall call = attempt->call("progress");
    call.on_progress = [&reports](const JsonObject& report) { reports.push_back(report); };
    const JsonObject result = co_await attempt->client->call(std::move(call));
    need(reports.size() >= 2, result);
}

/// Abandons a call, and asks the server whether it has noticed.
Task<> try_cancellation(Attempt* attempt) {
    McpCall call = attempt->call("cancellation");
    call.timeout = std::chrono::milliseconds(300);
    Task<JsonObject> calling = attempt->client->call(std::move(call));
    Outcome<JsonObject> outcome = co_await outcome_of(std::move(calling));
    if (outcome.ok()) need(false, outcome.value());
    McpCall question(attempt->expected("cancellation"), JsonObject());
    JsonObject result = co_await attempt->client->call(question);
    for (int i = 0; i < 50 && !has_text(result, "yes"); ++i) {
        co_await Runtime::standard()->clock->sleep_for(std::chrono::milliseconds(50));
        result = co_await attempt->client->call(question);
    }
    need(has_text(result, "yes"), result);
}

Task<> try_resources(Attempt* attempt) {
    const auto list = co_await attempt->client->resources();
    if (list->resources.empty()) throw Error(ErrorCode::protocol, "no resources");
    std::string uri(attempt->plan.at("resources").as_string());
    if (uri.empty()) uri = list->resources.front().uri;
    const auto contents = co_await attempt->client->read_resource(std::move(uri));
    if (contents.empty()) throw Error(ErrorCode::protocol, "no contents");
}

Task<> try_prompts(Attempt* attempt) {
    const auto list = co_await attempt->client->prompts();
    if (list->prompts.empty()) throw Error(ErrorCode::protocol, "no prompts");
    const JsonArray& step = attempt->plan.at("prompts").as_array();
    std::map<std::string, std::string> arguments;
    for (const auto& member : step.at(1).as_object())
        arguments.emplace(member.key(), member.value().as_string());
    std::string name(step.at(0).as_string());
    const McpPromptText text =
        co_await attempt->client->prompt(std::move(name), std::move(arguments));
    if (text.messages.empty()) throw Error(ErrorCode::protocol, "no messages");
}

Task<> try_elicitation(Attempt* attempt) {
    McpCall call = attempt->call("elicitation");
    call.on_input = accept_form;
    const JsonObject result = co_await attempt->client->call(std::move(call));
    need(!is_error(result) && has_text(result, attempt->expected("elicitation")), result);
}

Task<> try_all(Attempt* attempt) {
    const McpServerInfo info = co_await attempt->client->connect();
    attempt->results["revision"] = info.version;
    using Step = Task<> (*)(Attempt*);
    const std::vector<std::pair<std::string, Step>> steps = {{"list", try_list},
                                                             {"call", try_call},
                                                             {"error", try_error},
                                                             {"progress", try_progress},
                                                             {"resources", try_resources},
                                                             {"prompts", try_prompts},
                                                             {"elicitation", try_elicitation},
                                                             {"cancellation", try_cancellation}};
    for (const auto& [feature, step] : steps) {
        if (!attempt->names(feature)) continue;
        Task<> running = step(attempt);
        const Outcome<> outcome = co_await outcome_of(std::move(running));
        attempt->results[feature] =
            outcome.ok() ? std::string("ok") : exception_text(outcome.failure());
    }
    co_await attempt->client->close();
}

std::unique_ptr<McpTransport> transport_to(const std::vector<std::string>& place) {
    const auto runtime = Runtime::standard();
    if (place.front().starts_with("http://")) {
        McpHttpOptions http;
        http.server = "peer";
        http.url = place.front();
        return mcp_http_transport(http, runtime);
    }
    McpStdioOptions process;
    process.server = "peer";
    process.program = place.front();
    process.arguments.assign(place.begin() + 1, place.end());
    return mcp_stdio_transport(process, runtime);
}

int try_server(const std::string& plan, const std::string& version,
               const std::vector<std::string>& place) {
    McpClientOptions options;
    options.server = "peer";
    if (!version.empty()) options.version = version;
    McpClient client(options, transport_to(place), Runtime::standard());
    Attempt attempt{&client, parse_json(plan).as_object()};
    run(try_all(&attempt));
    std::cout << json_text(Json(attempt.results)) << "\n";
    return 0;
}

// The server.

struct Numbers {
    std::int64_t a;
    std::int64_t b;
};

Task<std::string> report_steps(JsonObject, ToolContext& context) {
    for (const int step : {1, 2}) {
        JsonObject report;
        report["progress"] = step;
        report["total"] = 2;
        report["message"] = "step " + std::to_string(step);
        co_await context.update(Json(std::move(report)));
        // The TypeScript SDKs drop reports that arrive together with the result.
        co_await Runtime::standard()->clock->sleep_for(std::chrono::milliseconds(50));
    }
    co_return "done";
}

Task<std::string> wait_for_abort(JsonObject, ToolContext&, std::shared_ptr<bool> cancelled) {
    struct Mark {
        bool& set;
        ~Mark() { set = true; }
    };
    const Mark mark{*cancelled};
    AsyncEvent never;
    co_await never.wait();
    co_return "never";
}

Task<McpToolResult> ask_name(JsonObject, ToolContext&, McpRequest& request) {
    JsonObject schema =
        parse_json(
            R"({"type":"object","properties":{"name":{"type":"string"}},"required":["name"]})")
            .as_object();
    McpQuestion question = mcp_form("name", "Your name?", std::move(schema));
    const JsonObject answer = co_await request.ask(std::move(question));
    const JsonObject* content = detail::object_member(answer, "content");
    co_return McpToolResult("Hello, " + (content ? detail::text_member(*content, "name") : "you"));
}

Task<McpPromptText> greet(std::map<std::string, std::string> arguments, McpRequest&) {
    McpPromptMessage message;
    message.content = mcp_content::text("Greet " + arguments["name"] + ".");
    McpPromptText text;
    text.messages.push_back(std::move(message));
    co_return text;
}

McpServerOptions offer() {
    const auto cancelled = std::make_shared<bool>(false);
    McpServerOptions options;
    options.implementation = McpImplementation("cubepi-peer", "1");
    options.tools.push_back(tool<Numbers>("add", "Adds two numbers.", [](Numbers numbers) {
        return std::to_string(numbers.a + numbers.b);
    }));
    options.tools.push_back(tool<JsonObject>(
        "fail", "Fails.", [](JsonObject) { return AgentToolResult::error("it has failed"); }));
    options.tools.push_back(tool<JsonObject>("steps", "Reports two steps.", report_steps));
    options.tools.push_back(
        tool<JsonObject>("wait", "Waits until it is cancelled.",
                         [cancelled](JsonObject arguments, ToolContext& context) {
                             return wait_for_abort(std::move(arguments), context, cancelled);
                         }));
    options.tools.push_back(tool<JsonObject>(
        "was_cancelled", "States whether a call of wait was cancelled.",
        [cancelled](JsonObject) { return std::string(*cancelled ? "yes" : "no"); }));
    options.server_tools.emplace_back("ask", "Asks for a name.", parse_json(R"({"type":"object"})"),
                                      ask_name);
    options.resources.push_back(McpServerResource::of_text(
        McpResource("peer://note", "note", "A note", "text/plain"), "a note"));
    McpServerPrompt prompt;
    prompt.prompt.name = "greet";
    prompt.prompt.arguments.push_back({"name", "of the user", true});
    prompt.get = greet;
    options.prompts.push_back(std::move(prompt));
    options.announces_changes = true;
    return options;
}

Task<> serve_streams(std::shared_ptr<McpServer> server) {
    const Executor executor = co_await this_executor;
    co_await server->serve(mcp_standard_streams(executor));
}

Task<> wait_forever() {
    AsyncEvent never;
    co_await never.wait();
}

int serve(const char* port) {
    const auto server = std::make_shared<McpServer>(offer());
    if (!port) {
        run(serve_streams(server));
        return 0;
    }
    HttpServerOptions options;
    options.port = static_cast<std::uint16_t>(std::atoi(port));
    HttpServer http(this_thread_context().get_executor(), options);
    HttpRoutes routes(http, "mcp");
    McpRouteOptions settings;
    settings.resume_time = std::chrono::minutes(1);
    add_mcp_routes(routes, server, settings);
    routes.serve();
    std::cout << "http://127.0.0.1:" << http.port() << "/mcp" << std::endl;
    run(wait_forever());
    return 0;
}

}  // namespace

int main(int argc, char** argv) {
    const std::vector<std::string> arguments(argv + 1, argv + argc);
    try {
        if (arguments.size() >= 4 && arguments[0] == "client")
            return try_server(arguments[1], arguments[2], {arguments.begin() + 3, arguments.end()});
        if (!arguments.empty() && arguments[0] == "server" && arguments.size() <= 2)
            return serve(arguments.size() == 2 ? argv[2] : nullptr);
    } catch (const std::exception& error) {
        std::cerr << "peer: " << error.what() << "\n";
        return 1;
    }
    std::cerr << "usage: cubepi_mcp_peer client PLAN VERSION URL | PROGRAM ARGUMENT...\n"
                 "       cubepi_mcp_peer server [PORT]\n";
    return 2;
}
