#pragma once

#include <cstddef>
#include <deque>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include <bub/admission.hpp>

namespace bub {

/// The default inbox, used if no plugin provides one: in memory, bounded per session.
class MemorySteeringInbox final : public SteeringInbox {
public:
    explicit MemorySteeringInbox(std::size_t max_messages = 64) : max_messages_(max_messages) {}
    bool enqueue(const std::string& session_id, Envelope message) override;
    std::vector<Envelope> drain(const std::string& session_id) override;
    std::size_t count(const std::string& session_id) const override;

private:
    const std::size_t max_messages_;
    mutable std::mutex mutex_;
    std::map<std::string, std::deque<Envelope>> waiting_;
};

}  // namespace bub
