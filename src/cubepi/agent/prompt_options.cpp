#include <cubepi/agent/prompt_options.hpp>

#include <utility>

#include <cubepi/agent/run/prompt_settings.hpp>

namespace cubepi {

PromptOptions&& PromptOptions::model(BoundModel value) && {
    if (!value) {
        throw Error(ErrorCode::invalid_argument,
                    "PromptOptions: the model '" + value.spec().id +
                        "' has no provider; pass provider.model(\"id\")");
    }
    settings().model = std::move(value);
    return std::move(*this);
}

PromptOptions&& PromptOptions::temperature(double value) && {
    settings().temperature = value;
    return std::move(*this);
}

PromptOptions&& PromptOptions::reasoning(ReasoningControl value) && {
    settings().reasoning = value;
    return std::move(*this);
}

PromptOptions&& PromptOptions::system_prompt(std::string value) && {
    settings().system_prompt = std::move(value);
    return std::move(*this);
}

PromptOptions&& PromptOptions::tools(ToolList value) && {
    settings().tools = std::move(value);
    return std::move(*this);
}

PromptOptions&& PromptOptions::tool_choice(ToolChoice value) && {
    settings().tool_choice = std::move(value);
    return std::move(*this);
}

PromptOptions&& PromptOptions::max_duration(std::chrono::milliseconds value) && {
    settings().max_duration = value;
    return std::move(*this);
}

PromptOptions&& PromptOptions::deadline(std::chrono::steady_clock::time_point value) && {
    settings().deadline = value;
    return std::move(*this);
}

PromptOptions&& PromptOptions::stop_token(std::stop_token value) && {
    settings().stop_token = std::move(value);
    return std::move(*this);
}

PromptOptions&& PromptOptions::answer(StructuredOptions value) && {
    settings().answer_options = std::move(value);
    return std::move(*this);
}

RunOrigin PromptOptions::origin() const {
    RunOrigin origin;
    origin.parent_run_id = parent_run_id_;
    origin.parent_tool_call_id = parent_tool_call_id_;
    TraceContext trace = parent_trace_ ? *parent_trace_ : TraceContext();
    if (trace_) trace = trace.nested(*trace_);
    if (!trace.empty()) origin.trace = std::make_shared<const TraceContext>(std::move(trace));
    return origin;
}

TraceContext& PromptOptions::trace() {
    if (!trace_) trace_ = std::make_shared<TraceContext>();
    return *trace_;
}

detail::PromptSettings& PromptOptions::settings() {
    auto own = settings_ ? std::make_shared<detail::PromptSettings>(*settings_)
                         : std::make_shared<detail::PromptSettings>();
    settings_ = own;
    return *own;
}

}  // namespace cubepi
