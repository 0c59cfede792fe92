#include "recorded_request.hpp"

#include <array>
#include <cstddef>
#include <map>
#include <memory>
#include <string_view>
#include <utility>

#include <cubepi/core/error.hpp>
#include <cubepi/core/message_list.hpp>
#include <cubepi/core/support/json_member.hpp>
#include <cubepi/provider/http_provider.hpp>

#include "span_content.hpp"
#include "trace_span.hpp"

namespace cubepi::app {

namespace {

using detail::array_member;
using detail::string_member;
using detail::text_member;

/// Arguments of the Python SDKs for a call, which are not a part of the body. Headers may have keys.
constexpr std::array<std::string_view, 3> call_arguments = {"extra_headers", "extra_query",
                                                            "timeout"};

JsonObject body_of(const JsonObject& attributes) {
    for (const std::string_view key : {"cubepi.llm.raw_request", "cubeloop.llm.raw_request"}) {
        Json recorded = content_attribute(attributes, key);
        if (!recorded.is_object()) continue;
        JsonObject body = std::move(recorded.get_object());
        for (const std::string_view name : call_arguments) body.stable_erase(name);
        if (const JsonObject* more = detail::object_member(body, "extra_body")) {
            const JsonObject members = *more;
            body.stable_erase("extra_body");
            for (const auto& [name, value] : members) body[name] = value;
        }
        return body;
    }
    return {};
}

std::optional<ProviderType> api_of(const JsonObject& body, std::string_view provider) {
    if (body.contains("input")) return ProviderType::openai_responses;
    // The scripted model has a form of its own.
    if (!body.contains("messages") || provider == "faux") return std::nullopt;
    const bool is_anthropic = provider == "anthropic" || body.contains("system");
    return is_anthropic ? ProviderType::anthropic : ProviderType::openai;
}

/// Reads messages of the form of the GenAI conventions, and counts what they lack.
class MessageReader {
public:
    MessageList read(const JsonArray& messages) {
        for (const Json& message : messages) {
            const JsonObject* object = message.if_object();
            const JsonArray* parts = object ? array_member(*object, "parts") : nullptr;
            if (parts) add(string_member(*object, "role"), *parts);
        }
        return std::move(list_);
    }
    /// The text of system instructions: messages, or parts without a message around them.
    std::string read_system(const JsonArray& messages) {
        std::string text;
        for (const Json& message : messages) {
            const JsonObject* object = message.if_object();
            if (!object) continue;
            const JsonArray* parts = array_member(*object, "parts");
            const JsonArray own{message};
            for (const Json& part : parts ? *parts : own) {
                if (!part.is_object()) continue;
                text += (text.empty() ? "" : "\n\n") + text_member(part.get_object(), "content");
            }
        }
        return text;
    }
    const std::map<std::string, std::size_t>& lost() const noexcept { return lost_; }

private:
    void add(std::string_view role, const JsonArray& parts) {
        UserMessage user;
        AssistantMessage answer;
        for (const Json& part : parts) {
            const JsonObject* object = part.if_object();
            const std::string_view type = object ? string_member(*object, "type") : "";
            if (type == "text") {
                TextContent text{text_member(*object, "content")};
                if (role == "assistant") {
                    answer.content.push_back(std::move(text));
                } else {
                    user.content.push_back(std::move(text));
                }
            } else if (type == "tool_call") {
                answer.content.push_back(call_of(*object));
            } else if (type == "tool_call_response") {
                list_.push_back(result_of(*object));
            } else {
                ++lost_[std::string(type.empty() ? "unknown" : type)];
            }
        }
        if (!answer.content.empty()) list_.push_back(std::move(answer));
        if (!user.content.empty()) list_.push_back(std::move(user));
    }

    ToolCall call_of(const JsonObject& part) {
        ToolCall call;
        call.id = SharedString(string_member(part, "id"));
        call.name = SharedString(string_member(part, "name"));
        names_[text_member(part, "id")] = call.name;
        const Json* arguments = part.if_contains("arguments");
        if (arguments && arguments->is_object()) {
            call.arguments = arguments->get_object();
        } else if (arguments && arguments->is_string()) {
            call.extra["raw_arguments"] = *arguments;
        }
        return call;
    }

    ToolResultMessage result_of(const JsonObject& part) {
        ToolResultMessage result;
        result.tool_call_id = SharedString(string_member(part, "id"));
        result.tool_name = names_[text_member(part, "id")];
        const Json* value = part.if_contains("result");
        result.content.push_back(TextContent{value ? attribute_text(*value) : std::string()});
        return result;
    }

    MessageList list_;
    std::map<std::string, SharedString> names_;  // of tools, by the ids of calls
    std::map<std::string, std::size_t> lost_;    // by type of part
};

std::shared_ptr<const ToolDefinitions> tools_of(const JsonObject& attributes) {
    const Json recorded = content_attribute(attributes, "gen_ai.tool.definitions");
    const JsonArray* list = recorded.if_array();
    if (!list || list->empty()) return nullptr;
    auto tools = std::make_shared<ToolDefinitions>();
    for (const Json& one : *list) {
        const JsonObject* object = one.if_object();
        if (!object) continue;
        const Json* parameters = object->if_contains("parameters");
        ToolDefinition tool;
        tool.name = SharedString(string_member(*object, "name"));
        tool.description = SharedString(string_member(*object, "description"));
        tool.parameters = std::make_shared<const Json>(
            parameters && parameters->is_object() ? *parameters : Json(JsonObject()));
        tools->push_back(std::move(tool));
    }
    return tools;
}

std::string loss_text(const std::map<std::string, std::size_t>& lost) {
    std::string text;
    for (const auto& [type, count] : lost)
        text += (text.empty() ? "" : ", ") + std::to_string(count) + " of type '" + type + "'";
    return text;
}

/// The model of the call at the API's own vendor, with the recorded options.
BoundModel model_of(const JsonObject& attributes, ProviderType type) {
    const Endpoint endpoint = endpoint_of(*known_provider(name_of(type)), {});
    const BoundModel bound = endpoint.bind(text_member(attributes, "gen_ai.request.model"));
    Model model = bound.spec();
    model.max_tokens = detail::integer_member(attributes, "gen_ai.request.max_tokens");
    const Json* temperature = attributes.if_contains("gen_ai.request.temperature");
    if (temperature && temperature->is_number())
        model.temperature = temperature->to_number<double>();
    return {bound.provider(), std::move(model)};
}

}  // namespace

RecordedRequest::RecordedRequest(const JsonObject& attributes)
    : attributes_(attributes),
      provider_(string_member(attributes, "gen_ai.provider.name")),
      body_(body_of(attributes)) {
    if (provider_.starts_with("unknown:")) provider_.erase(0, std::string_view("unknown:").size());
    api_ = api_of(body_, provider_);
    if (!api_ && !attributes.contains("gen_ai.input.messages"))
        throw Error(ErrorCode::not_found, std::string("the request of this call was not recorded\n"
                                                      "  Requests are content. To record it: ") +
                                              how_to_record_content);
}

RecordedRequest::Body RecordedRequest::body(ProviderType type) const {
    if (api_ == type) return {body_, {}};
    return encoded(type);
}

RecordedRequest::Body RecordedRequest::encoded(ProviderType type) const {
    const Json messages = content_attribute(attributes_, "gen_ai.input.messages");
    if (!messages.is_array())
        throw Error(ErrorCode::not_found,
                    "the messages of this call were not recorded, or were redacted\n"
                    "  Only its own API is possible: cubepi trace convert --to curl");
    MessageReader reader;
    const Json system = content_attribute(attributes_, "gen_ai.system_instructions");
    std::string prompt = system.is_array() ? reader.read_system(system.get_array()) : std::string();
    MessageList list = reader.read(messages.get_array());
    PayloadPreview preview =
        preview_request(model_of(attributes_, type), std::move(list),
                        SharedString(std::move(prompt)), tools_of(attributes_));
    Body body;
    body.json = std::move(preview.payload);
    body.notes.emplace_back(
        "encoded from the recorded messages, which is not byte for byte the "
        "request that was sent");
    if (!reader.lost().empty())
        body.notes.push_back("these parts of messages are missing: " + loss_text(reader.lost()));
    if (api_)
        body.notes.push_back("the model '" + text_member(attributes_, "gen_ai.request.model") +
                             "' is of another API: choose one of the API of the body");
    for (const Notice& notice : preview.notices) body.notes.push_back(notice.text);
    return body;
}

}  // namespace cubepi::app
