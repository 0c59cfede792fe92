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
class HitlCancelledError : public HitlError {
public:
    explicit HitlCancelledError(std::string reason)
        : HitlError(ErrorCode::hitl, "the request was cancelled: " + reason),
          reason_(std::move(reason)) {}
    const std::string& reason() const noexcept { return reason_; }

private:
    std::string reason_;
};

/// The request was not answered before its timeout expired.
class HitlTimedOutError : public HitlError {
public:
    explicit HitlTimedOutError(std::chrono::nanoseconds limit);
    std::chrono::nanoseconds limit() const noexcept { return limit_; }

private:
    std::chrono::nanoseconds limit_;
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
    /// Stored with the request as HitlRequest::extra.
    JsonObject extra = {};

    HitlOptions() {}
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

/// The connection between a run that asks and a host that answers.
///
/// confirm(), approve() and ask() wait on the executor of the caller. They throw HitlCancelledError, HitlTimedOutError,
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

    /// Asks and returns the answer as check_answer() returns it.
    virtual Task<Json> request(HitlPayload payload, HitlOptions options) = 0;

    // For the host.

    /// Returns the requests that are waiting for an answer, oldest first.
    virtual std::vector<HitlRequest> pending() const = 0;
    /// Returns the requests that are made from now on.
    virtual HitlRequestStream subscribe() = 0;
    /// Answers a request. Throws Error(stale_answer) if it is not pending (answered, cancelled, timed out, or never
    /// made), and Error(bad_answer) if the answer does not fit, in which case the request stays pending.
    virtual Task<> answer(std::string question_id, Json value) = 0;
    /// Ends a request without an answer. Throws Error(stale_answer) if it is not pending.
    virtual Task<> cancel(std::string question_id, std::string reason = "cancelled") = 0;

    HitlChannel(const HitlChannel&) = delete;
    HitlChannel& operator=(const HitlChannel&) = delete;

protected:
    HitlChannel() = default;
};

}  // namespace cubepi
