#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <bub/envelope.hpp>

namespace bub {

/// What becomes of a message that arrives.
enum class AdmitAction : std::uint8_t {
    process,    ///< a turn of its own, after those that came before it
    drop,       ///< nothing
    follow_up,  ///< a turn of its own when the running one is over
    steer,      ///< given to the running turn; a follow-up where there is none
};
std::string_view to_string(AdmitAction action) noexcept;

/// What admission says of one message.
struct AdmitDecision {
    AdmitAction action = AdmitAction::process;
    std::string reason = {};
};

/// What admission knows of the session a message is for.
struct TurnSnapshot {
    std::string session_id = {};
    bool is_running = false;
    std::size_t running_count = 0;
    std::size_t pending_count = 0;
    std::size_t steering_count = 0;
};

/// Messages on their way into turns that run. One for all sessions; any thread may call it.
class SteeringInbox {
public:
    virtual ~SteeringInbox() = default;
    /// False when the session's queue is full (B14).
    virtual bool enqueue(const std::string& session_id, Envelope message) = 0;
    /// Takes all that wait, oldest first.
    virtual std::vector<Envelope> drain(const std::string& session_id) = 0;
    virtual std::size_t count(const std::string& session_id) const = 0;
};

}  // namespace bub
