#include <cubepi/acp/wire/connected_editor.hpp>

#include <utility>

#include <cubepi/acp/wire/version_two.hpp>
#include <cubepi/core/support/json_member.hpp>

namespace cubepi::detail {

namespace {

[[noreturn]] void throw_ended() {
    throw Error(ErrorCode::disconnected, "The editor has ended the connection.");
}

}  // namespace

void AcpOutbox::post(const RpcMessage& message) {
    if (is_closed_) return;
    std::string line = rpc_text(message) + "\n";
    bytes_ += line.size();
    if (bytes_ > max_bytes_) {
        has_overflowed_ = true;
        close();
        return;
    }
    (void)lines_.force_push(std::move(line));
}

Task<std::optional<std::string>> AcpOutbox::next() {
    std::optional<std::string> line = co_await lines_.next();
    if (line) bytes_ -= line->size();
    co_return line;
}

void AcpOutbox::close() {
    is_closed_ = true;
    lines_.close();
    closed_.set();
}

Task<> AcpOutbox::until_closed() {
    co_await closed_.wait();
    if (has_overflowed_)
        throw Error(ErrorCode::disconnected, "The editor does not read its messages.");
}

void ConnectedEditor::update(std::string_view session, JsonObject update) {
    JsonObject params;
    params["sessionId"] = session;
    if (info_.protocol >= 2) {
        std::optional<JsonObject> translated = update_two(std::move(update));
        if (!translated) return;
        update = std::move(*translated);
    }
    params["update"] = std::move(update);
    post(rpc_notification("session/update", std::move(params)));
}

Task<JsonObject> ConnectedEditor::request(std::string method, JsonObject params) {
    if (has_ended_) throw_ended();
    struct Withdrawal {
        ConnectedEditor& editor;
        std::int64_t id;
        std::string asks;  ///< the session whose user is asked
        ~Withdrawal() {
            editor.withdraw(id);
            if (!asks.empty()) editor.count_question(asks, -1);
        }
    };
    const bool asks = method == "session/request_permission";
    std::string session = asks ? text_member(params, "sessionId") : std::string();
    const std::int64_t id = ++last_id_;
    const auto waiting = std::make_shared<Waiting>();
    waiting_.emplace(id, waiting);
    post(rpc_request(id, std::move(method), std::move(params)));
    if (!session.empty()) count_question(session, 1);
    const Withdrawal withdrawal{*this, id, std::move(session)};
    co_await waiting->done.wait();
    if (!waiting->response) throw_ended();
    RpcMessage& response = *waiting->response;
    if (response.kind == RpcMessage::Kind::error)
        throw AcpError(response.code, "The editor has refused: " + response.text);
    co_return std::move(response.result);
}

void ConnectedEditor::answered(RpcMessage response) {
    const std::int64_t* id = response.id.if_int64();
    const auto entry = id ? waiting_.find(*id) : waiting_.end();
    if (entry == waiting_.end() || entry->second->response) return;
    entry->second->response = std::move(response);
    entry->second->done.set();
}

void ConnectedEditor::end() {
    has_ended_ = true;
    for (auto& [id, waiting] : waiting_) waiting->done.set();
}

void ConnectedEditor::withdraw(std::int64_t id) {
    const auto entry = waiting_.find(id);
    if (entry == waiting_.end()) return;
    const bool is_answered = entry->second->response.has_value();
    waiting_.erase(entry);
    if (is_answered || has_ended_) return;
    JsonObject params;
    params["requestId"] = id;
    post(rpc_notification("$/cancel_request", std::move(params)));
}

void ConnectedEditor::count_question(const std::string& session, int change) {
    // A question of background work does not block the foreground, which is idle.
    const auto entry = works_.find(session);
    if (entry == works_.end()) return;
    Work& work = entry->second;
    const std::string_view before = work.state();
    if (change > 0) {
        ++work.questions;
    } else if (work.questions > 0) {
        --work.questions;
    }
    if (work.state() != before) update(session, state_update(work.state()));
}

void ConnectedEditor::begin_work(const std::string& session) {
    Work& work = works_[session];
    if (++work.prompts == 1) update(session, state_update(work.state()));
}

void ConnectedEditor::end_work(const std::string& session, JsonObject idle) {
    const auto entry = works_.find(session);
    if (entry == works_.end() || --entry->second.prompts > 0) return;
    works_.erase(entry);
    update(session, std::move(idle));
}

void ConnectedEditor::report_state(const std::string& session) {
    const auto entry = works_.find(session);
    update(session, state_update(entry == works_.end() ? "idle" : entry->second.state()));
}

}  // namespace cubepi::detail
