#include <cubepi/provider/openai/responses_request.hpp>

#include <algorithm>
#include <utility>

#include <cubepi/provider/openai/strict_schema.hpp>
#include <cubepi/provider/tool_schema.hpp>
#include <cubepi/provider/wire/request_notices.hpp>

namespace cubepi::detail {

namespace {

constexpr std::string_view encrypted_reasoning = "reasoning.encrypted_content";

JsonArray tools_to_wire(const ToolDefinitions& tools, SchemaDialect dialect) {
    JsonArray wire;
    for (const ToolDefinition& tool : tools) {
        JsonObject item;
        item["type"] = "function";
        item["name"] = tool.name.str();
        item["description"] = tool.description.str();
        item["parameters"] =
            lower_tool_schema(tool.parameters ? *tool.parameters : Json(), dialect);
        wire.push_back(std::move(item));
    }
    return wire;
}

Json tool_choice_to_wire(const ToolChoice& choice) {
    switch (choice.mode) {
        case ToolChoice::Mode::automatic: return "auto";
        case ToolChoice::Mode::required: return "required";
        case ToolChoice::Mode::none: return "none";
        case ToolChoice::Mode::named: break;
    }
    JsonObject wire;
    wire["type"] = "function";
    wire["name"] = choice.name;
    return wire;
}

void add_tools(WireProtocol::Built& built, const ModelRequest& request, SchemaDialect dialect) {
    const bool has_tools = request.tools && !request.tools->empty();
    if (has_tools) built.body["tools"] = tools_to_wire(*request.tools, dialect);
    if (!request.options.tool_choice()) return;
    if (has_tools) {
        built.body["tool_choice"] = tool_choice_to_wire(*request.options.tool_choice());
        return;
    }
    built.notices.push_back(request_changed(
        "The tool choice was omitted because the request has no tools", "tool_choice"));
}

/// Asks for the reasoning in the form in which it can be sent back (D13).
void include_reasoning(JsonObject& body) {
    Json& include = body["include"];
    if (!include.is_array()) include = JsonArray();
    for (const Json& one : include.get_array()) {
        if (one == Json(encrypted_reasoning)) return;
    }
    include.get_array().push_back(Json(encrypted_reasoning));
}

void add_sampling(WireProtocol::Built& built, const ModelRequest& request,
                  const ModelProfile& profile) {
    const CapabilityDescriptor& capability = profile.capability;
    if (request.options.reasoning() && capability.reasoning) {
        append(built.notices, apply_reasoning(built.body, *capability.reasoning,
                                              *request.options.reasoning(), profile.reasons));
    }
    if (profile.reasons) include_reasoning(built.body);
    if (request.model.max_tokens) {
        // The name that profiles give is the one of Chat Completions.
        built.body["max_output_tokens"] = *request.model.max_tokens;
    }
    const bool by_itself = capability.reasoning && capability.reasoning->on_by_default;
    append(built.notices,
           apply_temperature(built.body, capability.temperature, request.model.temperature,
                             asks_to_reason(built.body, by_itself)));
}

void add_response_format(JsonObject& body, const ResponseFormat& wanted) {
    JsonObject format;
    format["type"] = "json_schema";
    format["name"] = wanted.name.str();
    if (!wanted.description.empty()) format["description"] = wanted.description.str();
    format["schema"] = *wanted.schema;
    format["strict"] = is_strict_schema(*wanted.schema);
    JsonObject text;
    text["format"] = std::move(format);
    body["text"] = std::move(text);
}

}  // namespace

bool is_strict_schema(const Json& schema) {
    if (schema.is_array()) {
        const JsonArray& all = schema.get_array();
        return std::all_of(all.begin(), all.end(), is_strict_schema);
    }
    if (!schema.is_object()) return true;
    const JsonObject& object = schema.get_object();
    if (const Json* properties = object.if_contains("properties");
        properties && properties->is_object()) {
        const Json* closed = object.if_contains("additionalProperties");
        const Json* required = object.if_contains("required");
        if (!closed || *closed != Json(false) || !required || !required->is_array()) return false;
        for (const auto& [name, value] : properties->get_object()) {
            const JsonArray& names = required->get_array();
            if (std::find(names.begin(), names.end(), Json(name)) == names.end()) return false;
            if (!is_strict_schema(value)) return false;
        }
    } else if (const Json* type = object.if_contains("type"); type && *type == Json("object")) {
        return false;
    }
    for (const std::string_view key : {"items", "anyOf"}) {
        const Json* inner = object.if_contains(key);
        if (inner && !is_strict_schema(*inner)) return false;
    }
    for (const std::string_view key : {"$defs", "definitions"}) {
        const Json* inner = object.if_contains(key);
        if (!inner || !inner->is_object()) continue;
        for (const auto& [name, value] : inner->get_object()) {
            if (!is_strict_schema(value)) return false;
        }
    }
    const Json* text_format = object.if_contains("format");
    if (text_format && !is_strict_format(*text_format)) return false;
    // Words that strict mode does not know.
    for (const std::string_view key : {"oneOf", "allOf", "not", "if", "patternProperties",
                                       "dependentSchemas", "default", "uniqueItems"}) {
        if (object.contains(key)) return false;
    }
    return true;
}

WireProtocol::Built build_openai_responses(const ModelRequest& request,
                                           const OpenAIResponsesSettings& settings,
                                           JsonArray input) {
    WireProtocol::Built built;
    built.body["model"] = request.model.id;
    if (!request.system_prompt.empty()) {
        if (settings.prompt_as_instructions) {
            built.body["instructions"] = request.system_prompt.str();
        } else {
            JsonObject system;
            system["role"] = request.model.reasoning ? "developer" : "system";
            system["content"] = request.system_prompt.str();
            input.insert(input.begin(), std::move(system));
        }
    }
    built.body["input"] = std::move(input);
    built.body["stream"] = true;
    built.body["store"] = settings.store;
    add_tools(built, request, settings.profile.capability.schema_dialect);
    if (request.options.response_format())
        add_response_format(built.body, *request.options.response_format());
    add_sampling(built, request, settings.profile);
    for (const auto& [key, value] : settings.extra_body) built.body[key] = value;
    return built;
}

JsonObject openai_response(const AssistantMessage& message) {
    JsonObject body;
    body["id"] = message.response_id.str();
    body["object"] = "response";
    body["created_at"] = static_cast<std::int64_t>(message.timestamp.value_or(0));
    const bool cut = message.stop_reason == stop_reason::length;
    body["status"] = cut ? "incomplete" : "completed";
    body["model"] = message.model_id.str();
    body["output"] = responses_items(message, true);
    if (!message.usage) return body;
    const Usage& used = *message.usage;
    const std::int64_t prompt = used.input_tokens.value_or(0) + used.cache_read_tokens.value_or(0);
    JsonObject usage;
    usage["input_tokens"] = prompt;
    usage["output_tokens"] = used.output_tokens.value_or(0);
    usage["total_tokens"] = prompt + used.output_tokens.value_or(0);
    if (used.cache_read_tokens) {
        JsonObject details;
        details["cached_tokens"] = *used.cache_read_tokens;
        usage["input_tokens_details"] = std::move(details);
    }
    if (used.reasoning_tokens) {
        JsonObject details;
        details["reasoning_tokens"] = *used.reasoning_tokens;
        usage["output_tokens_details"] = std::move(details);
    }
    body["usage"] = std::move(usage);
    return body;
}

}  // namespace cubepi::detail
