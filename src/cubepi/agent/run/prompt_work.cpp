#include <cubepi/agent/run/prompt_work.hpp>

#include <cmath>
#include <string>
#include <utility>

#include <cubepi/agent/run/run_core.hpp>
#include <cubepi/agent/transcript.hpp>
#include <cubepi/core/json.hpp>
#include <cubepi/provider/cost.hpp>

namespace cubepi::detail {

namespace {

/// A member of the metadata of a message. Null: the cost is unknown.
constexpr std::string_view cost_key = "cubepi.cost";

template <class M>
Message recorded(M message, Json cost) {
    message.metadata[cost_key] = std::move(cost);
    return Message(std::move(message));
}

}  // namespace

std::size_t begin_of_prompt(const MessageList& history) {
    for (std::size_t i = history.size(); i > 0; --i) {
        const Message& message = history[i - 1];
        if (!message.user() || is_synthetic_message(message)) continue;
        // A message that was added to a run in progress begins nothing.
        if (i == 1 || history[i - 2].run_id() != message.run_id()) return i - 1;
    }
    return 0;
}

std::size_t begin_of_prompt(const MessageList& history, std::string_view message_id) {
    const std::optional<std::size_t> after = index_after(history, message_id);
    return after ? *after - 1 : begin_of_prompt(history);
}

std::optional<std::size_t> index_after(const MessageList& history, std::string_view message_id) {
    for (std::size_t i = message_id.empty() ? 0 : history.size(); i > 0; --i) {
        if (history[i - 1].id() == message_id) return i;
    }
    return std::nullopt;
}

std::optional<double> cost_in_history(const Message& message, const Model& model) {
    if (const Json* const stored = message.metadata().find(cost_key)) {
        // Data of a store, which may be damaged.
        const double usd = stored->is_number() ? stored->to_number<double>() : -1.0;
        return std::isfinite(usd) && usd >= 0 ? std::optional(usd) : std::nullopt;
    }
    const AssistantMessage* const answer = message.assistant();
    if (!answer || (has_failed(*answer) && !answer->usage)) return 0.0;
    return cost_of(*answer, model);
}

Message with_recorded_cost(const Message& message, std::optional<double> usd) {
    Json cost = usd ? Json(*usd) : Json();
    if (const UserMessage* const one = message.user()) return recorded(*one, std::move(cost));
    if (const AssistantMessage* const one = message.assistant())
        return recorded(*one, std::move(cost));
    return recorded(*message.tool_result(), std::move(cost));
}

PromptWork work_since(const MessageList& history, std::size_t begin, const Model& model) {
    PromptWork work;
    for (std::size_t i = begin; i < history.size(); ++i) {
        const Message& message = history[i];
        const AssistantMessage* const answer = message.assistant();
        if (answer && !has_failed(*answer)) ++work.turns;
        const std::optional<double> cost = cost_in_history(message, model);
        work.cost = work.cost && cost ? std::optional(*work.cost + *cost) : std::nullopt;
    }
    return work;
}

}  // namespace cubepi::detail
