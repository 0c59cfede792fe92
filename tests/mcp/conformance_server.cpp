// The server under test of the conformance suite (tools/check-mcp): conformance_server PORT serves http://127.0.0.1:PORT/mcp until
// it is killed, with the tools, prompts and resources that the suite asks for. The only code of the server side that knows the suite.

#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <iostream>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <boost/asio/io_context.hpp>

#include <cubepi/agent/tool.hpp>
#include <cubepi/core/event_signal.hpp>
#include <cubepi/core/run.hpp>
#include <cubepi/mcp/server.hpp>
#include <cubepi/mcp/server_routes.hpp>
#include <cubepi/schema/json_text.hpp>
#include <cubepi/schema/parse_json.hpp>

namespace {

using namespace cubepi;

const std::string red_pixel =
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8DwHwAFBQIAX8jx0gAAAABJRU5ErkJggg"
    "==";
const std::string silence = "UklGRiQAAABXQVZFZm10IBAAAAABAAEAQB8AAIA+AAACABAAZGF0YQAAAAA=";

JsonObject object(std::string_view text) { return parse_json(text).as_object(); }

const std::string no_arguments = R"({"type":"object","properties":{}})";

// Tools of agents.

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
    Json schema = parse_json(R"({
        "$schema": "https://json-schema.org/draft/2020-12/schema", "type": "object",
        "$defs": {"address": {"$anchor": "addressDef", "type": "object",
                              "properties": {"street": {"type": "string"}, "city": {"type": "string"}}}},
        "properties": {"name": {"type": "string"}, "address": {"$ref": "#/$defs/address"},
                       "contactMethod": {"type": "string", "enum": ["phone", "email"]},
                       "phone": {"type": "string"}, "email": {"type": "string"}},
        "allOf": [{"anyOf": [{"required": ["phone"]}, {"required": ["email"]}]}],
        "if": {"properties": {"contactMethod": {"const": "phone"}}, "required": ["contactMethod"]},
        "then": {"required": ["phone"]}, "else": {"required": ["email"]},
        "additionalProperties": false})");
    list.push_back(tool("json_schema_2020_12_tool", "Tool with JSON Schema 2020-12 features",
                        std::move(schema), [](JsonObject) { return std::string("valid"); }));
    return list;
}

// Tools with other content.

Task<McpToolResult> return_audio(JsonObject, ToolContext&, McpRequest&) {
    McpToolResult result;
    result.content.push_back(mcp_content::audio(silence, "audio/wav"));
    co_return result;
}

Task<McpToolResult> return_resource(JsonObject, ToolContext&, McpRequest&) {
    McpToolResult result;
    result.content.push_back(mcp_content::embedded(McpResourceContent::of_text(
        "test://embedded-resource", "text/plain", "This is an embedded resource content.")));
    co_return result;
}

Task<McpToolResult> return_mixed(JsonObject, ToolContext&, McpRequest&) {
    McpToolResult result("Multiple content types test:");
    result.content.push_back(mcp_content::image(red_pixel, "image/png"));
    result.content.push_back(mcp_content::embedded(McpResourceContent::of_text(
        "test://mixed-content-resource", "application/json", R"({"test":"data","value":123})")));
    co_return result;
}

Task<McpToolResult> write_log(JsonObject, ToolContext&, McpRequest& request) {
    for (const std::string text :
         {"Tool execution started", "Tool processing data", "Tool execution completed"})
        co_await request.log(McpLogLevel::info, Json(text));
    co_return McpToolResult("Done.");
}

// Tools that ask.

McpToolResult show(const JsonObject& answer) { return McpToolResult(json_text(Json(answer))); }

McpQuestion name_form(std::string key, std::string message) {
    return mcp_form(
        std::move(key), std::move(message),
        object(R"({"type":"object","properties":{"name":{"type":"string"}},"required":["name"]})"));
}

Task<McpToolResult> ask_model(JsonObject arguments, ToolContext&, McpRequest& request) {
    McpQuestion question =
        mcp_sampling("question", std::string(arguments.at("prompt").as_string()), 100);
    const JsonObject answer = co_await request.ask(std::move(question));
    co_return show(answer);
}

Task<McpToolResult> ask_user(JsonObject arguments, ToolContext&, McpRequest& request) {
    McpQuestion question = mcp_form(
        "user", std::string(arguments.at("message").as_string()),
        object(
            R"({"type":"object","properties":{"username":{"type":"string","description":"User's response"},
                "email":{"type":"string","description":"User's email address"}},"required":["username","email"]})"));
    const JsonObject answer = co_await request.ask(std::move(question));
    co_return show(answer);
}

Task<McpToolResult> ask_with_defaults(JsonObject, ToolContext&, McpRequest& request) {
    McpQuestion question = mcp_form("user", "Please review these values.", object(R"({
        "type": "object",
        "properties": {
            "name": {"type": "string", "default": "John Doe"},
            "age": {"type": "integer", "default": 30},
            "score": {"type": "number", "default": 95.5},
            "status": {"type": "string", "enum": ["active", "inactive", "pending"], "default": "active"},
            "verified": {"type": "boolean", "default": true}},
        "required": []})"));
    const JsonObject answer = co_await request.ask(std::move(question));
    co_return show(answer);
}

Task<McpToolResult> ask_with_enums(JsonObject, ToolContext&, McpRequest& request) {
    McpQuestion question = mcp_form("user", "Please choose.", object(R"({
        "type": "object",
        "properties": {
            "untitledSingle": {"type": "string", "enum": ["option1", "option2", "option3"]},
            "titledSingle": {"type": "string", "oneOf": [{"const": "value1", "title": "First Option"},
                {"const": "value2", "title": "Second Option"}, {"const": "value3", "title": "Third Option"}]},
            "legacyEnum": {"type": "string", "enum": ["opt1", "opt2", "opt3"],
                "enumNames": ["Option One", "Option Two", "Option Three"]},
            "untitledMulti": {"type": "array", "items": {"type": "string", "enum": ["option1", "option2", "option3"]}},
            "titledMulti": {"type": "array", "items": {"anyOf": [{"const": "value1", "title": "First Choice"},
                {"const": "value2", "title": "Second Choice"}, {"const": "value3", "title": "Third Choice"}]}}},
        "required": []})"));
    const JsonObject answer = co_await request.ask(std::move(question));
    co_return show(answer);
}

Task<McpToolResult> ask_name(JsonObject, ToolContext&, McpRequest& request) {
    McpQuestion question = name_form("user_name", "What is your name?");
    const JsonObject answer = co_await request.ask(std::move(question));
    co_return show(answer);
}

Task<McpToolResult> ask_capital(JsonObject, ToolContext&, McpRequest& request) {
    McpQuestion question = mcp_sampling("capital_question", "What is the capital of France?", 100);
    const JsonObject answer = co_await request.ask(std::move(question));
    co_return show(answer);
}

Task<McpToolResult> ask_roots(JsonObject, ToolContext&, McpRequest& request) {
    McpQuestion question = mcp_roots("client_roots");
    const JsonObject answer = co_await request.ask(std::move(question));
    co_return show(answer);
}

Task<McpToolResult> ask_confirmation(JsonObject, ToolContext&, McpRequest& request) {
    McpQuestion question = mcp_form(
        "confirm", "Please confirm",
        object(R"({"type":"object","properties":{"ok":{"type":"boolean"}},"required":["ok"]})"));
    (void)co_await request.ask(std::move(question));
    co_return McpToolResult("state-ok");
}

Task<McpToolResult> ask_several(JsonObject, ToolContext&, McpRequest& request) {
    std::vector<McpQuestion> questions;
    questions.push_back(name_form("user_name", "What is your name?"));
    questions.push_back(mcp_sampling("greeting", "Generate a greeting", 50));
    questions.push_back(mcp_roots("client_roots"));
    const std::vector<JsonObject> answers = co_await request.ask(std::move(questions));
    co_return show(answers.front());
}

Task<McpToolResult> ask_in_rounds(JsonObject, ToolContext&, McpRequest& request) {
    McpQuestion first = name_form("step1", "Step 1: What is your name?");
    const JsonObject name = co_await request.ask(std::move(first));
    McpQuestion second = mcp_form(
        "step2", "Step 2: What is your favorite color?",
        object(
            R"({"type":"object","properties":{"color":{"type":"string"}},"required":["color"]})"));
    const JsonObject color = co_await request.ask(std::move(second));
    co_return McpToolResult(json_text(Json(name)) + json_text(Json(color)));
}

Task<McpToolResult> ask_what_is_supported(JsonObject, ToolContext&, McpRequest& request) {
    std::vector<McpQuestion> questions;
    if (request.can_ask("sampling/createMessage"))
        questions.push_back(mcp_sampling("greeting", "Generate a greeting", 50));
    if (request.can_ask("elicitation/create"))
        questions.push_back(name_form("user_name", "What is your name?"));
    (void)co_await request.ask(std::move(questions));
    co_return McpToolResult("Done.");
}

/// The server, for tools that change what it offers.
std::weak_ptr<McpServer> served;

// Tools whose calls are tasks, and greet, whose are not.

Task<McpToolResult> greet_by_name(JsonObject arguments, ToolContext&, McpRequest&) {
    co_return McpToolResult("Hello, " + std::string(arguments.at("name").as_string()) + "!");
}

Task<McpToolResult> sleep_for_seconds(JsonObject arguments, ToolContext&, McpRequest&) {
    const std::chrono::seconds delay(arguments.at("seconds").to_number<int>());
    co_await Runtime::standard()->clock->sleep_for(delay);
    co_return McpToolResult("Done.");
}

Task<McpToolResult> fail_later(JsonObject, ToolContext&, McpRequest&) {
    co_await Runtime::standard()->clock->sleep_for(std::chrono::seconds(1));
    McpToolResult result("This job fails.");
    result.is_error = true;
    co_return result;
}

Task<McpToolResult> fail_at_once(JsonObject, ToolContext&, McpRequest&) {
    throw McpRequestError(mcp_error::internal, "This job cannot be done.");
    co_return McpToolResult();
}

McpQuestion confirmation(std::string key) {
    return mcp_form(std::move(key), "Are you sure?",
                    object(R"({"type":"object","properties":{"confirm":{"type":"boolean"}}})"));
}

Task<McpToolResult> confirm_once(JsonObject, ToolContext&, McpRequest& request) {
    McpQuestion question = confirmation("confirm");
    co_return show(co_await request.ask(std::move(question)));
}

Task<McpToolResult> greet_in_task(JsonObject, ToolContext&, McpRequest& request) {
    McpQuestion question = name_form("user_name", "What is your name?");
    const JsonObject answer = co_await request.ask(std::move(question));
    co_await request.continue_as_task();
    co_return show(answer);
}

Task<McpToolResult> confirm_twice(JsonObject, ToolContext&, McpRequest& request) {
    std::vector<McpQuestion> questions;
    questions.push_back(confirmation("first"));
    questions.push_back(confirmation("second"));
    const std::vector<JsonObject> answers = co_await request.ask(std::move(questions));
    co_return show(answers.back());
}

std::vector<McpServerTool> server_tools();
std::vector<McpServerPrompt> prompts();

Task<McpToolResult> change_tools(JsonObject, ToolContext&, McpRequest&) {
    if (const auto server = served.lock()) server->set_tools(tools(), server_tools());
    co_return McpToolResult("Done.");
}

Task<McpToolResult> change_prompts(JsonObject, ToolContext&, McpRequest&) {
    if (const auto server = served.lock()) server->set_prompts(prompts());
    co_return McpToolResult("Done.");
}

std::vector<McpServerTool> server_tools() {
    std::vector<McpServerTool> list;
    const auto add = [&list](std::string name, McpServerTool::Run run,
                             const std::string& schema = no_arguments) {
        list.emplace_back(name, "The tool " + name + " of the suite.", parse_json(schema),
                          std::move(run));
    };
    add("test_audio_content", return_audio);
    add("test_embedded_resource", return_resource);
    add("test_multiple_content_types", return_mixed);
    add("test_tool_with_logging", write_log);
    add("test_logging_tool", write_log);
    add("test_sampling", ask_model,
        R"({"type":"object","properties":{"prompt":{"type":"string"}},"required":["prompt"]})");
    add("test_elicitation", ask_user,
        R"({"type":"object","properties":{"message":{"type":"string"}},"required":["message"]})");
    add("test_elicitation_sep1034_defaults", ask_with_defaults);
    add("test_elicitation_sep1330_enums", ask_with_enums);
    add("test_custom_header", write_log,
        R"({"type":"object","properties":{"region":{"type":"string","x-mcp-header":"Region"}}})");
    add("test_missing_capability", ask_capital);
    add("test_streaming_elicitation", ask_name);
    add("test_trigger_tool_change", change_tools);
    add("test_trigger_prompt_change", change_prompts);
    add("test_input_required_result_elicitation", ask_name);
    add("test_input_required_result_sampling", ask_capital);
    add("test_input_required_result_list_roots", ask_roots);
    add("test_input_required_result_request_state", ask_confirmation);
    add("test_input_required_result_multiple_inputs", ask_several);
    add("test_input_required_result_multi_round", ask_in_rounds);
    add("test_input_required_result_tampered_state", ask_confirmation);
    add("test_input_required_result_capabilities", ask_what_is_supported);
    add("greet", greet_by_name,
        R"({"type":"object","properties":{"name":{"type":"string"}},"required":["name"]})");
    add("slow_compute", sleep_for_seconds,
        R"({"type":"object","properties":{"seconds":{"type":"integer"}},"required":["seconds"]})");
    add("failing_job", fail_later);
    add("protocol_error_job", fail_at_once);
    add("test_tool_with_task", greet_in_task);
    add("confirm_delete", confirm_once);
    add("multi_input", confirm_twice);
    return list;
}

// Prompts.

using Arguments = std::map<std::string, std::string>;

McpPromptText prompt_of(std::vector<JsonObject> blocks) {
    McpPromptText text;
    for (JsonObject& block : blocks) {
        McpPromptMessage message;
        message.content = std::move(block);
        text.messages.push_back(std::move(message));
    }
    return text;
}

Task<McpPromptText> simple_prompt(Arguments, McpRequest&) {
    co_return prompt_of({mcp_content::text("This is a simple prompt for testing.")});
}

Task<McpPromptText> prompt_with_arguments(Arguments arguments, McpRequest&) {
    co_return prompt_of({mcp_content::text("Prompt with arguments: arg1='" + arguments["arg1"] +
                                           "', arg2='" + arguments["arg2"] + "'")});
}

Task<McpPromptText> prompt_with_resource(Arguments arguments, McpRequest&) {
    co_return prompt_of(
        {mcp_content::embedded(McpResourceContent::of_text(
             arguments["resourceUri"], "text/plain", "Embedded resource content for testing.")),
         mcp_content::text("Please process the embedded resource above.")});
}

Task<McpPromptText> prompt_with_image(Arguments, McpRequest&) {
    co_return prompt_of({mcp_content::image(red_pixel, "image/png"),
                         mcp_content::text("Please analyze the image above.")});
}

Task<McpPromptText> prompt_that_asks(Arguments, McpRequest& request) {
    McpQuestion question = mcp_form(
        "user_context", "What context should the prompt use?",
        object(
            R"({"type":"object","properties":{"context":{"type":"string"}},"required":["context"]})"));
    const JsonObject answer = co_await request.ask(std::move(question));
    co_return prompt_of({mcp_content::text(json_text(Json(answer)))});
}

Task<std::vector<std::string>> complete_argument(McpCompletion completion) {
    std::vector<std::string> values;
    values.push_back(completion.value + "1");
    values.push_back(completion.value + "2");
    co_return values;
}

std::vector<McpServerPrompt> prompts() {
    std::vector<McpServerPrompt> list;
    const auto add = [&list](std::string name, auto get, std::vector<std::string> arguments = {}) {
        McpServerPrompt prompt;
        prompt.prompt.name = name;
        prompt.prompt.description = "The prompt " + name + " of the suite.";
        for (std::string& argument : arguments)
            prompt.prompt.arguments.push_back({std::move(argument), "An argument.", true});
        prompt.get = get;
        prompt.complete = complete_argument;
        list.push_back(std::move(prompt));
    };
    add("test_simple_prompt", simple_prompt);
    add("test_prompt_with_arguments", prompt_with_arguments, {"arg1", "arg2"});
    add("test_prompt_with_embedded_resource", prompt_with_resource, {"resourceUri"});
    add("test_prompt_with_image", prompt_with_image);
    add("test_input_required_result_prompt", prompt_that_asks);
    return list;
}

// Resources.

Task<std::vector<McpResourceContent>> read_pixel(McpRequest&) {
    McpResourceContent content;
    content.uri = "test://static-binary";
    content.mime_type = "image/png";
    content.blob = red_pixel;
    std::vector<McpResourceContent> contents;
    contents.push_back(std::move(content));
    co_return contents;
}

Task<std::optional<std::vector<McpResourceContent>>> read_template(std::string uri,
                                                                   McpVariables variables,
                                                                   McpRequest&) {
    const std::string id = variables["id"];
    JsonObject data;
    data["id"] = id;
    data["templateTest"] = true;
    data["data"] = "Data for ID: " + id;
    std::vector<McpResourceContent> contents;
    contents.push_back(McpResourceContent::of_text(std::move(uri), "application/json",
                                                   json_text(Json(std::move(data)))));
    co_return contents;
}

std::vector<McpServerResource> resources() {
    std::vector<McpServerResource> list;
    list.push_back(McpServerResource::of_text(
        McpResource("test://static-text", "static-text", "A text.", "text/plain"),
        "This is the content of the static text resource."));
    McpServerResource pixel;
    pixel.resource = McpResource("test://static-binary", "static-binary", "An image.", "image/png");
    pixel.read = read_pixel;
    list.push_back(std::move(pixel));
    list.push_back(McpServerResource::of_text(
        McpResource("test://watched-resource", "watched-resource", "A text.", "text/plain"),
        "Watched."));
    return list;
}

std::vector<McpServerResourceTemplate> resource_templates() {
    McpServerResourceTemplate one;
    one.resource_template =
        McpResourceTemplate("test://template/{id}/data", "template", "Data.", "application/json");
    one.read = read_template;
    std::vector<McpServerResourceTemplate> list;
    list.push_back(std::move(one));
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
    options.server_tools = server_tools();
    options.prompts = prompts();
    options.resources = resources();
    options.resource_templates = resource_templates();
    options.announces_changes = true;
    options.tasks.tools = {"slow_compute", "failing_job", "protocol_error_job", "confirm_delete",
                           "multi_input"};
    options.tasks.later = {"test_tool_with_task"};
    options.tasks.required = {"failing_job", "test_tool_with_task"};
    const auto mcp_server = std::make_shared<McpServer>(options);
    served = mcp_server;
    HttpServerOptions http;
    http.port = static_cast<std::uint16_t>(port);
    HttpServer server(this_thread_context().get_executor(), http);
    HttpRoutes routes(server, "mcp");
    McpRouteOptions settings;
    settings.resume_time = std::chrono::minutes(1);
    add_mcp_routes(routes, mcp_server, settings);
    routes.serve();
    std::cout << "http://127.0.0.1:" << server.port() << "/mcp" << std::endl;
    run(wait_forever());
}
