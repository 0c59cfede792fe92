#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <cubepi/agent/tool.hpp>
#include <cubepi/core/json.hpp>
#include <cubepi/core/task.hpp>
#include <cubepi/mcp/content.hpp>
#include <cubepi/mcp/protocol.hpp>

// The offer of a server besides the tools of an agent: tools that talk to their client, resources and prompts.

namespace cubepi {

/// A question of a server to its client.
struct McpQuestion {
    std::string key = {};     ///< unique within a request
    std::string method = {};  ///< "elicitation/create", "sampling/createMessage", "roots/list"
    JsonObject params = {};
};

/// A form for the user. `schema` is a JSON Schema of an object whose properties are texts, numbers, booleans and choices. The answer has
/// `action` ("accept", "decline", "cancel") and, if accepted, `content`, which satisfies the schema.
McpQuestion mcp_form(std::string key, std::string message, JsonObject schema);
/// A request to the model of the client. The answer has `role`, `content` and `model`.
McpQuestion mcp_sampling(std::string key, std::string prompt, std::int64_t max_tokens);
/// The directories that the user has opened. The answer has `roots`.
McpQuestion mcp_roots(std::string key);

/// The severity of a message for the log of a client.
enum class McpLogLevel : std::uint8_t {
    debug,
    info,
    notice,
    warning,
    error,
    critical,
    alert,
    emergency
};
std::string_view to_string(McpLogLevel level) noexcept;
/// Returns the level of that name; nothing for another text.
std::optional<McpLogLevel> mcp_log_level(std::string_view name) noexcept;

/// A request in progress, for the functions that answer it. Valid until the function has ended; used on the executor of the server.
class McpRequest {
public:
    virtual ~McpRequest() = default;

    /// The capabilities that the client has declared.
    virtual const JsonObject& client_capabilities() const noexcept = 0;
    /// Identifies the client, see McpServerCall::client; over HTTP as McpRouteOptions::client does.
    virtual const std::string& client() const noexcept = 0;
    /// Returns true if the client answers questions of this method.
    virtual bool can_ask(std::string_view method) const = 0;

    /// Asks the client, and returns the answers in the order of the questions.
    ///
    /// A client of a session answers while the function waits. A client without one receives the questions as the result of its
    /// request, and sends the request again with the answers: this function then throws, and **the function that has called it
    /// begins again**, up to the next question without an answer (D147). What precedes a question must therefore be repeatable.
    ///
    /// If the client has not declared that it answers such questions, its request is refused (in a session: Error(unsupported)).
    /// Throws Error(protocol) for an invalid answer, McpError if the client refuses, and Error(disconnected) if it is gone.
    virtual Task<std::vector<JsonObject>> ask(std::vector<McpQuestion> questions) = 0;
    /// Asks one question.
    Task<JsonObject> ask(McpQuestion question);

    /// Continues the call as a task, if its client follows tasks and McpTaskOptions::later has its tool: **the function begins again** in the
    /// task, where the answers that it has received are known. Otherwise, and in a task, does nothing.
    virtual Task<> continue_as_task();

    /// Sends a message for the log of the client, if it wants messages of this level.
    virtual Task<> log(McpLogLevel level, Json data, std::string logger = {}) = 0;

    McpRequest(const McpRequest&) = delete;
    McpRequest& operator=(const McpRequest&) = delete;

protected:
    McpRequest() = default;
};

/// The result of a tool that is written for the protocol.
struct McpToolResult {
    std::vector<JsonObject> content = {};  ///< blocks, see mcp_content
    std::optional<JsonObject> structured = {};
    bool is_error = false;

    McpToolResult() = default;
    McpToolResult(std::string_view text) { content.push_back(mcp_content::text(text)); }
};

/// Thrown by a function of a server to answer the request with an error of the protocol in place of a result (D177).
class McpRequestError : public McpError {
public:
    using McpError::McpError;
};

/// A tool that asks its client, writes to its log, or returns more than text and images. Hooks and limits are those of other tools.
struct McpServerTool {
    /// Throws what ends the call with an error result; an McpRequestError is the answer to the request. `arguments` satisfy the schema.
    using Run = std::function<Task<McpToolResult>(JsonObject arguments, ToolContext& context,
                                                  McpRequest& request)>;

    McpServerTool() = default;
    /// `parameters` is a JSON Schema of an object.
    McpServerTool(std::string name, std::string description, Json parameters, Run callback)
        : definition(std::move(name), std::move(description), JsonSchema(std::move(parameters)),
                     {}),
          run(std::move(callback)) {}

    AgentTool definition = {};               ///< without its callback
    std::optional<Json> output_schema = {};  ///< of McpToolResult::structured
    Run run = {};
};

/// Part of an argument whose completion a client wants.
struct McpCompletion {
    std::string argument = {};
    std::string value = {};                         ///< typed by the user so far
    std::map<std::string, std::string> known = {};  ///< other arguments
};
/// Returns values that begin with, or fit, what was typed; best ones first. The first 100 are sent.
using McpCompleter = std::function<Task<std::vector<std::string>>(McpCompletion completion)>;

/// A resource of a server.
struct McpServerResource {
    McpResource resource = {};
    std::function<Task<std::vector<McpResourceContent>>(McpRequest& request)> read = {};

    /// Returns a resource with a text that does not change.
    static McpServerResource of_text(McpResource resource, std::string text);
};

/// The variables of a URI, decoded.
using McpVariables = std::map<std::string, std::string>;

/// Resources of a server under one template.
struct McpServerResourceTemplate {
    McpResourceTemplate resource_template = {};
    /// Returns nothing if there is no such resource. The variables come from the client: "..", "/" and control characters occur.
    std::function<Task<std::optional<std::vector<McpResourceContent>>>(
        std::string uri, McpVariables variables, McpRequest& request)>
        read = {};
    McpCompleter complete = {};
};

/// A prompt of a server.
struct McpServerPrompt {
    McpPrompt prompt = {};
    /// `arguments` has all required ones.
    std::function<Task<McpPromptText>(std::map<std::string, std::string> arguments,
                                      McpRequest& request)>
        get = {};
    McpCompleter complete = {};
};

}  // namespace cubepi
