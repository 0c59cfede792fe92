#include <cubepi/core/hitl_request.hpp>

#include <array>
#include <string_view>
#include <utility>

#include <cubepi/core/error.hpp>

namespace cubepi {

namespace {

template <class T>
Json nullable(const std::optional<T>& value) {
    return value ? Json(*value) : Json(nullptr);
}

JsonObject option_json(const HitlOption& option) {
    return {{"label", option.label},
            {"value", option.value},
            {"description", nullable(option.description)},
            {"allow_input", option.allow_input}};
}

JsonObject question_json(const HitlQuestion& question) {
    JsonObject json{{"key", question.key}, {"prompt", question.prompt}};
    if (question.options) {
        JsonArray options;
        for (const HitlOption& option : *question.options)
            options.emplace_back(option_json(option));
        json["options"] = std::move(options);
    } else {
        json["options"] = nullptr;
    }
    json["multi_select"] = question.multi_select;
    json["required"] = question.required;
    return json;
}

JsonObject payload_json(const ConfirmRequest& request) {
    return {{"kind", "confirm"}, {"prompt", request.prompt}, {"details", request.details}};
}

JsonObject payload_json(const ApproveRequest& request) {
    return {{"kind", "approve"},
            {"tool_name", request.tool_name},
            {"tool_call_id", request.tool_call_id},
            {"args", request.args},
            {"details", request.details}};
}

JsonObject payload_json(const AskRequest& request) {
    JsonArray questions;
    for (const HitlQuestion& question : request.questions) {
        questions.emplace_back(question_json(question));
    }
    JsonObject json{{"kind", "ask"}};
    json["questions"] = std::move(questions);
    return json;
}

[[noreturn]] void refuse(std::string_view key, std::string_view expected) {
    throw Error(ErrorCode::validation,
                "human request key '" + std::string(key) + "': expected " + std::string(expected));
}

const JsonObject& object(const Json& json, std::string_view key) {
    if (!json.is_object()) refuse(key, "an object");
    return json.get_object();
}

std::string text(const JsonObject& json, std::string_view key) {
    const Json* value = json.if_contains(key);
    if (!value || !value->is_string()) refuse(key, "a string");
    return std::string(value->get_string());
}

bool flag(const JsonObject& json, std::string_view key, bool otherwise) {
    const Json* value = json.if_contains(key);
    return value && value->is_bool() ? value->get_bool() : otherwise;
}

Json any(const JsonObject& json, std::string_view key) {
    const Json* value = json.if_contains(key);
    return value ? *value : Json(nullptr);
}

HitlOption read_option(const Json& json) {
    const JsonObject& from = object(json, "options");
    HitlOption option;
    option.label = text(from, "label");
    option.value = text(from, "value");
    if (const Json* words = from.if_contains("description"); words && words->is_string()) {
        option.description = std::string(words->get_string());
    }
    option.allow_input = flag(from, "allow_input", false);
    return option;
}

HitlQuestion read_question(const Json& json) {
    const JsonObject& from = object(json, "questions");
    HitlQuestion question;
    question.key = text(from, "key");
    question.prompt = text(from, "prompt");
    if (const Json* options = from.if_contains("options"); options && options->is_array()) {
        question.options.emplace();
        for (const Json& option : options->get_array()) {
            question.options->push_back(read_option(option));
        }
    }
    question.multi_select = flag(from, "multi_select", false);
    question.required = flag(from, "required", true);
    return question;
}

}  // namespace

JsonObject to_json(const HitlRequest& request) {
    JsonObject json;
    json["question_id"] = request.question_id;
    json["thread_id"] = nullable(request.thread_id);
    json["payload"] =
        std::visit([](const auto& one) { return payload_json(one); }, request.payload);
    json["created_at"] = request.created_at;
    json["timeout_seconds"] = nullable(request.timeout_seconds);
    for (const auto& [key, value] : request.extra) json.emplace(key, value);
    return json;
}

HitlRequest hitl_request_from_json(const Json& json) {
    static constexpr std::array<std::string_view, 5> known{"question_id", "thread_id", "payload",
                                                           "created_at", "timeout_seconds"};
    const JsonObject& from = object(json, "request");
    HitlRequest request;
    request.question_id = text(from, "question_id");
    if (const Json* thread = from.if_contains("thread_id"); thread && thread->is_string()) {
        request.thread_id = std::string(thread->get_string());
    }
    const Json payload = any(from, "payload");
    const JsonObject& body = object(payload, "payload");
    const std::string kind = text(body, "kind");
    if (kind == "confirm") {
        ConfirmRequest confirm;
        confirm.prompt = text(body, "prompt");
        confirm.details = any(body, "details");
        request.payload = std::move(confirm);
    } else if (kind == "approve") {
        ApproveRequest approve;
        approve.tool_name = text(body, "tool_name");
        approve.tool_call_id = text(body, "tool_call_id");
        approve.args = object(any(body, "args"), "args");
        approve.details = any(body, "details");
        request.payload = std::move(approve);
    } else if (kind == "ask") {
        AskRequest ask;
        const Json questions = any(body, "questions");
        if (!questions.is_array()) refuse("questions", "a list");
        for (const Json& one : questions.get_array()) ask.questions.push_back(read_question(one));
        request.payload = std::move(ask);
    } else {
        refuse("kind", "confirm, approve or ask, found " + kind);
    }
    if (const Json* at = from.if_contains("created_at"); at && at->is_number()) {
        request.created_at = at->to_number<double>();
    }
    if (const Json* limit = from.if_contains("timeout_seconds"); limit && limit->is_number()) {
        request.timeout_seconds = limit->to_number<double>();
    }
    for (const auto& [key, value] : from) {
        bool is_known = false;
        for (std::string_view one : known) is_known = is_known || one == key;
        if (!is_known) request.extra.emplace(key, value);
    }
    return request;
}

}  // namespace cubepi
