#include <cubepi/agent/detail/event_hub.hpp>

#include <utility>

namespace cubepi::detail {

Subscription EventHub::subscribe(Listener listener) {
    entries_.push_back(std::make_shared<ListenerEntry>(std::move(listener)));
    return Subscription(entries_.back());
}

void EventHub::clear() noexcept {
    for (const auto& entry : entries_) entry->active = false;
}

Rest EventHub::deliver(const AgentEvent& event, const std::stop_token& token) {
    busy_ = true;
    const std::size_t end = entries_.size();
    for (std::size_t index = 0; index < end; ++index) {
        // Not a reference into the list: a listener may subscribe another one.
        ListenerEntry* const entry = entries_[index].get();
        if (!entry->active) {
            stale_ = true;
            continue;
        }
        if (entry->listener.is_async()) return finish(index, end, event, token);
        try {
            entry->listener.call(event, token);
        } catch (...) {
            note_throw();
        }
        if (!entry->active) stale_ = true;
    }
    end_delivery();
    return std::nullopt;
}

Task<void> EventHub::finish(std::size_t index, std::size_t end, const AgentEvent& event,
                            std::stop_token token) {
    for (; index < end; ++index) {
        ListenerEntry* const entry = entries_[index].get();
        if (!entry->active) {
            stale_ = true;
            continue;
        }
        try {
            if (entry->listener.is_async()) {
                co_await entry->listener.call_async(event, token);
            } else {
                entry->listener.call(event, token);
            }
        } catch (...) {
            note_throw();
        }
        if (!entry->active) stale_ = true;
    }
    end_delivery();
}

EventHub::Rare& EventHub::rare() {
    if (!rare_) rare_ = std::make_unique<Rare>();
    return *rare_;
}

void EventHub::note_throw() {
    threw_ = true;
    if (!rare().failure) rare().failure = std::current_exception();
}

void EventHub::end_odd_delivery() {
    if (rare_) rare_->free.pulse();
    if (std::exchange(stale_, false)) {
        std::erase_if(entries_, [](const auto& entry) { return !entry->active; });
    }
    if (std::exchange(threw_, false)) throw ListenerFailed();
}

EventHub::Turn EventHub::queue_up() {
    const std::uint64_t ticket = rare().next++;
    rare().tickets.push_back(ticket);
    return Turn(*this, ticket);
}

Task<void> EventHub::wait_turn(Turn& turn) {
    while (busy_ || rare_->tickets.front() != turn.ticket_) co_await rare_->free.wait();
    turn.hub_ = nullptr;
    rare_->tickets.erase(rare_->tickets.begin());
}

void EventHub::give_up(std::uint64_t ticket) noexcept {
    std::erase(rare_->tickets, ticket);
    // The next waiter must not wait for a turn that was released.
    if (!busy_) rare_->free.pulse();
}

}  // namespace cubepi::detail
