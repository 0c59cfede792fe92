// The turns of a run, and the messages that enter it.

#include <algorithm>
#include <utility>
#include <variant>

#include <cubepi/provider/cost.hpp>
#include <cubepi/tracing/recorder/chat_attributes.hpp>
#include <cubepi/tracing/recorder/run_trace.hpp>

namespace cubepi::detail {

namespace {

JsonArray output_of(const TurnEndEvent& event) {
    JsonArray output;
    if (event.message) output.emplace_back(content_of(event.message));
    for (const Message& result : event.tool_results) output.emplace_back(content_of(result));
    return output;
}

}  // namespace

void RunTrace::start_turn(std::uint32_t turn, Time now) {
    const Lock locked = lock();
    if (!locked || !records()) return;
    if (turn_) finish(turn_, now);
    turn_ = open(shared_name("cubepi.turn"), context_.span_id, SpanKind::internal, now);
    turn_->attributes.add("cubepi.turn.index", static_cast<std::int64_t>(turn) - 1);
    turn_->attributes.add("cubepi.run_id", run_id_);
    ended_tools_ = terminating_tools_ = 0;
}

void RunTrace::start_message(const Message& message) {
    if (message.role() == Role::assistant) return;
    const Lock locked = lock();
    if (!locked) return;
    ++input_messages_;
    if (!content_) return;
    JsonObject content = content_of(message);
    if (turn_) content_->turn_input.push_back(content);
    content_->input.push_back(std::move(content));
}

/// The answers of streams that were dropped come with the end of the turn.
void RunTrace::end_turn(const TurnEndEvent& event, Time now) {
    const AssistantMessage* answer = event.message ? event.message.assistant() : nullptr;
    Lock locked = lock();
    if (!locked || !turn_) return;
    OpenSpan turn = std::move(turn_);
    std::vector<Chat> dropped = take_dropped_chats();
    AnswerFailure failure;
    const bool terminated = ended_tools_ != 0 && terminating_tools_ == ended_tools_;
    if (content_) record_turn_content(locked, *turn, event);
    if (answer) {
        const ContentPause paused = pause(locked);
        for (Chat& chat : dropped) {
            add_response_attributes(chat.span->attributes, *answer, ResponseDetails(),
                                    cost_of(*answer, *chat.model));
            if (content_) record_output(*chat.span, event.message);
        }
        failure = failure_of(*answer);
        record_turn(*turn, *answer, failure);
    }
    if (terminated) turn->attributes.add("cubepi.turn.terminated_by_tool", true);
    if (answer) failure_ = std::move(failure);
    for (Chat& chat : dropped) finish(chat.span, *chat.dropped);
    finish(turn, now);
}

void RunTrace::record_turn(SpanData& span, const AssistantMessage& answer,
                           const AnswerFailure& failure) {
    const std::int64_t tool_calls =
        std::count_if(answer.content.begin(), answer.content.end(),
                      [](const auto& block) { return std::holds_alternative<ToolCall>(block); });
    Attributes& attributes = span.attributes;
    attributes.add("cubepi.turn.stop_reason", answer.stop_reason);
    attributes.add("cubepi.turn.tool_calls.count", tool_calls);
    if (answer.stop_reason == stop_reason::aborted) attributes.add("cubepi.aborted", true);
    if (!failure.type.empty()) set_error(span, "cubepi.error", failure.text);
}

void RunTrace::record_turn_content(Lock& locked, SpanData& span, const TurnEndEvent& event) {
    JsonArray input = std::exchange(content_->turn_input, JsonArray());
    JsonArray output = output_of(event);
    content_->output.insert(content_->output.end(), output.begin(), output.end());
    const ContentPause paused = pause(locked);
    if (!input.empty())
        settings_.content.add(span.attributes, "gen_ai.input.messages", std::move(input));
    settings_.content.add(span.attributes, "gen_ai.output.messages", std::move(output));
}

RunTrace::AnswerFailure RunTrace::failure_of(const AssistantMessage& answer) const {
    AnswerFailure failure;
    if (answer.stop_reason != stop_reason::error) return failure;
    failure.type = answer.error ? error_type_of_call(*answer.error) : "cubepi.error";
    failure.text = settings_.content.error_text(answer.error_message.str(), "model error");
    return failure;
}

void RunTrace::end_answer(const Message& message) {
    AnswerFailure failure = failure_of(*message.assistant());
    const Lock locked = lock();
    if (!locked) return;
    failure_ = std::move(failure);
    if (content_) content_->output.emplace_back(content_of(message));
}

}  // namespace cubepi::detail
