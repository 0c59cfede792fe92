#include <cubepi/agent/run/tool_progress.hpp>

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <utility>

#include <cubepi/core/offload.hpp>
#include <cubepi/core/outcome.hpp>
#include <cubepi/core/task_scope.hpp>

// Not in tool.cpp, so that only programs with blocking tools are linked with it.

namespace cubepi {

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

/// Runs `work`, which uses `own`, on the worker pool.
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

}  // namespace

AgentTool make_blocking_tool(std::string name, std::string description, Json schema,
                             SharedObject callback, BlockingToolFunction function) {
    auto execute = [callback = std::move(callback), function](
                       JsonObject arguments, ToolContext& ctx) -> MaybeTask<AgentToolResult> {
        // The work may outlive the call when it does not honor its stop token, so it owns all it uses.
        auto own = std::make_shared<ToolContext>(ctx);
        std::function<AgentToolResult()> work = [callback, function, own,
                                                 args = std::move(arguments)]() mutable {
            return function(callback.get(), std::move(args), *own);
        };
        return run_blocking(ctx, std::move(own), std::move(work));
    };
    AgentTool made(std::move(name), std::move(description), JsonSchema(std::move(schema)),
                   std::move(execute));
    made.runs_blocking = true;
    return made;
}

}  // namespace detail

}  // namespace cubepi
