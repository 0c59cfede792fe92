#include <cubepi/provider/openai/server_requests.hpp>

#include <utility>

#include <boost/json.hpp>

namespace cubepi::detail {

namespace {

std::string below(const std::string& path, std::string_view name) {
    return path.empty() ? std::string(name) : path + "." + std::string(name);
}

/// Returns the member; null if it is absent or null.
const Json* member(const JsonObject& object, std::string_view name) {
    const Json* const value = object.if_contains(name);
    return value && !value->is_null() ? value : nullptr;
}

}  // namespace

JsonObject read_client_body(std::string_view body) {
    boost::system::error_code failed;
    Json parsed = boost::json::parse(boost::json::string_view(body.data(), body.size()), failed);
    if (failed || !parsed.is_object())
        throw OpenAIRequestError("", "the body must be a JSON object");
    return std::move(parsed.get_object());
}

std::string client_text(const JsonObject& object, std::string_view name, const std::string& path,
                        std::size_t limit) {
    const Json* const value = member(object, name);
    if (!value) return {};
    if (!value->is_string()) throw OpenAIRequestError(below(path, name), "must be a string");
    if (value->get_string().size() > limit) {
        throw OpenAIRequestError(below(path, name),
                                 "is longer than " + std::to_string(limit) + " bytes");
    }
    return std::string(value->get_string());
}

bool client_flag(const JsonObject& object, std::string_view name, bool default_value) {
    const Json* const value = member(object, name);
    if (!value) return default_value;
    if (!value->is_bool()) throw OpenAIRequestError(std::string(name), "must be true or false");
    return value->get_bool();
}

const JsonObject* client_object(const JsonObject& object, std::string_view name) {
    const Json* const value = member(object, name);
    if (!value) return nullptr;
    if (!value->is_object()) throw OpenAIRequestError(std::string(name), "must be an object");
    return &value->get_object();
}

void refuse_client_member(const JsonObject& body, std::string_view name, const Json& accepted) {
    const Json* const value = member(body, name);
    if (!value || *value == Json(false) || *value == accepted) return;
    if (value->is_array() && value->get_array().empty()) return;
    throw OpenAIRequestError(std::string(name), "is not supported");
}

OpenAIClientRequest read_client_settings(const JsonObject& body) {
    OpenAIClientRequest request;
    request.model = client_text(body, "model", "", most_client_name);
    if (request.model.empty()) throw OpenAIRequestError("model", "is required");
    request.user = client_text(body, "safety_identifier", "", most_client_name);
    // The older name of the same.
    if (std::string older = client_text(body, "user", "", most_client_name); !older.empty())
        request.user = std::move(older);
    request.streams = client_flag(body, "stream", false);
    if (const JsonObject* const metadata = client_object(body, "metadata")) {
        constexpr std::size_t most_metadata = 16;
        constexpr std::size_t longest_value = 512;
        if (metadata->size() > most_metadata)
            throw OpenAIRequestError("metadata", "has more than 16 members");
        for (const auto& one : *metadata)
            (void)client_text(*metadata, one.key(), "metadata", longest_value);
        request.metadata = *metadata;
    }
    for (const char* const name : {"tools", "functions", "moderation"})
        refuse_client_member(body, name);
    return request;
}

OpenAIClientFile client_file(std::string_view url, std::string name, const std::string& path) {
    constexpr std::string_view mark = ";base64,";
    const std::size_t end = url.find(mark);
    if (!url.starts_with("data:") || end == std::string_view::npos || end > most_client_name) {
        throw OpenAIRequestError(path,
                                 "must be a data URL with base64; other addresses are not fetched");
    }
    OpenAIClientFile file;
    file.type = std::string(url.substr(5, end - 5));
    file.content = std::string(url.substr(end + mark.size()));
    file.name = std::move(name);
    return file;
}

void add_instructions(OpenAIClientRequest& request, std::string_view text) {
    if (text.empty()) return;
    if (!request.instructions.empty()) request.instructions += "\n\n";
    request.instructions += text;
}

void check_last_message(const OpenAIClientRequest& request, const std::string& path) {
    if (request.approval) return;
    if (request.messages.empty() || request.messages.back().is_answer)
        throw OpenAIRequestError(path, "must end with a message of the user");
    const OpenAIClientMessage& last = request.messages.back();
    if (last.text.empty() && last.files.empty())
        throw OpenAIRequestError(path, "ends with an empty message");
}

JsonObject openai_error(unsigned status, std::string_view message, std::string_view code,
                        std::string_view member) {
    const auto type = [status]() -> std::string_view {
        if (status == 401 || status == 403) return "authentication_error";
        if (status == 429) return "rate_limit_error";
        return status >= 500 ? "server_error" : "invalid_request_error";
    };
    JsonObject error;
    error["message"] = message;
    error["type"] = type();
    error["param"] = member.empty() ? Json(nullptr) : Json(member);
    error["code"] = code.empty() ? Json(nullptr) : Json(code);
    JsonObject body;
    body["error"] = std::move(error);
    return body;
}

}  // namespace cubepi::detail
