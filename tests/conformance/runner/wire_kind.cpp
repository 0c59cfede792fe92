#include <chrono>
#include <memory>
#include <optional>
#include <stop_token>
#include <utility>

#include <cubepi/core/message_json.hpp>
#include <cubepi/provider/provider.hpp>

#include "kinds.hpp"
#include "loop_thread.hpp"
#include "loopback.hpp"
#include "reading.hpp"
#include "wire_check.hpp"
#include "wire_provider.hpp"

namespace conformance {

namespace {

using cubepi::Task;

cubepi::ReasoningControl parse_reasoning(const JsonObject& form) {
    only_keys(form, "reasoning", {"mode", "effort", "summary"});
    cubepi::ReasoningControl control;
    const std::string mode = text_or(form, "mode", "off");
    for (const auto each : {cubepi::ReasoningMode::off, cubepi::ReasoningMode::automatic,
                            cubepi::ReasoningMode::on}) {
        if (mode == cubepi::to_string(each)) control.mode = each;
    }
    const std::string effort = text_or(form, "effort", "medium");
    for (const auto each : {cubepi::ReasoningEffort::minimal, cubepi::ReasoningEffort::low,
                            cubepi::ReasoningEffort::medium, cubepi::ReasoningEffort::high,
                            cubepi::ReasoningEffort::max}) {
        if (effort == cubepi::to_string(each)) control.effort = each;
    }
    const std::string summary = text_or(form, "summary", "none");
    for (const auto each :
         {cubepi::ReasoningSummary::none, cubepi::ReasoningSummary::automatic,
          cubepi::ReasoningSummary::detailed, cubepi::ReasoningSummary::summarized}) {
        if (summary == cubepi::to_string(each)) control.summary = each;
    }
    return control;
}

cubepi::ToolChoice parse_tool_choice(const std::string& form) {
    cubepi::ToolChoice choice;
    if (form == "required") {
        choice.mode = cubepi::ToolChoice::Mode::required;
    } else if (form == "none") {
        choice.mode = cubepi::ToolChoice::Mode::none;
    } else if (form != "auto") {
        choice.mode = cubepi::ToolChoice::Mode::named;
        choice.name = form;
    }
    return choice;
}

Task<std::optional<JsonObject>> with_keys(JsonObject payload, JsonObject keys) {
    for (const auto& [key, value] : keys) payload[key] = value;
    std::optional<JsonObject> changed(std::move(payload));
    co_return changed;
}

cubepi::StreamOptions parse_stream_options(const JsonObject& options, std::stop_token stop) {
    cubepi::StreamOptions made = cubepi::StreamOptions().stop_token(std::move(stop));
    // Each step moves to a new object first: a setter returns the object that it is called on.
    if (const Json* form = options.if_contains("reasoning")) {
        made = cubepi::StreamOptions(std::move(made))
                   .reasoning(parse_reasoning(as_object(*form, "reasoning")));
    }
    if (const Json* form = options.if_contains("tool_choice")) {
        made = cubepi::StreamOptions(std::move(made))
                   .tool_choice(parse_tool_choice(as_text(*form, "tool_choice")));
    }
    if (const Json* form = options.if_contains("payload")) {
        const JsonObject keys = as_object(*form, "payload");
        auto hook = [keys](JsonObject payload, const cubepi::Model&) {
            return with_keys(std::move(payload), keys);
        };
        made = cubepi::StreamOptions(std::move(made)).on_payload(std::move(hook));
    }
    return made;
}

/// The call as a user makes it.
cubepi::MessageStream start_call(std::shared_ptr<cubepi::Provider> provider, const JsonObject& file,
                                 const JsonObject& options, std::stop_token stop) {
    cubepi::MessageList messages;
    for (const Json& message : as_array(file.at("messages"), "messages")) {
        messages.push_back(cubepi::message_from_json(message));
    }
    auto tools = std::make_shared<cubepi::ToolDefinitions>();
    for (const Json& form : as_array(file.at("tools"), "tools")) {
        const JsonObject& object = as_object(form, "tools");
        cubepi::ToolDefinition tool;
        tool.name = cubepi::SharedString(text_or(object, "name", ""));
        tool.description = cubepi::SharedString(text_or(object, "description", ""));
        tool.parameters = std::make_shared<const Json>(object.at("parameters"));
        tools->push_back(std::move(tool));
    }
    const Json* form = options.if_contains("model");
    const JsonObject none;
    const cubepi::BoundModel model(
        std::move(provider),
        parse_wire_model(text_or(file, "model", ""), form ? as_object(*form, "model") : none));
    return model.stream(std::move(messages),
                        cubepi::SharedString(text_or(file, "system_prompt", "")), std::move(tools),
                        parse_stream_options(options, std::move(stop)));
}

JsonObject event_form(const cubepi::StreamEvent& event) {
    using Type = cubepi::StreamEventType;
    JsonObject form;
    form["type"] = cubepi::to_string(event.type);
    if (event.is_block_event()) form["content_index"] = event.content_index;
    if (event.type == Type::text_delta || event.type == Type::thinking_delta ||
        event.type == Type::toolcall_delta) {
        form["delta"] = event.delta;
    }
    if (event.type == Type::toolcall_end) {
        const cubepi::AssistantMessage message = event.partial.get();
        const auto index = static_cast<std::size_t>(event.content_index);
        if (index < message.content.size()) {
            const auto* call = std::get_if<cubepi::ToolCall>(&message.content[index]);
            if (call) form["arguments"] = call->arguments;
        }
    }
    if (event.type == Type::error) form["error_message"] = event.error_message();
    return form;
}

Task<> take_answer(cubepi::MessageStream stream, std::optional<std::int64_t> abort_after,
                   std::stop_source stop, WireAnswer& answer) {
    std::int64_t taken = 0;
    while (true) {
        const std::optional<cubepi::StreamEvent> event = co_await stream.next();
        if (!event) break;
        if (event->type == cubepi::StreamEventType::notice) continue;
        answer.events.emplace_back(event_form(*event));
        if (abort_after && ++taken == *abort_after) stop.request_stop();
    }
    const cubepi::AssistantMessage message = co_await stream.result();
    answer.message = cubepi::to_json(message);
}

WireAnswer ask(const JsonObject& file, std::size_t stride) {
    Loopback server(parse_answers(file, stride));
    const JsonObject& options = as_object(file.at("options"), "options");
    only_keys(
        options, "options",
        {"constructor", "model", "reasoning", "tool_choice", "payload", "abort_after_events"});
    std::optional<std::int64_t> abort_after;
    if (const Json* n = options.if_contains("abort_after_events")) {
        abort_after = as_number(*n, "abort_after_events");
    }
    std::stop_source stop;
    if (abort_after && *abort_after == 0) stop.request_stop();
    const Json* constructor = options.if_contains("constructor");
    const JsonObject none;
    std::shared_ptr<cubepi::Provider> provider = make_wire_provider(
        text_or(file, "provider", ""), constructor ? as_object(*constructor, "constructor") : none,
        server.port());
    cubepi::MessageStream stream = start_call(std::move(provider), file, options, stop.get_token());
    auto answer = std::make_unique<WireAnswer>();
    Task<> task = take_answer(std::move(stream), abort_after, stop, *answer);
    if (!run_within(std::move(task), std::chrono::seconds(20))) {
        // The hanging task continues to write to it.
        [[maybe_unused]] const WireAnswer* const abandoned = answer.release();
        throw std::runtime_error("hang: the answer did not come to its end");
    }
    answer->asked = server.asked();
    return std::move(*answer);
}

}  // namespace

std::vector<std::string> check_wire(const Json& content) {
    const JsonObject& file = as_object(content, "file");
    std::vector<std::string> found;
    // A stride of 0 is the answer in one piece; of 1, each byte separately.
    for (const std::size_t stride : {0u, 1u, 2u, 7u, 61u}) {
        const std::string label = stride == 0 ? "" : "cut at " + std::to_string(stride) + ": ";
        found = wire_differences(file, ask(file, stride), label);
        // A difference in one piece also occurs in many: report it once.
        if (!found.empty()) break;
    }
    return found;
}

}  // namespace conformance
