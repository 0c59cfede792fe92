#pragma once

#include <memory>
#include <utility>

#include <cubepi/agent/tool.hpp>
#include <cubepi/core/thread_queue.hpp>

namespace cubepi::detail {

/// The reports of a blocking tool, on their way to the agent's executor. Thread-safe; may outlive the call.
class ToolProgress {
public:
    explicit ToolProgress(ThreadQueue<Json>::Writer writer) : writer_(std::move(writer)) {}
    /// Lets the tool that runs with this context report.
    static void connect(ToolContext& context, std::shared_ptr<ToolProgress> progress) {
        context.progress_ = std::move(progress);
    }
    /// Drops the report if the listeners are far behind, or the call has ended.
    void report(Json value) const { (void)writer_.try_push(std::move(value)); }

private:
    ThreadQueue<Json>::Writer writer_;
};

}  // namespace cubepi::detail
