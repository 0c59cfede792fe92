#include <cubepi/mcp/server.hpp>

#include <cstdint>
#include <exception>
#include <map>
#include <optional>
#include <stop_token>
#include <utility>

#include <cubepi/agent/loop.hpp>
#include <cubepi/core/cancellation.hpp>
#include <cubepi/core/outcome.hpp>
#include <cubepi/core/support/json_member.hpp>
#include <cubepi/core/task_scope.hpp>
#include <cubepi/core/timeout.hpp>
#include <cubepi/mcp/server/catalog.hpp>
#include <cubepi/mcp/server/connection.hpp>
#include <cubepi/mcp/server/server_request.hpp>
#include <cubepi/mcp/server/session.hpp>
#include <cubepi/mcp/server/tasks.hpp>
#include <cubepi/schema/json_text.hpp>

namespace cubepi {

namespace {

using detail::McpCatalog;
using detail::object_member;
using detail::Refusal;
using detail::ServerRequest;
using detail::shown_mcp_text;
using detail::string_member;

/// Returns true if the request states its version itself; throws Refusal if it does so incorrectly.
bool is_stateless_request(const JsonObject& params) {
    const JsonObject* meta = object_member(params, "_meta");
    const Json* version = meta ? meta->if_contains(mcp_meta::version) : nullptr;
    const Json* capabilities = meta ? meta->if_contains(mcp_meta::client_capabilities) : nullptr;
    if (!version && !capabilities) return false;
    if (!version || !version->is_string()) {
        throw Refusal(mcp_error::invalid_params,
                      "`_meta` needs " + std::string(mcp_meta::version) + ", a text.");
    }
    if (!is_stateless_mcp_version(version->get_string())) {
        JsonObject data;
        data["supported"] = JsonArray{mcp_stateless_version};
        data["requested"] = *version;
        throw Refusal(mcp_error::unsupported_version, "This protocol version is not supported.",
                      std::move(data));
    }
    if (!capabilities || !capabilities->is_object()) {
        throw Refusal(
            mcp_error::invalid_params,
            "`_meta` needs " + std::string(mcp_meta::client_capabilities) + ", an object.");
    }
    const Json* client = meta->if_contains(mcp_meta::client_info);
    const JsonObject* described = client ? client->if_object() : nullptr;
    const bool is_described = described && !string_member(*described, "name").empty();
    if (client && !is_described) {
        throw Refusal(
            mcp_error::invalid_params,
            std::string(mcp_meta::client_info) + " must be an object with a name and a version.");
    }
    return true;
}

/// Converts the progress that a tool reports, which may have any form, to the parameters of a notification.
JsonObject progress_of(const Json& token, const Json& reported, std::int64_t count) {
    JsonObject params;
    params["progressToken"] = token;
    params["progress"] = count;
    const JsonObject* members = reported.if_object();
    if (members) {
        if (const Json* progress = members->if_contains("progress");
            progress && progress->is_number())
            params["progress"] = *progress;
        if (const Json* total = members->if_contains("total"); total && total->is_number())
            params["total"] = *total;
        const std::string_view message = string_member(*members, "message");
        if (!message.empty()) params["message"] = message;
    } else if (reported.is_string()) {
        params["message"] = reported;
    }
    return params;
}

/// Passes the progress of a call on to its client.
class ProgressReporter {
public:
    ProgressReporter(Json token, std::function<Task<>(RpcMessage)> notify)
        : token_(std::move(token)), notify_(std::move(notify)) {}

    Task<> operator()(const AgentEvent& event) {
        const auto* update = std::get_if<ToolExecutionUpdateEvent>(&event.body);
        if (!update || !notify_ || token_.is_null()) co_return;
        JsonObject params = progress_of(token_, update->partial_result, ++count_);
        co_await notify_(rpc_notification("notifications/progress", std::move(params)));
    }

private:
    Json token_;
    std::function<Task<>(RpcMessage)> notify_;
    std::int64_t count_ = 0;
};

/// The methods whose functions may ask the client.
bool may_ask(std::string_view method) {
    return method == "tools/call" || method == "prompts/get" || method == "resources/read";
}

/// The last report of a task's call is its status message.
void note_progress(detail::McpTask& task, const AgentEvent& event) {
    const auto* update = std::get_if<ToolExecutionUpdateEvent>(&event.body);
    if (!update) return;
    const JsonObject report = progress_of(Json(), update->partial_result, 0);
    const std::string_view message = string_member(report, "message");
    if (!message.empty()) task.set_message(std::string(message));
}

bool is_list(std::string_view method) {
    return method == "tools/list" || method == "prompts/list" || method == "resources/list" ||
           method == "resources/templates/list";
}

std::map<std::string, std::string> text_members(const JsonObject& object, const char* what) {
    std::map<std::string, std::string> texts;
    for (const auto& member : object) {
        if (!member.value().is_string()) {
            throw Refusal(mcp_error::invalid_params,
                          "The values of " + std::string(what) + " must be texts.");
        }
        texts.emplace(member.key(), member.value().get_string());
    }
    return texts;
}

JsonObject object_param(const JsonObject& params, const char* name) {
    const Json* sent = params.if_contains(name);
    if (!sent) return JsonObject();
    if (!sent->is_object())
        throw Refusal(mcp_error::invalid_params, "`" + std::string(name) + "` must be an object.");
    return sent->get_object();
}

/// Returns true for errors of functions about the arguments of a client.
bool is_fault_of_client(ErrorCode code) {
    return code == ErrorCode::invalid_argument || code == ErrorCode::validation ||
           code == ErrorCode::not_found || code == ErrorCode::permission_denied;
}

constexpr std::size_t max_completions = 100;
constexpr std::size_t max_traceparent = 200;

}  // namespace

struct McpServer::State {
    explicit State(McpServerOptions settings)
        : options(std::move(settings)),
          states(options.state_key, options.state_lifetime, options.max_state_bytes,
                 options.runtime),
          tasks(options.tasks, options.runtime) {
        auto made = std::make_shared<McpCatalog>();
        made->set_tools(options.tools, options.server_tools);
        made->set_prompts(options.prompts);
        made->set_resources(options.resources, options.resource_templates);
        catalog = std::move(made);
    }

    // Descriptions of the server.
    JsonObject capabilities() const;  ///< those of both eras
    JsonObject discover() const;
    JsonObject initialize(const McpServerCall& call);

    // Requests.
    Task<JsonObject> result(McpServerCall call, bool is_stateless);
    JsonObject session_result(const McpServerCall& call);
    JsonObject list(std::string_view method, const JsonObject& params) const;
    Task<JsonObject> result_of_function(McpServerCall call, bool is_stateless,
                                        std::optional<JsonObject>* answers = nullptr);
    Task<JsonObject> run_function(McpServerCall call, ServerRequest& request);
    Task<JsonObject> call_tool(McpServerCall call, McpRequest& request,
                               std::shared_ptr<detail::McpTask> task = {});
    Task<JsonObject> get_prompt(McpServerCall call, ServerRequest& request);
    Task<JsonObject> read_resource(McpServerCall call, ServerRequest& request);
    Task<JsonObject> complete(McpServerCall call);
    Task<JsonObject> listen(McpServerCall call);
    void add_meta(std::string_view method, JsonObject& result) const;

    const McpServerOptions options;
    // Tasks. The static functions share the state with the server: tasks can be longer than requests.
    static Task<JsonObject> call_or_start_task(std::shared_ptr<State> state, McpServerCall call);
    /// `answers`: those of the client before the call became a task.
    static JsonObject start_task(std::shared_ptr<State> state, McpServerCall call,
                                 const Executor& executor, JsonObject answers);
    static Task<> run_task(std::shared_ptr<State> state, McpServerCall call,
                           std::shared_ptr<detail::McpTask> task, JsonObject answers);
    bool becomes_task(const McpServerCall& call) const;
    JsonObject task_result(const McpServerCall& call);
    /// Returns the error response for what answering a request has thrown. Rethrows a cancellation.
    RpcMessage failure_of(const std::exception_ptr& failure, const RpcMessage& request) const;

    const detail::McpRequestStates states;
    detail::McpTasks tasks;
    std::optional<BackgroundScope> background;  ///< of the first executor
    bool spawn(const Executor& executor, Task<> task) {
        if (is_closed) return false;
        // Their failures are results of tasks and responses.
        if (!background) background.emplace(executor, [](const std::exception_ptr&) {});
        background->spawn(std::move(task));
        return true;
    }
    bool is_closed = false;
    std::shared_ptr<const McpCatalog> catalog;
    detail::McpSubscribers subscribers;
    std::size_t open_streams = 0;  ///< of subscriptions/listen
};

JsonObject McpServer::State::capabilities() const {
    JsonObject changes;
    if (options.announces_changes) changes["listChanged"] = true;
    JsonObject object;
    object["tools"] = changes;
    if (catalog->has_prompts()) object["prompts"] = changes;
    if (catalog->has_resources()) {
        if (options.announces_changes) changes["subscribe"] = true;
        object["resources"] = std::move(changes);
    }
    if (catalog->has_completions()) object["completions"] = JsonObject();
    if (catalog->has_server_tools()) object["logging"] = JsonObject();
    return object;
}

JsonObject McpServer::State::discover() const {
    JsonObject result;
    result["supportedVersions"] = JsonArray{mcp_stateless_version};
    JsonObject offered = capabilities();
    if (tasks.is_offered()) {
        JsonObject extensions;
        extensions[mcp_tasks_extension] = JsonObject();
        offered["extensions"] = std::move(extensions);
    }
    result["capabilities"] = std::move(offered);
    if (!options.instructions.empty()) result["instructions"] = options.instructions;
    return result;
}

JsonObject McpServer::State::initialize(const McpServerCall& call) {
    const JsonObject& params = call.request.params;
    const std::string wanted = detail::text_member(params, "protocolVersion");
    if (wanted.empty())
        throw Refusal(mcp_error::invalid_params, "`initialize` needs `protocolVersion`, a text.");
    const std::string version =
        is_session_mcp_version(wanted) ? wanted : std::string(mcp_session_version);
    if (detail::McpSession* session = call.session.get()) {
        session->version = version;
        if (const JsonObject* declared = object_member(params, "capabilities"))
            session->capabilities = *declared;
        if (options.announces_changes && !session->subscriber) {
            detail::McpFilter filter;
            filter.tools = true;
            filter.prompts = true;
            filter.resources = true;
            session->subscriber = subscribers.add(std::move(filter));
        }
    }
    JsonObject result;
    result["protocolVersion"] = version;
    result["capabilities"] = capabilities();
    result["serverInfo"] = to_json(options.implementation);
    if (!options.instructions.empty()) result["instructions"] = options.instructions;
    return result;
}

Task<JsonObject> McpServer::State::result(McpServerCall call, bool is_stateless) {
    const std::string method = call.request.method;
    if (is_stateless) {
        if (method == "server/discover") co_return discover();
        if (method == "subscriptions/listen" && options.announces_changes)
            co_return co_await listen(std::move(call));
        if (detail::is_mcp_task_method(method) && tasks.is_offered()) co_return task_result(call);
    } else {
        if (method == "initialize") co_return initialize(call);
        if (method == "ping") co_return JsonObject();
    }
    const bool is_for_prompts = method.starts_with("prompts/");
    const bool is_for_resources = method.starts_with("resources/");
    const bool is_offered = (!is_for_prompts || catalog->has_prompts()) &&
                            (!is_for_resources || catalog->has_resources());
    const bool completes = method == "completion/complete" && catalog->has_completions();
    const bool is_session_method =
        !is_stateless && (method == "logging/setLevel" ||
                          (options.announces_changes &&
                           (method == "resources/subscribe" || method == "resources/unsubscribe")));
    const bool is_known =
        is_offered && (is_list(method) || may_ask(method) || completes || is_session_method);
    if (!is_known) {
        throw Refusal(mcp_error::method_not_found,
                      "The method " + shown_mcp_text(method, 64) + " is not supported.");
    }
    if (!is_stateless && call.session_version.empty()) {
        throw Refusal(mcp_error::invalid_request,
                      "The first request must be `initialize`, or each request must state its "
                      "version in `_meta`.");
    }
    if (is_session_method) co_return session_result(call);
    if (is_list(method)) co_return list(method, call.request.params);
    if (completes) co_return co_await complete(std::move(call));
    co_return co_await result_of_function(std::move(call), is_stateless);
}

/// Answers the requests about a session.
JsonObject McpServer::State::session_result(const McpServerCall& call) {
    const JsonObject& params = call.request.params;
    detail::McpSession* session = call.session.get();
    if (!session) throw Refusal(mcp_error::invalid_request, "This request needs a session.");
    if (call.request.method == "logging/setLevel") {
        const std::optional<McpLogLevel> level = mcp_log_level(string_member(params, "level"));
        if (!level) throw Refusal(mcp_error::invalid_params, "This log level is unknown.");
        session->log_level = *level;
        return JsonObject();
    }
    const std::string uri = detail::text_member(params, "uri");
    if (!session->subscriber || uri.empty())
        throw Refusal(mcp_error::invalid_params, "`uri` must be a text.");
    if (call.request.method == "resources/subscribe") {
        session->subscriber->filter.add_uri(uri);
    } else {
        session->subscriber->filter.uris.erase(uri);
    }
    return JsonObject();
}

JsonObject McpServer::State::list(std::string_view method, const JsonObject& params) const {
    if (params.contains("cursor"))
        throw Refusal(mcp_error::invalid_params, "This cursor is unknown; the list has one page.");
    if (method == "tools/list") return catalog->tool_list();
    if (method == "prompts/list") return catalog->prompt_list();
    return method == "resources/list" ? catalog->resource_list() : catalog->template_list();
}

/// Runs the function of a tool, a prompt or a resource, which may ask the client.
/// `answers`: not null if the function may continue as a task. Set if it does, in place of a result.
Task<JsonObject> McpServer::State::result_of_function(McpServerCall call, bool is_stateless,
                                                      std::optional<JsonObject>* answers) {
    const JsonObject params = call.request.params;
    const std::string method = call.request.method;
    const bool is_read = method == "resources/read";
    const std::string target = detail::text_member(params, is_read ? "uri" : "name");
    std::optional<ServerRequest> request;
    if (is_stateless) {
        request.emplace(
            params, detail::mcp_request_digest(method, target, object_param(params, "arguments")),
            states, options.max_rounds, call.notify);
    } else {
        request.emplace(call.session, call.notify);
    }
    request->set_client(call.client);
    if (answers) request->allow_task();
    Task<JsonObject> running = run_function(std::move(call), *request);
    Outcome<JsonObject> outcome = co_await outcome_of(std::move(running));
    request->end();
    if (!outcome.cancelled()) {
        request->throw_refusal();
        if (request->needs_input()) co_return request->input_required();
        if (request->becomes_task()) {
            *answers = request->answers();
            co_return JsonObject();
        }
    }
    co_return std::move(outcome).value();
}

Task<JsonObject> McpServer::State::run_function(McpServerCall call, ServerRequest& request) {
    if (call.request.method == "resources/read") return read_resource(std::move(call), request);
    if (call.request.method == "prompts/get") return get_prompt(std::move(call), request);
    return call_tool(std::move(call), request);
}

Task<JsonObject> McpServer::State::call_tool(McpServerCall call, McpRequest& request,
                                             std::shared_ptr<detail::McpTask> task) {
    const std::shared_ptr<const McpCatalog> offered = catalog;
    const JsonObject& params = call.request.params;
    const std::string name = detail::text_member(params, "name");
    const AgentTool* tool = offered->tool(name);
    if (!tool)
        throw Refusal(mcp_error::invalid_params, "Unknown tool: " + shown_mcp_text(name, 64));
    JsonObject arguments = object_param(params, "arguments");
    detail::ServerToolRun server_run;
    AgentContext context;
    if (const McpServerTool* own = offered->server_tool(name)) {
        context.tools.push_back(server_run.bind(*own, request));
    } else {
        context.tools.push_back(*tool);
    }
    AssistantMessage calling;
    ToolCall requested;
    requested.id = SharedString(options.runtime->ids->next());
    requested.name = tool->name;
    requested.arguments = std::move(arguments);
    calling.content.emplace_back(std::move(requested));
    calling.stop_reason = stop_reason::shared(stop_reason::tool_use);
    LoopOptions loop;
    loop.hooks = options.call_hooks ? options.call_hooks(request) : options.hooks;
    loop.limits = options.limits;
    loop.runtime = options.runtime;
    loop.stop_token = call.stop;
    Json token;
    if (const JsonObject* meta = object_member(params, "_meta")) {
        if (const Json* sent = meta->if_contains(mcp_meta::progress_token)) token = *sent;
        TraceContext trace;
        trace.traceparent = detail::text_member(*meta, mcp_meta::traceparent);
        if (!trace.traceparent.empty() && trace.traceparent.size() <= max_traceparent)
            loop.origin.trace = std::make_shared<const TraceContext>(std::move(trace));
    }
    const auto reporter = std::make_shared<ProgressReporter>(std::move(token), call.notify);
    AgentListener emit = [reporter, task](const AgentEvent& event) {
        if (task) note_progress(*task, event);
        return (*reporter)(event);
    };
    const ToolCallBatch batch =
        co_await execute_tool_calls(context, std::move(calling), std::move(loop), std::move(emit));
    const ToolResultMessage* message =
        batch.messages.empty() ? nullptr : batch.messages[0].tool_result();
    if (!message) throw Refusal(mcp_error::internal, "The tool has no result.");
    co_return server_run.result(*message);
}

Task<JsonObject> McpServer::State::get_prompt(McpServerCall call, ServerRequest& request) {
    const std::shared_ptr<const McpCatalog> offered = catalog;
    const std::string name = detail::text_member(call.request.params, "name");
    const McpServerPrompt* prompt = offered->prompt(name);
    if (!prompt)
        throw Refusal(mcp_error::invalid_params, "Unknown prompt: " + shown_mcp_text(name, 64));
    auto arguments = text_members(object_param(call.request.params, "arguments"), "`arguments`");
    for (const McpPromptArgument& argument : prompt->prompt.arguments) {
        if (argument.is_required && !arguments.contains(argument.name))
            throw Refusal(mcp_error::invalid_params,
                          "The argument " + argument.name + " is missing.");
    }
    const McpPromptText text = co_await prompt->get(std::move(arguments), request);
    co_return to_json(text);
}

Task<JsonObject> McpServer::State::read_resource(McpServerCall call, ServerRequest& request) {
    const std::shared_ptr<const McpCatalog> offered = catalog;
    const std::string uri = detail::text_member(call.request.params, "uri");
    std::optional<std::vector<McpResourceContent>> contents;
    if (const McpServerResource* resource = offered->resource(uri)) {
        contents = co_await resource->read(request);
    } else if (std::optional<McpCatalog::Match> match = offered->match(uri)) {
        contents = co_await match->found->read(uri, std::move(match->variables), request);
    }
    if (!contents) {
        JsonObject data;
        data["uri"] = uri;
        throw Refusal(
            request.is_stateless() ? mcp_error::invalid_params : mcp_error::resource_not_found,
            "There is no such resource.", std::move(data));
    }
    JsonArray list;
    for (const McpResourceContent& content : *contents) list.emplace_back(to_json(content));
    JsonObject result;
    result["contents"] = std::move(list);
    co_return result;
}

Task<JsonObject> McpServer::State::complete(McpServerCall call) {
    const std::shared_ptr<const McpCatalog> offered = catalog;
    const JsonObject& params = call.request.params;
    const JsonObject reference = object_param(params, "ref");
    const JsonObject argument = object_param(params, "argument");
    const std::string_view kind = string_member(reference, "type");
    McpCompleter completer;
    if (kind == "ref/prompt") {
        const McpServerPrompt* prompt = offered->prompt(string_member(reference, "name"));
        if (!prompt) throw Refusal(mcp_error::invalid_params, "Unknown prompt.");
        completer = prompt->complete;
    } else if (kind == "ref/resource") {
        const McpServerResourceTemplate* found =
            offered->resource_template(string_member(reference, "uri"));
        if (!found) throw Refusal(mcp_error::invalid_params, "Unknown resource template.");
        completer = found->complete;
    } else {
        throw Refusal(mcp_error::invalid_params, "`ref` must name a prompt or a template.");
    }
    McpCompletion completion;
    completion.argument = detail::text_member(argument, "name");
    completion.value = detail::text_member(argument, "value");
    const JsonObject known = object_param(params, "context");
    completion.known = text_members(object_param(known, "arguments"), "`arguments`");
    std::vector<std::string> values;
    if (completer) values = co_await completer(std::move(completion));
    JsonArray list;
    for (const std::string& value : values) {
        if (list.size() == max_completions) break;
        list.emplace_back(value);
    }
    JsonObject result;
    JsonObject completed;
    completed["total"] = values.size();
    completed["hasMore"] = values.size() > list.size();
    completed["values"] = std::move(list);
    result["completion"] = std::move(completed);
    co_return result;
}

/// Sends notifications until the client or its connection ends.
Task<JsonObject> McpServer::State::listen(McpServerCall call) {
    if (!call.notify)
        throw Refusal(mcp_error::invalid_request, "This request needs a stream of events.");
    // Sessions have subscribers too, and a limit of their own.
    if (open_streams >= options.max_subscriptions)
        throw Refusal(mcp_error::internal, "Too many streams of notifications are open.");
    struct Count {
        explicit Count(std::size_t& open) : number(open) { ++number; }
        ~Count() { --number; }
        std::size_t& number;
    };
    const Count count(open_streams);
    detail::McpFilter filter =
        detail::McpFilter::from_json(object_param(call.request.params, "notifications"));
    filter.prompts = filter.prompts && catalog->has_prompts();
    filter.resources = filter.resources && catalog->has_resources();
    if (!catalog->has_resources()) filter.uris.clear();
    const std::shared_ptr<detail::McpSubscriber> subscriber = subscribers.add(std::move(filter));
    const std::stop_callback closing(call.stop, [&subscriber] { subscriber->close(); });
    JsonObject meta;
    meta[mcp_meta::subscription_id] = call.request.id;
    const auto tagged = [&meta, &call](RpcMessage message) {
        message.has_params = true;
        message.params["_meta"] = meta;
        return call.notify(std::move(message));
    };
    JsonObject honored;
    honored["notifications"] = subscriber->filter.to_json();
    co_await tagged(
        rpc_notification("notifications/subscriptions/acknowledged", std::move(honored)));
    co_await detail::send_changes(subscriber, tagged);
    JsonObject result;
    result["_meta"] = std::move(meta);
    co_return result;
}

bool McpServer::State::becomes_task(const McpServerCall& call) const {
    if (call.request.method != "tools/call") return false;
    const std::string name = detail::text_member(call.request.params, "name");
    const bool is_offered = tasks.offers(name) || tasks.offers_later(name);
    if (!is_offered || !catalog->tool(name)) return false;
    const bool is_declared = detail::declares_mcp_tasks(call.request.params);
    if (!is_declared && tasks.requires_task(name)) detail::refuse_mcp_tasks();
    return is_declared;
}

/// Calls the function, and starts the task if it continues as one.
Task<JsonObject> McpServer::State::call_or_start_task(std::shared_ptr<State> state,
                                                      McpServerCall call) {
    const Executor executor = co_await this_executor;
    if (state->tasks.offers(detail::text_member(call.request.params, "name")))
        co_return start_task(std::move(state), std::move(call), executor, JsonObject());
    std::optional<JsonObject> answers;
    Task<JsonObject> calling = state->result_of_function(call, true, &answers);
    Outcome<JsonObject> called = co_await outcome_of(std::move(calling));
    if (!answers) co_return std::move(called).value();
    co_return start_task(std::move(state), std::move(call), executor, std::move(*answers));
}

JsonObject McpServer::State::start_task(std::shared_ptr<State> state, McpServerCall call,
                                        const Executor& executor, JsonObject answers) {
    if (state->is_closed) throw Refusal(mcp_error::internal, "The server is closed.");
    const std::shared_ptr<detail::McpTask> task = state->tasks.create(call.client);
    JsonObject created = task->created();
    // The request ends now; the task has a stop of its own.
    call.notify = nullptr;
    call.stop = task->stop_token();
    State& self = *state;
    (void)self.spawn(executor,
                     run_task(std::move(state), std::move(call), task, std::move(answers)));
    return created;
}

Task<> McpServer::State::run_task(std::shared_ptr<State> state, McpServerCall call,
                                  std::shared_ptr<detail::McpTask> task, JsonObject answers) {
    struct Leaving {
        detail::McpTask& task;
        ~Leaving() { task.left().set(); }
    };
    const Leaving leaving{*task};
    const RpcMessage request = call.request;
    JsonObject capabilities;
    if (const JsonObject* meta = object_member(request.params, "_meta")) {
        if (const JsonObject* declared = object_member(*meta, mcp_meta::client_capabilities))
            capabilities = *declared;
    }
    detail::TaskRequest asking(task, std::move(capabilities), std::move(answers));
    Task<JsonObject> calling = state->call_tool(std::move(call), asking, task);
    Task<JsonObject> limited = with_timeout(*state->options.runtime->clock, task->time_to_live(),
                                            std::move(calling), "time to live of the task");
    Outcome<JsonObject> outcome = co_await outcome_of(std::move(limited));
    if (outcome.cancelled()) {
        task->cancel();
        outcome.rethrow();
    }
    RpcMessage response;
    if (outcome.ok()) {
        response = rpc_result(request.id, std::move(outcome).value());
    } else {
        response = state->failure_of(outcome.failure(), request);
    }
    task->end(std::move(response));
}

/// Answers the requests about a task of the client.
JsonObject McpServer::State::task_result(const McpServerCall& call) {
    const JsonObject& params = call.request.params;
    if (!detail::declares_mcp_tasks(params)) detail::refuse_mcp_tasks();
    const std::string id = detail::text_member(params, "taskId");
    const std::shared_ptr<detail::McpTask> task = tasks.find(id, call.client);
    if (call.request.method == "tasks/get") return task->described();
    if (call.request.method == "tasks/cancel") {
        task->cancel();
    } else {
        task->answered(object_param(params, "inputResponses"));
    }
    return JsonObject();
}

/// Adds what each result of the era without sessions has.
void McpServer::State::add_meta(std::string_view method, JsonObject& result) const {
    if (!result.contains("resultType")) result["resultType"] = "complete";
    JsonObject meta;
    if (const JsonObject* present = object_member(result, "_meta")) meta = *present;
    meta[mcp_meta::server_info] = to_json(options.implementation);
    result["_meta"] = std::move(meta);
    const bool is_read = method == "resources/read" && result.contains("contents");
    if (!is_list(method) && !is_read && method != "server/discover") return;
    result["ttlMs"] = is_read ? 0 : options.list_ttl.count();
    result["cacheScope"] = options.lists_are_public && !is_read ? "public" : "private";
}

RpcMessage McpServer::State::failure_of(const std::exception_ptr& failure,
                                        const RpcMessage& request) const {
    if (is_cancellation(failure)) std::rethrow_exception(failure);
    try {
        std::rethrow_exception(failure);
    } catch (const Refusal& refusal) {
        return rpc_error(request.id, refusal.code, refusal.text, refusal.data);
    } catch (const McpRequestError& error) {
        return rpc_error(request.id, error.rpc_code(), error.what(), error.data());
    } catch (const std::exception& error) {
        const auto* own = dynamic_cast<const Error*>(&error);
        const ErrorCode code = own ? own->code() : ErrorCode::unknown;
        if (is_fault_of_client(code))
            return rpc_error(request.id, mcp_error::invalid_params, error.what());
        options.runtime->log.write(LogLevel::error, "mcp.request_failed",
                                   {{"method", request.method}, {"code", to_string(code)}});
        return rpc_error(request.id, mcp_error::internal, "The server failed.");
    }
}

McpServer::McpServer(McpServerOptions options)
    : state_(std::make_shared<State>(std::move(options))) {}

McpServer::~McpServer() {
    state_->tasks.close();
    if (state_->background) state_->background->cancel();
    state_->subscribers.for_each([](detail::McpSubscriber& one) { one.close(); });
}

const McpServerOptions& McpServer::options() const noexcept { return state_->options; }

const std::vector<McpHeaderParameter>* McpServer::header_parameters(std::string_view tool) const {
    return state_->catalog->tool_headers(tool);
}

void McpServer::set_tools(ToolList tools, std::vector<McpServerTool> server_tools) {
    auto changed = std::make_shared<McpCatalog>(*state_->catalog);
    changed->set_tools(std::move(tools), std::move(server_tools));
    state_->catalog = std::move(changed);
    state_->subscribers.for_each([](detail::McpSubscriber& one) { one.tools_changed(); });
}

void McpServer::set_prompts(std::vector<McpServerPrompt> prompts) {
    auto changed = std::make_shared<McpCatalog>(*state_->catalog);
    changed->set_prompts(std::move(prompts));
    state_->catalog = std::move(changed);
    state_->subscribers.for_each([](detail::McpSubscriber& one) { one.prompts_changed(); });
}

void McpServer::set_resources(std::vector<McpServerResource> resources,
                              std::vector<McpServerResourceTemplate> templates) {
    auto changed = std::make_shared<McpCatalog>(*state_->catalog);
    changed->set_resources(std::move(resources), std::move(templates));
    state_->catalog = std::move(changed);
    state_->subscribers.for_each([](detail::McpSubscriber& one) { one.resources_changed(); });
}

void McpServer::resource_updated(std::string_view uri) {
    state_->subscribers.for_each([uri](detail::McpSubscriber& one) { one.resource_updated(uri); });
}

Task<RpcMessage> McpServer::answer(McpServerCall call) {
    const std::shared_ptr<State> state = state_;
    RpcMessage asked;  // without its arguments, which the call takes
    asked.id = call.request.id;
    asked.method = call.request.method;
    std::exception_ptr failure;
    try {
        const bool is_stateless = is_stateless_request(call.request.params);
        JsonObject result;
        if (is_stateless && state->becomes_task(call)) {
            result = co_await State::call_or_start_task(state, std::move(call));
        } else {
            result = co_await state->result(std::move(call), is_stateless);
        }
        if (is_stateless) state->add_meta(asked.method, result);
        co_return rpc_result(asked.id, std::move(result));
    } catch (...) {
        failure = std::current_exception();
    }
    co_return state->failure_of(failure, asked);
}

bool McpServer::spawn(const Executor& executor, Task<> task) {
    return state_->spawn(executor, std::move(task));
}

Task<> McpServer::close() {
    const std::shared_ptr<State> state = state_;
    state->is_closed = true;
    state->tasks.close();
    if (state->background) co_await state->background->close();
}

Task<> McpServer::end_tasks(std::string client) {
    const std::shared_ptr<State> state = state_;
    co_await state->tasks.end_client(std::move(client));
}

Task<> McpServer::serve(std::unique_ptr<McpByteStream> stream) {
    co_await detail::serve_mcp_connection(*this, std::move(stream));
}

}  // namespace cubepi
