#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <cubepi/core/json.hpp>
#include <cubepi/core/runtime.hpp>
#include <cubepi/core/task.hpp>
#include <cubepi/mcp/content.hpp>
#include <cubepi/mcp/protocol.hpp>
#include <cubepi/mcp/transport.hpp>

namespace cubepi {

/// A server as it describes itself.
struct McpServerInfo {
    McpImplementation implementation = {"", ""};
    std::string version = {};  ///< of the protocol: "2026-07-28"
    bool is_stateless = false;
    JsonObject capabilities = {};
    std::string instructions = {};  ///< the server's words; never a part of a system prompt
};

/// A parameter of a tool that its server also wants as the header `Mcp-Param-NAME` (the annotation `x-mcp-header`).
struct McpHeaderParameter {
    std::string header = {};             ///< without the prefix
    std::vector<std::string> path = {};  ///< the names of the nested properties
};

/// A tool of a server.
struct McpTool {
    std::string name = {};         ///< as the server spells it
    std::string title = {};        ///< for display; empty: none
    std::string description = {};  ///< the server's words
    std::shared_ptr<const Json> input_schema = {};
    std::shared_ptr<const Json> output_schema = {};  ///< null: none
    JsonObject annotations = {};                     ///< hints, which a server may get wrong
    /// SHA-256 of name, description, schemas and annotations: another digest means that an approval does not apply any more.
    std::string digest = {};
    std::vector<McpHeaderParameter> headers = {};
};

/// The tools of a server.
struct McpToolList {
    std::vector<McpTool> tools = {};  ///< in the order of the server
    /// A line for each tool, or group of tools, that was left out, with the reason.
    std::vector<std::string> problems = {};
};

/// The prompts of a server. Texts for display have no control characters and are cut.
struct McpPromptList {
    std::vector<McpPrompt> prompts = {};
    std::vector<std::string> problems = {};  ///< why others were left out
};

/// The resources of a server, and the templates of further ones.
struct McpResourceList {
    std::vector<McpResource> resources = {};
    std::vector<McpResourceTemplate> templates = {};
    std::vector<std::string> problems = {};
};

/// Answers a request of the server for input (`elicitation/create`, `sampling/createMessage`). Returns the result for the server;
/// throws what ends the call. McpInputRefused is the answer that the user refuses: without sessions it ends the call, else the server
/// receives it as an error.
using McpInputHandler = std::function<Task<JsonObject>(std::string method, JsonObject params)>;
/// The same for a request that belongs to one of several calls, and the server does not say to which one (D162). `tools` has the tools
/// of these calls.
using McpSharedInputHandler = std::function<Task<JsonObject>(std::string method, JsonObject params,
                                                             std::vector<std::string> tools)>;

/// The user has refused what a server asks for.
class McpInputRefused : public Error {
public:
    /// `for_server` is what the server receives.
    explicit McpInputRefused(const std::string& for_server)
        : Error(ErrorCode::hitl, for_server), for_server_(for_server) {}
    McpInputRefused(const std::string& for_server, const std::string& reason)
        : Error(ErrorCode::hitl, for_server + " " + reason), for_server_(for_server) {}
    const std::string& for_server() const noexcept { return for_server_; }

private:
    std::string for_server_;
};

/// Receives the progress of a call: `progress`, `total`, `message`. Called on the executor of the client; must not wait.
using McpProgressHandler = std::function<void(const JsonObject& progress)>;

/// The questions of a server during a call, and what is needed to continue the call with their answers.
struct McpRound {
    std::size_t number = 0;
    JsonObject requests =
        {};  ///< by key: `method` and `params`; empty: a task that does not ask now
    std::optional<Json> state = {};  ///< `requestState`, which is sent back
    JsonObject responses = {};       ///< those that are known already, by key
    std::string task = {};  ///< the id of the server's task that asks; empty: the call does
    std::string waiting_call =
        {};  ///< the call of this process whose connection waits (D130); empty: none
};

/// Stores how far a call is, so that another process can continue it (D176). Used on the executor of the client, during the call.
class McpCallProgress {
public:
    virtual ~McpCallProgress() = default;
    /// Called first. Returns the round with which the call continues; nothing: the tool is called.
    virtual Task<std::optional<McpRound>> begin() = 0;
    /// Called before the questions of a round are answered, also those of begin(), and when a task is followed.
    virtual Task<> ask(McpRound round) = 0;
    /// Called after an answer of a model, which cannot be repeated without cost.
    virtual Task<> answered(std::string key, JsonObject response) = 0;
    /// Called when all are answered, before the answers are sent, unless a task receives them.
    virtual Task<> send() = 0;
    /// A question was not asked, because it needs a connection that does not wait for it.
    virtual void refused() noexcept = 0;
    /// Returns true if the call is cancelled because another process, or a later run, continues it.
    virtual bool is_suspending() const noexcept = 0;
};

/// One call of a tool.
struct McpCall {
    std::string tool = {};  ///< as the server spells it
    JsonObject arguments = {};
    McpProgressHandler on_progress = {};
    /// Answers the server's requests for input. Empty: the server is told that there is no user.
    McpInputHandler on_input = {};
    /// Answers those that may belong to other calls of the same `asker` as well: the user who is asked. Requests that may belong to
    /// calls of several users, or of one without this handler, are refused.
    McpSharedInputHandler on_shared_input = {};
    std::shared_ptr<const void> asker = {};
    /// Null: the call ends with this process. Otherwise questions of a server with sessions are refused, because they need the
    /// connection, unless McpClientOptions::suspended_call_time lets it wait.
    std::shared_ptr<McpCallProgress> progress = {};
    /// The span of the caller, for the server's traces: a `traceparent` of W3C Trace Context; empty: none.
    std::string traceparent = {};
    /// Zero: no limit.
    std::chrono::nanoseconds timeout = std::chrono::nanoseconds::zero();

    McpCall() {}
    McpCall(std::string name, JsonObject its_arguments)
        : tool(std::move(name)), arguments(std::move(its_arguments)) {}
};

/// An object whose arguments are completed.
struct McpCompletionTarget {
    std::string prompt = {};        ///< the name of a prompt
    std::string uri_template = {};  ///< or a template, if `prompt` is empty
};

/// A directory or a file that a server may work in. It is information for the server, not a permission.
struct McpRoot {
    std::string uri = {};   ///< "file:///srv/project"
    std::string name = {};  ///< for display; empty: none
};

/// Returns the root of an absolute path, named by its last part.
McpRoot mcp_root(const std::filesystem::path& path);

struct McpSamplingOptions;  // sampling.hpp

struct McpClientOptions {
    /// The name of the server in names of tools, errors and the log.
    std::string server = {};
    McpImplementation implementation = {};
    /// The only version to speak. Absent: the newest one that both sides have.
    std::optional<std::string> version = {};
    /// For the start of the server, and the agreement about a version.
    std::chrono::nanoseconds connect_timeout = std::chrono::seconds(30);
    /// The time after which a server that has not answered `server/discover` is assumed to be of the era with sessions.
    std::chrono::nanoseconds probe_timeout = std::chrono::seconds(5);
    /// For requests other than calls of tools, and for all pages of a list together.
    std::chrono::nanoseconds request_timeout = std::chrono::seconds(60);
    /// How long a call of a server with sessions may wait while its run is suspended at a question of the server, so that a later run in
    /// this process continues it (D130). Zero: such questions are refused; for a process that ends with its run.
    std::chrono::nanoseconds suspended_call_time = std::chrono::nanoseconds::zero();
    /// The limits within which the server may have a model answer (`sampling/createMessage`), by calls with a user (mcp_tools()). Null:
    /// it may not, and is told so.
    std::shared_ptr<const McpSamplingOptions> sampling = {};
    /// Returns the roots when the server asks for them (`roots/list`). Empty: the server is told that there are none. Called on the
    /// executor of the client.
    std::function<std::vector<McpRoot>()> roots = {};
    /// Called when a resource of McpClient::subscribe() has changed, or may have while there was no connection. Called on the executor
    /// of the client; must not wait.
    std::function<void(const std::string& uri)> on_resource_updated = {};
    McpLimits limits = {};
};

/// A client of one server (D135). It connects at the first request, and again when the connection was lost; a request in progress
/// is never repeated. Used on one serial executor.
///
/// Errors of the server are McpError; a lost connection is Error(disconnected), and a server that fails again and again is
/// Error(unavailable) without a delay.
class McpClient {
public:
    McpClient(McpClientOptions options, std::unique_ptr<McpTransport> transport,
              std::shared_ptr<const Runtime> runtime = Runtime::standard());
    /// Ends the connection immediately; await close() before to end it in order.
    ~McpClient();
    McpClient(const McpClient&) = delete;
    McpClient& operator=(const McpClient&) = delete;

    const std::string& server() const noexcept;
    const McpLimits& limits() const noexcept;
    const std::shared_ptr<const McpSamplingOptions>& sampling() const noexcept;
    /// Returns true if the version that is spoken lets a server pass tools to a model.
    bool has_sampling_tools() const noexcept;

    /// Connects, if necessary, and returns what the server reports.
    Task<McpServerInfo> connect();
    /// Returns the tools: those of the last answer while it is fresh (`ttlMs`, `list_changed`), else new ones.
    Task<std::shared_ptr<const McpToolList>> tools();
    /// Returns a number that changes when the server reports that its tools have changed.
    std::uint64_t tools_revision() const noexcept;
    /// Calls a tool and returns the result: `content`, `structuredContent`, `isError`. Requests of the server for input are
    /// answered by the call's handler, and the call is continued with the answers.
    Task<JsonObject> call(McpCall call);
    /// Return the prompts and the resources, stored like the tools; empty lists if the server has none.
    Task<std::shared_ptr<const McpPromptList>> prompts();
    Task<std::shared_ptr<const McpResourceList>> resources();
    /// Fills in a prompt. `on_input` as for calls. The text is the server's: show who has written it.
    Task<McpPromptText> prompt(std::string name, std::map<std::string, std::string> arguments,
                               McpInputHandler on_input = {});
    /// Reads a resource. Throws McpError if there is none.
    Task<std::vector<McpResourceContent>> read_resource(std::string uri,
                                                        McpInputHandler on_input = {});
    /// Lets the server report changes of a resource (McpClientOptions::on_resource_updated) until unsubscribe(), on later connections,
    /// too. Throws Error(limit) for too many, and McpError if the server refuses.
    Task<> subscribe(std::string uri);
    Task<> unsubscribe(std::string uri);
    /// Returns values for an argument of a prompt, or of a template of resources, that fit what was typed. Empty if the server has
    /// no completions.
    Task<std::vector<std::string>> complete(McpCompletionTarget target, std::string argument,
                                            std::string value);
    /// Tells a server of a session that the roots have changed. Without a session it asks for them when it needs them.
    Task<> roots_changed();
    /// Sends any other request and returns its result.
    Task<JsonObject> request(std::string method, JsonObject params = {});
    /// Ends the connection in order. The next request connects again.
    Task<> close();

private:
    struct State;
    std::shared_ptr<State> state_;
};

}  // namespace cubepi
