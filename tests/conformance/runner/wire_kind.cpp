#include <chrono>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <utility>
#include <vector>

#include <cubepi/core/message_json.hpp>
#include <cubepi/provider/provider.hpp>
#include <cubepi/schema/parse_json.hpp>

#include "compare.hpp"
#include "kinds.hpp"
#include "loopback.hpp"
#include "scenario.hpp"
#include "support.hpp"
#include "wire_provider.hpp"

namespace conformance {

namespace {

using cubepi::Task;

/// The result of a call: the final message and the stream events before it.
struct WireAnswer {
    JsonObject message;
    JsonArray events;
    std::vector<HttpAsked> asked;
};

/// Returns the differences of an answer and its request from the expectations of the case, by the rules of README-fixtures.md,
/// section 3. `label` precedes each difference.
std::vector<std::string> wire_differences(const JsonObject& file, const WireAnswer& answer,
                                          std::string label);

/// Arguments of calls are compared as JSON, not as text.
void parse_arguments(Json& value) {
    if (JsonArray* array = value.if_array()) {
        for (Json& item : *array) parse_arguments(item);
    }
    JsonObject* object = value.if_object();
    if (!object) return;
    for (auto& [key, item] : *object) {
        if (key != "arguments" || !item.is_string()) {
            parse_arguments(item);
            continue;
        }
        cubepi::JsonTextError error;
        Json parsed = cubepi::parse_json(item.get_string(), error);
        if (!error) item = std::move(parsed);
    }
}

/// Additional keys of ours are allowed in the message and its blocks.
void keep_keys_of(Json& got, const Json& want) {
    JsonObject* object = got.if_object();
    if (!object || !want.is_object()) return;
    JsonObject common;
    for (auto& [key, value] : *object) {
        if (want.get_object().contains(key)) common[key] = value;
    }
    *object = std::move(common);
}

/// Missing usage equals zeros, and so does a missing number.
void fill_usage(Json& message) {
    Json& usage = message.get_object()["usage"];
    if (!usage.is_object()) usage = JsonObject();
    for (const char* key :
         {"input_tokens", "output_tokens", "cache_read_tokens", "cache_write_tokens"}) {
        usage.get_object().emplace(key, 0);
    }
    usage.get_object().erase("reasoning_tokens");
}

/// Error texts are ours, except that of an abort.
void mask_error_message(Json& object) {
    Json* text = object.as_object().if_contains("error_message");
    if (text && text->is_string() && *text != "Request was aborted") *text = "<error>";
}

class WireCheck {
public:
    WireCheck(const JsonObject& file, const WireAnswer& answer, std::string label)
        : file_(file), answer_(answer), label_(std::move(label)) {
        if (const Json* paths = file.if_contains("defect_paths")) {
            for (const Json& path : as_array(*paths, "defect_paths")) {
                defects_.push_back(as_text(path, "defect_paths"));
            }
        }
    }

    std::vector<std::string> perform() {
        if (has_defect("")) return std::move(found_);
        check_request();
        check_message();
        check_events();
        return std::move(found_);
    }

private:
    bool has_defect(std::string_view path) const {
        for (const std::string& defect : defects_) {
            if (defect == path) return true;
        }
        return false;
    }
    void remove_defects(Json& value) const {
        for (const std::string& defect : defects_) {
            if (defect.starts_with('/')) remove_at(value, defect);
        }
    }
    void compare(const Json& want, const Json& got, const std::string& at) {
        for (std::string& difference : differences(want, got, at)) {
            found_.push_back(label_ + std::move(difference));
        }
    }
    bool is_request_case() const { return file_.contains("expect_request"); }

    void remove_defective_arguments(JsonObject& event) const {
        const Json* index = event.if_contains("content_index");
        if (!index) return;
        const std::string block = std::to_string(as_number(*index, "content_index"));
        if (has_defect("/content/" + block + "/arguments")) event.erase("arguments");
    }

    void check_request();
    void check_message();
    void check_events();

    const JsonObject& file_;
    const WireAnswer& answer_;
    std::string label_;
    std::vector<std::string> defects_;
    std::vector<std::string> found_;
};

void WireCheck::check_request() {
    if (!has_defect("#requests")) {
        const std::int64_t want = number_or(file_, "requests_made", 1);
        compare(Json(want), Json(answer_.asked.size()), "/requests_made");
    }
    if (!is_request_case() || answer_.asked.empty()) return;
    const JsonObject& want = as_object(file_.at("expect_request"), "expect_request");
    const HttpAsked& got = answer_.asked.front();
    compare(want.at("method"), Json(got.method), "/expect_request/method");
    compare(want.at("path"), Json(got.path), "/expect_request/path");
    for (const auto& [name, value] : as_object(want.at("headers"), "headers")) {
        if (name == "accept") continue;
        const auto header = got.headers.find(std::string(name));
        compare(value, header == got.headers.end() ? Json(nullptr) : Json(header->second),
                "/expect_request/headers/" + std::string(name));
    }
    Json want_body = want.at("body");
    Json got_body = cubepi::parse_json(got.body);
    for (Json* body : {&want_body, &got_body}) {
        parse_arguments(*body);
        remove_defects(*body);
    }
    compare(want_body, got_body, "/expect_request/body");
}

void WireCheck::check_message() {
    Json want = file_.at("expect_message");
    Json got = answer_.message;
    fill_usage(want);
    fill_usage(got);
    const Json full = want;
    keep_keys_of(got, full);
    const JsonArray& blocks = want.at("content").as_array();
    JsonArray& own = got.at("content").as_array();
    for (std::size_t i = 0; i < own.size() && i < blocks.size(); ++i) {
        keep_keys_of(own[i], blocks[i]);
    }
    for (Json* message : {&want, &got}) {
        mask_error_message(*message);
        if (!is_request_case()) remove_defects(*message);
    }
    compare(want, got, "/expect_message");
}

void WireCheck::check_events() {
    if (has_defect("#events")) return;
    JsonArray types;
    JsonArray events = answer_.events;
    for (Json& event : events) {
        types.push_back(event.at("type"));
        mask_error_message(event);
    }
    compare(file_.at("expect_events"), types, "/expect_events");
    const Json* details = file_.if_contains("expect_event_details");
    if (!details) return;
    JsonArray want = details->as_array();
    for (Json& event : want) mask_error_message(event);
    // A pointer into the message also applies to the snapshots of the events.
    for (JsonArray* list : {&want, &events}) {
        for (Json& event : *list) remove_defective_arguments(event.as_object());
    }
    compare(want, events, "/expect_event_details");
}

std::vector<std::string> wire_differences(const JsonObject& file, const WireAnswer& answer,
                                          std::string label) {
    return WireCheck(file, answer, std::move(label)).perform();
}

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
