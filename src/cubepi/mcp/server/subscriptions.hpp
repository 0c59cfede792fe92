#pragma once

#include <functional>
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

namespace cubepi::detail {

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
    std::size_t size();
    void for_each(const std::function<void(McpSubscriber&)>& visit);

private:
    void forget_ended();

    std::vector<std::weak_ptr<McpSubscriber>> subscribers_;
};

}  // namespace cubepi::detail
