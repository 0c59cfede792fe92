#include <cubepi/provider/anthropic/messages_api.hpp>

#include <algorithm>
#include <string>
#include <utility>

#include <cubepi/core/support/json_member.hpp>
#include <cubepi/provider/answer_end.hpp>
#include <cubepi/provider/tool_schema.hpp>
#include <cubepi/provider/wire/encoding.hpp>

namespace cubepi::detail {

namespace {

/// The API wants a limit in each request. For callers who set none: long answers, but no surprise on a bill. A model
/// that thinks as it sees fit spends its thinking from the same limit.
constexpr std::int64_t default_limit = 32'000;
constexpr std::int64_t thinking_limit = 64'000;
constexpr std::int64_t unknown_model_limit = 8'192;
constexpr std::int64_t fewest_tokens_to_compact = 50'000;  // fewer are refused
/// The smallest thinking budget that the API takes, and what CubePi leaves for the answer.
constexpr std::int64_t least_budget = 1'024;
constexpr std::int64_t least_answer = 1'024;
/// Markers that a request may have.
constexpr std::size_t most_markers = 4;

bool is_thinking(std::string_view type) {
    return type == "thinking" || type == "redacted_thinking";
}

std::string joined(const std::vector<std::string>& words) {
    std::string text;
    for (const std::string& word : words) text += (text.empty() ? "" : ", ") + word;
    return text;
}

class Builder {
public:
    Builder(const ModelRequest& request, const AnthropicSettings& settings)
        : request_(request),
          settings_(settings),
          has_tools_(request.tools && !request.tools->empty()) {}

    WireProtocol::Built run() {
        AnthropicMessages messages = anthropic_messages(request_, settings_.compacts);
        append(built_.notices, std::move(messages.notices));
        JsonObject& body = built_.body;
        body["model"] = request_.model.id;
        // In the order in which the endpoint reads them; it is filled in below.
        body["messages"] = JsonArray();
        add_system();
        add_tools();
        mark_messages(messages);
        body["messages"] = std::move(messages.wire);
        body["stream"] = true;
        add_reasoning();
        add_tool_choice();
        add_limit();
        append(built_.notices, apply_temperature(body, settings_.profile.capability.temperature,
                                                 request_.model.temperature, thinks()));
        add_format();
        add_context_management();
        for (const auto& [key, value] : settings_.extra_body) body[key] = value;
        return std::move(built_);
    }

private:
    bool caches() const { return settings_.cache_retention != CacheRetention::none; }
    const CacheMarkerPolicy& policy() const {
        static const CacheMarkerPolicy default_policy;
        return settings_.cache_policy ? *settings_.cache_policy : default_policy;
    }

    void mark(JsonObject& block) {
        JsonObject marker = typed("ephemeral");
        if (settings_.cache_retention == CacheRetention::one_hour) marker["ttl"] = "1h";
        block["cache_control"] = std::move(marker);
        ++markers_;
    }

    void add_system() {
        if (request_.system_prompt.empty()) return;
        if (!caches() || !policy().mark_system()) {
            built_.body["system"] = request_.system_prompt.str();
            return;
        }
        JsonObject block = typed_text("text", request_.system_prompt);
        mark(block);
        JsonArray blocks;
        blocks.push_back(std::move(block));
        built_.body["system"] = std::move(blocks);
    }

    void add_tools() {
        if (!has_tools_) return;
        JsonArray wire;
        for (const ToolDefinition& tool : *request_.tools) {
            AnthropicSchema lowered = lower_anthropic_tool(
                parameters_of(tool), settings_.profile.capability.schema_dialect);
            if (!lowered.changes.empty()) {
                built_.notices.push_back(request_changed(
                    "Tool " + tool.name.str() + ": " + joined(lowered.changes), "tools"));
            }
            JsonObject item;
            item["name"] = tool.name.str();
            item["description"] = tool.description.str();
            item["input_schema"] = std::move(lowered.schema);
            wire.push_back(std::move(item));
        }
        if (caches() && policy().mark_last_tool()) mark(wire.back().get_object());
        built_.body["tools"] = std::move(wire);
    }

    /// A marker stands on the last block that a message contributed and that may have one.
    static JsonObject* markable(JsonArray& wire, const AnthropicMessages::Place& place) {
        JsonArray& content = wire[place.message].at("content").as_array();
        for (std::size_t i = place.last + 1; i-- > place.first;) {
            JsonObject& block = content[i].get_object();
            if (!is_thinking(block.at("type").as_string())) return &block;
        }
        return nullptr;
    }

    void mark_messages(AnthropicMessages& messages) {
        if (!caches()) return;
        std::vector<JsonObject*> blocks;
        for (std::size_t index : policy().message_breakpoint_indices(messages.source)) {
            // A paused answer is sent back unchanged.
            const bool paused = index > 0 && index + 1 == messages.source.size() &&
                                messages.source[index].assistant() &&
                                is_paused(*messages.source[index].assistant());
            if (paused) --index;
            if (index >= messages.places.size() || !messages.places[index]) continue;
            JsonObject* block = markable(messages.wire, *messages.places[index]);
            if (block && std::find(blocks.begin(), blocks.end(), block) == blocks.end())
                blocks.push_back(block);
        }
        const std::size_t available = most_markers - markers_;
        if (blocks.size() > available) {
            built_.notices.push_back(request_changed(
                "The cache policy asks for " + std::to_string(blocks.size() + markers_) +
                    " markers and a request may have " + std::to_string(most_markers) +
                    "; the first ones of the messages were omitted",
                "cache_control"));
            blocks.erase(blocks.begin(), blocks.end() - static_cast<std::ptrdiff_t>(available));
        }
        for (JsonObject* block : blocks) mark(*block);
    }

    void add_reasoning() {
        const std::optional<ReasoningControl>& control = request_.options.reasoning();
        const ModelProfile& profile = settings_.profile;
        if (!control || !profile.capability.reasoning) return;
        // For an unknown model the setting of the caller counts.
        const bool reasons = profile.reasons || !profile.known();
        append(built_.notices, apply_reasoning_control(built_.body, *profile.capability.reasoning,
                                                       *control, reasons));
    }

    bool thinks() const {
        const std::optional<ReasoningCapability>& known = settings_.profile.capability.reasoning;
        return asks_to_reason(built_.body, known && known->on_by_default);
    }

    bool has_budget() const {
        const JsonObject* thinking = object_member(built_.body, "thinking");
        const Json* type = thinking ? thinking->if_contains("type") : nullptr;
        return type && *type == Json("enabled");
    }

    void switch_thinking_off(std::string why) {
        built_.body["thinking"] = typed("disabled");
        built_.notices.push_back(request_changed(std::move(why), "thinking"));
    }

    static JsonObject edit_at(const char* type, std::int64_t tokens) {
        JsonObject trigger = typed("input_tokens");
        trigger["value"] = tokens;
        JsonObject edit = typed(type);
        edit["trigger"] = std::move(trigger);
        return edit;
    }

    /// The endpoint applies the edits in this order.
    void add_context_management() {
        JsonArray edits;
        if (settings_.clear_tool_results_at > 0)
            edits.emplace_back(
                edit_at("clear_tool_uses_20250919", settings_.clear_tool_results_at));
        if (settings_.compacts && request_.options.compact_at() > 0)
            edits.emplace_back(edit_at("compact_20260112", std::max(request_.options.compact_at(),
                                                                    fewest_tokens_to_compact)));
        if (edits.empty()) return;
        JsonObject management;
        management["edits"] = std::move(edits);
        built_.body["context_management"] = std::move(management);
    }

    void add_tool_choice() {
        if (!request_.options.tool_choice()) return;
        const ToolChoice& choice = *request_.options.tool_choice();
        if (!has_tools_) {
            built_.notices.push_back(tool_choice_omitted());
            return;
        }
        JsonObject wire;
        const bool forces =
            choice.mode == ToolChoice::Mode::required || choice.mode == ToolChoice::Mode::named;
        if (choice.mode == ToolChoice::Mode::none) {
            wire["type"] = "none";
        } else if (!forces) {
            wire["type"] = "auto";
        } else if (!settings_.profile.forces_tools) {
            built_.notices.push_back(request_changed(
                "This model cannot be forced to call a tool; the tool choice is automatic",
                "tool_choice"));
            wire["type"] = "auto";
        } else if (choice.mode == ToolChoice::Mode::required) {
            wire["type"] = "any";
        } else {
            wire["type"] = "tool";
            wire["name"] = choice.name;
        }
        if (forces && wire.at("type") != Json("auto") && has_budget()) {
            switch_thinking_off(
                "Thinking with a budget and a tool choice that forces a call "
                "exclude each other; thinking was switched off");
        }
        built_.body["tool_choice"] = std::move(wire);
    }

    std::int64_t limit_of_answer() const {
        const ModelProfile& profile = settings_.profile;
        if (request_.model.max_tokens) return *request_.model.max_tokens;
        if (!profile.max_output) return unknown_model_limit;
        const bool adaptive = thinks() && !has_budget();
        return std::min(*profile.max_output, adaptive ? thinking_limit : default_limit);
    }

    /// The most that a request may ask for; 0: not known.
    std::int64_t ceiling() const {
        const ModelProfile& profile = settings_.profile;
        std::int64_t most =
            request_.model.context_window.value_or(profile.context_window.value_or(0));
        if (profile.max_output && (most == 0 || *profile.max_output < most))
            most = *profile.max_output;
        return most;
    }

    void add_lowered_notice(std::int64_t answer, std::int64_t budget, std::int64_t limit) {
        built_.notices.push_back(request_changed(
            "The limit of " + std::to_string(answer) + " tokens for the answer and " +
                std::to_string(budget) + " for thinking was lowered to " + std::to_string(limit) +
                ", the model's own",
            "max_tokens"));
    }

    /// The budget comes on top of the limit that the caller set for the answer.
    void add_limit() {
        std::int64_t limit = limit_of_answer();
        if (has_budget()) {
            add_limit_with_budget(limit);
            return;
        }
        const std::optional<std::int64_t>& window = request_.model.context_window;
        if (window && limit > *window) {
            if (request_.model.max_tokens) {
                built_.notices.push_back(request_changed(
                    "The limit of " + std::to_string(limit) +
                        " tokens was lowered to the context window, " + std::to_string(*window),
                    "max_tokens"));
            }
            limit = *window;
        }
        built_.body["max_tokens"] = limit;
    }

    void add_limit_with_budget(std::int64_t answer) {
        JsonObject& thinking = built_.body.at("thinking").as_object();
        const std::int64_t budget =
            integer_member(thinking, "budget_tokens").value_or(least_budget);
        std::int64_t limit = answer + budget;
        if (const std::int64_t most = ceiling(); most > 0 && limit > most) {
            limit = most;
            if (request_.model.max_tokens) add_lowered_notice(answer, budget, limit);
        }
        built_.body["max_tokens"] = limit;
        if (budget <= 0 || limit - budget >= least_answer) {
            thinking["budget_tokens"] = budget;
            return;
        }
        const std::int64_t left = limit - least_answer;
        if (left < least_budget) {
            switch_thinking_off("A limit of " + std::to_string(limit) +
                                " tokens is too small for thinking, which was switched off");
            return;
        }
        thinking["budget_tokens"] = left;
        built_.notices.push_back(request_changed(
            "The thinking budget of " + std::to_string(budget) + " tokens was lowered to " +
                std::to_string(left) + ", to reserve tokens for the answer",
            "thinking"));
    }

    void add_format() {
        const auto& format = request_.options.response_format();
        if (!format) return;
        AnthropicSchema lowered = lower_anthropic_format(*format->schema);
        JsonObject wire = typed("json_schema");
        wire["schema"] = std::move(lowered.schema);
        Json& config = built_.body["output_config"];
        if (!config.is_object()) config = JsonObject();
        config.get_object()["format"] = std::move(wire);
        if (lowered.changes.empty()) return;
        built_.notices.push_back(request_changed(
            "The endpoint cannot enforce these keywords of the answer's schema, so they are in its "
            "descriptions: " +
                joined(lowered.changes),
            "output_config.format"));
    }

    const ModelRequest& request_;
    const AnthropicSettings& settings_;
    const bool has_tools_;
    WireProtocol::Built built_;
    std::size_t markers_ = 0;
};

Json stop_reason_to_wire(const std::string& reason) {
    if (reason == stop_reason::stop) return "end_turn";
    if (reason == stop_reason::length) return "max_tokens";
    return Json(reason);
}

JsonObject usage_to_wire(const Usage& usage) {
    JsonObject wire;
    wire["input_tokens"] = usage.input_tokens.value_or(0);
    wire["output_tokens"] = usage.output_tokens.value_or(0);
    wire["cache_read_input_tokens"] = usage.cache_read_tokens.value_or(0);
    wire["cache_creation_input_tokens"] = usage.cache_write_tokens.value_or(0);
    return wire;
}

}  // namespace

WireProtocol::Built build_anthropic(const ModelRequest& request,
                                    const AnthropicSettings& settings) {
    return Builder(request, settings).run();
}

JsonObject anthropic_message(const AssistantMessage& answer) {
    JsonObject body;
    body["id"] = answer.response_id.str();
    body["type"] = "message";
    body["role"] = "assistant";
    body["model"] = answer.model_id.str();
    body["content"] = anthropic_content(answer);
    body["stop_reason"] = stop_reason_to_wire(answer.stop_reason);
    const Json* sequence = answer.extra.find("stop_sequence");
    body["stop_sequence"] = sequence ? *sequence : Json(nullptr);
    body["usage"] = usage_to_wire(answer.usage.value_or(Usage()));
    return body;
}

bool claude_takes_response_format(const ModelProfile& profile, std::string_view model_id) {
    if (!profile.known() || !profile.family.starts_with("claude-")) return false;
    if (profile.family.starts_with("claude-3")) return false;
    // Of the first models of version 4 none does; their ids have a date or a 0 where later ones have a version.
    for (const std::string_view first : {"opus-4", "sonnet-4"}) {
        if (profile.family != "claude-" + std::string(first)) continue;
        const std::string_view rest = model_id.substr(model_id.find(first) + first.size());
        return rest.starts_with("-5") || rest.starts_with(".5") || rest.starts_with("-1") ||
               rest.starts_with(".1");
    }
    return true;
}

}  // namespace cubepi::detail
