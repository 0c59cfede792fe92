#include <bub/channel.hpp>

#include <iterator>
#include <utility>

namespace bub {

std::string_view to_string(AdmitAction action) noexcept {
    switch (action) {
        case AdmitAction::process: return "process";
        case AdmitAction::drop: return "drop";
        case AdmitAction::follow_up: return "follow_up";
        case AdmitAction::steer: return "steer";
    }
    return "process";
}

bool MemorySteeringInbox::enqueue(const std::string& session_id, Envelope message) {
    const std::lock_guard lock(mutex_);
    std::deque<Envelope>& waiting = waiting_[session_id];
    if (waiting.size() >= max_messages_) return false;
    waiting.push_back(std::move(message));
    return true;
}

std::vector<Envelope> MemorySteeringInbox::drain(const std::string& session_id) {
    const std::lock_guard lock(mutex_);
    const auto found = waiting_.find(session_id);
    if (found == waiting_.end()) return {};
    std::vector<Envelope> messages(std::make_move_iterator(found->second.begin()),
                                   std::make_move_iterator(found->second.end()));
    waiting_.erase(found);
    return messages;
}

void SteeringInbox::put_back(const std::string& session_id, std::vector<Envelope> messages) {
    for (Envelope& message : messages) (void)enqueue(session_id, std::move(message));
}

void MemorySteeringInbox::put_back(const std::string& session_id, std::vector<Envelope> messages) {
    if (messages.empty()) return;
    const std::lock_guard lock(mutex_);
    std::deque<Envelope>& waiting = waiting_[session_id];
    waiting.insert(waiting.begin(), std::make_move_iterator(messages.begin()),
                   std::make_move_iterator(messages.end()));
}

std::size_t MemorySteeringInbox::count(const std::string& session_id) const {
    const std::lock_guard lock(mutex_);
    const auto found = waiting_.find(session_id);
    return found == waiting_.end() ? 0 : found->second.size();
}

Task<> Channel::prepare() { co_return; }

Task<> Channel::send(Envelope) { co_return; }

EventStream Channel::stream_events(const Envelope&, EventStream stream) { return stream; }

Task<std::optional<AdmitDecision>> Channel::admit_message(std::string, const Envelope&,
                                                          TurnSnapshot) {
    co_return std::nullopt;
}

Task<std::optional<AdmitDecision>> OutboundChannelRouter::admit_message(std::string,
                                                                        const Envelope&,
                                                                        TurnSnapshot) {
    co_return std::nullopt;
}

Task<> OutboundChannelRouter::plan_outputs(std::string, std::vector<TurnOutput>) { co_return; }

Task<> OutboundChannelRouter::quit(std::string) { co_return; }

}  // namespace bub
