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
    /// `scope` must outlive the registration of this object.
    McpCallInput(McpInputHandler handler, TaskScope& scope, std::size_t max_requests)
        : handler_(std::move(handler)), scope_(scope), left_(max_requests) {}

    /// Returns false if no user can be asked, or not any more because the call is ending.
    bool can_ask() const { return handler_ && !scope_.cancelled(); }
    /// Starts the handler. Returns null if the call has asked `max_requests` times.
    std::shared_ptr<McpInputAnswer> ask(std::string method, JsonObject params);

private:
    const McpInputHandler handler_;
    TaskScope& scope_;
    std::size_t left_;
};

/// Registers the input of a call for requests that the server does not attribute to a call.
class McpInputEntry {
public:
    using List = std::vector<std::shared_ptr<McpCallInput>>;

    McpInputEntry(List& all, std::shared_ptr<McpCallInput> one) : all_(all), one_(std::move(one)) {
        all_.push_back(one_);
    }
    McpInputEntry(const McpInputEntry&) = delete;
    McpInputEntry& operator=(const McpInputEntry&) = delete;
    ~McpInputEntry() { std::erase(all_, one_); }

private:
    List& all_;
    std::shared_ptr<McpCallInput> one_;
};

}  // namespace cubepi::detail
