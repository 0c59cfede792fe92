// The turns of a run, and the messages that enter it.

#include <algorithm>
#include <utility>
#include <variant>

#include <cubepi/provider/cost.hpp>
#include <cubepi/tracing/recorder/chat_attributes.hpp>
#include <cubepi/tracing/recorder/constant_texts.hpp>
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
    const std::lock_guard lock(mutex_);
    if (!records()) return;
    if (turn_) finish(turn_, now);
    turn_ = open(constant_texts().turn, context_.span_id, SpanKind::internal, now);
    turn_->attributes.add("cubepi.turn.index", static_cast<std::int64_t>(turn) - 1);
    turn_->attributes.add("cubepi.run_id", run_id_);
    ended_tools_ = terminating_tools_ = 0;
}

void RunTrace::start_message(const Message& message) {
    if (message.role() == Role::assistant || !records()) return;
    add_input_messages(1);
    if (!content_) return;
    const std::lock_guard lock(mutex_);
    JsonObject content = content_of(message);
    if (turn_) content_->turn_input.push_back(content);
    content_->input.push_back(std::move(content));
}

void RunTrace::end_turn(const TurnEndEvent& event, Time now) {
    end_turn(end_of(event, true), content_ ? &event : nullptr, now);
}

void RunTrace::end_turn(const TurnEnd& turn, Time now) { end_turn(turn, nullptr, now); }

/// The answers of streams that were dropped come with the end of the turn.
void RunTrace::end_turn(const TurnEnd& end, const TurnEndEvent* event, Time now) {
    const AssistantMessage* answer = end.partial ? end.partial.assistant() : nullptr;
    std::unique_lock lock(mutex_);
    if (!turn_) return;
    OpenSpan turn = std::move(turn_);
    std::vector<Chat> dropped = take_dropped_chats();
    AnswerFailure failure;
    const bool terminated = ended_tools_ != 0 && terminating_tools_ == ended_tools_;
    if (event) record_turn_content(lock, *turn, *event);
    {
        const ContentPause paused = pause(lock);
        for (Chat& chat : dropped) {
            if (!answer) continue;
            add_response_attributes(chat.span->attributes, AnswerFacts(*answer), ResponseDetails(),
                                    cost_of(*answer, *chat.model));
            if (event) record_output(*chat.span, event->message);
        }
        if (end.has_answer) {
            failure = failure_of(end.stop_reason, end.error,
                                 event ? answer->error_message.str() : std::string_view());
            record_turn(*turn, end, failure);
        }
    }
    if (terminated) turn->attributes.add("cubepi.turn.terminated_by_tool", true);
    if (end.has_answer) failure_ = std::move(failure);
    for (Chat& chat : dropped) finish(chat.span, *chat.dropped);
    finish(turn, now);
}

void RunTrace::record_turn(SpanData& span, const TurnEnd& end, const AnswerFailure& failure) const {
    Attributes& attributes = span.attributes;
    attributes.add("cubepi.turn.stop_reason", end.stop_reason);
    attributes.add("cubepi.turn.tool_calls.count", static_cast<std::int64_t>(end.tool_calls));
    if (end.stop_reason == stop_reason::aborted) attributes.add("cubepi.aborted", true);
    if (!failure.type.empty()) set_error(span, "cubepi.error", failure.text);
}

void RunTrace::record_turn_content(std::unique_lock<std::mutex>& lock, SpanData& span,
                                   const TurnEndEvent& event) {
    JsonArray input = std::exchange(content_->turn_input, JsonArray());
    JsonArray output = output_of(event);
    content_->output.insert(content_->output.end(), output.begin(), output.end());
    const ContentPause paused = pause(lock);
    if (!input.empty())
        settings_.content.add(span.attributes, "gen_ai.input.messages", std::move(input));
    settings_.content.add(span.attributes, "gen_ai.output.messages", std::move(output));
}

RunTrace::AnswerFailure RunTrace::failure_of(const SharedString& stop_reason,
                                             const SharedValue<ErrorInfo>& error,
                                             std::string_view text) const {
    AnswerFailure failure;
    if (stop_reason != cubepi::stop_reason::error) return failure;
    failure.type = error ? error_type_of_call(*error) : "cubepi.error";
    failure.text = settings_.content.error_text(text, "model error");
    return failure;
}

void RunTrace::end_answer(const Message& message) {
    const AssistantMessage& answer = *message.assistant();
    AnswerFailure failure =
        failure_of(answer.stop_reason, answer.error, answer.error_message.str());
    const std::lock_guard lock(mutex_);
    failure_ = std::move(failure);
    if (content_) content_->output.emplace_back(content_of(message));
}

}  // namespace cubepi::detail
