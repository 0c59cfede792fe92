#include <cubepi/mcp/server/tasks.hpp>

#include <algorithm>
#include <array>
#include <ctime>
#include <utility>

#include <cubepi/core/error.hpp>
#include <cubepi/core/support/json_member.hpp>
#include <cubepi/mcp/server/server_request.hpp>
#include <cubepi/mcp/server/session.hpp>

namespace cubepi::detail {

namespace {

constexpr std::size_t id_bytes = 32;
constexpr std::size_t max_message_bytes = 500;

std::string time_text(std::chrono::system_clock::time_point time) {
    const std::time_t seconds = std::chrono::system_clock::to_time_t(time);
    std::tm parts = {};
    ::gmtime_r(&seconds, &parts);
    std::array<char, 32> text = {};
    const std::size_t size = std::strftime(text.data(), text.size(), "%Y-%m-%dT%H:%M:%SZ", &parts);
    return std::string(text.data(), size);
}

std::int64_t milliseconds(std::chrono::nanoseconds duration) {
    return std::chrono::duration_cast<std::chrono::milliseconds>(duration).count();
}

}  // namespace

bool is_mcp_task_method(std::string_view method) noexcept {
    return method == "tasks/get" || method == "tasks/update" || method == "tasks/cancel";
}

bool declares_mcp_tasks(const JsonObject& params) {
    const JsonObject* meta = object_member(params, "_meta");
    const JsonObject* declared =
        meta ? object_member(*meta, mcp_meta::client_capabilities) : nullptr;
    const JsonObject* extensions = declared ? object_member(*declared, "extensions") : nullptr;
    return extensions && object_member(*extensions, mcp_tasks_extension);
}

void refuse_mcp_tasks() {
    JsonObject extensions;
    extensions[mcp_tasks_extension] = JsonObject();
    JsonObject required;
    required["extensions"] = std::move(extensions);
    JsonObject data;
    data["requiredCapabilities"] = std::move(required);
    throw Refusal(mcp_error::missing_client_capability,
                  "The client must declare the extension " + std::string(mcp_tasks_extension) + ".",
                  std::move(data));
}

/// Questions while a function waits for their answers. They are withdrawn when it is aborted.
class McpTask::OpenEntries {
public:
    explicit OpenEntries(McpTask& task) : task_(task) {}
    OpenEntries(const OpenEntries&) = delete;
    OpenEntries& operator=(const OpenEntries&) = delete;
    ~OpenEntries() {
        for (const auto& [key, entry] : entries_) task_.open_.erase(key);
    }
    std::shared_ptr<Open> add(McpQuestion question) {
        auto entry = std::make_shared<Open>();
        entry->question = std::move(question);
        std::string key = entry->question.key + "-" + std::to_string(++task_.asked_);
        entries_.emplace_back(key, entry);
        task_.open_.emplace(std::move(key), entry);
        return entry;
    }

private:
    McpTask& task_;
    std::vector<std::pair<std::string, std::shared_ptr<Open>>> entries_;
};

McpTask::McpTask(std::string id, std::string owner, McpTaskOptions options,
                 std::shared_ptr<const Runtime> runtime)
    : id_(std::move(id)),
      owner_(std::move(owner)),
      options_(std::move(options)),
      runtime_(std::move(runtime)),
      expires_(deadline_after(runtime_->clock->now(), options_.time_to_live)),
      created_(runtime_->clock->wall()),
      updated_(created_) {}

void McpTask::touch() { updated_ = runtime_->clock->wall(); }

JsonObject McpTask::common() const {
    JsonObject json;
    json["taskId"] = id_;
    json["status"] = is_running() && !open_.empty() ? "input_required" : status_;
    if (!message_.empty()) json["statusMessage"] = message_;
    json["createdAt"] = time_text(created_);
    json["lastUpdatedAt"] = time_text(updated_);
    json["ttlMs"] = milliseconds(options_.time_to_live);
    json["pollIntervalMs"] = milliseconds(options_.poll_interval);
    return json;
}

JsonObject McpTask::created() const {
    JsonObject json = common();
    json["resultType"] = "task";
    return json;
}

JsonObject McpTask::described() const {
    JsonObject json = common();
    if (status_ == "completed") json["result"] = response_.result;
    if (status_ == "failed") {
        JsonObject error;
        error["code"] = response_.code;
        error["message"] = response_.text;
        if (!response_.data.is_null()) error["data"] = response_.data;
        json["error"] = std::move(error);
    }
    if (!is_running() || open_.empty()) return json;
    JsonObject requests;
    for (const auto& [key, entry] : open_) {
        JsonObject request;
        request["method"] = entry->question.method;
        request["params"] = entry->question.params;
        requests[key] = std::move(request);
    }
    json["inputRequests"] = std::move(requests);
    return json;
}

void McpTask::set_message(std::string text) {
    if (!is_running()) return;
    message_ = shown_mcp_text(text, max_message_bytes);
    touch();
}

void McpTask::end(RpcMessage response) {
    if (!is_running()) return;
    status_ = response.kind == RpcMessage::Kind::error ? "failed" : "completed";
    response_ = std::move(response);
    message_.clear();
    touch();
}

void McpTask::cancel() {
    if (!is_running()) return;
    status_ = "cancelled";
    message_.clear();
    touch();
    stop_.request_stop();
}

Task<std::vector<JsonObject>> McpTask::ask(std::vector<McpQuestion> questions) {
    OpenEntries entries(*this);
    std::vector<std::shared_ptr<Open>> asked;
    for (McpQuestion& question : questions) asked.push_back(entries.add(std::move(question)));
    touch();
    std::vector<JsonObject> answers;
    for (const std::shared_ptr<Open>& entry : asked) {
        co_await entry->arrived.wait();
        answers.push_back(std::move(*entry->answer));
    }
    co_return answers;
}

void McpTask::answered(const JsonObject& answers) {
    // All of them are checked first, so that a refused request has no effect.
    for (const auto& member : answers) {
        const auto entry = open_.find(std::string(member.key()));
        if (entry == open_.end()) continue;
        const JsonObject* answer = member.value().if_object();
        const std::string problem =
            answer ? mcp_answer_problem(entry->second->question, *answer) : "it must be an object";
        if (!problem.empty()) {
            throw Refusal(mcp_error::invalid_params,
                          "The answer to " + entry->first + " is invalid: " + problem + ".");
        }
    }
    for (const auto& member : answers) {
        const auto entry = open_.find(std::string(member.key()));
        if (entry == open_.end()) continue;
        const std::shared_ptr<Open> question = entry->second;
        open_.erase(entry);
        question->answer = member.value().get_object();
        question->arrived.set();
        touch();
    }
}

bool TaskRequest::can_ask(std::string_view method) const {
    return mcp_client_answers(capabilities_, method);
}

Task<std::vector<JsonObject>> TaskRequest::ask(std::vector<McpQuestion> questions) {
    for (const McpQuestion& question : questions) {
        if (can_ask(question.method)) continue;
        throw Error(ErrorCode::unsupported, "the MCP client does not answer " + question.method);
    }
    std::vector<JsonObject> answers(questions.size());
    std::vector<std::size_t> open;
    std::vector<McpQuestion> asked;
    for (std::size_t i = 0; i < questions.size(); ++i) {
        if (const JsonObject* known = object_member(earlier_, questions[i].key)) {
            answers[i] = *known;
        } else {
            open.push_back(i);
            asked.push_back(std::move(questions[i]));
        }
    }
    if (asked.empty()) co_return answers;
    std::vector<JsonObject> received = co_await task_->ask(std::move(asked));
    for (std::size_t i = 0; i < open.size(); ++i) answers[open[i]] = std::move(received[i]);
    co_return answers;
}

Task<> TaskRequest::log(McpLogLevel, Json, std::string) { co_return; }

McpTasks::McpTasks(McpTaskOptions options, std::shared_ptr<const Runtime> runtime)
    : options_(std::move(options)), runtime_(std::move(runtime)) {}

bool McpTasks::offers(std::string_view tool) const {
    return std::ranges::find(options_.tools, tool) != options_.tools.end();
}

bool McpTasks::offers_later(std::string_view tool) const {
    return std::ranges::find(options_.later, tool) != options_.later.end();
}

bool McpTasks::requires_task(std::string_view tool) const {
    return std::ranges::find(options_.required, tool) != options_.required.end();
}

void McpTasks::forget_expired() {
    std::erase_if(tasks_, [now = runtime_->clock->now()](const auto& entry) {
        if (entry.second->expires() > now) return false;
        entry.second->cancel();
        // Its function counts, and is waited for, until it has ended.
        return entry.second->has_left();
    });
}

bool McpTasks::forget_oldest(const std::string* owner) {
    auto oldest = tasks_.end();
    for (auto entry = tasks_.begin(); entry != tasks_.end(); ++entry) {
        const McpTask& task = *entry->second;
        // A function that was cancelled may still be running.
        if (!task.has_left() || (owner && task.owner() != *owner)) continue;
        if (oldest == tasks_.end() || task.expires() < oldest->second->expires()) oldest = entry;
    }
    if (oldest == tasks_.end()) return false;
    tasks_.erase(oldest);
    return true;
}

std::shared_ptr<McpTask> McpTasks::create(std::string owner) {
    forget_expired();
    std::size_t own = 0;
    for (const auto& [id, task] : tasks_) {
        if (task->owner() == owner) ++own;
    }
    const bool is_allowed = (own < options_.max_per_client || forget_oldest(&owner)) &&
                            (tasks_.size() < options_.max_tasks || forget_oldest(nullptr));
    if (!is_allowed)
        throw Refusal(mcp_error::internal, "Too many tasks are in progress; cancel one, or wait.");
    auto task =
        std::make_shared<McpTask>(random_secret(id_bytes), std::move(owner), options_, runtime_);
    tasks_.emplace(task->id(), task);
    return task;
}

std::shared_ptr<McpTask> McpTasks::find(std::string_view id, std::string_view owner) {
    forget_expired();
    const auto entry = tasks_.find(id);
    // The id of another client's task is as unknown as one that does not exist.
    const bool is_known = entry != tasks_.end() && entry->second->owner() == owner &&
                          entry->second->expires() > runtime_->clock->now();
    if (!is_known) throw Refusal(mcp_error::invalid_params, "There is no such task (any more).");
    return entry->second;
}

Task<> McpTasks::end_client(std::string owner) {
    std::vector<std::shared_ptr<McpTask>> own;
    for (const auto& [id, task] : tasks_) {
        if (task->owner() == owner) own.push_back(task);
    }
    for (const std::shared_ptr<McpTask>& task : own) {
        tasks_.erase(task->id());
        task->cancel();
    }
    for (const std::shared_ptr<McpTask>& task : own) co_await task->left().wait();
}

void McpTasks::close() {
    for (const auto& [id, task] : tasks_) task->cancel();
    tasks_.clear();
}

}  // namespace cubepi::detail
