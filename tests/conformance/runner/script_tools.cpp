#include "script_tools.hpp"

#include <chrono>
#include <memory>
#include <utility>

#include "faults.hpp"
#include "reading.hpp"

namespace conformance {

namespace {

struct ToolBody {
    ToolSpec spec;
    std::function<void(std::string)> started;
    KnownTexts& known;
};

std::string argument_text(const Json& value) {
    if (value.is_string()) return std::string(value.get_string());
    if (value.is_array()) {
        std::string joined;
        for (const Json& item : value.get_array()) {
            if (&item != &value.get_array().front()) joined += ',';
            joined += argument_text(item);
        }
        return joined;
    }
    return boost::json::serialize(value);
}

/// `text` with {name} replaced by the argument of that name, or the default of its property.
std::string filled(const std::string& text, const ToolSpec& spec, const JsonObject& arguments) {
    std::string result = text;
    for (const auto& [name, property] : spec.parameters.at("properties").as_object()) {
        const std::string mark = "{" + std::string(name) + "}";
        const Json* value = arguments.if_contains(name);
        if (!value) value = property.as_object().if_contains("default");
        for (std::size_t at = result.find(mark); at != std::string::npos;
             at = result.find(mark, at)) {
            const std::string replacement = value ? argument_text(*value) : "";
            result.replace(at, mark.size(), replacement);
            at += replacement.size();
        }
    }
    return result;
}

cubepi::AgentToolResult returned(const ToolBody& body, const JsonObject& form,
                                 const JsonObject& arguments) {
    const std::string text = filled(text_or(form, "text", ""), body.spec, arguments);
    body.known.results.insert(text);
    cubepi::AgentToolResult result(text);
    if (const Json* details = form.if_contains("details")) result.details = *details;
    if (const Json* flag = form.if_contains("is_error"))
        result.is_error = as_flag(*flag, "is_error");
    if (const Json* flag = form.if_contains("terminate"))
        result.terminate = as_flag(*flag, "terminate");
    return result;
}

cubepi::Task<> wait_for_abort(const cubepi::ToolContext& context) {
    while (!context.stop_token().stop_requested()) {
        co_await context.runtime().clock->sleep_for(std::chrono::milliseconds(1));
    }
}

cubepi::Task<cubepi::AgentToolResult> run_body(std::shared_ptr<const ToolBody> body,
                                               JsonObject arguments, cubepi::ToolContext& context) {
    body->started(context.tool_call_id() + ":" + body->spec.name);
    cubepi::AgentToolResult result("");
    for (const Json& step : body->spec.steps) {
        const auto entry = step.get_object().begin();
        const std::string_view what = entry->key();
        const Json& value = entry->value();
        if (what == "sleep_ms") {
            co_await context.runtime().clock->sleep_for(
                std::chrono::milliseconds(as_number(value, "sleep_ms")));
        } else if (what == "update") {
            Json progress = value;
            co_await context.update(std::move(progress));
        } else if (what == "wait_abort") {
            co_await wait_for_abort(context);
        } else if (what == "throw") {
            const std::string text = filled(as_text(value, "throw"), body->spec, arguments);
            body->known.results.insert(text);
            throw ToolFault(text);
        } else {
            result = returned(*body, as_object(value, "return"), arguments);
            break;
        }
    }
    co_return result;
}

}  // namespace

cubepi::AgentTool make_tool(const ToolSpec& spec, std::function<void(std::string)> started,
                            KnownTexts& known) {
    auto body = std::make_shared<const ToolBody>(ToolBody{spec, std::move(started), known});
    auto execute = [body](JsonObject arguments, cubepi::ToolContext& context) {
        return run_body(body, std::move(arguments), context);
    };
    cubepi::AgentTool tool(spec.name, spec.description, cubepi::JsonSchema(spec.parameters),
                           std::move(execute));
    if (spec.sequential) tool.execution_mode = cubepi::ExecutionMode::sequential;
    return tool;
}

}  // namespace conformance
