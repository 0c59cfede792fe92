#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <stop_token>
#include <utility>
#include <vector>

#include <cubepi/agent/listener.hpp>
#include <cubepi/core/agent_event.hpp>
#include <cubepi/core/event_signal.hpp>
#include <cubepi/core/maybe_task.hpp>
#include <cubepi/core/task.hpp>

namespace cubepi::detail {

/// Thrown by deliver() when a listener threw. What it threw is in EventHub::failure().
struct ListenerFailed {};

/// The listeners of an agent. Each receives every event, in the order of subscription, one event at a time: an event
/// that is emitted while a listener is awaited for another event is queued. A listener that throws does not prevent the
/// others from receiving the event (D6). A listener added during an event receives the next one.
class EventHub {
public:
    Subscription subscribe(AgentListener listener, EventTypes types = EventTypes());
    void clear() noexcept;

    /// Delivers `event`, which must stay unchanged until the outcome was awaited.
    MaybeTask<> deliver(const AgentEvent& event, const std::stop_token& token);
    /// An event is under way, or one waits for its turn.
    bool busy() const noexcept { return busy_ || (slow_path_ && !slow_path_->tickets.empty()); }
    /// A position in the queue of events; released by the destructor.
    class Turn {
    public:
        Turn(EventHub& hub, std::uint64_t ticket) : hub_(&hub), ticket_(ticket) {}
        Turn(Turn&& other) noexcept
            : hub_(std::exchange(other.hub_, nullptr)), ticket_(other.ticket_) {}
        ~Turn() {
            if (hub_) hub_->give_up(ticket_);
        }

    private:
        friend class EventHub;
        EventHub* hub_;  // null: taken or moved from
        std::uint64_t ticket_;
    };
    /// Call this when the event is created: events are delivered in the order of their turns.
    Turn queue_up();
    /// Waits until earlier events are delivered, and takes the turn; deliver() must follow immediately.
    Task<void> wait_turn(Turn& turn);

    /// Returns the first exception of a listener since the last take_failure().
    std::exception_ptr take_failure() noexcept {
        return slow_path_ ? std::exchange(slow_path_->failure, nullptr) : nullptr;
    }
    bool failed() const noexcept { return slow_path_ && slow_path_->failure; }

private:
    /// The rest of a delivery from the listener at `index` on, whose task is `pending`.
    Task<void> finish(std::size_t index, Task<void> pending, std::size_t end,
                      const AgentEvent& event, std::stop_token token);
    /// Calls one listener. What it throws at once is kept.
    MaybeTask<> call(const ListenerEntry& entry, const AgentEvent& event,
                     const std::stop_token& token);
    void end_delivery() {
        busy_ = false;
        if (slow_path_ || stale_ || threw_) end_odd_delivery();
    }
    void end_odd_delivery();
    void give_up(std::uint64_t ticket) noexcept;
    /// Stores the exception that is being handled.
    void note_throw();

    /// Created when an event has to wait or a listener threw.
    struct SlowPath {
        AsyncEvent free;
        std::vector<std::uint64_t> tickets;  // of waiting events, in order of arrival
        std::uint64_t next = 0;
        std::exception_ptr failure;
    };
    SlowPath& slow_path();

    // Entries do not move during an event, whatever listeners do.
    std::vector<std::shared_ptr<ListenerEntry>> entries_;
    std::unique_ptr<SlowPath> slow_path_;
    bool busy_ = false;
    bool threw_ = false;
    bool stale_ = false;  // an inactive entry was found
};

/// Records which thread is inside an agent. The layout is the same with and without NDEBUG; only a library that was
/// built without NDEBUG checks.
class SerialCheck {
public:
    /// Returns false if this thread is already inside. Terminates the program if another thread is: the agent's memory
    /// would be corrupted next.
    bool enter() noexcept;
    void leave() noexcept { thread_.store(0, std::memory_order_release); }

private:
    std::atomic<std::uint32_t> thread_{0};  // 0: none
};

/// A section of an agent's code that runs without suspending. Sections of one thread may nest.
class [[maybe_unused]] SerialSection {
public:
#ifdef NDEBUG
    explicit SerialSection(SerialCheck&) noexcept {}
    ~SerialSection() {}
#else
    explicit SerialSection(SerialCheck& check) noexcept
        : entered_(check.enter() ? &check : nullptr) {}
    ~SerialSection() {
        if (entered_) entered_->leave();
    }
#endif
    SerialSection(const SerialSection&) = delete;
    SerialSection& operator=(const SerialSection&) = delete;

private:
    [[maybe_unused]] SerialCheck* entered_ = nullptr;
};

}  // namespace cubepi::detail
