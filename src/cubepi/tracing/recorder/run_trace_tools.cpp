// The tool calls of a run, and its questions to the user.

#include <utility>

#include <cubepi/tracing/recorder/question_facts.hpp>
#include <cubepi/tracing/recorder/run_trace.hpp>

namespace cubepi::detail {

namespace {

double seconds_between(RunTrace::Time from, RunTrace::Time to) {
    return std::chrono::duration<double>(to - from).count();
}

void record_result(SpanData& span, const ToolExecutionEndEvent& event,
                   const ContentFilter& content) {
    Attributes& attributes = span.attributes;
    attributes.add("cubepi.tool.is_error", event.is_error);
    if (event.terminate) attributes.add("cubepi.tool.terminate", true);
    if (event.blocked_by_hook) {
        attributes.add("cubepi.tool.blocked_by_hook", true);
        if (!event.block_reason.empty() && content.enabled())
            content.add(attributes, "cubepi.tool.block_reason", Json(event.block_reason));
    }
    if (event.is_error) {
        set_error(span, event.blocked_by_hook ? "cubepi.tool.blocked_by_hook" : "cubepi.tool.error",
                  "tool error");
    }
    if (content.enabled())
        content.add(attributes, "gen_ai.tool.call.result", to_json(event.result));
}

}  // namespace

void RunTrace::start_tool(const ToolExecutionStartEvent& event, const ToolFacts& facts, Time now) {
    if (!records()) return;
    Tool tool{event.tool_call_id, open(shared_name("execute_tool " + event.tool_name.str()),
                                       SpanId(), SpanKind::internal, now)};
    Attributes& attributes = tool.span->attributes;
    attributes.add("gen_ai.operation.name", "execute_tool");
    attributes.add("gen_ai.tool.name", event.tool_name);
    attributes.add("gen_ai.tool.call.id", event.tool_call_id);
    attributes.add("gen_ai.tool.type", "function");
    attributes.add("cubepi.run_id", run_id_);
    if (!facts.description.empty()) attributes.add("gen_ai.tool.description", facts.description);
    if (facts.execution_mode) {
        const bool sequential = *facts.execution_mode == ExecutionMode::sequential;
        attributes.add("cubepi.tool.execution_mode",
                       AttributeValue::of_literal(sequential ? "sequential" : "parallel"));
    }
    if (settings_.content.enabled())
        settings_.content.add(attributes, "gen_ai.tool.call.arguments", event.args);
    const Lock locked = lock();
    tool.span->parent = turn_or_root();
    tools_.push_back(std::move(tool));
}

void RunTrace::end_tool(const ToolExecutionEndEvent& event, Time now) {
    Lock locked = lock();
    if (!locked) return;
    const auto tool = find_by_id(tools_, event.tool_call_id);
    if (tool == tools_.end()) return;
    OpenSpan span = std::move(tool->span);
    tools_.erase(tool);
    ++ended_tools_;
    if (event.terminate) ++terminating_tools_;
    {
        const ContentPause paused = pause(locked);
        record_result(*span, event, settings_.content);
    }
    finish(span, now);
}

void RunTrace::start_question(const HitlRequest& request, Time now) {
    if (!records()) return;
    const std::string_view kind = question_kind(request);
    Question question{
        request.question_id, kind, now,
        open(SharedString("hitl." + std::string(kind)), SpanId(), SpanKind::internal, now)};
    Attributes& attributes = question.span->attributes;
    attributes.add("hitl.question_id", SharedString(request.question_id));
    attributes.add("hitl.run_id", run_id_);
    if (request.timeout_seconds) attributes.add("hitl.timeout_seconds", *request.timeout_seconds);
    if (const auto* approve = std::get_if<ApproveRequest>(&request.payload)) {
        attributes.add("hitl.tool_call_id", SharedString(approve->tool_call_id));
        attributes.add("hitl.tool_name", SharedString(approve->tool_name));
    }
    if (settings_.content.enabled())
        settings_.content.add(attributes, "hitl.request", to_json(request));
    const Lock locked = lock();
    question.span->parent = turn_or_root();
    questions_.push_back(std::move(question));
}

void RunTrace::end_question(std::string_view question_id, std::string_view outcome, Time now) {
    const Lock locked = lock();
    if (!locked) return;
    const auto question = find_by_id(questions_, question_id);
    if (question == questions_.end()) return;
    finish_question(*question, outcome, now);
    questions_.erase(question);
}

void RunTrace::end_answered_question(const HitlAnswerEvent& event, Time now) {
    Lock locked = lock();
    if (!locked) return;
    const auto found = find_by_id(questions_, event.question_id);
    if (found == questions_.end()) return;
    Question question = std::move(*found);
    questions_.erase(found);
    {
        const ContentPause paused = pause(locked);
        if (settings_.content.enabled())
            settings_.content.add(question.span->attributes, "hitl.answer", event.answer);
    }
    finish_question(question, answer_outcome(question.kind, event), now);
}

void RunTrace::finish_question(Question& question, std::string_view outcome, Time now) {
    Attributes& attributes = question.span->attributes;
    attributes.add("hitl.outcome", shared_name(outcome));
    if (outcome == "detached") attributes.add("hitl.detached", true);
    attributes.add("hitl.duration_seconds", seconds_between(question.start, now));
    finish(question.span, now);
}

}  // namespace cubepi::detail
