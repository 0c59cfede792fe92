#include <cubepi/provider/gemini/generate_api.hpp>

#include <algorithm>
#include <string>
#include <utility>

#include <cubepi/core/error.hpp>
#include <cubepi/core/support/json_member.hpp>
#include <cubepi/core/support/percent_decoded.hpp>
#include <cubepi/provider/tool_schema.hpp>
#include <cubepi/provider/wire/encoding.hpp>

namespace cubepi::detail {

namespace {

/// Models since version 3 refuse a call without a signature, also one that another model made. They accept this word in its
/// place (ai.google.dev/gemini-api/docs/thought-signatures).
constexpr std::string_view no_signature = "skip_thought_signature_validator";

JsonObject text_part(std::string_view text) {
    JsonObject part;
    part["text"] = text;
    return part;
}

JsonObject image_part(const ImageContent& image) {
    JsonObject data;
    if (!image.media_type.empty()) data["mimeType"] = image.media_type.str();
    const bool remote = is_url(image.source);
    data[remote ? "fileUri" : "data"] = image.source;
    JsonObject part;
    part[remote ? "fileData" : "inlineData"] = std::move(data);
    return part;
}

JsonArray parts_of(const ContentList<Content>& content) {
    JsonArray parts;
    for (const Content& block : content) {
        if (const auto* text = std::get_if<TextContent>(&block)) {
            if (!text->text.empty()) parts.push_back(text_part(text->text));
        } else if (const auto* image = std::get_if<ImageContent>(&block)) {
            parts.push_back(image_part(*image));
        }
    }
    return parts;
}

JsonObject content_of(std::string_view role, JsonArray parts) {
    JsonObject content;
    content["role"] = role;
    content["parts"] = std::move(parts);
    return content;
}

/// The members that the endpoint sent with a part and that have no place in its block.
JsonObject stored_members(const LazyObject& extra) {
    const Json* members = extra.find(gemini_members_key);
    return members && members->is_object() ? members->get_object() : JsonObject();
}

JsonObject call_part(const ToolCall& call, bool own) {
    JsonObject part = own ? stored_members(call.extra) : JsonObject();
    Json& wire = part["functionCall"];
    if (!wire.is_object()) wire = JsonObject();
    JsonObject& function = wire.get_object();
    const Json* id = own ? call.extra.find(gemini_call_id_key) : nullptr;
    if (id) function["id"] = *id;
    function["name"] = call.name.str();
    function["args"] = call.arguments;
    return part;
}

/// Adds the parts of an unknown kind that came before block `before`.
void add_foreign(JsonArray& parts, const JsonArray* foreign, std::size_t before) {
    if (!foreign) return;
    for (const Json& item : *foreign) {
        const JsonObject* entry = item.if_object();
        const JsonObject* part = entry ? object_member(*entry, "part") : nullptr;
        const Json* at = entry ? entry->if_contains("before") : nullptr;
        if (part && at && at->is_number() && at->to_number<double>() == static_cast<double>(before))
            parts.push_back(*part);
    }
}

/// An answer in the form of its endpoint. Thinking is returned only if the endpoint marked it: summaries cost tokens and tell a
/// model nothing. `own`: the endpoint's own answer, whose signatures it can read.
JsonArray answer_parts(const AssistantMessage& answer, bool own, bool with_summaries = false) {
    JsonArray parts;
    const Json* entry = own ? answer.extra.find(gemini_parts_key) : nullptr;
    const JsonArray* foreign = entry ? entry->if_array() : nullptr;
    for (std::size_t i = 0; i < answer.content.size(); ++i) {
        add_foreign(parts, foreign, i);
        const AssistantContent& block = answer.content[i];
        if (const auto* text = std::get_if<TextContent>(&block)) {
            JsonObject part = own ? stored_members(text->extra) : JsonObject();
            if (text->text.empty() && part.empty()) continue;
            part["text"] = text->text;
            parts.push_back(std::move(part));
        } else if (const auto* thinking = std::get_if<ThinkingContent>(&block)) {
            JsonObject part = own ? stored_members(thinking->extra) : JsonObject();
            if (part.empty() && !with_summaries) continue;
            part["text"] = thinking->thinking;
            part["thought"] = true;
            parts.push_back(std::move(part));
        } else if (const auto* call = std::get_if<ToolCall>(&block)) {
            parts.push_back(call_part(*call, own));
        } else if (const auto* image = std::get_if<ImageContent>(&block)) {
            JsonObject part = own ? stored_members(image->extra) : JsonObject();
            for (auto& [key, value] : image_part(*image)) part[key] = value;
            parts.push_back(std::move(part));
        }
    }
    add_foreign(parts, foreign, answer.content.size());
    return parts;
}

/// Removes the signatures, and parts that have nothing else.
void remove_signatures(JsonArray& parts) {
    JsonArray retained;
    for (Json& item : parts) {
        JsonObject& part = item.get_object();
        const bool had_one = part.erase(thought_signature_key) > 0;
        const bool is_empty = part.contains("text") && string_member(part, "text").empty();
        if (!had_one || !is_empty) retained.push_back(std::move(item));
    }
    parts = std::move(retained);
}

/// Turns the messages into contents: a result has the id and the name of its call.
class ContentWriter {
public:
    ContentWriter(const ModelRequest& request, const GeminiSettings& settings,
                  std::vector<Notice>& notices)
        : request_(request), settings_(settings), notices_(notices) {}

    JsonArray run() {
        for (const Message& message : request_.messages) {
            if (const ToolResultMessage* result = message.tool_result()) {
                add(*result);
                continue;
            }
            close_results();
            if (const UserMessage* user = message.user()) put("user", parts_of(with_sender(*user)));
            if (const AssistantMessage* answer = message.assistant()) add(*answer);
        }
        close_results();
        return std::move(contents_);
    }

private:
    struct OpenCall {
        std::string id;
        std::string name;
        Json wire_id;  ///< null: the endpoint assigned none
    };

    void put(std::string_view role, JsonArray parts) {
        if (!parts.empty()) contents_.push_back(content_of(role, std::move(parts)));
    }

    void add(const AssistantMessage& answer) {
        const bool own =
            answer.provider_id.empty() || answer.provider_id == request_.model.provider_id;
        for (const ToolCall* call : answer.tool_calls()) {
            const Json* id = own ? call->extra.find(gemini_call_id_key) : nullptr;
            open_.push_back(OpenCall{call->id.str(), call->name.str(), id ? *id : Json()});
        }
        JsonArray parts = answer_parts(answer, own);
        if (!settings_.sends_signatures) remove_signatures(parts);
        mark_first_call(parts);
        put("model", std::move(parts));
    }

    /// Only the first call of an answer has a signature. A model that is not in the tables may be of any version.
    void mark_first_call(JsonArray& parts) const {
        const bool marks =
            is_version_3() || !settings_.profile.known() || !settings_.sends_signatures;
        bool first = true;
        for (Json& item : parts) {
            JsonObject& part = item.get_object();
            if (!part.contains("functionCall")) continue;
            if (std::exchange(first, false) && marks && !part.contains(thought_signature_key))
                part[thought_signature_key] = no_signature;
        }
    }

    /// Models of version 2.5 take a budget for thinking, and calls without a signature.
    bool is_version_3() const {
        const auto& reasoning = settings_.profile.capability.reasoning;
        return settings_.profile.reasons && reasoning && reasoning->effort_path &&
               reasoning->effort_path->ends_with("thinkingLevel");
    }

    void add(const ToolResultMessage& result) {
        const auto call = std::find_if(open_.begin(), open_.end(), [&](const OpenCall& open) {
            return open.id == result.tool_call_id;
        });
        if (call == open_.end()) {
            notices_.push_back(repaired("A result of tool call " + result.tool_call_id.str() +
                                            " was omitted because it has no call",
                                        result.tool_call_id));
            return;
        }
        const OpenCall answered = std::move(*call);
        open_.erase(call);
        // Version 3 reads the bytes of images inside of a result; others, and addresses of images, stand next to it.
        JsonArray inside;
        for (const Content& block : result.content) {
            const auto* image = std::get_if<ImageContent>(&block);
            if (!image) continue;
            JsonArray& to = is_version_3() && !is_url(image->source) ? inside : images_;
            to.push_back(image_part(*image));
        }
        put_result(answered, joined_text(result.content, "\n"), result.is_error, std::move(inside));
    }

    void put_result(const OpenCall& call, std::string text, bool is_error, JsonArray images) {
        JsonObject function;
        if (!call.wire_id.is_null()) function["id"] = call.wire_id;
        function["name"] = call.name;
        JsonObject response;
        response[is_error ? "error" : "output"] = std::move(text);
        function["response"] = std::move(response);
        if (!images.empty()) function["parts"] = std::move(images);
        JsonObject part;
        part["functionResponse"] = std::move(function);
        results_.push_back(std::move(part));
    }

    /// The results of an answer are one content; a call without one gets one (D1).
    void close_results() {
        for (const OpenCall& call : open_) {
            put_result(call, std::string(interrupted_result), true, {});
            notices_.push_back(result_missing(call.id));
        }
        open_.clear();
        JsonArray parts = std::exchange(results_, JsonArray());
        for (Json& image : images_) parts.push_back(std::move(image));
        images_.clear();
        put("user", std::move(parts));
    }

    const ModelRequest& request_;
    const GeminiSettings& settings_;
    std::vector<Notice>& notices_;
    JsonArray contents_;
    std::vector<OpenCall> open_;
    JsonArray results_;
    JsonArray images_;
};

JsonArray function_declarations(const ToolDefinitions& tools, SchemaDialect dialect) {
    JsonArray functions;
    for (const ToolDefinition& tool : tools) {
        JsonObject function;
        function["name"] = tool.name.str();
        function["description"] = tool.description.str();
        function["parametersJsonSchema"] = lower_tool_schema(parameters_of(tool), dialect);
        functions.push_back(std::move(function));
    }
    JsonObject group;
    group["functionDeclarations"] = std::move(functions);
    JsonArray wire;
    wire.push_back(std::move(group));
    return wire;
}

JsonObject tool_config(const ToolChoice& choice) {
    JsonObject mode;
    switch (choice.mode) {
        case ToolChoice::Mode::automatic: mode["mode"] = "AUTO"; break;
        case ToolChoice::Mode::none: mode["mode"] = "NONE"; break;
        case ToolChoice::Mode::required: mode["mode"] = "ANY"; break;
        case ToolChoice::Mode::named: {
            mode["mode"] = "ANY";
            JsonArray names;
            names.push_back(Json(choice.name));
            mode["allowedFunctionNames"] = std::move(names);
            break;
        }
    }
    JsonObject config;
    config["functionCallingConfig"] = std::move(mode);
    return config;
}

JsonObject usage_to_wire(const Usage& usage) {
    const std::int64_t prompt =
        usage.input_tokens.value_or(0) + usage.cache_read_tokens.value_or(0);
    const std::int64_t answer = usage.output_tokens.value_or(0);
    const std::int64_t thoughts = usage.reasoning_tokens.value_or(0);
    JsonObject wire;
    wire["promptTokenCount"] = prompt;
    wire["candidatesTokenCount"] = answer - thoughts;
    if (usage.reasoning_tokens) wire["thoughtsTokenCount"] = thoughts;
    if (usage.cache_read_tokens) wire["cachedContentTokenCount"] = *usage.cache_read_tokens;
    wire["totalTokenCount"] = prompt + answer;
    return wire;
}

}  // namespace

WireProtocol::Built build_gemini(const ModelRequest& request, const GeminiSettings& settings) {
    WireProtocol::Built built;
    const CapabilityDescriptor& capability = settings.profile.capability;
    JsonObject& body = built.body;
    // The order in which the endpoint reads them, so that a cached prefix is as long as possible.
    if (!request.system_prompt.empty()) {
        JsonObject system;
        system["parts"] = JsonArray{text_part(request.system_prompt)};
        body["systemInstruction"] = std::move(system);
    }
    const bool has_tools = request.tools && !request.tools->empty();
    if (has_tools) body["tools"] = function_declarations(*request.tools, capability.schema_dialect);
    body["contents"] = ContentWriter(request, settings, built.notices).run();
    if (request.options.tool_choice()) {
        if (has_tools) {
            body["toolConfig"] = tool_config(*request.options.tool_choice());
        } else {
            built.notices.push_back(tool_choice_omitted());
        }
    }

    if (request.options.reasoning() && capability.reasoning) {
        // For an unknown model the setting of the caller counts.
        const bool reasons = settings.profile.reasons || !settings.profile.known();
        append(built.notices, apply_reasoning_control(body, *capability.reasoning,
                                                      *request.options.reasoning(), reasons));
    }
    JsonObject config;
    if (const JsonObject* made = object_member(body, "generationConfig")) config = *made;
    if (request.model.max_tokens) config["maxOutputTokens"] = *request.model.max_tokens;
    append(built.notices,
           apply_temperature(config, capability.temperature, request.model.temperature));
    if (const auto& format = request.options.response_format()) {
        config["responseMimeType"] = "application/json";
        config["responseJsonSchema"] = *format->schema;
    }
    if (!config.empty()) body["generationConfig"] = std::move(config);
    for (const auto& [key, value] : settings.extra_body) body[key] = value;
    return built;
}

JsonObject gemini_response(const AssistantMessage& answer) {
    JsonObject candidate;
    candidate["content"] = content_of("model", answer_parts(answer, true, true));
    if (answer.stop_reason == stop_reason::stop || answer.stop_reason == stop_reason::tool_use) {
        candidate["finishReason"] = "STOP";
    } else if (answer.stop_reason == stop_reason::length) {
        candidate["finishReason"] = "MAX_TOKENS";
    } else {
        candidate["finishReason"] = answer.stop_reason.str();
    }
    candidate["index"] = 0;
    JsonObject response;
    response["candidates"] = JsonArray{std::move(candidate)};
    response["usageMetadata"] = usage_to_wire(answer.usage.value_or(Usage()));
    response["modelVersion"] = answer.model_id.str();
    response["responseId"] = answer.response_id.str();
    return response;
}

std::string gemini_path(std::string_view model_id) {
    std::string path = "/v1beta/";
    if (model_id.find('/') == std::string_view::npos) path += "models/";
    std::size_t begin = 0;
    while (begin <= model_id.size()) {
        const std::size_t end = std::min(model_id.find('/', begin), model_id.size());
        const std::string_view segment = model_id.substr(begin, end - begin);
        // Clients resolve these, and would call another address.
        if (segment.empty() || segment == "." || segment == "..") {
            throw Error(ErrorCode::invalid_argument,
                        "'" + std::string(model_id) + "' is not the id of a Gemini model");
        }
        if (begin > 0) path += '/';
        path += percent_encoded(segment);
        begin = end + 1;
    }
    return path + ":streamGenerateContent?alt=sse";
}

}  // namespace cubepi::detail
