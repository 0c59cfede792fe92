#include <cubepi/provider/openai/responses_api.hpp>

#include <algorithm>
#include <functional>
#include <set>
#include <string>
#include <utility>

#include <cubepi/core/support/json_member.hpp>
#include <cubepi/provider/openai/openai_words.hpp>
#include <cubepi/provider/wire/encoding.hpp>
#include <cubepi/schema/python_json.hpp>

namespace cubepi::detail {

namespace {

/// The longest call id that the endpoint takes.
constexpr std::size_t longest_call_id = 64;

/// The end of the texts that stand for an unknown result.
constexpr std::string_view interrupted_mark = "interrupted; whether it took effect is unknown.";

std::string_view text_in(const LazyObject& extra, std::string_view key) {
    const Json* value = extra.find(key);
    return value && value->is_string() ? std::string_view(value->get_string()) : std::string_view();
}

JsonObject input_image(const ImageContent& image) {
    JsonObject part = typed("input_image");
    part["image_url"] = image_url(image);
    return part;
}

JsonArray input_parts(const ContentList<Content>& content) {
    JsonArray parts;
    for (const Content& block : content) {
        if (const auto* text = std::get_if<TextContent>(&block))
            parts.push_back(typed_text("input_text", text->text));
        if (const auto* image = std::get_if<ImageContent>(&block))
            parts.push_back(input_image(*image));
    }
    return parts;
}

/// The two halves of "<call id>|<item id>".
struct CallIds {
    std::string call;
    std::string item;
};

CallIds split_ids(std::string_view id) {
    const std::size_t bar = id.find('|');
    if (bar == std::string_view::npos) return {shortened_id(id, longest_call_id), {}};
    return {shortened_id(id.substr(0, bar), longest_call_id), std::string(id.substr(bar + 1))};
}

JsonObject output_part(const TextContent& block) {
    const Json* refusal = block.extra.find("refusal");
    if (refusal && *refusal == Json(true)) {
        JsonObject part = typed("refusal");
        part["refusal"] = block.text;
        return part;
    }
    JsonObject part = typed_text("output_text", block.text);
    const Json* annotations = block.extra.find("annotations");
    part["annotations"] = annotations && annotations->is_array() ? *annotations : Json(JsonArray());
    return part;
}

/// Returns whether the endpoint can read a reasoning item without having stored it: it would look one up by its id that has
/// neither its encrypted content nor its text, and not find it.
bool is_whole(const JsonObject& reasoning) {
    const JsonArray* content = array_member(reasoning, "content");
    return !string_member(reasoning, "encrypted_content").empty() || (content && !content->empty());
}

/// Writes the items of one answer.
class AnswerWriter {
public:
    AnswerWriter(const AssistantMessage& message, bool own, bool encrypted)
        : message_(message), own_(own), encrypted_(encrypted), has_ids_(own && encrypted) {
        // The endpoint refuses an item whose id it knows without the reasoning that led to it.
        for (const AssistantContent& block : message.content) {
            const auto* thinking = std::get_if<ThinkingContent>(&block);
            const bool has_item = thinking && thinking->extra.find("reasoning_item");
            if (has_item && !sent_item(*thinking)) has_ids_ = false;
        }
    }

    JsonArray run() {
        for (std::size_t i = 0; i < message_.content.size(); ++i) {
            add_server_items(i);
            const AssistantContent& block = message_.content[i];
            if (const auto* text = std::get_if<TextContent>(&block)) add(*text);
            if (const auto* thinking = std::get_if<ThinkingContent>(&block)) add(*thinking);
            if (const auto* call = std::get_if<ToolCall>(&block)) add(*call);
        }
        add_server_items(message_.content.size());
        // Reasoning is refused without what it led to: an aborted answer may end with it.
        while (!items_.empty() && items_.back().get_object().at("type") == Json("reasoning"))
            items_.pop_back();
        return std::move(items_);
    }

private:
    void add(const TextContent& block) {
        const std::string_view id = own_ ? text_in(block.extra, "item_id") : std::string_view();
        if (!open_ || id != open_id_) {
            JsonObject item = typed("message", block.extra);
            item["role"] = "assistant";
            item["content"] = JsonArray();
            item["status"] = "completed";
            if (has_ids_ && !id.empty()) item["id"] = id;
            const std::string_view phase = text_in(block.extra, "phase");
            if (own_ && !phase.empty()) item["phase"] = phase;
            items_.push_back(std::move(item));
            open_ = true;
            open_id_ = id;
        }
        JsonObject part = output_part(block);
        const Json* members = own_ ? block.extra.find(responses_part_members_key) : nullptr;
        if (members && members->is_object())
            for (const auto& [key, value] : members->get_object()) part.emplace(key, value);
        items_.back().get_object()["content"].as_array().push_back(std::move(part));
    }

    /// Returns the reasoning item, or null if it is not sent.
    const JsonObject* sent_item(const ThinkingContent& block) const {
        const Json* item = own_ && encrypted_ ? block.extra.find("reasoning_item") : nullptr;
        return item && item->is_object() && is_whole(item->get_object()) ? &item->get_object()
                                                                         : nullptr;
    }

    void add(const ThinkingContent& block) {
        if (const JsonObject* item = sent_item(block)) push(*item);
    }

    void add(const ToolCall& block) {
        const CallIds ids = split_ids(block.id);
        JsonObject item = typed("function_call", block.extra);
        item["call_id"] = ids.call;
        item["name"] = block.name.str();
        item["arguments"] = to_python_json(block.arguments);
        if (has_ids_ && !ids.item.empty()) item["id"] = ids.item;
        push(std::move(item));
    }

    /// An item, with the members that the endpoint sent and that have no place in ours.
    JsonObject typed(std::string_view type, const LazyObject& extra) const {
        const Json* members = own_ ? extra.find(responses_members_key) : nullptr;
        JsonObject item = members && members->is_object() ? members->get_object() : JsonObject();
        item["type"] = type;
        return item;
    }

    void add_server_items(std::size_t at) {
        const Json* list = own_ && encrypted_ ? message_.extra.find("server_items") : nullptr;
        if (!list || !list->is_array()) return;
        for (const Json& entry : list->get_array()) {
            if (!entry.is_object()) continue;
            const Json* position = entry.get_object().if_contains("at");
            const Json* item = entry.get_object().if_contains("item");
            if (!position || !item || !item->is_object() || *position != Json(at)) continue;
            push(item->get_object());
        }
    }

    void push(JsonObject item) {
        items_.push_back(std::move(item));
        open_ = false;
    }

    const AssistantMessage& message_;
    bool own_;
    bool encrypted_;
    bool has_ids_;  ///< the items have their ids
    JsonArray items_;
    bool open_ = false;  ///< the last item is a message that takes more parts
    std::string open_id_;
};

/// Turns the messages into items: a result for each call, and no result without its call (D1).
class InputWriter {
public:
    InputWriter(const ModelRequest& request, bool encrypted, std::vector<Notice>& notices)
        : request_(request), encrypted_(encrypted), notices_(notices) {}

    ResponsesInput run() {
        for (const Message& message : request_.messages) {
            if (const ToolResultMessage* result = message.tool_result()) {
                add(*result);
                continue;
            }
            close_results();
            if (const UserMessage* user = message.user()) add(*user);
            if (const AssistantMessage* assistant = message.assistant()) add(*assistant);
        }
        close_results();
        if (!has_answer_) input_.answer_begin = input_.answer_end = input_.items.size();
        return std::move(input_);
    }

private:
    void add(const UserMessage& message) {
        JsonArray parts = input_parts(with_sender(message));
        if (parts.empty()) return;
        JsonObject item;
        item["role"] = "user";
        item["content"] = std::move(parts);
        input_.items.push_back(std::move(item));
    }

    void add(const AssistantMessage& message) {
        const bool own = is_own_answer(message, request_.model.provider_id);
        has_answer_ = true;
        input_.answer_begin = input_.items.size();
        if (own && encrypted_ && has_compacted(message)) input_.needed_from = input_.answer_begin;
        const std::vector<const ToolCall*> calls = message.tool_calls();
        auto call = calls.begin();
        for (Json& item : responses_items(message, own, encrypted_)) {
            make_unique(item.get_object());
            if (item.at("type") == Json("function_call") && call != calls.end())
                open_calls_.push_back(
                    OpenCall{(*call++)->id, text_member(item.get_object(), "call_id")});
            input_.items.push_back(std::move(item));
        }
        input_.answer_end = input_.items.size();
        const bool has_image = std::any_of(
            message.content.begin(), message.content.end(),
            [](const auto& block) { return std::holds_alternative<ImageContent>(block); });
        if (has_image)
            changed(
                repaired("An image in an answer of the history was omitted: it cannot be "
                         "returned to this endpoint",
                         {}));
    }

    /// A call id names a call within its answer only, and some servers begin with the same one in each answer (D83). The
    /// endpoint refuses a second item with an id.
    void make_unique(JsonObject& item) {
        if (const std::string_view id = string_member(item, "id");
            !id.empty() && item.at("type") != Json("reasoning") && !item_ids_.emplace(id).second)
            item.erase("id");
        if (item.at("type") != Json("function_call")) return;
        const std::string id = text_member(item, "call_id");
        std::string unique = id;
        for (int n = 2; !call_ids_.insert(unique).second; ++n)
            unique = shortened_id(id + "_" + std::to_string(n), longest_call_id);
        item["call_id"] = std::move(unique);
    }

    void add(const ToolResultMessage& message) {
        const auto call =
            std::find_if(open_calls_.begin(), open_calls_.end(),
                         [&](const OpenCall& open) { return open.id == message.tool_call_id; });
        if (call == open_calls_.end()) {
            changed(
                repaired("The result of " + message.tool_call_id +
                             " was omitted from the request because it has no call in the history",
                         message.tool_call_id));
            return;
        }
        const std::string wire_id = std::move(call->wire_id);
        open_calls_.erase(call);
        std::string text = joined_text(message.content, "\n");
        // The history was repaired before it came here, and what the endpoint has was not.
        if (message.is_error && text.ends_with(interrupted_mark)) input_.repaired = true;
        if (message.is_error) text = marked_error(std::move(text));
        JsonObject item = typed("function_call_output");
        item["call_id"] = wire_id;
        if (has_images(message.content)) {
            JsonArray parts = input_parts(message.content);
            if (message.is_error) parts.insert(parts.begin(), typed_text("input_text", "Error:"));
            item["output"] = std::move(parts);
        } else {
            item["output"] = std::move(text);
        }
        input_.items.push_back(std::move(item));
    }

    void close_results() {
        for (const OpenCall& call : open_calls_) {
            JsonObject item = typed("function_call_output");
            item["call_id"] = call.wire_id;
            item["output"] = interrupted_result;
            input_.items.push_back(std::move(item));
            changed(result_missing(call.id.str()));
        }
        open_calls_.clear();
    }

    struct OpenCall {
        SharedString id;
        std::string wire_id;
    };

    void changed(Notice notice) {
        input_.repaired = true;
        notices_.push_back(std::move(notice));
    }

    const ModelRequest& request_;
    bool encrypted_;
    std::vector<Notice>& notices_;
    ResponsesInput input_;
    bool has_answer_ = false;
    std::vector<OpenCall> open_calls_;
    std::set<std::string, std::less<>> call_ids_;
    std::set<std::string, std::less<>> item_ids_;
};

constexpr std::string_view encrypted_reasoning = "reasoning.encrypted_content";

JsonArray tools_to_wire(const ToolDefinitions& tools, SchemaDialect dialect) {
    JsonArray wire;
    for (const ToolDefinition& tool : tools) {
        JsonObject item = typed("function");
        put_function(item, tool, dialect);
        wire.push_back(std::move(item));
    }
    return wire;
}

Json tool_choice_to_wire(const ToolChoice& choice) {
    if (const std::string_view word = tool_choice_word(choice.mode); !word.empty())
        return Json(word);
    JsonObject wire = typed("function");
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
    built.notices.push_back(tool_choice_omitted());
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
        append(built.notices,
               apply_reasoning_control(built.body, *capability.reasoning,
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
    JsonObject format = typed("json_schema");
    put_json_schema(format, wanted);
    JsonObject text;
    text["format"] = std::move(format);
    body["text"] = std::move(text);
}

}  // namespace

bool is_own_answer(const AssistantMessage& message, std::string_view provider_id) {
    return message.provider_id.empty() || message.provider_id == provider_id;
}

JsonArray responses_items(const AssistantMessage& message, bool own, bool encrypted) {
    return AnswerWriter(message, own, encrypted).run();
}

ResponsesInput responses_input(const ModelRequest& request, bool encrypted,
                               std::vector<Notice>& notices) {
    return InputWriter(request, encrypted, notices).run();
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
    if (settings.compacts && request.options.compact_at() > 0) {
        JsonObject compaction{{"type", "compaction"},
                              {"compact_threshold", request.options.compact_at()}};
        JsonArray edits;
        edits.emplace_back(std::move(compaction));
        built.body["context_management"] = std::move(edits);
    }
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
    if (message.usage) body["usage"] = openai_usage(*message.usage, responses_usage_names);
    return body;
}

}  // namespace cubepi::detail
