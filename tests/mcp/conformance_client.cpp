// The client under test of the conformance suite (tools/check-mcp): conformance_client URL, with the name of a scenario in the
// environment. The only code of the client side that knows the suite.

#include <cstdlib>
#include <exception>
#include <iostream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <cubepi/core/http_transport.hpp>
#include <cubepi/core/run.hpp>
#include <cubepi/core/support/json_member.hpp>
#include <cubepi/mcp/client.hpp>
#include <cubepi/mcp/elicitation.hpp>
#include <cubepi/mcp/http_transport.hpp>
#include <cubepi/mcp/oauth_session.hpp>
#include <cubepi/net/http_client.hpp>
#include <cubepi/schema/parse_json.hpp>

namespace {

using namespace cubepi;

std::string variable(const char* name) {
    const char* value = std::getenv(name);
    return value ? value : "";
}

/// Accepts each form with its defaults; a boolean without a default is confirmed.
Task<JsonObject> accept_form(std::string method, JsonObject params) {
    if (method != "elicitation/create") throw Error(ErrorCode::unsupported, method);
    JsonObject answers;
    const JsonObject* schema = detail::object_member(params, "requestedSchema");
    const JsonObject* properties = schema ? detail::object_member(*schema, "properties") : nullptr;
    if (properties && properties->contains("confirmed")) answers["confirmed"] = true;
    JsonObject result;
    result["action"] = "accept";
    result["content"] = detail::elicitation_content(params, answers);
    co_return result;
}

/// The user of the suite: allows everything at once.
class SuiteLogin final : public McpLoginUi {
public:
    Task<std::string> redirect_uri(std::string preferred) override {
        co_return preferred.empty() ? "http://127.0.0.1:9/callback" : preferred;
    }
    Task<std::string> open(McpLoginPage page) override {
        HttpRequest request("GET", page.url);
        const HttpResponse response =
            co_await transport_of(*Runtime::standard())->send(std::move(request));
        co_return std::string(response.headers.get("location"));
    }
};

std::shared_ptr<McpAuthorizer> session_for(const std::string& url) {
    McpOAuthOptions options;
    options.server = "suite";
    options.url = url;
    options.client_metadata_url = "https://conformance-test.local/client-metadata.json";
    options.ui = std::make_shared<SuiteLogin>();
    const std::string text = variable("MCP_CONFORMANCE_CONTEXT");
    const Json context = parse_json(text.empty() ? "{}" : text);
    if (const JsonObject* given = context.if_object()) {
        options.client.id = detail::text_member(*given, "client_id");
        options.client.secret = detail::text_member(*given, "client_secret");
        options.client.private_key = detail::text_member(*given, "private_key_pem");
        options.issuer = detail::text_member(*given, "issuer");
    }
    options.is_service =
        variable("MCP_CONFORMANCE_SCENARIO").starts_with("auth/client-credentials");
    return std::make_shared<McpOAuthSession>(options, Runtime::standard());
}

Task<> call(McpClient* client, std::string name, JsonObject arguments) {
    McpCall made(std::move(name), std::move(arguments));
    made.on_input = accept_form;
    (void)co_await client->call(std::move(made));
}

/// An argument for each required property, so that any tool can be called.
JsonObject sample_arguments(const McpTool& tool) {
    JsonObject arguments;
    const JsonObject& schema = tool.input_schema->get_object();
    const JsonObject* properties = detail::object_member(schema, "properties");
    if (!properties) return arguments;
    for (const auto& entry : *properties) {
        const JsonObject* property = entry.value().if_object();
        const std::string_view type = property ? detail::string_member(*property, "type") : "";
        if (type == "string") arguments[entry.key()] = "text";
        if (type == "integer" || type == "number") arguments[entry.key()] = 1;
        if (type == "boolean") arguments[entry.key()] = true;
    }
    return arguments;
}

Task<> call_listed(McpClient* client) {
    const std::shared_ptr<const McpToolList> list = co_await client->tools();
    for (const McpTool& tool : list->tools) {
        JsonObject arguments = sample_arguments(tool);
        co_await call(client, tool.name, std::move(arguments));
    }
}

/// Makes the calls that the suite passes to the client.
Task<> call_given(McpClient* client) {
    (void)co_await client->tools();
    const Json context = parse_json(variable("MCP_CONFORMANCE_CONTEXT"));
    for (const Json& one : context.at("toolCalls").as_array()) {
        std::string name(one.at("name").as_string());
        JsonObject arguments = one.at("arguments").as_object();
        co_await call(client, std::move(name), std::move(arguments));
    }
}

Task<> read_everything(McpClient* client) {
    co_await call_listed(client);
    const JsonObject resources = co_await client->request("resources/list");
    for (const Json& one : resources.at("resources").as_array()) {
        JsonObject params;
        params["uri"] = one.at("uri");
        (void)co_await client->request("resources/read", std::move(params));
    }
    const JsonObject prompts = co_await client->request("prompts/list");
    for (const Json& one : prompts.at("prompts").as_array()) {
        JsonObject params;
        params["name"] = one.at("name");
        (void)co_await client->request("prompts/get", std::move(params));
    }
}

/// Sends a schema back as it was received.
Task<> echo_schema(McpClient* client) {
    const std::shared_ptr<const McpToolList> list = co_await client->tools();
    JsonObject arguments;
    arguments["schema"] = *list->tools.at(0).input_schema;
    co_await call(client, list->tools.at(1).name, std::move(arguments));
}

Task<> play(McpClient* client, std::string scenario) {
    if (scenario == "http-custom-headers") {
        co_await call_given(client);
    } else if (scenario == "http-standard-headers") {
        co_await read_everything(client);
    } else if (scenario == "json-schema-2020-12-preservation") {
        co_await echo_schema(client);
    } else {
        co_await call_listed(client);
    }
    co_await client->close();
}

}  // namespace

int main(int argc, char** argv) {
    if (argc != 2) {
        std::cerr << "usage: cubepi_mcp_conformance_client URL\n";
        return 2;
    }
    try {
        McpHttpOptions http;
        http.server = "suite";
        http.url = argv[1];
        http.authorizer = session_for(http.url);
        McpClientOptions options;
        options.server = "suite";
        const std::string version = variable("MCP_CONFORMANCE_PROTOCOL_VERSION");
        if (!version.empty()) options.version = version;
        const auto runtime = Runtime::standard();
        McpClient client(options, mcp_http_transport(http, runtime), runtime);
        run(play(&client, variable("MCP_CONFORMANCE_SCENARIO")));
    } catch (const std::exception& error) {
        std::cerr << error.what() << '\n';
        return 1;
    }
    return 0;
}
