#include <cubepi/mcp/server/session.hpp>

#include <utility>
#include <vector>

#include <cubepi/core/error.hpp>
#include <cubepi/mcp/protocol.hpp>

namespace cubepi::detail {

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

}  // namespace cubepi::detail
