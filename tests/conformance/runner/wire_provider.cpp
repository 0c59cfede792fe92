#include "wire_provider.hpp"

#include <utility>

namespace conformance {

namespace {

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

}  // namespace

cubepi::Model parse_wire_model(std::string id, const JsonObject& form) {
    only_keys(form, "model", {"temperature", "max_tokens", "reasoning", "context_window"});
    cubepi::Model model;
    model.id = std::move(id);
    if (const Json* value = form.if_contains("temperature"))
        model.temperature = value->to_number<double>();
    if (const Json* value = form.if_contains("max_tokens"))
        model.max_tokens = as_number(*value, "max_tokens");
    if (const Json* value = form.if_contains("context_window"))
        model.context_window = as_number(*value, "context_window");
    model.reasoning = flag_or(form, "reasoning", false);
    return model;
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

std::shared_ptr<cubepi::Provider> make_wire_provider(const std::string& name,
                                                     const JsonObject& constructor,
                                                     std::uint16_t port) {
    if (name == "anthropic") return make_anthropic_provider(constructor, port);
    if (name == "openai-chat") return make_chat_provider(constructor, port);
    if (name == "openai-responses") return make_responses_provider(constructor, port);
    throw Unsupported("provider " + name);
}

}  // namespace conformance
