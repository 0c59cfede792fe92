#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>
#include <utility>

#include <cubepi/core/event_signal.hpp>
#include <cubepi/core/task.hpp>
#include <cubepi/mcp/json_rpc.hpp>
#include <cubepi/net/http_server.hpp>

// Streams of a session that continue after a lost connection (D168): each event has an id, and a client that states the last one that it has
// received (Last-Event-ID) gets the following ones.

namespace cubepi::detail {

/// The events of one answer: its notifications and questions, and its response. Used on the executor of the server.
class McpReplay {
public:
    /// `id` is unique in the session. `is_primed`: the first event is empty, so that the client knows an id from the beginning.
    McpReplay(std::uint64_t id, bool is_primed);

    /// Stores an event. When there are too many, the oldest notifications are forgotten, never questions and the response.
    void add(const RpcMessage& message);
    /// No event follows.
    void end();
    bool is_ended() const noexcept { return is_ended_; }
    std::size_t bytes() const noexcept { return bytes_; }

    /// Returns true if a connection is being written to.
    bool has_reader() const noexcept { return active_reader_ != 0; }
    /// Returns how many connections have been written to so far.
    /// Waits for the next event, the end, or the begin or end of a connection.
    Task<> change();
    void wake() { changed_.set(); }

    /// Writes the events after the one with this number, and the following ones until the end of the answer or of the connection. A
    /// later call replaces this one.
    static Task<> write(std::shared_ptr<McpReplay> replay, std::uint64_t after,
                        std::stop_token closed, ResponseStream* out);

private:
    struct Event {
        std::uint64_t number;
        std::string text;
        bool may_be_dropped;
    };
    class Reader;

    void push(std::string text, bool may_be_dropped);
    const Event* next_after(std::uint64_t number) const;

    const std::uint64_t id_;
    std::deque<Event> events_;
    std::uint64_t last_number_ = 0;
    std::size_t bytes_ = 0;
    std::uint64_t readers_ = 0;
    std::uint64_t active_reader_ = 0;  ///< 0: none
    bool is_ended_ = false;
    AsyncEvent changed_;
};

/// The answers of a session whose events are stored: those in progress, and the last ones that have ended.
class McpReplays {
public:
    /// Stores another answer; forgets ended ones that exceed `max_bytes`, oldest first, except the last one.
    std::shared_ptr<McpReplay> add(bool is_primed, std::size_t max_bytes);
    /// Returns the answer of an event, and the number of the event in it; null if it is unknown or forgotten.
    std::pair<std::shared_ptr<McpReplay>, std::uint64_t> find(std::string_view event_id) const;

private:
    std::uint64_t last_id_ = 0;
    std::map<std::uint64_t, std::shared_ptr<McpReplay>> replays_;
};

}  // namespace cubepi::detail
