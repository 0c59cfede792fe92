#include "mcp_agent_tool.hpp"

#include <chrono>
#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include <bub/event_stream.hpp>
#include <bub/turn_span.hpp>
#include <cubepi/core/agent_event.hpp>
#include <cubepi/core/cancellation.hpp>
#include <cubepi/core/event_signal.hpp>
#include <cubepi/core/task_scope.hpp>

#include "../conversation/pipeline.hpp"
#include "../conversation/session.hpp"
#include "../program.hpp"

namespace cubepi::app {

namespace {

struct AgentArguments {
    std::string prompt;
};

/// Reports that the client has not received yet; further ones are dropped.
constexpr std::size_t max_queued_reports = 64;
using Reports = AsyncQueue<Json>;

Task<> report(std::shared_ptr<Reports> reports, ToolContext* context) {
    while (true) {
        std::optional<Json> text = co_await reports->next();
        if (!text) co_return;
        co_await context->update(std::move(*text));
    }
}

Task<> ask(Pipeline* pipeline, std::string prompt, std::string traceparent,
           std::shared_ptr<Reports> reports, Answer* answer) {
    struct Closing {
        Reports& reports;
        ~Closing() { reports.close(); }
    };
    const Closing closing{*reports};
    Pipeline::Show show = [pipeline, reports](const bub::StreamEvent& event, const bub::Envelope&) {
        pipeline->note_shown(event);
        if (!event.agent_event) return;
        if (const auto* start = std::get_if<ToolExecutionStartEvent>(&event.agent_event->body))
            (void)reports->try_push(Json("calls " + start->tool_name.str()));
    };
    // The text of a client is never a command (B11).
    bub::Envelope message = pipeline->message(std::move(prompt), false);
    if (!traceparent.empty()) message.context[bub::trace_key::traceparent] = traceparent;
    *answer = co_await pipeline->ask(std::move(message), std::move(show));
}

Task<> ask_and_report(Pipeline* pipeline, std::string prompt, ToolContext* context,
                      Answer* answer) {
    const auto reports = std::make_shared<Reports>(max_queued_reports);
    std::vector<Task<>> both;
    const auto& trace = context->run().origin.trace;
    both.push_back(ask(pipeline, std::move(prompt), trace ? trace->traceparent : std::string(),
                       reports, answer));
    both.push_back(report(reports, context));
    co_await when_all(std::move(both));
}

Task<AgentToolResult> run_agent(ConversationFlags flags, std::string prompt, ToolContext* context) {
    SessionParts parts;
    parts.with_servers = false;
    SessionPlan plan = co_await plan_session(std::move(flags), std::move(parts));
    plan.waits_for_tasks = true;
    plan.shell.background_note = "it ends with this answer";
    Pipeline pipeline(std::move(plan), Pipeline::Parts());
    Answer answer;
    Task<> asking = ask_and_report(&pipeline, std::move(prompt), context, &answer);
    co_await with_cleanup(std::move(asking), pipeline.close());
    if (answer.failure.exit_code != exit_ok) co_return AgentToolResult::error(answer.failure.text);
    std::string text = answer.result ? answer.result->text() : std::string();
    co_return AgentToolResult(text.empty() ? "The agent has answered nothing." : std::move(text));
}

}  // namespace

AgentTool mcp_agent_tool(ConversationFlags flags) {
    flags.no_save = true;
    return tool<AgentArguments>(
               "agent",
               "Runs the coding agent of this directory with a prompt and returns its answer. It "
               "reads and changes files and runs commands as its user allows. Each call is a new "
               "conversation, so the prompt must say everything.",
               [flags](AgentArguments arguments, ToolContext& context) {
                   return run_agent(flags, std::move(arguments.prompt), &context);
               })
        .describe("prompt", "The task, with all that the agent needs to know")
        .risk(ToolRisk::writes)
        .timeout(std::chrono::milliseconds::zero());
}

}  // namespace cubepi::app
