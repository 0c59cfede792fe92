#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include <cubepi/core/message_list.hpp>

// Prompt caching for APIs whose requests mark what to cache (Anthropic's cache_control).

namespace cubepi {

/// The lifetime requested for a cached prompt: CubePi's "short", "long" and "none".
enum class CacheRetention : std::uint8_t {
    five_minutes,
    one_hour,  ///< cache writes cost more
    none,      ///< no markers are sent
};

/// Decides where the markers of a request are placed. Everything before a marker is cached: tools, then system
/// prompt, then messages. Endpoints accept four markers; surplus ones are removed from the beginning of the messages,
/// with a notice. Called from the threads that start calls.
class CacheMarkerPolicy {
public:
    virtual ~CacheMarkerPolicy() = default;
    virtual bool mark_system() const { return true; }
    virtual bool mark_last_tool() const { return true; }
    /// Indices of the messages whose last block gets a marker; invalid indices are ignored. The default is the last
    /// message, so that each request of a conversation reads what the previous one wrote.
    virtual std::vector<std::size_t> message_breakpoint_indices(const MessageList& messages) const {
        if (messages.empty()) return {};
        return {messages.size() - 1};
    }
};

}  // namespace cubepi
