#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <cubepi/agent/middleware.hpp>

namespace cubepi {

enum class GoalStatus : std::uint8_t {
    active,
    achieved,
    exhausted,  ///< not achieved after the allowed number of evaluations
};

/// The goal of a thread.
struct GoalState {
    std::string condition;
    int evaluations = 0;
    int max_evaluations = 0;
    std::string last_reason = {};  ///< of the evaluator, or why it did not answer
    GoalStatus status = GoalStatus::active;
};

/// Returns the part of a message's text that the user wrote: a suffix, after what the host has added.
using GoalTextFunction = std::function<std::string_view(std::string_view text)>;

struct GoalOptions {
    BoundModel evaluator;
    int max_evaluations = 10;
    /// For a host that begins messages with a text of its own. Null: the whole text is the user's.
    GoalTextFunction user_text = {};
    /// Called when a goal is achieved or exhausted, before the run ends. Must not block.
    std::function<void(const GoalState& goal)> on_end = {};
};

/// Middleware that works toward a goal: a user message `/goal CONDITION` sets one, and whenever a run would end, the evaluator
/// decides from the last 20 messages whether the condition is met. If not, the reason is added as a synthetic user message (source
/// `goal_continuation`) and the run continues, until the goal is achieved or exhausted. All of it is one run: its limits of turns,
/// time and money hold, and the evaluator's calls are charged to it.
///
/// Only a message of the user sets a goal, not one of the framework or a result of a tool. The model sees the condition without the
/// prefix. The goal is in `extra["goal"]`, as in CubePi, and holds for later runs of the thread. If the evaluator fails, the run
/// ends with its answer; the goal remains active with the code of the failure as its reason, and the next run is evaluated again (D119).
class GoalMiddleware {
public:
    explicit GoalMiddleware(GoalOptions options);
    explicit GoalMiddleware(BoundModel evaluator)
        : GoalMiddleware(GoalOptions{.evaluator = std::move(evaluator)}) {}

    MessageList transform_context(MessageList messages, HookContext& context) const;
    Task<MessageList> on_run_end(HookContext& context) const;

    std::vector<BoundModel> models;  ///< the evaluator

    /// Returns the goal of a thread. Malformed state is none.
    static std::optional<GoalState> goal_in(const JsonObject& extra);

private:
    int max_evaluations_;
    GoalTextFunction user_text_;
    std::function<void(const GoalState& goal)> on_end_;
};

/// Returns true for a message by which a goal continues its run.
bool is_goal_continuation(const Message& message);

/// Returns the goal and its state for users, in two lines.
std::string goal_text(const GoalState& goal);

}  // namespace cubepi
