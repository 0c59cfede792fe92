#include <bub/channel/steering_inbox.hpp>

#include <iterator>
#include <utility>

namespace bub {

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

std::size_t MemorySteeringInbox::count(const std::string& session_id) const {
    const std::lock_guard lock(mutex_);
    const auto found = waiting_.find(session_id);
    return found == waiting_.end() ? 0 : found->second.size();
}

}  // namespace bub
