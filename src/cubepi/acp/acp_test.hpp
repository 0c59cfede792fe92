#pragma once

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <cubepi/acp/agent.hpp>
#include <cubepi/core/event_signal.hpp>
#include <cubepi/core/outcome.hpp>
#include <cubepi/core/task_scope.hpp>
#include <cubepi/mcp/json_rpc.hpp>
#include <cubepi/schema/json_text.hpp>
#include <cubepi/schema/parse_json.hpp>

namespace cubepi::acp_test {

/// Two queues of bytes between a scripted editor and the agent.
struct Wire {
    AsyncQueue<std::string> to_agent{1};
    AsyncQueue<std::string> to_editor{1};
    bool reads = true;  ///< false: writes of the agent wait
};

class WireStream final : public McpByteStream {
public:
    explicit WireStream(std::shared_ptr<Wire> wire) : wire_(std::move(wire)) {}
    Task<bool> read(std::string& out) override {
        std::optional<std::string> bytes = co_await wire_->to_agent.next();
        if (!bytes) co_return false;
        out += *bytes;
        co_return true;
    }
    Task<> write(std::string bytes) override {
        AsyncEvent never;
        if (!wire_->reads) co_await never.wait();
        (void)wire_->to_editor.force_push(std::move(bytes));
    }

private:
    std::shared_ptr<Wire> wire_;
};

/// An editor whose user is the test.
class ScriptedEditor {
public:
    explicit ScriptedEditor(std::shared_ptr<Wire> wire) : wire_(std::move(wire)) {}

    void send_line(std::string line) { (void)wire_->to_agent.force_push(line + "\n"); }
    void send(const RpcMessage& message) { send_line(rpc_text(message)); }
    void notify(std::string method, std::string params) {
        send(rpc_notification(std::move(method), parse_json(params).as_object()));
    }
    std::int64_t start(std::string method, std::string params) {
        send(rpc_request(++id_, std::move(method), parse_json(params).as_object()));
        return id_;
    }
    /// Ends the agent's standard input.
    void leave() { wire_->to_agent.close(); }

    /// The next message of the agent; updates are collected.
    Task<RpcMessage> next_of_any_kind() {
        std::optional<std::string> line = co_await wire_->to_editor.next();
        if (!line) throw Error(ErrorCode::disconnected, "the agent has ended");
        RpcMessage message = read_rpc_message(std::string_view(*line));
        if (message.method == "session/update")
            updates.push_back(message.params.at("update").as_object());
        co_return message;
    }
    /// The next message of the agent that is not an update.
    Task<RpcMessage> next() {
        while (true) {
            RpcMessage message = co_await next_of_any_kind();
            if (message.method != "session/update") co_return message;
        }
    }
    /// Sends a request and returns its response. Requests of the agent in between fail the test.
    Task<RpcMessage> call(std::string method, std::string params) {
        const std::int64_t id = start(std::move(method), std::move(params));
        RpcMessage message = co_await next();
        if (message.id != Json(id)) throw Error(ErrorCode::protocol, rpc_text(message));
        co_return message;
    }
    /// Initializes and opens a session; returns its id.
    Task<std::string> open(std::string capabilities = "{}") {
        (void)co_await call("initialize",
                            R"({"protocolVersion":1,"clientCapabilities":)" + capabilities + "}");
        RpcMessage made = co_await call("session/new", R"({"cwd":"/project","mcpServers":[]})");
        co_return std::string(made.result.at("sessionId").as_string());
    }

    /// The texts of the updates of a kind, joined.
    std::string text_of(std::string_view kind) const {
        std::string text;
        for (const JsonObject& update : updates) {
            if (update.at("sessionUpdate") == Json(kind))
                text += update.at("content").at("text").as_string();
        }
        return text;
    }
    /// The last update of a kind; null: there is none.
    const JsonObject* update_of(std::string_view kind) const {
        const JsonObject* found = nullptr;
        for (const JsonObject& update : updates) {
            if (update.at("sessionUpdate") == Json(kind)) found = &update;
        }
        return found;
    }

    std::vector<JsonObject> updates;

private:
    std::shared_ptr<Wire> wire_;
    std::int64_t id_ = 0;
};

inline std::string prompt_json(const std::string& session, const std::string& text) {
    return R"({"sessionId":")" + session + R"(","prompt":[{"type":"text","text":")" + text +
           "\"}]}";
}

/// Serves `host` while `script(editor)` runs; the editor leaves after it. Rethrows what either throws.
template <class Script>
Task<> with_editor(std::shared_ptr<AcpHost> host, Script script, AcpLimits limits = {}) {
    const auto wire = std::make_shared<Wire>();
    ScriptedEditor editor(wire);
    const Executor executor = co_await this_executor;
    BackgroundScope agent(executor);
    agent.spawn(serve_acp(std::move(host), std::make_unique<WireStream>(wire), limits));
    Task<> running = script(editor);
    Outcome<> ran = co_await outcome_of(std::move(running));
    editor.leave();
    co_await agent.idle();
    co_await agent.close();
    ran.rethrow();
}

}  // namespace cubepi::acp_test
