#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <cubepi/agent/middleware.hpp>
#include <cubepi/workspace/approval_policy.hpp>

#include "terminal/asker.hpp"
#include "terminal/style.hpp"

namespace cubepi::app {

/// The policy of the configuration's rules. Throws Error(invalid_argument) that names the file.
ApprovalPolicy policy_of(const std::vector<std::string>& rules);

/// Asks a person before a tool writes, runs a command or uses the network; a middleware.
///
/// y runs this call, n refuses it, a adds a rule (shown first, for this session unless saved), e edits the arguments, v
/// shows all of what was shown in part. A command is always shown whole.
/// Without a terminal every such call is refused, unless all are allowed (--yes).
class Approval {
public:
    struct Options {
        bool allow_all = false;
        std::function<void()> before_question = {};                   ///< e.g. stops the spinner
        std::function<void(const std::string& rule)> save_rule = {};  ///< keeps a rule for good
    };
    /// `asker` null: nobody can be asked.
    Approval(ApprovalPolicy policy, std::shared_ptr<Asker> asker, Style style, Options options);

    Task<std::optional<BeforeToolCallResult>> before_tool_call(BeforeToolCallContext& context);

    /// True when nobody would be asked before this URL is fetched.
    bool allows_fetch(const std::string& url) const;

private:
    Task<std::optional<BeforeToolCallResult>> ask(const BeforeToolCallContext& context,
                                                  ApprovalDecision decision);
    Task<std::optional<BeforeToolCallResult>> edit(const BeforeToolCallContext& context);
    /// Tells why an answer was none.
    void explain(std::string_view text) const;
    Task<void> add_rule(ApprovalRule rule);
    /// True when the arguments were too long to be shown whole.
    bool show(const BeforeToolCallContext& context, const ApprovalDecision& decision) const;

    ApprovalPolicy policy_;
    std::shared_ptr<Asker> asker_;
    Style style_;
    Options options_;
};

}  // namespace cubepi::app
