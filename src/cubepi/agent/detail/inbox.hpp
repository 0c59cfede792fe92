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

/// A user message on its way into the history.
struct Input {
    Message message = {};
    std::shared_ptr<Receipt::Shared> receipt = {};  ///< null: nobody asked for one
    std::string for_run = {};                       ///< empty: any
    bool identified = false;                        ///< the caller gave the id (D42)
    bool is_follow_up = false;                      ///< which queue it is from

    void mark(ReceiptState state) const {
        if (receipt) receipt->state.store(state);
    }
};

/// Where the loop takes queued user messages from.
class InputSource {
public:
    virtual ~InputSource() = default;
    virtual std::vector<Input> take_steering() = 0;
    virtual std::vector<Input> take_follow_ups() = 0;
    /// Gives back what was taken and did not reach the history: in front of the rest of its queue. All are of one queue.
    virtual void put_back(std::vector<Input> inputs) = 0;
};

/// All that reaches an agent from other threads: abort, steering, follow-ups.
class Inbox final : public InputSource {
public:
    Inbox(QueueMode steering_mode, QueueMode follow_up_mode)
        : steering_mode_(steering_mode), follow_up_mode_(follow_up_mode) {}

    // Any thread.
    Receipt steer(Message message, std::string for_run, bool identified);
    Receipt follow_up(Message message, bool identified);
    bool cancel_steer(std::string_view id);
    void abort();
    void clear();
    /// The current run was aborted and has not ended.
    bool aborted() const;
    /// Aborts the prompts that wait for the end of an aborted run.
    void abort_waiting();
    /// Fires at the next abort_waiting().
    std::stop_token waiting_token();

    // The run's executor.
    /// The token of the run that begins; abort() fires it from now on.
    std::stop_token begin_run(SharedString run_id);
    void end_run();
    bool has_steering() const noexcept { return steers_.load(std::memory_order_acquire); }
    bool has_follow_ups() const noexcept { return follows_up_.load(std::memory_order_acquire); }

    std::vector<Input> take_steering() override;
    std::vector<Input> take_follow_ups() override;
    void put_back(std::vector<Input> inputs) override;

private:
    void note_queued();

    /// One of a few that all inboxes share: what happens under it takes no longer than a move.
    std::mutex& mutex() const noexcept;
    struct Queues {
        std::vector<Input> steering;
        std::vector<Input> follow_ups;
        std::stop_source waiting{std::nostopstate};
    };
    Queues& queues();

    std::unique_ptr<Queues> queues_;  // null until it is needed
    SharedString run_id_;
    std::stop_source stop_{std::nostopstate};
    const QueueMode steering_mode_;
    const QueueMode follow_up_mode_;
    std::atomic<bool> steers_{false};
    std::atomic<bool> follows_up_{false};
};

}  // namespace detail

}  // namespace cubepi
