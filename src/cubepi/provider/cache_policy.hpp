#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include <cubepi/core/message_list.hpp>

// Prompt caching where the request must say what to cache (Anthropic's cache_control).

namespace cubepi {

/// How long the endpoint is asked to keep a prompt: CubePi's "short", "long" and "none".
enum class CacheRetention : std::uint8_t {
    five_minutes,
    one_hour,  ///< writing costs more
    none,      ///< no markers are sent
};

/// Where the markers of a request go. Everything in front of a marker is cached: tools, then system prompt, then
/// messages. Endpoints take four markers; what is too much is left out from the front of the messages, with a notice.
/// Called from the threads that start calls.
class CacheMarkerPolicy {
public:
    virtual ~CacheMarkerPolicy() = default;
    virtual bool mark_system() const { return true; }
    virtual bool mark_last_tool() const { return true; }
    /// Indices of messages that get a marker on what they contribute last; those that are none are ignored.
    /// The default is the last message, so that each request of a conversation reads what the one before it wrote.
    virtual std::vector<std::size_t> message_breakpoint_indices(const MessageList& messages) const {
        if (messages.empty()) return {};
        return {messages.size() - 1};
    }
};

}  // namespace cubepi
