#include <cubepi/mcp/server/session.hpp>

#include <algorithm>
#include <utility>
#include <vector>

#include <cubepi/core/error.hpp>
#include <cubepi/core/support/json_member.hpp>
#include <cubepi/core/support/parsed_number.hpp>
#include <cubepi/mcp/protocol.hpp>

namespace cubepi::detail {

namespace {

/// Of one answer: notifications that are stored, and ended answers of a session.
constexpr std::size_t max_notifications = 256;
constexpr std::size_t max_ended = 32;

}  // namespace

/// A connection while it is written to.
class McpReplay::Reader {
public:
    explicit Reader(McpReplay& replay) : replay_(replay), number_(++replay.readers_) {
        replay_.active_reader_ = number_;
        replay_.wake();
    }
    Reader(const Reader&) = delete;
    Reader& operator=(const Reader&) = delete;
    ~Reader() {
        if (!is_active()) return;
        replay_.active_reader_ = 0;
        replay_.wake();
    }
    bool is_active() const noexcept { return replay_.active_reader_ == number_; }

private:
    McpReplay& replay_;
    std::uint64_t number_;
};

McpReplay::McpReplay(std::uint64_t id, bool is_primed) : id_(id) {
    if (is_primed) push("data: \n\n", false);
}

void McpReplay::push(std::string text, bool may_be_dropped) {
    Event event;
    event.number = ++last_number_;
    event.text = "id: " + std::to_string(id_) + "-" + std::to_string(last_number_) + "\n" + text;
    event.may_be_dropped = may_be_dropped;
    bytes_ += event.text.size();
    events_.push_back(std::move(event));
}

void McpReplay::add(const RpcMessage& message) {
    const bool may_be_dropped = message.kind == RpcMessage::Kind::notification;
    push(server_sent_event("message", rpc_text(message)), may_be_dropped);
    if (may_be_dropped && events_.size() > max_notifications) {
        const auto oldest = std::ranges::find(events_, true, &Event::may_be_dropped);
        bytes_ -= oldest->text.size();
        events_.erase(oldest);
    }
    wake();
}

void McpReplay::end() {
    is_ended_ = true;
    wake();
}

Task<> McpReplay::change() {
    changed_.reset();
    co_await changed_.wait();
}

const McpReplay::Event* McpReplay::next_after(std::uint64_t number) const {
    const auto next = std::ranges::upper_bound(events_, number, {}, &Event::number);
    return next == events_.end() ? nullptr : &*next;
}

Task<> McpReplay::write(std::shared_ptr<McpReplay> replay, std::uint64_t after,
                        std::stop_token closed, ResponseStream* out) {
    const Reader reader(*replay);
    const std::stop_callback waking(closed, [&replay] { replay->wake(); });
    while (reader.is_active() && !closed.stop_requested()) {
        const Event* next = replay->next_after(after);
        if (next) {
            after = next->number;
            std::string text = next->text;
            co_await out->write(std::move(text));
        } else if (replay->is_ended()) {
            co_return;
        } else {
            co_await replay->change();
        }
    }
}

std::shared_ptr<McpReplay> McpReplays::add(bool is_primed, std::size_t max_bytes) {
    std::vector<std::uint64_t> ended;
    std::size_t bytes = 0;
    for (const auto& [id, replay] : replays_) {
        if (!replay->is_ended()) continue;
        ended.push_back(id);
        bytes += replay->bytes();
    }
    for (std::size_t i = 0; i + 1 < ended.size(); ++i) {
        if (bytes <= max_bytes && ended.size() - i <= max_ended) break;
        bytes -= replays_.at(ended[i])->bytes();
        replays_.erase(ended[i]);
    }
    auto made = std::make_shared<McpReplay>(++last_id_, is_primed);
    replays_.emplace(last_id_, made);
    return made;
}

std::pair<std::shared_ptr<McpReplay>, std::uint64_t> McpReplays::find(
    std::string_view event_id) const {
    const std::size_t end = event_id.find('-');
    if (end == std::string_view::npos) return {};
    const auto id = parsed_number<std::uint64_t>(event_id.substr(0, end));
    const auto number = parsed_number<std::uint64_t>(event_id.substr(end + 1));
    if (!id || !number) return {};
    const auto found = replays_.find(*id);
    if (found == replays_.end()) return {};
    return {found->second, *number};
}

namespace {

constexpr std::size_t max_waiting = 64;

}  // namespace

struct McpSession::Entry {
    std::map<std::int64_t, Waiting*>& all;
    std::int64_t id;

    Entry(std::map<std::int64_t, Waiting*>& entries, std::int64_t key, Waiting& waiting)
        : all(entries), id(key) {
        all.emplace(id, &waiting);
    }
    Entry(const Entry&) = delete;
    Entry& operator=(const Entry&) = delete;
    ~Entry() { all.erase(id); }
};

Task<JsonObject> McpSession::ask(std::string method, JsonObject params, McpSend send) {
    if (is_closed_) throw Error(ErrorCode::disconnected, "the MCP client is gone");
    if (waiting_.size() >= max_waiting) {
        throw Error(ErrorCode::limit, "the MCP client has " + std::to_string(max_waiting) +
                                          " questions that it has not answered");
    }
    const std::int64_t id = ++last_id_;
    Waiting waiting;
    const Entry entry(waiting_, id, waiting);
    RpcMessage request = rpc_request(id, method, std::move(params));
    co_await send(std::move(request));
    co_await waiting.ended.wait();
    if (!waiting.response) throw Error(ErrorCode::disconnected, "the MCP client is gone");
    RpcMessage& response = *waiting.response;
    if (response.kind == RpcMessage::Kind::error) {
        throw McpError(response.code,
                       "the MCP client refuses " + method + ": " + shown_mcp_text(response.text),
                       std::move(response.data));
    }
    co_return std::move(response.result);
}

void McpSession::answered(RpcMessage response) {
    if (!response.id.is_int64()) return;
    const auto entry = waiting_.find(response.id.get_int64());
    if (entry == waiting_.end() || entry->second->response) return;
    entry->second->response = std::move(response);
    entry->second->ended.set();
}

void McpSession::abort_requests() {
    std::vector<std::stop_source> all;
    for (const auto& [id, stop] : running) all.push_back(stop);
    for (std::stop_source& stop : all) stop.request_stop();
}

void McpSession::close() {
    is_closed_ = true;
    for (const auto& [id, waiting] : waiting_) waiting->ended.set();
    if (subscriber) subscriber->close();
}

namespace {

constexpr std::size_t max_uris = 256;
constexpr std::size_t max_uri_bytes = 2048;

}  // namespace

McpFilter McpFilter::from_json(const JsonObject& json) {
    McpFilter filter;
    filter.tools = flag_member(json, "toolsListChanged");
    filter.prompts = flag_member(json, "promptsListChanged");
    filter.resources = flag_member(json, "resourcesListChanged");
    if (const JsonArray* uris = array_member(json, "resourceSubscriptions")) {
        for (const Json& uri : *uris) {
            if (!uri.is_string()) {
                throw Refusal(mcp_error::invalid_params,
                              "`resourceSubscriptions` must be a list of texts.");
            }
            filter.add_uri(uri.get_string());
        }
    }
    return filter;
}

JsonObject McpFilter::to_json() const {
    JsonObject json;
    if (tools) json["toolsListChanged"] = true;
    if (prompts) json["promptsListChanged"] = true;
    if (resources) json["resourcesListChanged"] = true;
    if (uris.empty()) return json;
    JsonArray list;
    for (const std::string& uri : uris) list.emplace_back(uri);
    json["resourceSubscriptions"] = std::move(list);
    return json;
}

void McpFilter::add_uri(std::string_view uri) {
    if (uri.empty() || uri.size() > max_uri_bytes || uris.size() >= max_uris) {
        throw Refusal(mcp_error::invalid_params,
                      "Subscriptions are limited to 256 URIs of at most 2048 bytes.");
    }
    uris.emplace(uri);
}

void McpSubscriber::mark(bool wanted, bool& changed) {
    if (!wanted) return;
    changed = true;
    changed_.set();
}

void McpSubscriber::tools_changed() { mark(filter.tools, tools_); }
void McpSubscriber::prompts_changed() { mark(filter.prompts, prompts_); }
void McpSubscriber::resources_changed() { mark(filter.resources, resources_); }

void McpSubscriber::resource_updated(std::string_view uri) {
    if (!filter.uris.contains(uri)) return;
    updated_.emplace(uri);
    changed_.set();
}

void McpSubscriber::close() {
    is_closed_ = true;
    changed_.set();
}

std::optional<RpcMessage> McpSubscriber::take() {
    if (std::exchange(tools_, false))
        return rpc_notification("notifications/tools/list_changed", JsonObject());
    if (std::exchange(prompts_, false))
        return rpc_notification("notifications/prompts/list_changed", JsonObject());
    if (std::exchange(resources_, false))
        return rpc_notification("notifications/resources/list_changed", JsonObject());
    if (updated_.empty()) return std::nullopt;
    JsonObject params;
    params["uri"] = *updated_.begin();
    updated_.erase(updated_.begin());
    return rpc_notification("notifications/resources/updated", std::move(params));
}

Task<std::optional<RpcMessage>> McpSubscriber::next(std::stop_token stop) {
    while (!is_closed_ && !stop.stop_requested()) {
        std::optional<RpcMessage> change = take();
        if (change) co_return change;
        changed_.reset();
        co_await changed_.wait();
    }
    co_return std::nullopt;
}

Task<> send_changes(std::shared_ptr<McpSubscriber> subscriber,
                    std::function<Task<>(RpcMessage)> send, std::stop_token stop) {
    while (true) {
        std::optional<RpcMessage> change = co_await subscriber->next(stop);
        if (!change) co_return;
        co_await send(std::move(*change));
    }
}

std::shared_ptr<McpSubscriber> McpSubscribers::add(McpFilter filter) {
    forget_ended();
    auto subscriber = std::make_shared<McpSubscriber>(std::move(filter));
    subscribers_.push_back(subscriber);
    return subscriber;
}

void McpSubscribers::for_each(const std::function<void(McpSubscriber&)>& visit) {
    // close() and the like do not run coroutines, so the list does not change meanwhile.
    for (const std::weak_ptr<McpSubscriber>& entry : subscribers_) {
        if (const auto subscriber = entry.lock()) visit(*subscriber);
    }
}

void McpSubscribers::forget_ended() {
    std::erase_if(subscribers_, [](const auto& entry) { return entry.expired(); });
}

}  // namespace cubepi::detail
