#include <cubepi/agent/tool.hpp>

#include <cubepi/agent/hitl_channel.hpp>
#include <cubepi/agent/run/tool_progress.hpp>
#include <cubepi/agent/run_account.hpp>
#include <cubepi/core/offload.hpp>
#include <cubepi/core/outcome.hpp>
#include <cubepi/core/task_scope.hpp>
#include <cubepi/provider/stream_options.hpp>

namespace cubepi {

std::string_view to_string(ToolRisk risk) noexcept {
    switch (risk) {
        case ToolRisk::read_only: return "read_only";
        case ToolRisk::writes: return "writes";
        case ToolRisk::network: return "network";
        case ToolRisk::irreversible: return "irreversible";
    }
    return "writes";
}

std::string_view to_string(ReplayPolicy policy) noexcept {
    return policy == ReplayPolicy::idempotent ? "idempotent" : "never";
}

std::shared_ptr<HitlChannel> ToolContext::channel() const {
    if (!channel_) {
        throw Error(ErrorCode::no_channel,
                    "the tool '" + tool_name_.str() +
                        "' asks the user, but the agent has no channel: set AgentOptions::channel");
    }
    return detail::channel_of_call(channel_, tool_call_id_.str());
}

const RunInfo& ToolContext::run() const noexcept {
    static const RunInfo none;
    return run_ ? run_->info() : none;
}

void ToolContext::charge(const Usage& usage, std::optional<double> cost) const {
    if (run_) run_->charge(usage, cost);
}

StreamOptions ToolContext::call_options(std::string_view purpose) const {
    return options_for_call(run(), purpose, tool_call_id_)
        .stop_token(stop_token())
        .runtime(runtime_);
}

JsonSchema AgentTool::no_parameters() {
    static const JsonSchema schema(
        Json(JsonObject{{"type", "object"}, {"properties", JsonObject()}}));
    return schema;
}

AgentTool& AgentTool::describe(std::string_view path, std::string_view text) & {
    Json schema = parameters.source();
    cubepi::describe(schema, path, text);
    parameters = JsonSchema(std::move(schema));
    return *this;
}

ToolDefinition AgentTool::definition() const {
    ToolDefinition made;
    made.name = name;
    made.description = description;
    made.parameters = parameters.shared_source();
    return made;
}

AgentTool& AgentTool::constrain(std::string_view path, const Constraints& constraints) & {
    Json schema = parameters.source();
    cubepi::constrain(schema, path, constraints);
    parameters = JsonSchema(std::move(schema));
    return *this;
}

void ToolContext::report(Json partial_result) const {
    if (!progress_) {
        throw Error(
            ErrorCode::unsupported,
            "the tool '" + tool_name_.str() +
                "' called report(), which only a blocking_tool() may; await update() instead");
    }
    progress_->report(std::move(partial_result));
}

namespace detail {

namespace {

/// The most reports that wait for the listeners.
constexpr std::size_t most_reports = 256;

Task<> call_blocking(std::shared_ptr<const Runtime> runtime, std::function<AgentToolResult()> work,
                     ThreadQueue<Json>::Writer reports, std::optional<AgentToolResult>* result) {
    Outcome<AgentToolResult> ended =
        co_await outcome_of(offload(*runtime->workers, std::move(work)));
    reports.close();
    *result = std::move(ended).value();
}

/// Passes the reports on until they are closed, then waits for the children of the scope.
Task<> pass_on(TaskScope& scope, ThreadQueue<Json>& reports, ToolContext& context) {
    for (;;) {
        std::optional<Json> report = co_await reports.next();
        if (!report) break;
        co_await context.update(std::move(*report));
    }
    co_await scope.join();
}

}  // namespace

Task<AgentToolResult> run_blocking(ToolContext& ctx, std::shared_ptr<ToolContext> own,
                                   std::function<AgentToolResult()> work) {
    const Executor executor = co_await this_executor;
    ThreadQueue<Json> reports(executor, most_reports);
    ToolProgress::connect(*own, std::make_shared<ToolProgress>(reports.writer()));
    std::optional<AgentToolResult> result;
    const auto body = [&](TaskScope& scope) -> Task<> {
        scope.spawn(
            call_blocking(ctx.shared_runtime(), std::move(work), reports.writer(), &result));
        return pass_on(scope, reports, ctx);
    };
    co_await with_task_scope(body);
    co_return std::move(*result);
}

}  // namespace detail

}  // namespace cubepi
