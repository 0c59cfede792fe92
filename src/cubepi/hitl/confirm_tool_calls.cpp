#include <cubepi/hitl/confirm_tool_calls.hpp>

#include <algorithm>
#include <utility>

#include <cubepi/agent/subagent_channel.hpp>
#include <cubepi/core/number_text.hpp>
#include <cubepi/hitl/checkpointed_channel.hpp>

namespace cubepi {

namespace {

/// A schema above this size is not stored with each request (D63).
constexpr std::size_t max_stored_schema = 64 * 1024;

BeforeToolCallResult blocked(std::string reason, JsonObject trace) {
    BeforeToolCallResult result;
    result.block = true;
    result.reason = std::move(reason);
    result.hitl_trace = Json(std::move(trace));
    return result;
}

BeforeToolCallResult result_of(ApproveAnswer answer, const JsonObject& args) {
    BeforeToolCallResult result;
    switch (answer.decision) {
        case ApproveDecision::approve:
            result.hitl_trace = Json(JsonObject{{"decision", "human_approve"}});
            break;
        case ApproveDecision::deny: {
            JsonObject trace{{"decision", "human_deny"}};
            if (answer.reason) trace["reason"] = *answer.reason;
            return blocked(answer.reason.value_or("the user denied this call"), std::move(trace));
        }
        case ApproveDecision::edit:
            result.hitl_trace = Json(JsonObject{{"decision", "edit"},
                                                {"original_args", args},
                                                {"edited_args", *answer.edited_args}});
            result.edited_args = std::move(answer.edited_args);
            break;
    }
    return result;
}

HitlOptions options_for(const BeforeToolCallContext& call, const AskUser& question) {
    HitlOptions options;
    options.timeout = question.timeout;
    const Json& schema = call.tool.parameters.source();
    if (json_text(schema).size() <= max_stored_schema) options.extra["input_schema"] = schema;
    if (call.judged_file && *call.judged_file)
        options.extra["target"] = (*call.judged_file)->target;
    return options;
}

ApproveRequest request_for(const BeforeToolCallContext& call) {
    ApproveRequest request;
    request.tool_name = call.tool_call.name.str();
    request.tool_call_id = call.tool_call.id.str();
    request.args = call.args;
    return request;
}

/// Only a run that continues has no request of its own, and may have answers.
Task<bool> has_stored_answer(std::shared_ptr<HitlChannel> channel,
                             const BeforeToolCallContext& call) {
    const auto stored = std::dynamic_pointer_cast<CheckpointedChannel>(channel);
    if (!stored || call.context.request) co_return false;
    HitlRequest request;
    request.payload = request_for(call);
    request.extra = options_for(call, AskUser()).extra;
    co_return co_await stored->has_answer(std::move(request));
}

/// Asks on `channel`, or on that of the sub-agent which makes the call (D114).
Task<std::optional<BeforeToolCallResult>> ask_user(std::shared_ptr<HitlChannel> channel,
                                                   const BeforeToolCallContext& call,
                                                   AskUser question) {
    channel = detail::channel_for_call(std::move(channel), call.context.channel());
    HitlOptions options = options_for(call, question);
    ApproveRequest approval = request_for(call);
    approval.details = std::move(question.details);
    HitlPayload payload(std::move(approval));
    std::optional<BeforeToolCallResult> result;
    try {
        const Json answer = co_await channel->request(std::move(payload), std::move(options));
        result.emplace(result_of(approve_answer_from_json(answer), call.args));
    } catch (const HitlTimedOut& error) {
        result.emplace(blocked("approval_timeout: no answer within " + seconds_text(error.limit()),
                               JsonObject{{"decision", "timed_out"}}));
    } catch (const HitlCancelled& error) {
        result.emplace(blocked("cancelled: " + error.reason(),
                               JsonObject{{"decision", "cancelled"}, {"reason", error.reason()}}));
    }
    co_return result;
}

/// Returns true for the tools that only bring something to the user: a question, and a typed answer.
bool has_no_effect(const AgentTool& tool) {
    return tool.risk_level == ToolRisk::read_only &&
           (tool.name == "ask_user" || tool.name == "structured_output");
}

std::optional<JudgedFile> judged_file(const BeforeToolCallContext& call) {
    return call.judged_file ? *call.judged_file : std::nullopt;
}

/// Returns true if a link in the path of a call has changed since the user was asked.
bool leads_elsewhere(const std::optional<JudgedFile>& shown, const std::optional<JudgedFile>& now) {
    return shown && now && shown->path == now->path && shown->target != now->target;
}

constexpr std::string_view other_file =
    "the path leads to another file than when the user was asked; make the call again";
constexpr std::string_view cannot_ask =
    "the call needs the user's approval, and the user cannot be asked here";

}  // namespace

ApprovalPolicyMiddleware::ApprovalPolicyMiddleware(std::shared_ptr<HitlChannel> channel,
                                                   ApprovalPolicy policy)
    : channel_(std::move(channel)), policy_(std::move(policy)) {
    if (!policy_)
        throw Error(ErrorCode::invalid_argument, "ApprovalPolicyMiddleware needs a policy");
}

Task<std::optional<BeforeToolCallResult>> ApprovalPolicyMiddleware::before_tool_call(
    BeforeToolCallContext& call) {
    ApprovalDecision decision = co_await policy_(call);
    std::optional<BeforeToolCallResult> result;
    // The rules may have changed since the user was asked about the call.
    if (std::holds_alternative<Approve>(decision)) {
        const bool is_answered = co_await has_stored_answer(channel_, call);
        if (is_answered) decision = AskUser();
    }
    if (auto* deny = std::get_if<Deny>(&decision)) {
        JsonObject trace{{"decision", "policy_deny"}, {"reason", deny->reason}};
        result.emplace(blocked(deny->reason, std::move(trace)));
    } else if (auto* question = std::get_if<AskUser>(&decision)) {
        if (!channel_) {
            JsonObject trace{{"decision", "policy_deny"}, {"reason", cannot_ask}};
            co_return blocked(std::string(cannot_ask), std::move(trace));
        }
        result = co_await ask_user(channel_, call, std::move(*question));
        if (!result->edited_args) co_return result;
        BeforeToolCallContext edited = call;
        edited.args = *result->edited_args;
        const std::optional<JudgedFile> shown = judged_file(call);
        ApprovalDecision again = co_await policy_(edited);
        if (leads_elsewhere(shown, judged_file(call))) again = Deny{std::string(other_file)};
        if (auto* deny = std::get_if<Deny>(&again)) {
            JsonObject trace{{"decision", "policy_deny"}, {"reason", deny->reason}};
            result.emplace(blocked(deny->reason, std::move(trace)));
        }
    }
    co_return result;
}

RequireConfirm::RequireConfirm(std::initializer_list<std::string_view> tools)
    : RequireConfirm(std::vector<std::string>(tools.begin(), tools.end())) {}

RequireConfirm::RequireConfirm(const std::vector<std::string>& tools)
    : predicate_([tools](const BeforeToolCallContext& call) {
          return std::find(tools.begin(), tools.end(), call.tool_call.name.str()) != tools.end();
      }) {}

bool RequireConfirm::operator()(const BeforeToolCallContext& call) const {
    return predicate_ ? predicate_(call) : !has_no_effect(call.tool);
}

ConfirmToolCallMiddleware::ConfirmToolCallMiddleware(std::shared_ptr<HitlChannel> channel,
                                                     ConfirmToolCallOptions options)
    : channel_(std::move(channel)), options_(std::move(options)) {
    if (!channel_)
        throw Error(ErrorCode::invalid_argument, "ConfirmToolCallMiddleware needs a channel");
}

Task<std::optional<BeforeToolCallResult>> ConfirmToolCallMiddleware::before_tool_call(
    BeforeToolCallContext& call) {
    std::optional<BeforeToolCallResult> result;
    if (options_.require_confirm(call)) {
        AskUser question;
        question.timeout = options_.timeout;
        if (options_.details_fn) question.details = options_.details_fn(call);
        result = co_await ask_user(channel_, call, std::move(question));
    }
    co_return result;
}

}  // namespace cubepi
