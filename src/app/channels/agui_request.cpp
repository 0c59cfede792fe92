#include "agui_request.hpp"

#include <algorithm>
#include <cstddef>
#include <set>
#include <utility>

#include <cubepi/core/support/json_member.hpp>
#include <cubepi/provider/openai/server_requests.hpp>

#include "http_openai.hpp"

namespace cubepi::app {

namespace {

using detail::client_call_id;
using detail::client_object;
using detail::client_text;
using detail::most_client_name;
using detail::OpenAIClientFile;
using detail::OpenAIClientMessage;
using detail::OpenAIRequestError;

constexpr std::size_t longest_text = std::size_t{64} << 20U;
constexpr std::size_t most_answers = 100;
constexpr std::size_t most_context = 100;
constexpr std::size_t most_open_calls = 1'000;

/// Returns the elements of a list, which must be objects; none if the member is absent or null.
std::vector<const JsonObject*> objects_in(const JsonObject& from, const std::string& name,
                                          std::size_t most) {
    std::vector<const JsonObject*> objects;
    const Json* const value = from.if_contains(name);
    if (!value || value->is_null()) return objects;
    if (!value->is_array() || value->get_array().size() > most)
        throw OpenAIRequestError(name,
                                 "must be a list of at most " + std::to_string(most) + " elements");
    for (const Json& one : value->get_array()) {
        if (!one.is_object())
            throw OpenAIRequestError(name + "[" + std::to_string(objects.size()) + "]",
                                     "must be an object");
        objects.push_back(&one.get_object());
    }
    return objects;
}

std::string required_text(const JsonObject& from, std::string_view name, const std::string& path) {
    std::string text = client_text(from, name, path, most_client_name);
    if (text.empty())
        throw OpenAIRequestError((path.empty() ? "" : path + ".") + std::string(name),
                                 "is required");
    return text;
}

/// Reads the tools and the user in the form of the other protocols.
detail::OpenAIClientRequest read_settings(const JsonObject& body) {
    JsonArray tools;
    for (const JsonObject* const tool : objects_in(body, "tools", detail::most_client_tools)) {
        JsonObject function = *tool;
        function["type"] = "function";
        tools.emplace_back(std::move(function));
    }
    JsonObject settings;
    settings["model"] = gateway_agent_name;
    settings["tools"] = std::move(tools);
    const JsonObject* const forwarded = detail::object_member(body, "forwardedProps");
    const Json* const user = forwarded ? forwarded->if_contains("user") : nullptr;
    if (user && user->is_string()) settings["user"] = *user;
    return detail::read_client_settings(settings);
}

/// Returns the file of a part `{type, source: {type: "data", value, mimeType}}`.
OpenAIClientFile file_of(const JsonObject& part, std::string name, const std::string& path) {
    const JsonObject* const source = client_object(part, "source");
    if (!source || client_text(*source, "type", path + ".source", most_client_name) != "data")
        throw OpenAIRequestError(path + ".source",
                                 "must have the type 'data'; addresses are not fetched");
    OpenAIClientFile file;
    file.name = std::move(name);
    file.type = required_text(*source, "mimeType", path + ".source");
    file.content = client_text(*source, "value", path + ".source", longest_text);
    return file;
}

void read_content(const JsonObject& from, const std::string& path, OpenAIClientMessage& message) {
    const Json* const content = from.if_contains("content");
    if (!content || content->is_string()) {
        message.text = client_text(from, "content", path, longest_text);
        return;
    }
    const std::vector<const JsonObject*> parts =
        objects_in(from, "content", detail::most_client_parts);
    for (std::size_t i = 0; i < parts.size(); ++i) {
        const std::string place = path + ".content[" + std::to_string(i) + "]";
        const std::string type = client_text(*parts[i], "type", place, most_client_name);
        if (type == "text") {
            message.text += client_text(*parts[i], "text", place, longest_text);
        } else if (type == "image" || type == "audio" || type == "video" || type == "document") {
            std::string name = type + "-" + std::to_string(message.files.size() + 1);
            message.files.push_back(file_of(*parts[i], std::move(name), place));
        } else {
            throw OpenAIRequestError(place + ".type", "'" + type + "' is not supported");
        }
    }
}

/// Reads a conversation as far as the session does not have it.
class Conversation {
public:
    explicit Conversation(AguiRequest& request) : request_(&request) {}

    void add(const JsonObject& from, const std::string& path) {
        const std::string role = client_text(from, "role", path, most_client_name);
        if (role == "assistant") {
            request_->client.messages.clear();
            read_calls(from, path);
        } else if (role == "tool") {
            add_output(from, path);
        } else if (role == "user" || role == "system" || role == "developer") {
            OpenAIClientMessage message;
            read_content(from, path, message);
            detail::add_client_message(request_->client, role, std::move(message), path);
        } else if (role != "reasoning" && role != "activity") {
            throw OpenAIRequestError(path + ".role", "'" + role + "' is not supported");
        }
    }

    /// Keeps the newest calls without a result.
    void finish() {
        std::vector<AguiOpenCall>& open = request_->open_calls;
        std::erase_if(open, [this](const AguiOpenCall& call) { return ended_.contains(call.id); });
        const std::size_t excess = open.size() - std::min(open.size(), most_open_calls);
        open.erase(open.begin(), open.begin() + static_cast<std::ptrdiff_t>(excess));
    }

private:
    void read_calls(const JsonObject& from, const std::string& path) {
        const std::string place = path + ".toolCalls";
        const std::vector<const JsonObject*> calls =
            objects_in(from, "toolCalls", detail::most_client_messages);
        // They continue with the answers to questions only.
        if (request_->answers.empty()) return;
        for (const JsonObject* const call : calls) {
            AguiOpenCall made;
            made.id = client_call_id(*call, "id", place);
            const JsonObject* const function = client_object(*call, "function");
            if (!function || !made.id.starts_with(agui_call_prefix)) continue;
            made.name = client_text(*function, "name", place, most_client_name);
            boost::system::error_code failed;
            made.arguments = boost::json::parse(
                client_text(*function, "arguments", place, longest_text), failed);
            request_->open_calls.push_back(std::move(made));
        }
    }

    void add_output(const JsonObject& from, const std::string& path) {
        OpenAIClientMessage message;
        message.output_of = client_call_id(from, "toolCallId", path);
        if (message.output_of.starts_with(agui_call_prefix)) {
            // The session has the results of its own tools.
            ended_.insert(std::move(message.output_of));
            return;
        }
        read_content(from, path, message);
        if (message.text.empty()) message.text = client_text(from, "error", path, longest_text);
        request_->client.messages.push_back(std::move(message));
    }

    AguiRequest* request_;
    std::set<std::string> ended_;  // ids of calls
};

void read_answers(const JsonObject& body, AguiRequest& request) {
    std::set<std::string> names;
    for (const JsonObject* const entry : objects_in(body, "resume", most_answers)) {
        const std::string path = "resume[" + std::to_string(request.answers.size()) + "]";
        AguiAnswer& answer = request.answers.emplace_back();
        answer.question = required_text(*entry, "interruptId", path);
        if (!names.insert(answer.question).second)
            throw OpenAIRequestError(path, "there is another answer to this interrupt");
        const std::string status = client_text(*entry, "status", path, most_client_name);
        if (status != "resolved" && status != "cancelled")
            throw OpenAIRequestError(path + ".status", "must be resolved or cancelled");
        answer.is_cancelled = status == "cancelled";
        if (const Json* const payload = entry->if_contains("payload")) answer.payload = *payload;
    }
}

}  // namespace

AguiRequest read_agui_request(std::string_view body) {
    const JsonObject input = detail::read_client_body(body);
    AguiRequest request;
    request.thread = required_text(input, "threadId", "");
    request.run = required_text(input, "runId", "");
    request.client = read_settings(input);
    if (const JsonObject* const state = detail::object_member(input, "state"))
        request.state = *state;
    for (const JsonObject* const one : objects_in(input, "context", most_context)) {
        JsonObject fact;
        for (const char* const name : {"description", "value"})
            fact[name] = client_text(*one, name, "context", longest_text);
        request.context.emplace_back(std::move(fact));
    }
    read_answers(input, request);
    Conversation conversation(request);
    const std::vector<const JsonObject*> messages =
        objects_in(input, "messages", detail::most_client_messages);
    for (std::size_t i = 0; i < messages.size(); ++i)
        conversation.add(*messages[i], "messages[" + std::to_string(i) + "]");
    conversation.finish();
    if (!request.answers.empty()) {
        // The messages of the user were sent with an earlier run.
        std::erase_if(request.client.messages,
                      [](const OpenAIClientMessage& one) { return one.output_of.empty(); });
    } else {
        detail::check_last_message(request.client, "messages");
    }
    return request;
}

}  // namespace cubepi::app
