#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <exception>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <stop_token>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <cubepi/core/clock.hpp>
#include <cubepi/core/event_signal.hpp>
#include <cubepi/core/json.hpp>
#include <cubepi/core/outcome.hpp>
#include <cubepi/core/support/json_member.hpp>
#include <cubepi/core/task_scope.hpp>
#include <cubepi/core/timeout.hpp>
#include <cubepi/mcp/authorizer.hpp>
#include <cubepi/mcp/client.hpp>

namespace cubepi::detail {

// Conclusions from the refusal of a request for the next one: client/requests.cpp.

/// Returns what a server has refused a request for, if another token may help.
std::optional<McpChallenge> challenge_in(const std::exception_ptr& failure);
/// Returns true if the refusal of a version offers the one without sessions.
bool offers_stateless(const std::exception_ptr& failure);
/// Returns true if a server that has refused `server/discover` may be of the era with sessions.
bool may_have_sessions(const std::exception_ptr& failure);
/// Returns true if a server would refuse the same request again.
bool is_lasting_refusal(const std::exception_ptr& failure);

// The input that calls ask for: client/calls.cpp.

/// The answer to a request for input. Neither `answer` nor `failure` is set if the call ended before its handler was started.
struct McpInputAnswer {
    AsyncEvent ended;
    std::optional<JsonObject> answer;
    std::exception_ptr failure;
};

/// The requests for input that a server of the era with sessions sends while a call is in progress. The connection receives them,
/// but their handlers run in the scope of the call: a handler uses objects of the run that made the call, and must end with it.
/// Used on the executor of the scope.
class McpCallInput {
public:
    /// `call` has the handlers; its arguments are not used. `scope` is used until end().
    McpCallInput(McpCall call, TaskScope& scope, std::size_t max_requests)
        : call_(std::move(call)), scope_(scope), left_(max_requests) {}

    const std::string& tool() const noexcept { return call_.tool; }
    /// Answers the questions of rounds and tasks.
    const McpInputHandler& handler() const noexcept { return call_.on_input; }
    const std::shared_ptr<McpCallProgress>& progress() const noexcept { return call_.progress; }
    const std::shared_ptr<const void>& asker() const noexcept { return call_.asker; }
    /// Returns false if no user can be asked, or not any more because the call is ending.
    bool can_ask() const { return call_.on_input && !call_.progress && !has_ended(); }
    /// Returns true if a request that may belong to other calls of the same asker can be answered.
    bool can_share() const { return can_ask() && call_.on_shared_input && call_.asker; }
    /// The call is over: its handlers are, or are being cancelled.
    void end() noexcept { has_ended_ = true; }
    bool has_ended() const { return has_ended_ || scope_.cancelled(); }
    /// Starts a handler: that for shared requests if there are several `tools`. Returns null if the call has asked `max_requests`
    /// times.
    std::shared_ptr<McpInputAnswer> ask(std::string method, JsonObject params,
                                        std::vector<std::string> tools);

private:
    const McpCall call_;
    TaskScope& scope_;
    std::size_t left_;
    bool has_ended_ = false;
};

using McpCallInputPtr = std::shared_ptr<McpCallInput>;

/// The users of calls that have ended here without a response. The server may continue such a call, and ask something for it that
/// names no call.
class McpAbandonedCalls {
public:
    void add(const std::shared_ptr<const void>& asker) {
        has_several_ = has_several_ || !asker || (has_any_ && asker_.lock() != asker);
        has_any_ = true;
        asker_ = asker;
    }
    /// Returns true if there are none, or only calls of this user.
    bool are_all_of(const std::shared_ptr<const void>& asker) const {
        return !has_any_ || (!has_several_ && asker && asker_.lock() == asker);
    }

private:
    std::weak_ptr<const void> asker_;
    bool has_any_ = false;
    bool has_several_ = false;
};

/// Ends the input of a call when its block is left.
class McpCallInputEnd {
public:
    explicit McpCallInputEnd(McpCallInput& input) : input_(input) {}
    McpCallInputEnd(const McpCallInputEnd&) = delete;
    McpCallInputEnd& operator=(const McpCallInputEnd&) = delete;
    ~McpCallInputEnd() { input_.end(); }

private:
    McpCallInput& input_;
};

/// A question of the server to the user of a call, who may be asked in a later run.
struct McpWaitingQuestion {
    std::string method;
    JsonObject params;
    std::vector<std::string>
        tools;  ///< of the calls to which it may belong; empty: it belongs to this one
    McpInputAnswer slot;
    /// Stopped when the server does not wait for the answer any more.
    std::stop_source withdrawn;
};

/// A call of a server with sessions that belongs to the client and not to the run that has made it: the server waits on its
/// connection while the run is suspended (D130). A run attends to it: it asks the user and takes the result. Used on the executor of the
/// client.
struct McpWaitingCall {
    std::string id;
    std::deque<std::shared_ptr<McpWaitingQuestion>> questions;
    std::optional<Outcome<JsonObject>> ended;
    AsyncEvent changed;              ///< pulsed after a change of `questions` or `ended`
    McpProgressHandler on_progress;  ///< of the run that attends
    bool is_attended = false;
    Clock::time_point expires = Clock::time_point::max();  ///< unless a run attends
    std::stop_source expiry;  ///< ends the wait for `expires`: a run attends, or the call has ended
    std::stop_source stop;    ///< withdraws the call

    /// Queues a question and waits for its answer.
    static Task<JsonObject> ask(std::shared_ptr<McpWaitingCall> call, std::string method,
                                JsonObject params, std::vector<std::string> tools);
};

using McpWaitingCallPtr = std::shared_ptr<McpWaitingCall>;

}  // namespace cubepi::detail

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

    // client/connection.cpp
    Task<> ensure_connected();
    Task<> agree();
    Task<> discover();
    Task<> initialize();
    void adopt(const JsonObject& result, std::string version, bool is_stateless);
    JsonObject capabilities(bool answers_input) const;

    // client/connection.cpp: subscriptions
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

    // client/calls.cpp
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

    // client/calls.cpp: calls that a server answers with a task
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

    // client/offer_list.cpp
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

    // client/connection.cpp: what the server sends
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
