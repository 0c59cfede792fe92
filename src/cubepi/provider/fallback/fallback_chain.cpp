#include <cubepi/provider/fallback/fallback_chain.hpp>

#include <algorithm>
#include <utility>

#include <cubepi/provider/error_classification.hpp>
#include <cubepi/provider/wire/user_hook.hpp>

namespace cubepi::detail {

namespace {

/// Runs of which a chain remembers the model. The oldest is forgotten first; it then starts at the first model again.
constexpr std::size_t remembered_runs = 10'000;

constexpr std::chrono::hours longest_server_delay(1);

std::size_t bytes_of(const Message& message) {
    std::size_t bytes = 0;
    const auto add = [&bytes](const auto& content) {
        for (const auto& block : content) {
            if (const auto* text = std::get_if<TextContent>(&block)) bytes += text->text.size();
        }
    };
    if (const UserMessage* user = message.user()) add(user->content);
    if (const ToolResultMessage* result = message.tool_result()) add(result->content);
    if (const AssistantMessage* answer = message.assistant()) {
        add(answer->content);
        for (const ToolCall* call : answer->tool_calls())
            bytes += call->name.size() + boost::json::serialize(call->arguments).size();
    }
    return bytes;
}

}  // namespace

FallbackChain::FallbackChain(std::vector<BoundModel> legs, FallbackOptions options)
    : legs_(std::move(legs)), options_(std::move(options)), cool_downs_(legs_.size()) {}

bool FallbackChain::triggers(const ErrorInfo& error) const {
    const std::set<ErrorCode>& set = options_.trigger_errors;
    if (error.code == ErrorCode::cancelled || is_hook_error(error)) return false;
    if (set.contains(error.code)) return true;
    return set.contains(ErrorCode::unavailable) &&
           error_type_of(error.code) == error_type_of(ErrorCode::unavailable);
}

std::optional<std::size_t> FallbackChain::leg_of(const std::string& run_id) const {
    if (run_id.empty()) return std::nullopt;
    const std::lock_guard lock(mutex_);
    const auto known = leg_of_run_.find(run_id);
    if (known == leg_of_run_.end()) return std::nullopt;
    return known->second;
}

void FallbackChain::worked(std::size_t leg, const std::string& run_id) {
    const std::lock_guard lock(mutex_);
    cool_downs_[leg] = CoolDown();
    if (run_id.empty()) return;
    const auto known = leg_of_run_.find(run_id);
    if (known != leg_of_run_.end()) {
        known->second = leg;
        return;
    }
    if (runs_.size() >= remembered_runs) {
        leg_of_run_.erase(runs_.front());
        runs_.pop_front();
    }
    leg_of_run_.emplace(run_id, leg);
    runs_.push_back(run_id);
}

void FallbackChain::failed(std::size_t leg, const ErrorInfo& error, const std::string& text,
                           Clock::time_point now) {
    if (options_.cool_down <= std::chrono::nanoseconds::zero()) return;
    // Another prompt may fit, and an error that is not a trigger says nothing about the health of the endpoint.
    if (error.code == ErrorCode::context_length || !triggers(error)) return;
    std::chrono::nanoseconds time = options_.cool_down;
    if (error.retry_after) {
        const std::chrono::duration<double> asked(std::min(
            *error.retry_after, std::chrono::duration<double>(longest_server_delay).count()));
        time = std::max(time, std::chrono::duration_cast<std::chrono::nanoseconds>(asked));
    }
    const std::lock_guard lock(mutex_);
    CoolDown& cool_down = cool_downs_[leg];
    cool_down.until = std::max(cool_down.until, deadline_after(now, time));
    cool_down.why = text;
    cool_down.error = error;
}

std::optional<FallbackChain::CoolDown> FallbackChain::cooling(std::size_t leg,
                                                              Clock::time_point now) const {
    const std::lock_guard lock(mutex_);
    const CoolDown& cool_down = cool_downs_[leg];
    if (cool_down.until <= now) return std::nullopt;
    return cool_down;
}

std::int64_t estimate_request_tokens(const ModelRequest& request) {
    std::size_t bytes = request.system_prompt.size();
    for (const Message& message : request.messages) bytes += bytes_of(message);
    if (request.tools) {
        for (const ToolDefinition& tool : *request.tools) {
            bytes += tool.name.size() + tool.description.size();
            if (tool.parameters) bytes += boost::json::serialize(*tool.parameters).size();
        }
    }
    return static_cast<std::int64_t>(bytes / 4);
}

std::string name_of(const Model& model) {
    return model.provider_id.empty() ? model.id : model.provider_id + "/" + model.id;
}

}  // namespace cubepi::detail
