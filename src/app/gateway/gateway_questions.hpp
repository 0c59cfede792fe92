#pragma once

#include <cstddef>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include <bub/envelope.hpp>
#include <cubepi/core/hitl_request.hpp>
#include <cubepi/workspace/tool_rules.hpp>

namespace cubepi::app {

/// The rules that operators have added by the answer "always" (B26): each for the user of a chat whose call it was, until the gateway
/// reloads its configuration or ends. Thread-safe.
class GrantedRules {
public:
    /// Returns the rule that a question offers. Throws Error(invalid_argument) if it offers none.
    static ApprovalRule offered_by(const HitlRequest& request);

    /// Adds a rule for the asker of a question. Returns false if it is there. Throws Error(limit) for too many.
    bool add(const HitlRequest& request, const ApprovalRule& rule);
    void withdraw(const HitlRequest& request, const ApprovalRule& rule);
    /// Adds the rules for the sender of a message.
    void add_to(ToolRules& rules, const bub::Envelope& message) const;

private:
    static constexpr std::size_t most_of_asker = 100;
    static constexpr std::size_t most_askers = 1'000;

    mutable std::mutex mutex_;
    std::map<std::string, std::vector<ApprovalRule>> rules_;  ///< by asker
};

}  // namespace cubepi::app
