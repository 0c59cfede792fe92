#include <cubepi/mcp/client/call_input.hpp>

#include <cubepi/core/outcome.hpp>

namespace cubepi::detail {

namespace {

/// Ends the wait for an answer when the handler's coroutine is destroyed, even if it never ran.
class Ending {
public:
    explicit Ending(std::shared_ptr<McpInputAnswer> slot) : slot_(std::move(slot)) {}
    Ending(Ending&&) noexcept = default;
    Ending(const Ending&) = delete;
    Ending& operator=(const Ending&) = delete;
    Ending& operator=(Ending&&) = delete;
    ~Ending() {
        if (slot_) slot_->ended.set();
    }

    McpInputAnswer& slot() const { return *slot_; }

private:
    std::shared_ptr<McpInputAnswer> slot_;
};

/// Owns the handler while it runs, and turns an exception of its first step into one of the task.
Task<JsonObject> handled(McpInputHandler handler, std::string method, JsonObject params) {
    Task<JsonObject> answering = handler(std::move(method), std::move(params));
    co_return co_await std::move(answering);
}

/// Does not throw: a failed question must not cancel its call.
Task<> answer(McpInputHandler handler, std::string method, JsonObject params, Ending ending) {
    Task<JsonObject> answering = handled(std::move(handler), std::move(method), std::move(params));
    Outcome<JsonObject> answered = co_await outcome_of(std::move(answering));
    if (answered.ok()) {
        ending.slot().answer = std::move(answered).value();
    } else {
        ending.slot().failure = answered.failure();
    }
}

}  // namespace

std::shared_ptr<McpInputAnswer> McpCallInput::ask(std::string method, JsonObject params) {
    if (left_ == 0) return nullptr;
    --left_;
    auto slot = std::make_shared<McpInputAnswer>();
    scope_.spawn(answer(handler_, std::move(method), std::move(params), Ending(slot)));
    return slot;
}

}  // namespace cubepi::detail
