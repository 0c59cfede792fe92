#pragma once

#include <cstddef>
#include <exception>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <cubepi/core/event_signal.hpp>
#include <cubepi/core/json.hpp>
#include <cubepi/core/task_scope.hpp>
#include <cubepi/mcp/client.hpp>

namespace cubepi::detail {

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

}  // namespace cubepi::detail
