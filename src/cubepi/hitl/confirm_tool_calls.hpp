#pragma once

#include <chrono>
#include <functional>
#include <initializer_list>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include <cubepi/agent/hitl_channel.hpp>
#include <cubepi/agent/middleware.hpp>

namespace cubepi {

/// The decisions of an approval policy about a call.
struct Approve {};
struct Deny {
    std::string reason;
};
/// Asks the user on the channel.
struct AskUser {
    std::optional<std::chrono::nanoseconds> timeout = {};  ///< absent: the default of the channel
    Json details = {};                                     ///< shown with the call
};
using ApprovalDecision = std::variant<Approve, Deny, AskUser>;

/// Decides about a call. The arguments are validated and contain defaults.
using ApprovalPolicy = std::function<Task<ApprovalDecision>(const BeforeToolCallContext& call)>;

/// Middleware that lets a policy decide about each call: run it, refuse it, or ask the user. While the user is asked the
/// run waits. The policy decides about arguments that the user has edited again, and can only refuse them. In a run that continues, a
/// stored answer to the call counts more than a policy that would let it run now.
///
/// The answer is recorded in the tool result, under `details.hitl`: {"decision": "human_approve"}, "human_deny" with the
/// reason, "edit" with both versions of the arguments, "timed_out", or "cancelled" with the reason. A refusal by the
/// policy is recorded as "policy_deny". An exception of the policy blocks the call. Without a channel, calls that the policy
/// asks about are refused.
class ApprovalPolicyMiddleware {
public:
    ApprovalPolicyMiddleware(std::shared_ptr<HitlChannel> channel, ApprovalPolicy policy);

    Task<std::optional<BeforeToolCallResult>> before_tool_call(BeforeToolCallContext& call);

private:
    std::shared_ptr<HitlChannel> channel_;
    ApprovalPolicy policy_;
};

/// The calls that need approval: those of some tools by name, or those for which a function returns true.
class RequireConfirm {
public:
    /// Every call but those of `ask_user` and of the form of a typed answer, `structured_output`.
    RequireConfirm() = default;
    RequireConfirm(std::initializer_list<std::string_view> tools);
    RequireConfirm(const std::vector<std::string>& tools);
    template <class Predicate>
        requires std::is_invocable_r_v<bool, Predicate&, const BeforeToolCallContext&>
    RequireConfirm(Predicate predicate) : predicate_(std::move(predicate)) {}

    bool operator()(const BeforeToolCallContext& call) const;

private:
    std::function<bool(const BeforeToolCallContext& call)> predicate_ = {};
};

struct ConfirmToolCallOptions {
    RequireConfirm require_confirm = {};
    /// Returns what to show with a call, such as a preview of its effect.
    std::function<Json(const BeforeToolCallContext& call)> details_fn = {};
    /// Absent: the default of the channel. Zero: no limit.
    std::optional<std::chrono::nanoseconds> timeout = {};
};

/// Middleware that asks the user about the calls of some tools; see ApprovalPolicyMiddleware for what is recorded.
class ConfirmToolCallMiddleware {
public:
    explicit ConfirmToolCallMiddleware(std::shared_ptr<HitlChannel> channel,
                                       ConfirmToolCallOptions options = {});

    Task<std::optional<BeforeToolCallResult>> before_tool_call(BeforeToolCallContext& call);

private:
    std::shared_ptr<HitlChannel> channel_;
    ConfirmToolCallOptions options_;
};

}  // namespace cubepi
