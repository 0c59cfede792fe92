#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include <cubepi/agent/agent.hpp>

namespace cubepi {

struct Receipt::Shared {
    explicit Shared(std::string id) : message_id(std::move(id)) {}
    const std::string message_id;
    std::atomic<ReceiptState> state{ReceiptState::queued};
};

namespace detail {

/// A user message that is not yet in the history.
struct Input {
    Message message = {};
    std::shared_ptr<Receipt::Shared> receipt = {};  ///< null: no receipt requested
    std::string for_run = {};                       ///< empty: any
    bool identified = false;                        ///< the caller supplied the id (D42)
    bool is_follow_up = false;                      ///< from which queue it was taken

    void mark(ReceiptState state) const {
        if (receipt) receipt->state.store(state);
    }
};

/// The source of queued user messages for the loop.
class InputSource {
public:
    virtual ~InputSource() = default;
    virtual std::vector<Input> take_steering() = 0;
    virtual std::vector<Input> take_follow_ups() = 0;
    /// Returns inputs that did not reach the history to the front of their queue. All must be of one queue.
    virtual void put_back(std::vector<Input> inputs) = 0;
};

/// The requests to an agent from other threads: abort, steering, follow-ups.
class InputQueue final : public InputSource {
public:
    InputQueue(QueueMode steering_mode, QueueMode follow_up_mode)
        : steering_mode_(steering_mode), follow_up_mode_(follow_up_mode) {}

    // Thread-safe.
    Receipt steer(Message message, std::string for_run, bool identified);
    Receipt follow_up(Message message, bool identified);
    bool cancel_steer(std::string_view id);
    void abort();
    void clear();
    /// Returns true if the current run was aborted and has not ended.
    bool aborted() const;
    /// Aborts the prompts that wait for the end of an aborted run.
    void abort_waiting();
    /// Returns a token that the next abort_waiting() stops.
    std::stop_token waiting_token();

    // Called on the run's executor.
    /// Returns the token of the starting run; abort() stops it from now on.
    std::stop_token begin_run(SharedString run_id);
    void set_run_id(SharedString run_id);
    void end_run();
    bool has_steering() const noexcept { return steers_.load(std::memory_order_acquire); }
    bool has_follow_ups() const noexcept { return follows_up_.load(std::memory_order_acquire); }

    std::vector<Input> take_steering() override;
    std::vector<Input> take_follow_ups() override;
    void put_back(std::vector<Input> inputs) override;

private:
    void note_queued();

    /// Returns one of a few mutexes shared by all queues: critical sections are as short as a move.
    std::mutex& mutex() const noexcept;
    struct Queues {
        std::vector<Input> steering;
        std::vector<Input> follow_ups;
        std::stop_source waiting{std::nostopstate};
    };
    Queues& queues();

    std::unique_ptr<Queues> queues_;  // created on demand
    SharedString run_id_;
    std::stop_source stop_{std::nostopstate};
    const QueueMode steering_mode_;
    const QueueMode follow_up_mode_;
    std::atomic<bool> steers_{false};
    std::atomic<bool> follows_up_{false};
};

}  // namespace detail

}  // namespace cubepi
