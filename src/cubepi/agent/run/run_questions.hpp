#pragma once

#include <atomic>
#include <cstddef>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <cubepi/agent/hitl_channel.hpp>
#include <cubepi/core/event_signal.hpp>
#include <cubepi/core/task.hpp>

namespace cubepi::detail {

class RunCore;

/// The questions of one run to the user: connects the agent's channel with the run, knows which call waits for which
/// answer, and carries the request to suspend the run (D59). Used on the run's executor, except for detach().
class RunQuestions final : public HitlRun, public std::enable_shared_from_this<RunQuestions> {
public:
    /// `core` must outlive the connection. `continued`: an earlier call started the run.
    RunQuestions(RunCore& core, HitlChannel& channel, Executor executor, bool continued);

    const std::string& run_id() const noexcept override;
    const std::string& thread_id() const noexcept override;
    /// An abort overrides a suspension.
    bool is_suspending() const noexcept override;
    bool is_continued() const noexcept override { return continued_; }
    bool can_ask_again(const HitlOptions& options) const override;
    Task<> begin_request(HitlRequest request, std::string asking_call) override;
    Task<> end_request(HitlRequest request, std::string asking_call, HitlEnd end, Json answer,
                       AnswerOrigin origin) override;

    /// Requests the suspension of the run at the next point at which nothing but answers is awaited. Returns false, and
    /// has no effect, if no request waits. Thread-safe.
    bool detach();
    /// Withdraws the request of detach(): all requests have ended meanwhile.
    void continue_run() noexcept { suspending_.store(false); }
    bool is_durable() const noexcept { return channel_.is_durable(); }

    /// Requests without a tool call of their own, which are made from now on, belong to this call. Empty: to none.
    void set_asking_call(std::string_view tool_call_id) { asking_call_ = tool_call_id; }
    /// Returns true if a request of this call has begun: its time limit stands still.
    bool asks(std::string_view tool_call_id) const noexcept;
    /// Returns true if its listeners have received such a request, so that the run may be suspended.
    bool waits(std::string_view tool_call_id) const noexcept;
    std::vector<HitlRequest> waiting() const;
    /// The requests that were still open when the run was suspended.
    const std::vector<HitlRequest>& detached() const noexcept { return detached_; }
    /// Removes these requests and answers their calls: the run was aborted while it was being suspended.
    Task<> withdraw_detached();
    /// Returns the questions that the user has answered for this call.
    std::vector<std::string> answered_for(std::string_view tool_call_id) const;
    /// Returns where the last answer for this call came from; empty if unknown.
    AnswerOrigin origin_for(std::string_view tool_call_id) const;
    /// The results of the call are stored: its questions are settled.
    void settle(std::string_view tool_call_id);

    /// Set while a tool body must not ask (D69): returns true if the body of this call may run again.
    std::function<bool(std::string_view tool_call_id)> body_may_repeat = {};
    /// Awaited before the wait for a request begins.
    std::function<Task<>()> before_wait = {};
    /// Called when a wait has begun or ended, or the run is to be suspended.
    std::function<void()> on_change = {};
    /// Called with true when the first request begins to wait, and with false when the last one has ended: the time
    /// limits of the run stand still in between (D64).
    std::function<void(bool waiting)> on_waiting = {};
    /// Waits until on_change would be called.
    Task<> change() { return changed_.wait(); }
    void note_change();

    std::exception_ptr take_listener_failure() noexcept {
        return std::exchange(listener_failure_, nullptr);
    }

private:
    struct Waiting {
        HitlRequest request = {};
        std::string call = {};
        bool announced = false;  ///< the listeners have received the request
    };
    struct Answered {
        std::string call = {};
        std::string question_id = {};
        AnswerOrigin origin = {};
    };
    template <class E>
    Task<> emit(E event);

    RunCore& core_;
    HitlChannel& channel_;
    const Executor executor_;
    const bool continued_;
    std::string asking_call_;
    std::vector<Waiting> waiting_;
    std::vector<HitlRequest> detached_;
    std::vector<Answered> answered_;
    std::exception_ptr listener_failure_;
    AsyncEvent changed_;
    std::atomic<std::size_t> waiting_count_{0};
    std::atomic<bool> suspending_{false};
};

/// The questions of the current run of an agent, for callers on other threads. Thread-safe.
class ActiveQuestions {
public:
    void set(std::weak_ptr<RunQuestions> current) {
        const std::lock_guard lock(mutex_);
        current_ = std::move(current);
    }
    std::shared_ptr<RunQuestions> get() const {
        const std::lock_guard lock(mutex_);
        return current_.lock();
    }

private:
    mutable std::mutex mutex_;
    std::weak_ptr<RunQuestions> current_;
};

/// Registers the questions of a run for the lifetime of this object.
class QuestionsOfRun {
public:
    QuestionsOfRun(ActiveQuestions& active, const std::shared_ptr<RunQuestions>& questions)
        : active_(active) {
        active_.set(questions);
    }
    ~QuestionsOfRun() { active_.set({}); }
    QuestionsOfRun(const QuestionsOfRun&) = delete;
    QuestionsOfRun& operator=(const QuestionsOfRun&) = delete;

private:
    ActiveQuestions& active_;
};

/// Connects a channel with a run for the lifetime of this object.
class ChannelConnection {
public:
    ChannelConnection(std::shared_ptr<HitlChannel> channel, std::shared_ptr<HitlRun> run)
        : channel_(std::move(channel)) {
        channel_->connect(std::move(run));
    }
    ~ChannelConnection() { channel_->disconnect(); }
    ChannelConnection(const ChannelConnection&) = delete;
    ChannelConnection& operator=(const ChannelConnection&) = delete;

private:
    std::shared_ptr<HitlChannel> channel_;
};

}  // namespace cubepi::detail
