#pragma once

#include <chrono>
#include <cstddef>
#include <map>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include <cubepi/core/event_signal.hpp>
#include <cubepi/core/json.hpp>
#include <cubepi/core/runtime.hpp>
#include <cubepi/core/task.hpp>
#include <cubepi/mcp/json_rpc.hpp>
#include <cubepi/mcp/server.hpp>
#include <cubepi/mcp/server_features.hpp>

// Calls that their client follows by an id (D167), the extension io.modelcontextprotocol/tasks of 2026-07-28.

namespace cubepi::detail {

/// Returns true for the methods about a task.
bool is_mcp_task_method(std::string_view method) noexcept;
/// Returns true if the client of a request has declared the extension in `_meta`.
bool declares_mcp_tasks(const JsonObject& params);
/// Throws the refusal of a request about tasks whose client has not.
[[noreturn]] void refuse_mcp_tasks();

/// A call in progress, or its result. Used on the executor of the server.
class McpTask {
public:
    McpTask(std::string id, std::string owner, McpTaskOptions options,
            std::shared_ptr<const Runtime> runtime);

    const std::string& id() const noexcept { return id_; }
    const std::string& owner() const noexcept { return owner_; }
    /// Aborts the call when stop is requested.
    std::stop_token stop_token() const noexcept { return stop_.get_token(); }
    bool is_running() const noexcept { return status_ == "working"; }
    Clock::time_point expires() const noexcept { return expires_; }
    /// The time in which the call must end.
    std::chrono::nanoseconds time_to_live() const noexcept { return options_.time_to_live; }

    /// The description without result and questions: the answer to the call.
    JsonObject created() const;
    /// The description with the result, the error, or the open questions.
    JsonObject described() const;

    void set_message(std::string text);
    /// Ends the call with its response, unless it was cancelled.
    void end(RpcMessage response);
    /// Ends the call; does nothing if it has ended.
    void cancel();

    /// Is set when the function of the call has ended, which is after the end of the task if it was cancelled.
    AsyncEvent& left() noexcept { return left_; }
    bool has_left() const noexcept { return left_.is_set(); }

    /// Waits until the client has answered all questions.
    Task<std::vector<JsonObject>> ask(std::vector<McpQuestion> questions);
    /// Receives answers of the client by the keys of described(). Others are ignored. Throws Refusal for one that is invalid.
    void answered(const JsonObject& answers);

private:
    /// A question without an answer yet.
    struct Open {
        McpQuestion question;
        std::optional<JsonObject> answer;
        AsyncEvent arrived;
    };
    class OpenEntries;

    void touch();
    JsonObject common() const;

    const std::string id_;
    const std::string owner_;
    const McpTaskOptions options_;
    const std::shared_ptr<const Runtime> runtime_;
    const Clock::time_point expires_;
    std::chrono::system_clock::time_point created_;
    std::chrono::system_clock::time_point updated_;
    std::string_view status_ = "working";
    std::string message_;
    RpcMessage response_;
    std::map<std::string, std::shared_ptr<Open>> open_;  ///< by the keys for the client
    std::size_t asked_ = 0;
    std::stop_source stop_;
    AsyncEvent left_;
};

/// The request of a call that is executed as a task. The task must outlive it.
class TaskRequest final : public McpRequest {
public:
    /// `earlier`: answers of the client before the call became a task, which were checked.
    TaskRequest(std::shared_ptr<McpTask> task, JsonObject capabilities, JsonObject earlier)
        : task_(std::move(task)),
          capabilities_(std::move(capabilities)),
          earlier_(std::move(earlier)) {}

    const JsonObject& client_capabilities() const noexcept override { return capabilities_; }
    const std::string& client() const noexcept override { return task_->owner(); }
    bool can_ask(std::string_view method) const override;
    Task<std::vector<JsonObject>> ask(std::vector<McpQuestion> questions) override;
    /// Does nothing: the call has been answered, so nothing carries messages for the log.
    Task<> log(McpLogLevel level, Json data, std::string logger) override;

private:
    std::shared_ptr<McpTask> task_;
    JsonObject capabilities_;
    JsonObject earlier_;
};

/// The tasks of a server, of all clients. A client finds its own ones only.
class McpTasks {
public:
    McpTasks(McpTaskOptions options, std::shared_ptr<const Runtime> runtime);

    /// Returns true if calls of the tool are tasks at once, and if its function can make them tasks later.
    bool offers(std::string_view tool) const;
    bool offers_later(std::string_view tool) const;
    /// Returns true if they have to be tasks.
    bool requires_task(std::string_view tool) const;
    bool is_offered() const noexcept { return !options_.tools.empty() || !options_.later.empty(); }

    /// Throws Refusal if there are too many.
    std::shared_ptr<McpTask> create(std::string owner);
    /// Throws Refusal if the client has no such task.
    std::shared_ptr<McpTask> find(std::string_view id, std::string_view owner);
    /// Cancels the tasks of a client that is gone, forgets them, and waits until their functions have ended.
    Task<> end_client(std::string owner);
    /// Cancels all of them.
    void close();

private:
    using Entries = std::map<std::string, std::shared_ptr<McpTask>, std::less<>>;

    void forget_expired();
    /// Forgets the oldest task that has ended, of one client or (null) of all. Returns false if there is none.
    bool forget_oldest(const std::string* owner);

    const McpTaskOptions options_;
    const std::shared_ptr<const Runtime> runtime_;
    Entries tasks_;
};

}  // namespace cubepi::detail
