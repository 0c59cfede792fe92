#include <cubepi/agent/run/limit_checks.hpp>

#include <algorithm>
#include <string>
#include <utility>
#include <variant>

#include <cubepi/agent/transcript.hpp>
#include <cubepi/provider/cost.hpp>

#include <boost/container_hash/hash.hpp>
#include <boost/json/value.hpp>

namespace cubepi::detail {

namespace {

LimitReachedError reached(const char* limit, const std::string& value, const std::string& advice) {
    const std::string name(limit);
    return LimitReachedError(name,
                             "the run reached its limit " + name + " (" + value + ")" + advice);
}

}  // namespace

std::optional<LimitReachedError> limit_reached(const AgentLimits& limits, std::uint32_t turns,
                                               std::optional<double> spent) {
    if (limits.max_turns != 0 && turns >= limits.max_turns) {
        return reached("max_turns", std::to_string(limits.max_turns), "; prompt again to continue");
    }
    if (limits.max_spend <= 0) return std::nullopt;
    if (spent && *spent < limits.max_spend) return std::nullopt;
    if (!spent) {
        return reached("max_spend", money_text(limits.max_spend),
                       ": the cost of an answer is unknown, because its model has no price");
    }
    return reached("max_spend", money_text(limits.max_spend),
                   ": " + money_text(*spent) + " spent; prompt again to continue");
}

void DurationLimit::start(const Runtime& runtime, const Executor& executor,
                          std::chrono::milliseconds limit, std::function<void()> abort) {
    if (limit.count() == 0) return;
    limit_ = limit;
    // The remainder of an exceeded budget is negative: the run ends as soon as it can be ended.
    limit = std::max(limit, std::chrono::milliseconds(1));
    auto expire = [this, abort = std::move(abort)] {
        out_of_time_ = true;
        abort();
    };
    timer_ = std::make_unique<PausableTimer>(*runtime.clock, executor, limit, std::move(expire));
}

void DurationLimit::set_waiting(bool waiting) {
    if (!timer_) return;
    if (waiting) {
        timer_->pause();
    } else {
        timer_->resume();
    }
}

LimitReachedError DurationLimit::error() const {
    return LimitReachedError("max_duration", "the run reached its limit max_duration (" +
                                                 std::to_string(limit_.count()) + " ms)");
}

PausableTimer::PausableTimer(Clock& clock, Executor executor, std::chrono::nanoseconds limit,
                             std::function<void()> callback)
    : clock_(clock),
      timer_(clock.timer(std::move(executor))),
      callback_(std::move(callback)),
      left_(limit) {
    arm();
}

void PausableTimer::arm() {
    state_ = State::running;
    armed_at_ = clock_.now();
    timer_->expires_after(left_, [this] {
        state_ = State::over;
        // Moved out first: the callback may restart this timer.
        const std::function<void()> callback = std::move(callback_);
        callback();
    });
}

void PausableTimer::pause() {
    if (state_ != State::running) return;
    state_ = State::paused;
    timer_->cancel();
    const std::chrono::nanoseconds used = clock_.now() - armed_at_;
    left_ = std::max(left_ - used, std::chrono::nanoseconds(0));
}

void PausableTimer::resume() {
    if (state_ == State::paused) arm();
}

void PausableTimer::cancel() noexcept {
    state_ = State::over;
    timer_->cancel();
}

void PausableTimer::restart(std::chrono::nanoseconds limit, std::function<void()> callback) {
    left_ = limit;
    callback_ = std::move(callback);
    arm();
}

namespace {

/// The note is a block of its own at the end of the result.
constexpr std::string_view begin_of_note = "\n[This call was made ";

/// The order of the arguments does not count.
std::uint64_t hash_of(const ToolCall& call, const AgentToolResult& result) {
    std::size_t hash = std::hash<std::string>()(call.name.str());
    boost::hash_combine(hash, std::hash<Json>()(Json(call.arguments)));
    if (const Json* raw = call.extra.find("raw_arguments"))
        boost::hash_combine(hash, std::hash<Json>()(*raw));
    boost::hash_combine(hash, result.is_error.value_or(false));
    boost::hash_combine(hash, std::hash<std::string>()(result.text()));
    for (const Content& block : result.content) {
        if (const auto* image = std::get_if<ImageContent>(&block))
            boost::hash_combine(hash, std::hash<std::string>()(image->source));
    }
    return hash;
}

}  // namespace

std::string RepeatedCalls::note(const ToolCall& call, const AgentToolResult& result) {
    const auto [at, is_new] = counts_.try_emplace(hash_of(call, result));
    Count& count = at->second;
    if (is_new) ++epoch_;
    // After something new, a known call is made for the second time at least.
    const std::size_t calls = is_new ? 1 : count.epoch == epoch_ ? count.calls + 1 : 2;
    count.calls = calls;
    count.epoch = epoch_;
    // A single call repeats nothing.
    const std::size_t limit = std::max<std::size_t>(limit_, 2);
    if (calls >= limit && !reached_) {
        reached_.emplace("max_repeated_calls",
                         "the run reached its limit max_repeated_calls (" + std::to_string(limit) +
                             "): the tool '" + call.name.str() +
                             "' was called again and again with the same arguments and the same "
                             "result; prompt again to continue");
    }
    if (calls != std::max<std::size_t>(limit / 2, 2) || calls >= limit) return {};
    return std::string(begin_of_note) + std::to_string(calls) +
           " times with the same arguments and the same result. Making it again will not help: do "
           "something else, or say what is missing. The run ends at " +
           std::to_string(limit) + " times.]";
}

/// A result that was shortened differs from that of another call, so such calls count from scratch.
void RepeatedCalls::note_history(const MessageList& history, std::size_t begin) {
    const AssistantMessage* answer = nullptr;
    for (std::size_t i = begin; i < history.size(); ++i) {
        const Message& message = history[i];
        if (message.assistant()) answer = message.assistant();
        const ToolResultMessage* const stored = message.tool_result();
        if (!answer || !stored || message.text() == interrupted_call_text) continue;
        const std::vector<const ToolCall*> calls = answer->tool_calls();
        const auto call = std::find_if(calls.begin(), calls.end(), [stored](const ToolCall* one) {
            return one->id == stored->tool_call_id;
        });
        if (call == calls.end()) continue;
        AgentToolResult result(stored->content);
        result.is_error = stored->is_error;
        const auto* const last =
            result.content.empty() ? nullptr : std::get_if<TextContent>(&result.content.back());
        if (last && last->text.starts_with(begin_of_note)) result.content.pop_back();
        (void)note(**call, result);
    }
}

}  // namespace cubepi::detail
