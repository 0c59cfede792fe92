#include <cubepi/agent/run/event_hub.hpp>

#include <cstdio>

namespace cubepi::detail {

namespace {

/// Numbers the threads that have been inside an agent, from 1 on.
std::uint32_t number_of_this_thread() noexcept {
    static std::atomic<std::uint32_t> last{0};
    thread_local const std::uint32_t number = last.fetch_add(1, std::memory_order_relaxed) + 1;
    return number;
}

[[noreturn]] void report_two_threads() noexcept {
    std::fputs(
        "cubepi: an agent is used by two threads at once. An agent's executor must run one thing "
        "at a time: run the io_context on one thread, or give the agent a strand, as in "
        "co_spawn(boost::asio::make_strand(context), ...).\n",
        stderr);
    std::terminate();
}

}  // namespace

Subscription EventHub::subscribe(AgentListener listener, EventTypes types) {
    entries_.push_back(std::make_shared<ListenerEntry>(std::move(listener), types));
    return Subscription(entries_.back());
}

void EventHub::clear() noexcept {
    for (const auto& entry : entries_) entry->active = false;
}

MaybeTask<> EventHub::deliver(const AgentEvent& event, const std::stop_token& token) {
    busy_ = true;
    const std::size_t end = entries_.size();
    for (std::size_t index = 0; index < end; ++index) {
        // Not by reference to the list: a listener may subscribe another one.
        const ListenerEntry* const entry = entries_[index].get();
        MaybeTask<> outcome = call(*entry, event, token);
        if (outcome.is_pending()) {
            return finish(index, std::move(outcome).task(), end, event, token);
        }
        if (!entry->active) stale_ = true;
    }
    end_delivery();
    return MaybeTask<>();
}

MaybeTask<> EventHub::call(const ListenerEntry& entry, const AgentEvent& event,
                           const std::stop_token& token) {
    if (!entry.active || !entry.types.contains(event.type())) return MaybeTask<>();
    try {
        return entry.listener(event, token);
    } catch (...) {
        note_throw();
        return MaybeTask<>();
    }
}

Task<void> EventHub::finish(std::size_t index, Task<void> pending, std::size_t end,
                            const AgentEvent& event, std::stop_token token) {
    for (;;) {
        const ListenerEntry* const entry = entries_[index].get();
        try {
            if (pending.valid()) co_await std::move(pending);
        } catch (...) {
            note_throw();
        }
        if (!entry->active) stale_ = true;
        if (++index == end) break;
        pending = call(*entries_[index], event, token).task();
    }
    end_delivery();
}

EventHub::SlowPath& EventHub::slow_path() {
    if (!slow_path_) slow_path_ = std::make_unique<SlowPath>();
    return *slow_path_;
}

void EventHub::note_throw() {
    threw_ = true;
    if (!slow_path().failure) slow_path().failure = std::current_exception();
}

void EventHub::end_odd_delivery() {
    if (slow_path_) slow_path_->free.pulse();
    if (std::exchange(stale_, false))
        std::erase_if(entries_, [](const auto& entry) { return !entry->active; });
    if (std::exchange(threw_, false)) throw ListenerFailed();
}

EventHub::Turn EventHub::queue_up() {
    const std::uint64_t ticket = slow_path().next++;
    slow_path().tickets.push_back(ticket);
    return Turn(*this, ticket);
}

Task<void> EventHub::wait_turn(Turn& turn) {
    while (busy_ || slow_path_->tickets.front() != turn.ticket_) co_await slow_path_->free.wait();
    turn.hub_ = nullptr;
    slow_path_->tickets.erase(slow_path_->tickets.begin());
}

void EventHub::give_up(std::uint64_t ticket) noexcept {
    std::erase(slow_path_->tickets, ticket);
    // The next waiter must not wait for a turn that was released.
    if (!busy_) slow_path_->free.pulse();
}

bool SerialCheck::enter() noexcept {
    std::uint32_t inside = 0;
    const std::uint32_t self = number_of_this_thread();
    if (thread_.compare_exchange_strong(inside, self, std::memory_order_acquire)) return true;
    if (inside != self) report_two_threads();
    return false;
}

}  // namespace cubepi::detail
