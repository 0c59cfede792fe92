#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include <cubepi/acp/editor.hpp>
#include <cubepi/core/event_signal.hpp>
#include <cubepi/mcp/json_rpc.hpp>

namespace cubepi::detail {

/// Messages for the editor, in their order. An editor that does not read them cannot make them grow without limit.
class AcpOutbox {
public:
    explicit AcpOutbox(std::size_t max_bytes) : max_bytes_(max_bytes) {}

    void post(const RpcMessage& message);
    /// Returns the next line; nothing after close().
    Task<std::optional<std::string>> next();
    void close();
    /// Waits for close(). Throws Error(disconnected) after an overflow, which the writer cannot notice: it waits for the editor.
    Task<> until_closed();

private:
    const std::size_t max_bytes_;
    AsyncQueue<std::string> lines_{1};
    std::size_t bytes_ = 0;
    bool is_closed_ = false;
    bool has_overflowed_ = false;
    AsyncEvent closed_;
};

/// The editor of a connection, the requests that it has not answered, and for version 2 what it knows of the work of its sessions.
class ConnectedEditor final : public AcpEditor {
public:
    explicit ConnectedEditor(std::size_t max_queued_bytes) : outbox_(max_queued_bytes) {}

    const AcpEditorInfo& info() const noexcept override { return info_; }
    void update(std::string_view session, JsonObject update) override;
    Task<JsonObject> request(std::string method, JsonObject params) override;

    void set_info(AcpEditorInfo info) { info_ = std::move(info); }
    AcpOutbox& outbox() noexcept { return outbox_; }
    void post(const RpcMessage& message) { outbox_.post(message); }
    /// A response to an unknown id is one that came late, or was never asked for.
    void answered(RpcMessage response);
    /// Requests fail from now on.
    void end();

    // Version 2 reports the work of a session as its state; version 1 has the responses to prompts.

    void begin_work(const std::string& session);
    /// `idle`: the update that reports the end if this was the last work of the session.
    void end_work(const std::string& session, JsonObject idle);
    /// Reports the state of a session that continues.
    void report_state(const std::string& session);

private:
    struct Waiting {
        AsyncEvent done;
        std::optional<RpcMessage> response;
    };
    struct Work {
        std::size_t prompts = 0;
        std::size_t questions = 0;
        std::string_view state() const {
            if (prompts == 0) return "idle";
            return questions > 0 ? "requires_action" : "running";
        }
    };

    void withdraw(std::int64_t id);
    void count_question(const std::string& session, int change);

    AcpEditorInfo info_;
    AcpOutbox outbox_;
    std::int64_t last_id_ = 0;
    std::map<std::int64_t, std::shared_ptr<Waiting>> waiting_;
    std::map<std::string, Work, std::less<>> works_;  ///< of sessions that work
    bool has_ended_ = false;
};

}  // namespace cubepi::detail
