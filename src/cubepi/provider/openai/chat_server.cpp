#include <string>
#include <utility>

#include <cubepi/provider/openai/server_api.hpp>
#include <cubepi/provider/openai/server_requests.hpp>
#include <cubepi/schema/json_text.hpp>

namespace cubepi::detail {

namespace {

constexpr std::size_t longest_text = std::size_t{64} << 20U;

void read_part(const JsonObject& part, const std::string& path, OpenAIClientMessage& message) {
    const std::string type = client_text(part, "type", path, most_client_name);
    if (type == "text" || type == "refusal") {
        message.text += client_text(part, type, path, longest_text);
    } else if (type == "image_url" && !message.is_answer) {
        const JsonObject* const image = client_object(part, "image_url");
        if (!image) throw OpenAIRequestError(path + ".image_url", "is required");
        const std::string url = client_text(*image, "url", path + ".image_url", longest_text);
        const std::string name = "picture-" + std::to_string(message.files.size() + 1);
        message.files.push_back(client_file(url, name, path + ".image_url.url"));
    } else if (type == "file" && !message.is_answer) {
        const JsonObject* const file = client_object(part, "file");
        if (!file) throw OpenAIRequestError(path + ".file", "is required");
        std::string name = client_text(*file, "filename", path + ".file", most_client_name);
        if (name.empty()) name = "file-" + std::to_string(message.files.size() + 1);
        const std::string url = client_text(*file, "file_data", path + ".file", longest_text);
        message.files.push_back(client_file(url, std::move(name), path + ".file.file_data"));
    } else {
        throw OpenAIRequestError(path + ".type", "'" + type + "' is not supported");
    }
}

/// Reads the content of a message: a text, or a list of parts.
void read_content(const JsonObject& from, const std::string& path, OpenAIClientMessage& message) {
    const Json* const content = from.if_contains("content");
    if (!content || content->is_null()) return;
    if (content->is_string()) {
        message.text = std::string(content->get_string());
        return;
    }
    const std::string place = path + ".content";
    if (!content->is_array() || content->get_array().size() > most_client_parts)
        throw OpenAIRequestError(place, "must be a string or a list of at most 64 parts");
    for (std::size_t i = 0; i < content->get_array().size(); ++i) {
        const std::string at = place + "[" + std::to_string(i) + "]";
        const Json& part = content->get_array()[i];
        if (!part.is_object()) throw OpenAIRequestError(at, "must be an object");
        read_part(part.get_object(), at, message);
    }
}

void read_message(const Json& value, const std::string& path, OpenAIClientRequest& request) {
    if (!value.is_object()) throw OpenAIRequestError(path, "must be an object");
    const JsonObject& from = value.get_object();
    const std::string role = client_text(from, "role", path, most_client_name);
    OpenAIClientMessage message;
    message.is_answer = role == "assistant";
    if (message.is_answer && from.contains("tool_calls"))
        throw OpenAIRequestError(path + ".tool_calls", "tools of the caller are not supported");
    read_content(from, path, message);
    if (role == "system" || role == "developer") {
        if (!message.files.empty())
            throw OpenAIRequestError(path + ".content", "must be text in this role");
        add_instructions(request, message.text);
    } else if (role == "user" || role == "assistant") {
        request.messages.push_back(std::move(message));
    } else {
        throw OpenAIRequestError(path + ".role", "'" + role + "' is not supported");
    }
}

void append_event(const JsonObject& data, std::string& out) {
    out += "data: " + json_text(data) + "\n\n";
}

}  // namespace

OpenAIClientRequest read_openai_chat_request(std::string_view text) {
    const JsonObject body = read_client_body(text);
    OpenAIClientRequest request = read_client_settings(body);
    refuse_client_member(body, "n", Json(1));
    for (const char* const name : {"audio", "logprobs", "web_search_options"})
        refuse_client_member(body, name);
    if (const JsonObject* const format = client_object(body, "response_format")) {
        if (client_text(*format, "type", "response_format", most_client_name) != "text")
            throw OpenAIRequestError("response_format", "only the type 'text' is supported");
    }
    const Json* const messages = body.if_contains("messages");
    if (!messages || !messages->is_array() || messages->get_array().size() > most_client_messages)
        throw OpenAIRequestError("messages", "must be a list of at most 1000 messages");
    for (std::size_t i = 0; i < messages->get_array().size(); ++i)
        read_message(messages->get_array()[i], "messages[" + std::to_string(i) + "]", request);
    check_last_message(request, "messages");
    return request;
}

JsonObject OpenAIChatWriter::completion(std::string_view text, std::string_view finish) const {
    JsonObject message;
    message["role"] = "assistant";
    message["content"] = text;
    message["refusal"] = nullptr;
    JsonObject choice;
    choice["index"] = 0;
    choice["message"] = std::move(message);
    choice["logprobs"] = nullptr;
    choice["finish_reason"] = finish;
    JsonArray choices;
    choices.push_back(std::move(choice));
    JsonObject body;
    body["id"] = head_.id;
    body["object"] = "chat.completion";
    body["created"] = head_.created;
    body["model"] = head_.model;
    body["choices"] = std::move(choices);
    return body;
}

JsonObject OpenAIChatWriter::chunk(JsonObject delta, Json finish) const {
    JsonObject choice;
    choice["index"] = 0;
    choice["delta"] = std::move(delta);
    choice["logprobs"] = nullptr;
    choice["finish_reason"] = std::move(finish);
    JsonArray choices;
    choices.push_back(std::move(choice));
    JsonObject body;
    body["id"] = head_.id;
    body["object"] = "chat.completion.chunk";
    body["created"] = head_.created;
    body["model"] = head_.model;
    body["choices"] = std::move(choices);
    return body;
}

void OpenAIChatWriter::begin(std::string& out) {
    if (std::exchange(has_begun_, true)) return;
    JsonObject delta;
    delta["role"] = "assistant";
    delta["content"] = "";
    append_event(chunk(std::move(delta), nullptr), out);
}

void OpenAIChatWriter::add_text(std::string_view text, std::string& out) {
    begin(out);
    JsonObject delta;
    delta["content"] = text;
    append_event(chunk(std::move(delta), nullptr), out);
}

void OpenAIChatWriter::finish(std::string_view finish, std::string& out) {
    begin(out);
    append_event(chunk(JsonObject(), Json(finish)), out);
    out += "data: [DONE]\n\n";
}

void OpenAIChatWriter::fail(std::string_view message, std::string& out) {
    append_event(openai_error(500, message), out);
    out += "data: [DONE]\n\n";
}

}  // namespace cubepi::detail
