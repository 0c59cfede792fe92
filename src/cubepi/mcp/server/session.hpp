#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <stop_token>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <cubepi/core/event_signal.hpp>
#include <cubepi/core/json.hpp>
#include <cubepi/core/task.hpp>
#include <cubepi/mcp/json_rpc.hpp>
#include <cubepi/mcp/protocol.hpp>
#include <cubepi/mcp/server_features.hpp>
#include <cubepi/net/http_server.hpp>

namespace cubepi::detail {

// Streams of a session that continue after a lost connection (D168): each event has an id, and a client that states the last one that it has
// received (Last-Event-ID) gets the following ones.

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

/// An error response of the server, as an exception.
struct Refusal {
    int code;
    std::string text;
    Json data;

    Refusal(int its_code, std::string its_text, Json its_data = {})
        : code(its_code), text(std::move(its_text)), data(std::move(its_data)) {}
};

/// The changes of which a client wants to be notified.
struct McpFilter {
    bool tools = false;
    bool prompts = false;
    bool resources = false;
    std::set<std::string, std::less<>> uris = {};  ///< of resources whose content changes

    /// Reads the member `notifications` of `subscriptions/listen`. Throws Refusal.
    static McpFilter from_json(const JsonObject& json);
    JsonObject to_json() const;
    /// Adds a resource. Throws Refusal if the URI is too long or there are too many.
    void add_uri(std::string_view uri);
};

/// The changes that a client has not been sent yet. Repeated changes are one, so the memory of a client that reads slowly is limited
/// by its filter.
class McpSubscriber {
public:
    explicit McpSubscriber(McpFilter wanted) : filter(std::move(wanted)) {}

    McpFilter filter;

    void tools_changed();
    void prompts_changed();
    void resources_changed();
    void resource_updated(std::string_view uri);
    /// Ends next().
    void close();
    /// Lets next() check its token.
    void wake() { changed_.set(); }

    /// Waits for the next notification; returns nothing after close(), or if stop is requested. Used by one coroutine at a time.
    Task<std::optional<RpcMessage>> next(std::stop_token stop);

private:
    void mark(bool wanted, bool& changed);
    std::optional<RpcMessage> take();

    bool tools_ = false;
    bool prompts_ = false;
    bool resources_ = false;
    std::set<std::string, std::less<>> updated_;
    bool is_closed_ = false;
    AsyncEvent changed_;
};

/// Sends the notifications of a subscriber until it is closed, or woken after a request to stop.
Task<> send_changes(std::shared_ptr<McpSubscriber> subscriber,
                    std::function<Task<>(RpcMessage)> send, std::stop_token stop = {});

/// All subscribers of a server.
class McpSubscribers {
public:
    std::shared_ptr<McpSubscriber> add(McpFilter filter);
    void for_each(const std::function<void(McpSubscriber&)>& visit);

private:
    void forget_ended();

    std::vector<std::weak_ptr<McpSubscriber>> subscribers_;
};

/// Sends a message to a client.
using McpSend = std::function<Task<>(RpcMessage message)>;

/// A client of the era with sessions: what it has told the server, its requests in progress, and the questions to it. A connection over
/// standard streams has one, whatever the era of its client. Used on the executor of the server.
class McpSession {
public:
    McpSession() = default;
    McpSession(const McpSession&) = delete;
    McpSession& operator=(const McpSession&) = delete;

    std::string client = {};   ///< that has opened it, McpRouteOptions::client; empty: any
    std::string version = {};  ///< empty: `initialize` has not been called
    JsonObject capabilities = {};
    McpLogLevel log_level = McpLogLevel::info;
    /// Null until `initialize`, or if the server announces no changes.
    std::shared_ptr<McpSubscriber> subscriber = {};
    bool has_stream = false;  ///< over HTTP: its notifications are being written
    /// Requests in progress by their ids, as text: 1 and "1" are different.
    std::map<std::string, std::stop_source> running = {};
    McpReplays replays = {};  ///< over HTTP

    /// Sends a request to the client and waits for the response. Throws McpError for an error response, Error(disconnected) if the
    /// session is closed, Error(limit) if too many requests wait.
    Task<JsonObject> ask(std::string method, JsonObject params, McpSend send);
    /// Receives a response of the client. One that nothing waits for is ignored.
    void answered(RpcMessage response);
    /// Ends all questions, and the subscriber. Requests in progress are not affected.
    void close();
    /// Aborts the requests in progress.
    void abort_requests();
    bool is_closed() const noexcept { return is_closed_; }

private:
    struct Waiting {
        AsyncEvent ended;
        std::optional<RpcMessage> response;
    };
    struct Entry;

    bool is_closed_ = false;
    std::int64_t last_id_ = 0;
    std::map<std::int64_t, Waiting*> waiting_;
};

}  // namespace cubepi::detail
