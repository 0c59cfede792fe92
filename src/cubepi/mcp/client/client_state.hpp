#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <cubepi/core/event_signal.hpp>
#include <cubepi/core/support/json_member.hpp>
#include <cubepi/core/task_scope.hpp>
#include <cubepi/core/timeout.hpp>
#include <cubepi/mcp/client.hpp>
#include <cubepi/mcp/client/call_input.hpp>
#include <cubepi/mcp/client/waiting_call.hpp>

namespace cubepi {

namespace detail {

/// A list of a server, as it was when its revision was `listed`.
template <class List>
struct McpCachedList {
    std::shared_ptr<const List> list = {};
    std::uint64_t revision = 1;
    std::uint64_t listed = 0;
    Clock::time_point fresh_until = Clock::time_point::max();

    bool is_current(const Clock& clock) const {
        return list && listed == revision && clock.now() < fresh_until;
    }
};

/// The parts of a request besides its parameters.
struct McpRequestExtras {
    HttpHeaders headers;
    McpProgressHandler on_progress;
    McpCallInputPtr input;  ///< null: the request asks no user

    McpRequestExtras() {}
};

/// The requests in progress that wait for more than their response, by id.
struct McpInProgress {
    McpProgressHandler on_progress;
    McpCallInputPtr input;
};

}  // namespace detail

/// The state of a client, which its coroutines share, so that it outlives the client until they end. Its functions are in the files
/// that the comments name.
struct McpClient::State final : McpTransportListener, std::enable_shared_from_this<State> {
    using RequestExtras = detail::McpRequestExtras;

    State(McpClientOptions settings, std::unique_ptr<McpTransport> its_transport,
          std::shared_ptr<const Runtime> its_runtime)
        : options(std::move(settings)),
          transport(std::move(its_transport)),
          runtime(std::move(its_runtime)) {}

    // client/connecting.cpp
    Task<> ensure_connected();
    Task<> agree();
    Task<> discover();
    Task<> initialize();
    void adopt(const JsonObject& result, std::string version, bool is_stateless);
    JsonObject capabilities(bool answers_input) const;

    // client/subscriptions.cpp
    /// Waits for notifications in the way of the era, after a connection was opened or the subscriptions have changed.
    void start_listening(const Executor& executor);
    static Task<> listen(std::shared_ptr<State> self);
    static Task<> subscribe_again(std::shared_ptr<State> self);
    Task<> subscribe(std::string uri);
    Task<> unsubscribe(std::string uri);
    void report_update(const std::string& uri) const noexcept;
    void report_missed_changes();

    // client/requests.cpp
    Task<JsonObject> send(std::string method, JsonObject params, RequestExtras extras);
    Task<JsonObject> send_once(std::string method, JsonObject params, RequestExtras extras);
    Task<JsonObject> send_within(std::chrono::nanoseconds limit, std::string method,
                                 JsonObject params, RequestExtras extras);
    template <class T>
    Task<T> limited(std::chrono::nanoseconds limit, Task<T> task) const {
        if (limit <= std::chrono::nanoseconds::zero()) return task;
        return with_timeout(*runtime->clock, limit, std::move(task), "request");
    }

    // client/rounds.cpp
    static Task<JsonObject> call(std::shared_ptr<State> self, McpCall call);
    Task<JsonObject> ask_with_input(std::string method, JsonObject params,
                                    McpInputHandler on_input);
    /// `round`: with which the call continues; absent: the request is made.
    Task<JsonObject> ask(std::string method, JsonObject params, McpCall call,
                         std::optional<McpRound> round);
    static Task<JsonObject> rounds(std::shared_ptr<State> self, std::string method,
                                   JsonObject params, McpCall call, std::optional<McpRound> round,
                                   TaskScope& scope);
    Task<JsonObject> answer_inputs(McpRound round, McpInputHandler on_input,
                                   std::shared_ptr<McpCallProgress> progress);

    // client/waiting_calls.cpp
    class Attendance;
    /// Returns true if a call may wait on the connection while its run is suspended.
    bool may_wait() const;
    static Task<JsonObject> start_waiting_call(std::shared_ptr<State> self, McpCall call,
                                               JsonObject params);
    static Task<JsonObject> continue_waiting_call(std::shared_ptr<State> self, McpCall call,
                                                  McpRound round);
    static Task<> run_waiting_call(std::shared_ptr<State> self, detail::McpWaitingCallPtr waiting,
                                   McpCall call, JsonObject params);
    static Task<JsonObject> attend(std::shared_ptr<State> self, detail::McpWaitingCallPtr waiting,
                                   McpCall call, std::size_t number);
    static Task<JsonObject> answer_waiting_question(
        std::shared_ptr<detail::McpWaitingQuestion> question, McpRound round, McpCall call);
    static Task<> expire(std::shared_ptr<State> self, detail::McpWaitingCallPtr call);
    /// Returns true if no run has returned to the call in time.
    bool has_expired(const detail::McpWaitingCall& call) const;
    /// Withdraws a call at its server.
    void end_waiting_call(detail::McpWaitingCall& call);

    // client/task_calls.cpp
    class TaskEnd;
    /// Waits for the end of a task and returns the result of the call. `round` has the id of the task.
    static Task<JsonObject> follow_task(std::shared_ptr<State> self, McpRound round,
                                        JsonObject task, RequestExtras extras);
    static Task<JsonObject> read_task(std::shared_ptr<State> self, std::string id,
                                      std::chrono::nanoseconds pause);
    static Task<> answer_task(std::shared_ptr<State> self, McpRound* round, JsonObject task,
                              RequestExtras extras, std::set<std::string>* answered);
    static Task<> cancel_task(std::shared_ptr<State> self, std::string id);
    [[noreturn]] void throw_failed_task(const JsonObject& task) const;

    // client/lists.cpp
    Task<std::shared_ptr<const McpToolList>> list_tools();
    Task<std::shared_ptr<const McpPromptList>> list_prompts();
    Task<std::shared_ptr<const McpResourceList>> list_resources();
    /// Reads all pages of a list; `add` returns the cursor of the next one. Returns how long the list is fresh.
    using AddPage = std::function<std::string(const JsonObject& page)>;
    Task<std::chrono::nanoseconds> read_pages(std::string method, AddPage add);
    Task<> read_tool_pages();
    Task<> read_prompt_pages();
    Task<> read_resource_pages();
    bool offers(std::string_view capability) const {
        return detail::object_member(info.capabilities, capability) != nullptr;
    }
    bool announces(std::string_view capability) const {
        const JsonObject* object = detail::object_member(info.capabilities, capability);
        return object && detail::flag_member(*object, "listChanged");
    }
    void lists_may_have_changed() {
        ++tools.revision;
        ++prompts.revision;
        ++resources.revision;
    }

    // client/server_messages.cpp
    void notified(const RpcMessage& notification) noexcept override;
    Task<RpcMessage> asked(RpcMessage request, std::optional<std::int64_t> during) override;
    /// Returns the calls to which a question may belong: that with the id, or all that are in progress.
    std::vector<detail::McpCallInputPtr> calls_of(std::optional<std::int64_t> during) const;
    JsonObject listed_roots() const;

    std::string about(std::string_view text) const {
        return "The MCP server " + options.server + " " + std::string(text);
    }

    const McpClientOptions options;
    const std::unique_ptr<McpTransport> transport;
    const std::shared_ptr<const Runtime> runtime;

    bool is_connecting = false;
    AsyncEvent connecting_ended;
    bool is_agreed = false;
    McpServerInfo info;
    std::int64_t last_id = 0;
    std::map<std::int64_t, detail::McpInProgress> in_progress;
    /// Of this connection: a call of an earlier one may end later.
    std::shared_ptr<detail::McpAbandonedCalls> abandoned =
        std::make_shared<detail::McpAbandonedCalls>();
    std::map<std::string, detail::McpWaitingCallPtr> waiting_calls;  ///< by id
    std::unique_ptr<BackgroundScope> waiting_scope;                  ///< null: there were none yet

    detail::McpCachedList<McpToolList> tools;
    detail::McpCachedList<McpPromptList> prompts;
    detail::McpCachedList<McpResourceList> resources;
    std::set<std::string> subscriptions;  ///< URIs of resources
    std::unique_ptr<BackgroundScope> listening;
    bool replaces_stream =
        false;  ///< `listening` follows another stream, after which changes may have been missed
    std::unique_ptr<BackgroundScope> background;  ///< cancels tasks
    bool is_ended = false;                        ///< the client is destroyed
    bool notices_changes = true;                  ///< false: the server refuses to report them
};

}  // namespace cubepi
