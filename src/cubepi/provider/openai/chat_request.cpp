#include <cubepi/provider/openai/chat_api.hpp>

#include <algorithm>
#include <map>
#include <utility>

#include <cubepi/core/support/json_member.hpp>
#include <cubepi/provider/model_profile.hpp>
#include <cubepi/provider/openai/openai_words.hpp>
#include <cubepi/provider/wire/encoding.hpp>
#include <cubepi/schema/python_json.hpp>

namespace cubepi::detail {

namespace {

JsonObject role_message(std::string_view role) {
    JsonObject message;
    message["role"] = role;
    return message;
}

JsonObject image_part(const ImageContent& image) {
    JsonObject url;
    url["url"] = image_url(image);
    JsonObject part = typed("image_url");
    part["image_url"] = std::move(url);
    return part;
}

JsonObject user_to_wire(const UserMessage& message) {
    const ContentList<Content> content = with_sender(message);
    JsonObject wire = role_message("user");
    if (!has_images(content)) {
        wire["content"] = joined_text(content, "\n");
        return wire;
    }
    JsonArray parts;
    for (const Content& block : content) {
        if (const auto* text = std::get_if<TextContent>(&block))
            parts.push_back(typed_text("text", text->text));
        if (const auto* image = std::get_if<ImageContent>(&block))
            parts.push_back(image_part(*image));
    }
    wire["content"] = std::move(parts);
    return wire;
}

/// OpenAI takes ids of 40 bytes. Those of the Responses API, "<call id>|<item id>", are longer, their first half is not.
std::string wire_call_id(std::string_view id) {
    constexpr std::size_t longest = 40;
    if (id.size() > longest) id = id.substr(0, id.find('|'));
    return shortened_id(id, longest);
}

JsonObject call_to_wire(const ToolCall& call, bool own) {
    JsonObject wire;
    const Json* members = own ? call.extra.find(chat_members_key) : nullptr;
    if (members && members->is_object()) wire = members->get_object();
    JsonObject function;
    if (const JsonObject* received = object_member(wire, "function")) function = *received;
    function["name"] = call.name.str();
    function["arguments"] = to_python_json(call.arguments);
    wire["id"] = wire_call_id(call.id);
    wire["type"] = "function";
    wire["function"] = std::move(function);
    return wire;
}

/// Turns the messages into the wire's, which want a result for each call, right after it, and text in results.
class MessageWriter {
public:
    MessageWriter(const ModelRequest& request, const CapabilityDescriptor& capability,
                  std::vector<Notice>& notices, bool requires_thinking)
        : request_(request),
          capability_(capability),
          notices_(notices),
          requires_thinking_(requires_thinking) {}

    JsonArray run() {
        if (!request_.system_prompt.empty()) {
            JsonObject system = role_message("system");
            system["content"] = request_.system_prompt.str();
            wire_.push_back(std::move(system));
        }
        for (const Message& message : request_.messages) {
            if (const ToolResultMessage* result = message.tool_result()) {
                add(*result);
                continue;
            }
            close_results();
            if (const UserMessage* user = message.user()) wire_.push_back(user_to_wire(*user));
            if (const AssistantMessage* assistant = message.assistant()) add(*assistant);
        }
        close_results();
        return std::move(wire_);
    }

private:
    void add(const AssistantMessage& message) {
        std::string text;
        bool has_text = false;
        JsonArray calls;
        for (const AssistantContent& block : message.content) {
            if (const auto* part = std::get_if<TextContent>(&block)) {
                if (has_text) text += '\n';
                text += part->text;
                has_text = true;
            } else if (const auto* call = std::get_if<ToolCall>(&block)) {
                calls.push_back(call_to_wire(*call, is_own(message)));
                open_calls_.push_back(call->id);
            }
        }
        // An answer that says nothing and calls nothing (a failed one) is refused by many servers.
        if (calls.empty() && text.find_first_not_of('\n') == std::string::npos) return;
        const Json* members = is_own(message) ? message.extra.find(chat_members_key) : nullptr;
        JsonObject wire = members && members->is_object() ? members->get_object() : JsonObject();
        wire["role"] = "assistant";
        wire["content"] = has_text ? Json(text) : Json(nullptr);
        add_thinking(wire, message);
        if (!calls.empty()) wire["tool_calls"] = std::move(calls);
        wire_.push_back(std::move(wire));
    }

    bool is_own(const AssistantMessage& message) const {
        return message.provider_id == request_.model.provider_id;
    }

    void add_thinking(JsonObject& wire, const AssistantMessage& message) const {
        std::string thinking;
        JsonArray details;
        for (const AssistantContent& block : message.content) {
            const auto* part = std::get_if<ThinkingContent>(&block);
            if (!part) continue;
            thinking += part->thinking;
            const Json* entry = part->extra.find("reasoning_details");
            if (!entry || !entry->is_array()) continue;
            for (const Json& item : entry->get_array()) details.push_back(item);
        }
        if (is_own(message) && !details.empty()) wire["reasoning_details"] = std::move(details);
        if (requires_thinking_) {
            wire["reasoning_content"] = thinking;  // also if it is empty
        } else if (capability_.thinking_field && !thinking.empty()) {
            wire[*capability_.thinking_field] = thinking;
        }
    }

    void add(const ToolResultMessage& message) {
        const auto call = std::find(open_calls_.begin(), open_calls_.end(), message.tool_call_id);
        if (call == open_calls_.end()) {
            notices_.push_back(repaired("A result of tool call " + message.tool_call_id +
                                            " was omitted because it has no call",
                                        message.tool_call_id));
            return;
        }
        open_calls_.erase(call);
        std::string text = joined_text(message.content, "\n");
        if (message.is_error) text = marked_error(std::move(text));
        std::size_t images = 0;
        for (const Content& block : message.content) {
            const auto* image = std::get_if<ImageContent>(&block);
            if (!image) continue;
            if (images++ == 0)
                images_.push_back(
                    typed_text("text", "Images in the result of " + message.tool_name.str() + ":"));
            images_.push_back(image_part(*image));
        }
        if (images > 0) {
            if (!text.empty()) text += '\n';
            text += "(see the images in the next message)";
        }
        JsonObject wire = role_message("tool");
        wire["tool_call_id"] = wire_call_id(message.tool_call_id);
        wire["content"] = std::move(text);
        wire_.push_back(std::move(wire));
    }

    /// Ends the results of one answer: a call without one gets one (D1), images follow as the user's, because
    /// results can only be text here.
    void close_results() {
        for (const std::string& id : open_calls_) {
            JsonObject wire = role_message("tool");
            wire["tool_call_id"] = wire_call_id(id);
            wire["content"] = interrupted_result;
            wire_.push_back(std::move(wire));
            notices_.push_back(result_missing(id));
        }
        open_calls_.clear();
        if (images_.empty()) return;
        JsonObject wire = role_message("user");
        wire["content"] = std::exchange(images_, JsonArray());
        wire_.push_back(std::move(wire));
    }

    const ModelRequest& request_;
    const CapabilityDescriptor& capability_;
    std::vector<Notice>& notices_;
    bool requires_thinking_;
    JsonArray wire_;
    JsonArray images_;
    std::vector<std::string> open_calls_;
};

JsonArray tools_to_wire(const ToolDefinitions& tools, SchemaDialect dialect) {
    JsonArray wire;
    for (const ToolDefinition& tool : tools) {
        JsonObject function;
        put_function(function, tool, dialect);
        JsonObject item = typed("function");
        item["function"] = std::move(function);
        wire.push_back(std::move(item));
    }
    return wire;
}

Json tool_choice_to_wire(const ToolChoice& choice) {
    if (const std::string_view word = tool_choice_word(choice.mode); !word.empty())
        return Json(word);
    JsonObject function;
    function["name"] = choice.name;
    JsonObject wire = typed("function");
    wire["function"] = std::move(function);
    return wire;
}

void add_sampling(WireProtocol::Built& built, const ModelRequest& request,
                  const ModelProfile& profile, bool openai_endpoint) {
    const Model& model = request.model;
    const CapabilityDescriptor& capability = profile.capability;
    if (request.options.reasoning()) {
        append(built.notices,
               apply_reasoning_control(built.body, *capability.reasoning,
                                       *request.options.reasoning(), profile.reasons));
    }
    if (model.max_tokens) {
        const std::string field = capability.max_tokens_field.value_or(
            openai_endpoint ? "max_completion_tokens" : "max_tokens");
        built.body[field] = *model.max_tokens;
    }
    const bool reasoning = asks_to_reason(built.body, capability.reasoning->on_by_default);
    append(built.notices,
           apply_temperature(built.body, capability.temperature, model.temperature, reasoning));
    const bool never = profile.chat_tools == ChatTools::no;
    const bool refused = never || (profile.chat_tools == ChatTools::without_reasoning && reasoning);
    if (!openai_endpoint || !refused || !built.body.if_contains("tools")) return;
    Notice notice;
    notice.code = "unsupported";
    notice.text =
        "OpenAI takes no tools for " + profile.family + " in Chat Completions" +
        (never ? ": use OpenAIResponsesProvider"
               : " while it reasons: use OpenAIResponsesProvider, or switch reasoning off");
    notice.details["field"] = "tools";
    built.notices.push_back(std::move(notice));
}

/// platform.openai.com/docs/guides/structured-outputs
Json response_format_to_wire(const ResponseFormat& wanted) {
    JsonObject format;
    put_json_schema(format, wanted);
    JsonObject wire = typed("json_schema");
    wire["json_schema"] = std::move(format);
    return wire;
}

}  // namespace

bool openai_takes_response_format(std::string_view id) {
    const bool old = id == "gpt-4" || id.starts_with("gpt-4-") || id.starts_with("gpt-3.5") ||
                     id == "gpt-4o-2024-05-13" || id.starts_with("o1-mini") ||
                     id.starts_with("o1-preview");
    return !old;
}

JsonArray openai_chat_messages(const ModelRequest& request, const CapabilityDescriptor& capability,
                               std::vector<Notice>& notices, bool requires_thinking) {
    return MessageWriter(request, capability, notices, requires_thinking).run();
}

WireProtocol::Built build_openai_chat(const ModelRequest& request,
                                      const OpenAIChatSettings& settings) {
    static const std::map<std::string, CapabilityDescriptor> no_overrides;
    const ProviderCapability configured{settings.capability, no_overrides, settings.base_url};
    const ModelProfile profile =
        effective_profile(ModelApi::openai_chat, request.model, configured);
    const CapabilityDescriptor& capability = profile.capability;
    WireProtocol::Built built;
    built.body["model"] = request.model.id;
    built.body["messages"] =
        openai_chat_messages(request, capability, built.notices, settings.requires_thinking);
    built.body["stream"] = true;
    if (capability.stream_usage) {
        JsonObject options;
        options["include_usage"] = true;
        built.body["stream_options"] = std::move(options);
    }
    const bool has_tools = request.tools && !request.tools->empty();
    if (has_tools) built.body["tools"] = tools_to_wire(*request.tools, capability.schema_dialect);
    if (request.options.tool_choice()) {
        if (has_tools) {
            built.body["tool_choice"] = tool_choice_to_wire(*request.options.tool_choice());
        } else {
            built.notices.push_back(tool_choice_omitted());
        }
    }
    if (request.options.response_format())
        built.body["response_format"] = response_format_to_wire(*request.options.response_format());
    add_sampling(built, request, profile, settings.openai_endpoint);
    for (const auto& [key, value] : settings.extra_body) built.body[key] = value;
    return built;
}

JsonObject openai_chat_completion(const AssistantMessage& message) {
    JsonArray calls;
    for (const ToolCall* call : message.tool_calls()) calls.push_back(call_to_wire(*call, true));
    const std::string text = message.text();
    JsonObject inner = role_message("assistant");
    inner["content"] = text.empty() ? Json(nullptr) : Json(text);
    if (!calls.empty()) inner["tool_calls"] = std::move(calls);
    JsonObject choice;
    choice["index"] = 0;
    choice["message"] = std::move(inner);
    choice["finish_reason"] = finish_of_stop_reason(message.stop_reason.str());
    choice["logprobs"] = nullptr;
    JsonArray choices;
    choices.push_back(std::move(choice));
    JsonObject body;
    body["id"] = message.response_id.str();
    body["object"] = "chat.completion";
    body["created"] = static_cast<std::int64_t>(message.timestamp.value_or(0));
    body["model"] = message.model_id.str();
    body["choices"] = std::move(choices);
    if (message.usage) body["usage"] = openai_usage(*message.usage, chat_usage_names);
    return body;
}

}  // namespace cubepi::detail
