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

/// Owns the handlers while one of them runs, and turns an exception of its first step into one of the task.
Task<JsonObject> handled(McpCall call, std::string method, JsonObject params,
                         std::vector<std::string> tools) {
    if (tools.size() > 1) {
        Task<JsonObject> shared =
            call.on_shared_input(std::move(method), std::move(params), std::move(tools));
        co_return co_await std::move(shared);
    }
    Task<JsonObject> answering = call.on_input(std::move(method), std::move(params));
    co_return co_await std::move(answering);
}

/// Does not throw: a failed question must not cancel its call.
Task<> answer(Task<JsonObject> answering, Ending ending) {
    Outcome<JsonObject> answered = co_await outcome_of(std::move(answering));
    if (answered.ok()) {
        ending.slot().answer = std::move(answered).value();
    } else {
        ending.slot().failure = answered.failure();
    }
}

}  // namespace

std::shared_ptr<McpInputAnswer> McpCallInput::ask(std::string method, JsonObject params,
                                                  std::vector<std::string> tools) {
    if (left_ == 0) return nullptr;
    --left_;
    auto slot = std::make_shared<McpInputAnswer>();
    Task<JsonObject> answering =
        handled(call_, std::move(method), std::move(params), std::move(tools));
    scope_.spawn(answer(std::move(answering), Ending(slot)));
    return slot;
}

}  // namespace cubepi::detail
