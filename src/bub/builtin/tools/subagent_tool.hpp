#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include <bub/builtin/plugin/core.hpp>
#include <bub/envelope.hpp>
#include <bub/turn_state.hpp>
#include <cubepi/hitl/in_memory_channel.hpp>
#include <cubepi/middleware/detail/subagent_run.hpp>

namespace bub::detail {

/// Returns a message of the same sender and chat whose turn receives the results of sub-agents. It is never a command (B11).
Envelope results_message(const Envelope& message, const std::string& session_id);
/// Returns true for such a message.
bool is_results_message(const Envelope& message);

/// The key of Envelope::rest of a results message whose turn only shows questions, because the one before it has failed.
inline constexpr std::string_view questions_only_key = "subagent_questions";

/// The sub-agents of a session, which share their limits.
struct AgentsOfSession {
    AgentsOfSession(const cubepi::SubagentLimits& limits,
                    std::function<void(const cubepi::SubagentTask&)> on_end);

    /// Called at the prompt of a user: the number and the money of sub-agents count from here. Turns that receive results belong to the
    /// same prompt, else sub-agents could start each other without end.
    void begin_prompt();
    /// Returns the open questions that no turn has shown.
    std::vector<cubepi::HitlRequest> new_questions() const;
    bool has_new_questions() const { return !new_questions().empty(); }
    void note_shown(const std::vector<cubepi::HitlRequest>& shown);

    const cubepi::SubagentLimits limits;
    const std::shared_ptr<cubepi::detail::SubagentOwner> owner;  ///< limits those that run
    std::shared_ptr<cubepi::detail::SubagentCounts> prompt;      ///< limits those of a prompt
    cubepi::SubagentMiddleware middleware;
    std::set<std::string> conversations = {};  ///< the sessions of those that run
    /// The questions of those in the background, if turns show them (D128).
    const std::shared_ptr<cubepi::InMemoryChannel> questions =
        std::make_shared<cubepi::InMemoryChannel>();
    std::map<std::string, Envelope> messages = {};  ///< results_message() by the id of a task

private:
    std::set<std::string> shown_questions_ = {};
};

/// Asks on the channel of a session, and has a turn show the question.
class TaskQuestionChannel final : public cubepi::HitlChannel {
public:
    struct Parts {
        std::shared_ptr<cubepi::HitlChannel> to = {};
        JsonObject asker = {};                ///< of the parent; see asker_key
        std::chrono::nanoseconds timeout{0};  ///< to answer; zero: no limit
        std::function<void()> before = {};    ///< called just before a question is open
        std::function<void()> after = {};     ///< called when it is over
    };
    explicit TaskQuestionChannel(Parts parts) : parts_(std::move(parts)) {}

    Task<Json> request(cubepi::HitlPayload payload, cubepi::HitlOptions options) override;
    std::vector<cubepi::HitlRequest> pending() const override { return parts_.to->pending(); }
    cubepi::HitlRequestStream subscribe() override { return parts_.to->subscribe(); }
    Task<> answer(std::string question_id, Json value, cubepi::AnswerOrigin origin) override;
    Task<> cancel(std::string question_id, std::string reason) override;

private:
    const Parts parts_;
};

/// Returns the tool `subagent`. `state` must outlive it.
cubepi::AgentTool subagent_tool(std::shared_ptr<BuiltinCore> core, std::string session_id,
                                TurnState& state);

}  // namespace bub::detail
