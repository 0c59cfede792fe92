#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>

#include <cubepi/agent/agent.hpp>
#include <cubepi/core/clock.hpp>
#include <cubepi/core/error.hpp>
#include <cubepi/core/message.hpp>
#include <cubepi/core/message_list.hpp>
#include <cubepi/core/model.hpp>
#include <cubepi/core/runtime.hpp>
#include <cubepi/core/task.hpp>

namespace cubepi::detail {

/// Detects that a run makes no progress (D121): calls of the same tool with the same arguments and the same result, alone or in
/// turns with others, without one that is new to the run. Polling is not affected if the result changes.
class RepeatedCalls {
public:
    /// `limit`: AgentLimits::max_repeated_calls.
    explicit RepeatedCalls(std::size_t limit) noexcept : limit_(limit) {}

    bool enabled() const noexcept { return limit_ != 0; }
    /// Notes a call with its whole result. Returns what to add to the result for the model; usually empty.
    std::string note(const ToolCall& call, const AgentToolResult& result);
    /// The calls count that follow the message with this id: a run that begins again after its limit has those before in its history.
    /// Empty: those of the prompt.
    void begin_after(std::string message_id) { after_ = std::move(message_id); }
    const std::string& begins_after() const noexcept { return after_; }
    /// Notes the calls of a history from this index on, which earlier attempts of the run have made.
    void note_history(const MessageList& history, std::size_t begin);
    /// Returns the error of the run once a call has been made too often.
    const std::optional<LimitReachedError>& limit_reached() const noexcept { return reached_; }

private:
    struct Count {
        std::size_t calls = 0;
        std::size_t epoch = 0;
    };

    std::size_t limit_;
    std::string after_;
    std::size_t epoch_ = 0;                            // the number of calls that were new
    std::unordered_map<std::uint64_t, Count> counts_;  // by a hash of call and result
    std::optional<LimitReachedError> reached_;
};

/// A time limit that can stand still (D64). Used on one executor.
class PausableTimer {
public:
    /// `clock` must outlive the timer. `callback` is called once, when the time that was not paused reaches `limit`.
    PausableTimer(Clock& clock, Executor executor, std::chrono::nanoseconds limit,
                  std::function<void()> callback);

    /// Stops the time. Without effect if it is stopped, or the limit was reached.
    void pause();
    void resume();
    void cancel() noexcept;
    /// Replaces limit and callback, also after the limit was reached.
    void restart(std::chrono::nanoseconds limit, std::function<void()> callback);

private:
    enum class State : std::uint8_t { running, paused, over };
    void arm();

    Clock& clock_;
    std::unique_ptr<ClockTimer> timer_;
    std::function<void()> callback_;
    std::chrono::nanoseconds left_;
    Clock::time_point armed_at_ = {};
    State state_ = State::running;
};

/// Returns the limit that prevents a run with `turns` turns and a cost of `spent` USD (empty: unknown) from calling its
/// model again (D24); empty if there is none.
std::optional<LimitReachedError> limit_reached(const AgentLimits& limits, std::uint32_t turns,
                                               std::optional<double> spent);

/// A timer that aborts a run when its time limit expires (D24), and reports that in the outcome.
class DurationLimit {
public:
    /// Zero means no limit. `abort` is called on `executor`, at most once.
    void start(const Runtime& runtime, const Executor& executor, std::chrono::milliseconds limit,
               std::function<void()> abort);
    /// Stops the time while `waiting` is set (D64).
    void set_waiting(bool waiting);
    /// Returns true if the limit has aborted the run.
    bool expired() const noexcept { return out_of_time_; }
    LimitReachedError error() const;

private:
    std::chrono::milliseconds limit_ = {};
    std::unique_ptr<PausableTimer> timer_;
    bool out_of_time_ = false;
};

}  // namespace cubepi::detail
