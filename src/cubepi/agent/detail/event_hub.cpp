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

std::optional<Task<void>> EventHub::deliver(const AgentEvent& event, const std::stop_token& token) {
    busy_ = true;
    threw_ = false;
    return call_from(0, entries_.size(), event, token);
}

std::optional<Task<void>> EventHub::call_from(std::size_t index, std::size_t end,
                                              const AgentEvent& event,
                                              const std::stop_token& token) {
    for (; index < end; ++index) {
        // Held here, as a listener may cancel itself or destroy the agent.
        const std::shared_ptr<ListenerEntry> entry = entries_[index];
        if (!entry->active) continue;
        if (entry->listener.is_async()) return finish(index, end, event, token);
        try {
            entry->listener.call(event, token);
        } catch (...) {
            threw_ = true;
            if (!failure_) failure_ = std::current_exception();
        }
    }
    end_delivery();
    return std::nullopt;
}

Task<void> EventHub::finish(std::size_t index, std::size_t end, const AgentEvent& event,
                            std::stop_token token) {
    for (; index < end; ++index) {
        const std::shared_ptr<ListenerEntry> entry = entries_[index];
        if (!entry->active) continue;
        try {
            if (entry->listener.is_async()) {
                co_await entry->listener.call_async(event, token);
            } else {
                entry->listener.call(event, token);
            }
        } catch (...) {
            threw_ = true;
            if (!failure_) failure_ = std::current_exception();
        }
    }
    end_delivery();
}

void EventHub::end_delivery() {
    busy_ = false;
    if (idle_) idle_->pulse();
    std::erase_if(entries_, [](const auto& entry) { return !entry->active; });
    if (std::exchange(threw_, false)) throw ListenerFailed();
}

Task<void> EventHub::wait_turn() {
    if (!idle_) idle_ = std::make_unique<AsyncEvent>();
    while (busy_) co_await idle_->wait();
}

}  // namespace cubepi::detail
