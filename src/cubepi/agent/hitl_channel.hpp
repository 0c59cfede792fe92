#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include <cubepi/core/error.hpp>
#include <cubepi/core/hitl_request.hpp>
#include <cubepi/core/json.hpp>
#include <cubepi/core/task.hpp>

// Human in the loop: tools and middleware ask the user on a channel and wait; the host (a terminal, a web page, a chat
// service) shows the requests and answers them. <cubepi/hitl/...> has the channels, the middleware and the ask_user tool.

namespace cubepi {

/// A request that ended without an answer. The base class of the two ends below.
class HitlError : public Error {
public:
    using Error::Error;
};

/// The host cancelled the request.
class HitlCancelled : public HitlError {
public:
    explicit HitlCancelled(std::string reason)
        : HitlError(ErrorCode::hitl, "the request was cancelled: " + reason),
          reason_(std::move(reason)) {}
    const std::string& reason() const noexcept { return reason_; }

private:
    std::string reason_;
};

/// The request was not answered before its timeout expired.
class HitlTimedOut : public HitlError {
public:
    explicit HitlTimedOut(std::chrono::nanoseconds limit);
    std::chrono::nanoseconds limit() const noexcept { return limit_; }

private:
    std::chrono::nanoseconds limit_;
};

/// A question was asked in the body of a tool that must not run twice (D69). A durable channel refuses it, because after a
/// restart the body would begin again. Give the tool `replay_policy = ReplayPolicy::idempotent`, or set
/// CheckpointedChannelOptions::allow_inside_custom_tool.
class HitlDurabilityNotGuaranteed : public HitlError {
public:
    explicit HitlDurabilityNotGuaranteed(const std::string& message)
        : HitlError(ErrorCode::hitl, message) {}
};

enum class ApproveDecision : std::uint8_t { approve, deny, edit };
std::string_view to_string(ApproveDecision decision) noexcept;

/// The user's decision about a tool call.
struct ApproveAnswer {
    static ApproveAnswer deny(std::string reason);
    /// Runs the call with these arguments instead.
    static ApproveAnswer edit(JsonObject args);

    ApproveDecision decision = ApproveDecision::approve;
    std::optional<JsonObject> edited_args = {};  ///< set if and only if the decision is `edit`
    std::optional<std::string> reason = {};
};

/// Returns {"decision": ..., "edited_args": ..., "reason": ...}, without the members that are absent: the form in which
/// HitlChannel::answer() takes a decision.
JsonObject to_json(const ApproveAnswer& answer);

/// Checks an answer against its request and returns it in its normal form. Throws Error(bad_answer) that names the key and
/// states what is expected:
/// - confirm: a boolean.
/// - approve: an object with `decision`. With `edit`, `edited_args` is an object that satisfies the schema under the key
///   `input_schema` of HitlRequest::extra, if the request has one; defaults are filled in.
/// - ask: an object with a text for each question, or a list of texts for one with `multi_select`. Every required
///   question has an answer, no other key occurs, and a question with options is answered with the `value` of an
///   option unless one of its options allows input.
Json check_answer(const HitlRequest& request, Json answer);

/// Reads an answer that has passed check_answer().
ApproveAnswer approve_answer_from_json(const Json& answer);

/// Settings of one request. All have defaults.
struct HitlOptions {
    /// Time to answer. Absent: the default of the channel. Zero: no limit.
    std::optional<std::chrono::nanoseconds> timeout = {};
    /// For confirm(): the tool call to which the question belongs; it becomes the question id.
    std::optional<std::string> tool_call_id = {};
    /// The id of the question, for one that is passed on from another channel. Empty: the channel derives it (D61).
    std::string question_id = {};
    /// Stored with the request as HitlRequest::extra.
    JsonObject extra = {};
    /// The tool call in whose body the question is asked; ToolContext::channel() sets it. Not a part of the question id.
    std::string asking_call = {};

    HitlOptions() {}
};

/// Where an answer comes from. Recorded in `details.hitl` of the call's result, and by stores with a QuestionStore.
struct AnswerOrigin {
    std::string user = {};     ///< as the host identifies its users
    std::string channel = {};  ///< "terminal", "telegram:42"

    AnswerOrigin() {}  // not an aggregate: a default argument of one is destroyed twice by g++ 12
};

using HitlPayload = std::variant<ConfirmRequest, ApproveRequest, AskRequest>;

/// The requests of a channel as a stream, from HitlChannel::subscribe(). Requests are queued without limit until they are
/// taken. next() is called by one coroutine at a time, on any executor.
class HitlRequestStream {
public:
    /// Waits for the next request. Empty when the channel has been destroyed and all queued requests have been taken.
    Task<std::optional<HitlRequest>> next();

    HitlRequestStream(HitlRequestStream&&) noexcept;
    HitlRequestStream& operator=(HitlRequestStream&&) noexcept;
    ~HitlRequestStream();

private:
    friend class HitlRequestFeed;
    struct State;
    explicit HitlRequestStream(std::shared_ptr<State> state) noexcept;

    std::shared_ptr<State> state_;
};

/// The sending end of the streams of a channel, for classes that implement HitlChannel. Thread-safe.
class HitlRequestFeed {
public:
    HitlRequestFeed() = default;
    ~HitlRequestFeed() { close(); }
    HitlRequestFeed(const HitlRequestFeed&) = delete;
    HitlRequestFeed& operator=(const HitlRequestFeed&) = delete;

    HitlRequestStream subscribe();
    void publish(const HitlRequest& request);
    /// Ends all streams after the requests that are queued.
    void close() noexcept;

private:
    std::mutex mutex_;
    std::vector<std::weak_ptr<HitlRequestStream::State>> streams_;
};

/// How a request ended.
enum class HitlEnd : std::uint8_t {
    detached,  ///< its run was suspended; the request stays stored
    answered,
    cancelled,  ///< by the host
    timed_out,
    aborted,  ///< with its run, or with the call that asked
};
std::string_view to_string(HitlEnd end) noexcept;

/// A run as its channel sees it, for classes that implement HitlChannel. The agent implements it: it emits the events of
/// the requests, and stops the time limits of the run while a request waits. Used on the agent's executor.
class HitlRun {
public:
    virtual ~HitlRun() = default;
    virtual const std::string& run_id() const noexcept = 0;
    virtual const std::string& thread_id() const noexcept = 0;
    /// Returns true if the run is being suspended: a request whose wait is cancelled then stays stored.
    virtual bool is_suspending() const noexcept = 0;
    /// Returns true if the run was started by an earlier call, so that its questions may have been asked before.
    virtual bool is_continued() const noexcept = 0;
    /// Returns true if the question may be asked a second time after a restart: it is asked by a hook, or by a tool whose
    /// body may run again (D69).
    virtual bool can_ask_again(const HitlOptions& options) const = 0;
    /// Starts the wait for an answer and emits hitl_request. Throws Error(hitl) if a listener failed; the request is then
    /// not waited for.
    virtual Task<> begin_request(HitlRequest request, std::string asking_call) = 0;
    /// Ends the wait, if it was begun, and emits hitl_answer for an answered or a cancelled request, else a notice.
    /// Ignores cancellation. `origin`: of the answer, if known; recorded in the result of the call.
    virtual Task<> end_request(HitlRequest request, std::string asking_call, HitlEnd end,
                               Json answer, AnswerOrigin origin) = 0;
};

/// The connection between a run that asks and a host that answers.
///
/// confirm(), approve() and ask() wait on the executor of the caller. They throw HitlCancelled, HitlTimedOut,
/// or Error(hitl) if the same question is already pending; cancelling the caller withdraws the request. Everything else
/// is thread-safe. Requests are independent: any number can be pending, and each is answered by its id.
class HitlChannel {
public:
    virtual ~HitlChannel() = default;

    // For tools and middleware.

    /// Asks for a yes or a no.
    Task<bool> confirm(std::string prompt, Json details = {}, HitlOptions options = {});
    /// Asks whether a tool call may run. The question id is the id of the call.
    Task<ApproveAnswer> approve(std::string tool_name, std::string tool_call_id, JsonObject args,
                                Json details = {}, HitlOptions options = {});
    /// Asks questions and returns the answers by key: a text, or a list of texts for a question with `multi_select`.
    Task<JsonObject> ask(std::vector<HitlQuestion> questions, HitlOptions options = {});

    /// Asks and returns the answer as check_answer() returns it. A question that is asked in the body of a tool sets
    /// HitlOptions::asking_call.
    virtual Task<Json> request(HitlPayload payload, HitlOptions options) = 0;

    // For the host.

    /// Returns the requests that are waiting for an answer, oldest first.
    virtual std::vector<HitlRequest> pending() const = 0;
    /// Returns the requests that are made from now on.
    virtual HitlRequestStream subscribe() = 0;
    /// Answers the pending request with this `request_id`, or else with this `question_id`, which a later request may have again
    /// (D83). Throws Error(stale_answer) if it is not pending (answered, cancelled, timed out, or never
    /// made), and Error(bad_answer) if the answer does not fit, in which case the request stays pending.
    virtual Task<> answer(std::string question_id, Json value, AnswerOrigin origin = {}) = 0;
    /// Ends a request without an answer. Throws Error(stale_answer) if it is not pending.
    virtual Task<> cancel(std::string question_id, std::string reason = "cancelled") = 0;

    // For the agent.

    /// Returns true if requests and answers are stored, so that a run that waits can be suspended.
    virtual bool is_durable() const noexcept { return false; }
    /// Connects the channel with a run of its agent (AgentOptions::channel). Throws Error(invalid_argument) if another run
    /// is connected, or if the channel does not fit the run.
    virtual void connect(std::shared_ptr<HitlRun> run);
    void disconnect() noexcept { run_.reset(); }

    HitlChannel(const HitlChannel&) = delete;
    HitlChannel& operator=(const HitlChannel&) = delete;

protected:
    HitlChannel() = default;
    /// Returns the run of the agent of this channel; null if there is none.
    const std::shared_ptr<HitlRun>& run() const noexcept { return run_; }

private:
    std::shared_ptr<HitlRun> run_;
};

namespace detail {
/// Returns `channel` for the body of one tool call: its requests name the call (HitlOptions::asking_call).
std::shared_ptr<HitlChannel> channel_of_call(std::shared_ptr<HitlChannel> channel,
                                             std::string tool_call_id);
}  // namespace detail

}  // namespace cubepi
