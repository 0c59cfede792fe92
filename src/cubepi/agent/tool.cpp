#include <cubepi/agent/tool.hpp>

#include <cubepi/agent/hitl_channel.hpp>
#include <cubepi/agent/run_account.hpp>
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

AgentTool detail::make_tool(std::string name, std::string description, Json schema,
                            SharedObject callback, ToolFunction function) {
    auto execute = [callback = std::move(callback), function](JsonObject arguments,
                                                              ToolContext& ctx) {
        return function(callback.get(), std::move(arguments), ctx);
    };
    return AgentTool(std::move(name), std::move(description), JsonSchema(std::move(schema)),
                     std::move(execute));
}

JsonSchema AgentTool::no_parameters() {
    static const JsonSchema schema(
        Json(JsonObject{{"type", "object"}, {"properties", JsonObject()}}));
    return schema;
}

ToolDefinition AgentTool::definition() const {
    ToolDefinition made;
    made.name = name;
    made.description = description;
    made.parameters = parameters.shared_source();
    return made;
}

}  // namespace cubepi
