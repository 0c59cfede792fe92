#include <cubepi/provider/openai/server_requests.hpp>

#include <algorithm>
#include <optional>
#include <set>
#include <utility>

#include <boost/json.hpp>

#include <cubepi/schema/validate.hpp>

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

constexpr std::size_t longest_text = std::size_t{64} << 20U;

/// Returns the name of a tool; the rule is that of the endpoints of models.
std::string tool_name(const JsonObject& function, const std::string& path) {
    constexpr std::size_t longest_tool_name = 64;
    std::string name = client_text(function, "name", path, longest_tool_name);
    const bool is_valid =
        !name.empty() &&
        name.find_first_not_of(
            "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-") == name.npos;
    if (!is_valid)
        throw OpenAIRequestError(below(path, "name"), "must have letters, digits, '_' and '-'");
    return name;
}

/// Reads a data URL. `name`: of the file.
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

const JsonObject& required_object(const JsonObject& from, std::string_view name,
                                  const std::string& path) {
    const Json* const value = member(from, name);
    if (!value || !value->is_object())
        throw OpenAIRequestError(below(path, name), "must be an object");
    return value->get_object();
}

/// The image of a part: {"image_url": "data:..."} of Responses, {"image_url": {"url": "data:..."}} of Chat Completions.
void read_image(const JsonObject& part, const std::string& path, OpenAIClientMessage& message) {
    const Json* const image = member(part, "image_url");
    const bool is_nested = image && image->is_object();
    const JsonObject& from = is_nested ? image->get_object() : part;
    const std::string place = is_nested ? below(path, "image_url") : path;
    const char* const name = is_nested ? "url" : "image_url";
    const std::string url = client_text(from, name, place, longest_text);
    std::string file = "picture-" + std::to_string(message.files.size() + 1);
    message.files.push_back(client_file(url, std::move(file), below(place, name)));
}

void read_file(const JsonObject& from, const std::string& path, OpenAIClientMessage& message) {
    std::string name = client_text(from, "filename", path, most_client_name);
    if (name.empty()) name = "file-" + std::to_string(message.files.size() + 1);
    const std::string url = client_text(from, "file_data", path, longest_text);
    message.files.push_back(client_file(url, std::move(name), below(path, "file_data")));
}

void read_part(const JsonObject& part, const std::string& path, OpenAIClientMessage& message) {
    const std::string type = client_text(part, "type", path, most_client_name);
    if (type == "text" || type == "input_text" || type == "output_text") {
        message.text += client_text(part, "text", path, longest_text);
    } else if (type == "refusal") {
        message.text += client_text(part, type, path, longest_text);
    } else if ((type == "image_url" || type == "input_image") && !message.is_answer) {
        read_image(part, path, message);
    } else if (type == "input_file" && !message.is_answer) {
        read_file(part, path, message);
    } else if (type == "file" && !message.is_answer) {
        read_file(required_object(part, type, path), below(path, type), message);
    } else {
        throw OpenAIRequestError(below(path, "type"), "'" + type + "' is not supported");
    }
}

/// Returns nothing for a tool that is not a function: one of the endpoint itself, such as web_search, or of another kind. It is not offered.
std::optional<OpenAIClientTool> read_tool(const Json& value, const std::string& path) {
    if (!value.is_object()) throw OpenAIRequestError(path, "must be an object");
    const std::string type = client_text(value.get_object(), "type", path, most_client_name);
    if (type.empty()) throw OpenAIRequestError(below(path, "type"), "is required");
    if (type != "function") return std::nullopt;
    const JsonObject& function = client_function(value.get_object(), path);
    OpenAIClientTool tool;
    tool.name = tool_name(function, path);
    tool.description = client_text(function, "description", path, longest_text);
    if (!member(function, "parameters")) {
        tool.parameters = JsonObject{{"type", "object"}, {"properties", JsonObject()}};
        return tool;
    }
    tool.parameters = required_object(function, "parameters", path);
    try {
        JsonSchema(Json(tool.parameters)).compile();
    } catch (const Error& error) {
        throw OpenAIRequestError(below(path, "parameters"), error.what());
    }
    return tool;
}

void read_tools(const JsonObject& body, OpenAIClientRequest& request) {
    const Json* const tools = member(body, "tools");
    if (!tools) return;
    if (!tools->is_array() || tools->get_array().size() > most_client_tools) {
        throw OpenAIRequestError(
            "tools", "must be a list of at most " + std::to_string(most_client_tools) + " tools");
    }
    std::set<std::string> names;
    for (std::size_t i = 0; i < tools->get_array().size(); ++i) {
        const std::string path = "tools[" + std::to_string(i) + "]";
        std::optional<OpenAIClientTool> tool = read_tool(tools->get_array()[i], path);
        if (!tool) continue;
        if (!names.insert(tool->name).second)
            throw OpenAIRequestError(path, "there is another tool with this name");
        request.tools.push_back(std::move(*tool));
    }
}

void choose_mode(std::string_view mode, const std::string& path, OpenAIClientRequest& request) {
    if (mode == "none") {
        request.tool_choice = OpenAIToolChoice::none;
    } else if (mode == "required") {
        request.tool_choice = OpenAIToolChoice::required;
    } else if (mode != "auto") {
        throw OpenAIRequestError(path, "must be auto, none, required or a function");
    }
}

/// Reads a choice: a word, a function, or a list of functions that may be called.
void read_choice(const JsonObject& body, OpenAIClientRequest& request) {
    const std::string path = "tool_choice";
    const Json* const choice = member(body, path);
    if (!choice) return;
    if (choice->is_string()) return choose_mode(choice->get_string(), path, request);
    const JsonObject& object = required_object(body, path, "");
    const std::string type = client_text(object, "type", path, most_client_name);
    std::set<std::string> allowed;
    if (type == "function") {
        request.tool_choice = OpenAIToolChoice::named;
        request.chosen_tool = tool_name(client_function(object, path), path);
        allowed.insert(request.chosen_tool);
    } else if (type == "allowed_tools") {
        const JsonObject& listed =
            object.contains(type) ? required_object(object, type, path) : object;
        choose_mode(client_text(listed, "mode", path, most_client_name), path, request);
        const Json* const tools = member(listed, "tools");
        if (!tools || !tools->is_array() || tools->get_array().size() > most_client_tools)
            throw OpenAIRequestError(path + ".tools", "must be a list of tools");
        for (const Json& tool : tools->get_array()) {
            if (!tool.is_object()) throw OpenAIRequestError(path + ".tools", "must have objects");
            allowed.insert(tool_name(client_function(tool.get_object(), path), path));
        }
        std::erase_if(request.tools,
                      [&](const OpenAIClientTool& tool) { return !allowed.contains(tool.name); });
    } else {
        throw OpenAIRequestError(path + ".type", "'" + type + "' is not supported");
    }
    const auto is_offered = [&request](const std::string& name) {
        return std::any_of(request.tools.begin(), request.tools.end(),
                           [&name](const OpenAIClientTool& tool) { return tool.name == name; });
    };
    for (const std::string& name : allowed)
        if (!is_offered(name)) throw OpenAIRequestError(path, "'" + name + "' is not in 'tools'");
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
        constexpr std::size_t longest_key = 64;
        for (const auto& one : *metadata) {
            if (one.key().size() > longest_key)
                throw OpenAIRequestError("metadata", "has a name of more than 64 bytes");
            (void)client_text(*metadata, one.key(), "metadata", longest_value);
        }
        request.metadata = *metadata;
    }
    for (const char* const name : {"functions", "moderation"}) refuse_client_member(body, name);
    read_tools(body, request);
    read_choice(body, request);
    request.parallel_calls = client_flag(body, "parallel_tool_calls", true);
    return request;
}

const JsonObject& client_function(const JsonObject& item, const std::string& path) {
    return item.contains("function") ? required_object(item, "function", path) : item;
}

OpenAIClientCall read_client_call(const JsonObject& function, const std::string& path) {
    OpenAIClientCall call;
    call.name = tool_name(function, path);
    call.arguments = client_text(function, "arguments", path, longest_text);
    return call;
}

std::string client_call_id(const JsonObject& object, std::string_view name,
                           const std::string& path) {
    std::string id = client_text(object, name, path, most_client_call_id);
    if (id.empty()) throw OpenAIRequestError(below(path, name), "is required");
    return id;
}

void read_client_content(const JsonObject& from, std::string_view name, const std::string& path,
                         OpenAIClientMessage& message) {
    const Json* const content = member(from, name);
    if (!content) return;
    if (content->is_string()) {
        message.text = std::string(content->get_string());
        return;
    }
    const std::string place = below(path, name);
    if (!content->is_array() || content->get_array().size() > most_client_parts)
        throw OpenAIRequestError(place, "must be a string or a list of at most 64 parts");
    for (std::size_t i = 0; i < content->get_array().size(); ++i) {
        const std::string at = place + "[" + std::to_string(i) + "]";
        const Json& part = content->get_array()[i];
        if (!part.is_object()) throw OpenAIRequestError(at, "must be an object");
        read_part(part.get_object(), at, message);
    }
}

void add_client_message(OpenAIClientRequest& request, std::string_view role,
                        OpenAIClientMessage message, const std::string& path) {
    if (role == "system" || role == "developer") {
        if (!message.files.empty())
            throw OpenAIRequestError(path + ".content", "must be text in this role");
        add_instructions(request, message.text);
    } else if (role == "user" || role == "assistant") {
        request.messages.push_back(std::move(message));
    } else {
        throw OpenAIRequestError(path + ".role", "'" + std::string(role) + "' is not supported");
    }
}

void add_instructions(OpenAIClientRequest& request, std::string_view text) {
    if (text.empty()) return;
    if (!request.instructions.empty()) request.instructions += "\n\n";
    request.instructions += text;
}

void check_last_message(const OpenAIClientRequest& request, const std::string& path) {
    std::set<std::string_view> outputs;
    for (const OpenAIClientMessage& one : request.messages) {
        if (!one.output_of.empty() && !outputs.insert(one.output_of).second)
            throw OpenAIRequestError(path, "has two outputs of the call '" + one.output_of + "'");
    }
    if (request.approval) return;
    if (request.messages.empty() || request.messages.back().is_answer)
        throw OpenAIRequestError(path, "must end with a message of the user");
    const OpenAIClientMessage& last = request.messages.back();
    if (!last.output_of.empty()) return;
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
