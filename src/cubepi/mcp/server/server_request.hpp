#pragma once

#include <chrono>
#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <cubepi/core/json.hpp>
#include <cubepi/core/runtime.hpp>
#include <cubepi/core/task.hpp>
#include <cubepi/mcp/server/session.hpp>
#include <cubepi/mcp/server_features.hpp>

namespace cubepi::detail {

/// The answers that a client has sent in earlier rounds of a request.
struct McpRounds {
    JsonObject answers = {};  ///< by the keys of the questions
    std::size_t rounds = 0;
};

/// Seals the state of a request over several rounds, which the client stores (`requestState`), and reads it again. The state is
/// authenticated (HMAC-SHA256), expires, and belongs to one request: a client can neither change it nor use it for another one.
class McpRequestStates {
public:
    /// An empty key: a random one, so that states are valid in this process only.
    McpRequestStates(std::string key, std::chrono::nanoseconds lifetime, std::size_t max_bytes,
                     std::shared_ptr<const Runtime> runtime);

    /// Throws Refusal if the state would be too large.
    std::string seal(const McpRounds& rounds, std::string_view request) const;
    /// Throws Refusal if the state is not one of this server, has expired, or belongs to another request.
    McpRounds open(std::string_view state, std::string_view request) const;

private:
    std::string key_;
    std::chrono::nanoseconds lifetime_;
    std::size_t max_bytes_;
    std::shared_ptr<const Runtime> runtime_;
};

/// Identifies a request over its rounds: its method, its target and its arguments, whatever the order of their members.
std::string mcp_request_digest(std::string_view method, std::string_view target,
                               const JsonObject& arguments);

/// Returns random bytes as hexadecimal text, for keys and ids of sessions.
std::string random_secret(std::size_t bytes);

/// Returns true if a client with these capabilities answers questions of this method.
bool mcp_client_answers(const JsonObject& capabilities, std::string_view method);
/// Returns why an answer does not fit its question; empty if it does.
std::string mcp_answer_problem(const McpQuestion& question, const JsonObject& answer);

/// The request of a client that a tool, a resource or a prompt answers.
class ServerRequest final : public McpRequest {
public:
    /// A request of a client without a session. Reads `inputResponses`, `requestState` and the log level. Throws Refusal for invalid
    /// ones. `digest` identifies the request, see mcp_request_digest().
    ServerRequest(const JsonObject& params, std::string digest, const McpRequestStates& states,
                  std::size_t max_rounds, McpSend send);
    /// A request of a session; null: the client has opened none, and cannot be asked.
    ServerRequest(std::shared_ptr<McpSession> session, McpSend send);

    const JsonObject& client_capabilities() const noexcept override { return capabilities_; }
    const std::string& client() const noexcept override { return client_; }
    void set_client(std::string client) { client_ = std::move(client); }
    bool can_ask(std::string_view method) const override;
    Task<std::vector<JsonObject>> ask(std::vector<McpQuestion> questions) override;
    Task<> continue_as_task() override;
    Task<> log(McpLogLevel level, Json data, std::string logger) override;

    bool is_stateless() const noexcept { return states_ != nullptr; }
    /// Lets the function continue as a task.
    void allow_task() noexcept { may_be_task_ = true; }
    bool becomes_task() const noexcept { return becomes_task_; }
    /// Returns the answers that the function has received, by the keys of their questions.
    const JsonObject& answers() const noexcept { return used_; }
    /// Must be called when the function that answers has ended: what it has left running cannot use the client any more.
    void end() noexcept { send_ = nullptr; }
    /// Throws Refusal if the request is refused, whatever its function has returned.
    void throw_refusal() const;
    /// Returns true if the client must answer questions.
    bool needs_input() const noexcept { return !open_.empty(); }
    /// Returns the result that asks the client. Throws Refusal if it has been asked too many times.
    JsonObject input_required() const;

private:
    std::vector<JsonObject> ask_by_result(std::vector<McpQuestion> questions);
    [[noreturn]] void refuse(Refusal refusal);
    void check(const McpQuestion& question, const JsonObject& answer) const;

    std::string client_;
    JsonObject capabilities_;
    std::optional<McpLogLevel> log_level_;
    McpSend send_;
    // With a session.
    std::shared_ptr<McpSession> session_;
    // Without.
    const McpRequestStates* states_ = nullptr;
    std::string digest_;
    std::size_t max_rounds_ = 0;
    McpRounds earlier_;
    JsonObject sent_;  ///< answers in this request
    JsonObject used_;  ///< answers that the function has received
    std::vector<McpQuestion> open_;
    std::optional<Refusal> refusal_;
    bool may_be_task_ = false;
    bool becomes_task_ = false;
};

}  // namespace cubepi::detail
