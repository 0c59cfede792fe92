#include <chrono>
#include <memory>
#include <optional>
#include <stop_token>
#include <utility>

#include <cubepi/core/message_json.hpp>
#include <cubepi/provider/openai.hpp>
#include <cubepi/schema/parse_json.hpp>

#include "compare.hpp"
#include "kinds.hpp"
#include "loop_thread.hpp"
#include "loopback.hpp"
#include "reading.hpp"

namespace conformance {

namespace {

using cubepi::Task;

/// What a call gave: the final message and the stream events on the way.
struct Answer {
    JsonObject message;
    JsonArray events;
    std::vector<HttpAsked> asked;
};

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

cubepi::Model parse_model(const JsonObject& file, const JsonObject& options) {
    cubepi::Model model;
    model.id = text_or(file, "model", "");
    const Json* given = options.if_contains("model");
    if (!given) return model;
    const JsonObject& form = as_object(*given, "model");
    only_keys(form, "model", {"temperature", "max_tokens", "reasoning", "context_window"});
    if (const Json* value = form.if_contains("temperature")) {
        model.temperature = value->to_number<double>();
    }
    if (const Json* value = form.if_contains("max_tokens")) {
        model.max_tokens = as_number(*value, "max_tokens");
    }
    if (const Json* value = form.if_contains("context_window")) {
        model.context_window = as_number(*value, "context_window");
    }
    model.reasoning = flag_or(form, "reasoning", false);
    return model;
}

cubepi::OpenAIOptions parse_constructor(const JsonObject& options, std::uint16_t port) {
    cubepi::OpenAIOptions made;
    made.api_key = "sk-test";
    made.base_url = "http://127.0.0.1:" + std::to_string(port) + "/v1";
    const Json* given = options.if_contains("constructor");
    if (!given) return made;
    const JsonObject& form = as_object(*given, "constructor");
    only_keys(form, "constructor", {"extra_body", "extra_headers", "capability"});
    if (const Json* body = form.if_contains("extra_body")) {
        made.extra_body = as_object(*body, "extra_body");
    }
    if (const Json* headers = form.if_contains("extra_headers")) {
        for (const auto& [name, value] : as_object(*headers, "extra_headers")) {
            made.extra_headers.emplace_back(name, as_text(value, name));
        }
    }
    if (const Json* capability = form.if_contains("capability")) {
        only_keys(as_object(*capability, "capability"), "capability", {"max_tokens_field"});
        made.capability.max_tokens_field =
            text_or(capability->get_object(), "max_tokens_field", "");
    }
    return made;
}

Task<std::optional<JsonObject>> with_keys(JsonObject payload, JsonObject keys) {
    for (const auto& [key, value] : keys) payload[key] = value;
    std::optional<JsonObject> changed(std::move(payload));
    co_return changed;
}

cubepi::StreamOptions parse_stream_options(const JsonObject& options, std::stop_token stop) {
    cubepi::StreamOptions made;
    (void)std::move(made).stop_token(std::move(stop));
    if (const Json* form = options.if_contains("reasoning")) {
        (void)std::move(made).reasoning(parse_reasoning(as_object(*form, "reasoning")));
    }
    if (const Json* form = options.if_contains("tool_choice")) {
        (void)std::move(made).tool_choice(parse_tool_choice(as_text(*form, "tool_choice")));
    }
    if (const Json* form = options.if_contains("payload")) {
        const JsonObject keys = as_object(*form, "payload");
        (void)std::move(made).on_payload([keys](JsonObject payload, const cubepi::Model&) {
            return with_keys(std::move(payload), keys);
        });
    }
    return made;
}

/// The call as a user makes it.
cubepi::MessageStream start_call(const cubepi::OpenAIProvider& provider, const JsonObject& file,
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
    const cubepi::BoundModel model = provider.model(parse_model(file, options));
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
                   std::stop_source stop, Answer& answer) {
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

HttpAnswer parse_answer(const JsonObject& form, std::string body) {
    HttpAnswer answer;
    only_keys(form, "response",
              {"status", "headers", "cut", "pause_after_bytes", "pause_ms", "body"});
    answer.status = static_cast<int>(number_or(form, "status", 200));
    answer.headers["content-type"] = "text/event-stream";
    if (const Json* headers = form.if_contains("headers")) {
        for (const auto& [name, value] : as_object(*headers, "headers")) {
            answer.headers[name] = as_text(value, name);
        }
    }
    answer.cut = flag_or(form, "cut", false);
    answer.pause_after_bytes = static_cast<std::size_t>(number_or(form, "pause_after_bytes", 0));
    answer.pause_ms = static_cast<int>(number_or(form, "pause_ms", 0));
    answer.body = text_or(form, "body", body);
    return answer;
}

std::vector<HttpAnswer> parse_answers(const JsonObject& file, std::size_t stride) {
    const std::string body = text_or(file, "response_sse", "");
    std::vector<HttpAnswer> answers;
    if (const Json* list = file.if_contains("answers")) {
        for (const Json& form : as_array(*list, "answers")) {
            answers.push_back(parse_answer(as_object(form, "answers"), body));
        }
    } else {
        const Json* form = file.if_contains("response");
        answers.push_back(parse_answer(form ? as_object(*form, "response") : JsonObject(), body));
    }
    for (HttpAnswer& answer : answers) answer.stride = stride;
    return answers;
}

Answer ask(const JsonObject& file, std::size_t stride) {
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
    const cubepi::OpenAIProvider provider(parse_constructor(options, server.port()));
    cubepi::MessageStream stream = start_call(provider, file, options, stop.get_token());
    auto answer = std::make_unique<Answer>();
    Task<> task = take_answer(std::move(stream), abort_after, stop, *answer);
    if (!run_within(std::move(task), std::chrono::seconds(20))) {
        // The task that hangs goes on writing to it.
        [[maybe_unused]] const Answer* const abandoned = answer.release();
        throw std::runtime_error("hang: the answer did not come to its end");
    }
    answer->asked = server.asked();
    return std::move(*answer);
}

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

/// Keys that ours has in addition are allowed, at the message and its blocks.
void keep_keys_of(Json& got, const Json& want) {
    JsonObject* object = got.if_object();
    if (!object || !want.is_object()) return;
    JsonObject kept;
    for (auto& [key, value] : *object) {
        if (want.get_object().contains(key)) kept[key] = value;
    }
    *object = std::move(kept);
}

/// No usage equals zeros, and so does a number that is missing.
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
    WireCheck(const JsonObject& file, const Answer& answer, std::string label)
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
    const Answer& answer_;
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
    // What a pointer names in the message is named in the snapshots of the events, too.
    for (JsonArray* list : {&want, &events}) {
        for (Json& event : *list) remove_defective_arguments(event.as_object());
    }
    compare(want, events, "/expect_event_details");
}

}  // namespace

std::vector<std::string> check_wire(const Json& content) {
    const JsonObject& file = as_object(content, "file");
    const std::string provider = text_or(file, "provider", "");
    if (provider != "openai-chat") throw Unsupported("provider " + provider);
    std::vector<std::string> found;
    // A stride of 0 is the answer in one piece; of 1, each byte on its own.
    for (const std::size_t stride : {0u, 1u, 2u, 7u, 61u}) {
        const std::string label = stride == 0 ? "" : "cut at " + std::to_string(stride) + ": ";
        for (std::string& difference : WireCheck(file, ask(file, stride), label).perform()) {
            found.push_back(std::move(difference));
        }
        // What differs in one piece differs in many: once is enough.
        if (!found.empty()) break;
    }
    return found;
}

}  // namespace conformance
