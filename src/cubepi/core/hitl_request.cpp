#include <cubepi/core/hitl_request.hpp>

#include <algorithm>
#include <initializer_list>
#include <string_view>
#include <utility>

#include <cubepi/core/error.hpp>

namespace cubepi {

namespace {

template <class T>
Json nullable(const std::optional<T>& value) {
    return value ? Json(*value) : Json(nullptr);
}

void put_extra(JsonObject& json, const JsonObject& extra) {
    for (const auto& [key, value] : extra) json.emplace(key, value);
}

JsonObject option_json(const HitlOption& option) {
    JsonObject json{{"label", option.label},
                    {"value", option.value},
                    {"description", nullable(option.description)},
                    {"allow_input", option.allow_input}};
    put_extra(json, option.extra);
    return json;
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
    put_extra(json, question.extra);
    return json;
}

JsonObject payload_json(const ConfirmRequest& request) {
    JsonObject json{{"kind", "confirm"}, {"prompt", request.prompt}, {"details", request.details}};
    put_extra(json, request.extra);
    return json;
}

JsonObject payload_json(const ApproveRequest& request) {
    JsonObject json{{"kind", "approve"},
                    {"tool_name", request.tool_name},
                    {"tool_call_id", request.tool_call_id},
                    {"args", request.args},
                    {"details", request.details}};
    put_extra(json, request.extra);
    return json;
}

JsonObject payload_json(const AskRequest& request) {
    JsonArray questions;
    for (const HitlQuestion& question : request.questions) {
        questions.emplace_back(question_json(question));
    }
    JsonObject json{{"kind", "ask"}};
    json["questions"] = std::move(questions);
    put_extra(json, request.extra);
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

JsonObject all_but(const JsonObject& json, std::initializer_list<std::string_view> known) {
    JsonObject others;
    for (const auto& [key, value] : json) {
        if (std::find(known.begin(), known.end(), std::string_view(key)) == known.end())
            others.emplace(key, value);
    }
    return others;
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
    option.extra = all_but(from, {"label", "value", "description", "allow_input"});
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
    question.extra = all_but(from, {"key", "prompt", "options", "multi_select", "required"});
    return question;
}

ConfirmRequest read_confirm(const JsonObject& body) {
    ConfirmRequest confirm;
    confirm.prompt = text(body, "prompt");
    confirm.details = any(body, "details");
    confirm.extra = all_but(body, {"kind", "prompt", "details"});
    return confirm;
}

ApproveRequest read_approve(const JsonObject& body) {
    ApproveRequest approve;
    approve.tool_name = text(body, "tool_name");
    approve.tool_call_id = text(body, "tool_call_id");
    approve.args = object(any(body, "args"), "args");
    approve.details = any(body, "details");
    approve.extra = all_but(body, {"kind", "tool_name", "tool_call_id", "args", "details"});
    return approve;
}

AskRequest read_ask(const JsonObject& body) {
    AskRequest ask;
    const Json questions = any(body, "questions");
    if (!questions.is_array()) refuse("questions", "a list");
    for (const Json& one : questions.get_array()) ask.questions.push_back(read_question(one));
    ask.extra = all_but(body, {"kind", "questions"});
    return ask;
}

}  // namespace

const HitlRequest* find_request(const std::vector<HitlRequest>& requests, std::string_view name) {
    const HitlRequest* found = nullptr;
    std::size_t same_question = 0;
    for (const HitlRequest& one : requests) {
        if (!name.empty() && one.request_id == name) return &one;
        if (one.question_id != name) continue;
        found = &one;
        ++same_question;
    }
    return same_question == 1 ? found : nullptr;
}

JsonObject to_json(const HitlRequest& request) {
    JsonObject json;
    json["question_id"] = request.question_id;
    if (!request.request_id.empty()) json["request_id"] = request.request_id;
    json["thread_id"] = nullable(request.thread_id);
    json["payload"] =
        std::visit([](const auto& one) { return payload_json(one); }, request.payload);
    json["created_at"] = request.created_at;
    json["timeout_seconds"] = nullable(request.timeout_seconds);
    put_extra(json, request.extra);
    return json;
}

HitlRequest hitl_request_from_json(const Json& json) {
    const JsonObject& from = object(json, "request");
    HitlRequest request;
    request.question_id = text(from, "question_id");
    if (const Json* id = from.if_contains("request_id"); id && id->is_string())
        request.request_id = std::string(id->get_string());
    if (const Json* thread = from.if_contains("thread_id"); thread && thread->is_string()) {
        request.thread_id = std::string(thread->get_string());
    }
    const Json payload = any(from, "payload");
    const JsonObject& body = object(payload, "payload");
    const std::string kind = text(body, "kind");
    if (kind == "confirm") {
        request.payload = read_confirm(body);
    } else if (kind == "approve") {
        request.payload = read_approve(body);
    } else if (kind == "ask") {
        request.payload = read_ask(body);
    } else {
        refuse("kind", "confirm, approve or ask, found " + kind);
    }
    if (const Json* at = from.if_contains("created_at"); at && at->is_number()) {
        request.created_at = at->to_number<double>();
    }
    if (const Json* limit = from.if_contains("timeout_seconds"); limit && limit->is_number()) {
        request.timeout_seconds = limit->to_number<double>();
    }
    request.extra = all_but(from, {"question_id", "request_id", "thread_id", "payload",
                                   "created_at", "timeout_seconds"});
    return request;
}

}  // namespace cubepi
