#include <cubepi/agent/run/turn_hooks.hpp>

#include <optional>
#include <utility>

#include <cubepi/core/outcome.hpp>

namespace cubepi::detail {

namespace {

/// Awaits after_model_response with the history in which the answer is the last message.
Task<std::optional<TurnAction>> ask_after_response(RunCore& core, Message answer) {
    const HookContext context = core.hook_context();
    MessageList seen = core.state().messages;
    seen.push_back(answer);
    HookContext with_answer{
        context.system_prompt, seen,         context.extra,      context.run_id,
        context.thread_id,     context.turn, context.stop_token, context.runtime,
        context.account};
    AssistantMessage response = *answer.assistant();
    auto hook = core.parts().hooks->after_model_response(std::move(response), with_answer);
    auto asked = core.call_run_hook("after_model_response", std::move(hook));
    std::optional<TurnAction> action = co_await std::move(asked);
    co_return action;
}

}  // namespace

Task<ResponseReview> review_answer(RunCore& core, Message message) {
    ResponseReview review;
    review.message = std::move(message);
    Task<std::optional<TurnAction>> asking = ask_after_response(core, review.message);
    Outcome<std::optional<TurnAction>> answer = co_await outcome_of(std::move(asking));
    review.cut_short = core.stopped();
    if (answer.cancelled() && review.cut_short) co_return review;
    std::optional<TurnAction> action = std::move(answer).value();
    if (!action) co_return review;
    if (action->response) {
        AssistantMessage replaced = std::move(*action->response);
        replaced.id = review.message.id();
        replaced.run_id = review.message.run_id();
        review.message = Message(std::move(replaced));
    }
    review.decision = action->decision.value_or(TurnDecision::natural);
    review.inject_messages = std::move(action->inject_messages);
    co_return review;
}

Task<bool> should_stop(RunCore& core, Message message, MessageList tool_results) {
    HookContext context = core.hook_context();
    ShouldStopAfterTurnContext asked{message, tool_results, core.new_messages(), context};
    auto hook = core.parts().hooks->should_stop_after_turn(asked);
    const bool stop = co_await core.call_run_hook("should_stop_after_turn", std::move(hook));
    co_return stop;
}

Task<MessageList> messages_at_run_end(RunCore& core) {
    HookContext context = core.hook_context();
    auto hook = core.parts().hooks->on_run_end(context);
    MessageList messages = co_await core.call_run_hook("on_run_end", std::move(hook));
    co_return messages;
}

}  // namespace cubepi::detail
