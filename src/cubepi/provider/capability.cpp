#include <cubepi/provider/capability.hpp>

#include <algorithm>

#include <cubepi/core/error.hpp>
#include <cubepi/core/number_text.hpp>
#include <cubepi/core/support/json_member.hpp>
#include <cubepi/provider/wire/encoding.hpp>

namespace cubepi {

void deep_merge(JsonObject& target, const JsonObject& patch) {
    for (const auto& [key, value] : patch) {
        Json& old = target[key];
        if (old.is_object() && value.is_object()) {
            deep_merge(old.get_object(), value.get_object());
        } else {
            old = value;
        }
    }
}

void write_at_path(JsonObject& target, std::string_view path, Json value) {
    JsonObject* object = &target;
    for (;;) {
        const std::size_t dot = path.find('.');
        if (dot == std::string_view::npos) break;
        Json& next = (*object)[path.substr(0, dot)];
        if (!next.is_object()) next = JsonObject();
        object = &next.get_object();
        path.remove_prefix(dot + 1);
    }
    (*object)[path] = std::move(value);
}

namespace {

/// Returns true if a list in `extra` has an entry whose member `member` is an object of type "compaction".
bool lists_compaction(const LazyObject& extra, const char* key, const char* member) {
    const Json* list = extra.find(key);
    if (!list || !list->is_array()) return false;
    const JsonArray& entries = list->get_array();
    return std::any_of(entries.begin(), entries.end(), [member](const Json& entry) {
        const JsonObject* object = entry.if_object();
        const JsonObject* item = object ? detail::object_member(*object, member) : nullptr;
        return item && detail::string_member(*item, "type") == "compaction";
    });
}

}  // namespace

bool has_compacted(const AssistantMessage& answer) {
    // Endpoints do not get parts of a broken answer that may lack others.
    if (answer.stop_reason == stop_reason::error || answer.stop_reason == stop_reason::aborted)
        return false;
    return lists_compaction(answer.extra, "server_items", "item") ||
           lists_compaction(answer.extra, "anthropic_blocks", "block");
}

namespace {

void include(JsonObject& payload, const ReasoningCapability& capability, const std::string& key) {
    const auto found = capability.include_payloads.find(key);
    if (found != capability.include_payloads.end()) deep_merge(payload, found->second);
}

}  // namespace

std::vector<Notice> apply_reasoning_control(JsonObject& payload,
                                            const ReasoningCapability& capability,
                                            const ReasoningControl& control, bool reasons) {
    std::vector<Notice> notices;
    if (control.mode == ReasoningMode::off && !reasons) return notices;
    const auto mode = capability.mode_payloads.find(control.mode);
    const bool has_effort = capability.effort_path && (control.mode != ReasoningMode::off ||
                                                       capability.apply_effort_when_off);
    if (mode != capability.mode_payloads.end()) {
        deep_merge(payload, mode->second);
    } else if (!has_effort && capability.unsupported_mode_policy != UnsupportedModePolicy::skip) {
        std::string text = "Reasoning mode '" + std::string(to_string(control.mode)) +
                           "' is not supported by this endpoint";
        if (capability.unsupported_mode_policy == UnsupportedModePolicy::error)
            throw Error(ErrorCode::unsupported, text);
        notices.push_back(detail::request_changed(std::move(text) + ": left out", "reasoning"));
    }
    const auto mode_note = capability.mode_notes.find(control.mode);
    if (mode_note != capability.mode_notes.end())
        notices.push_back(detail::request_changed(mode_note->second, "reasoning"));
    if (has_effort) {
        const auto effort = capability.effort_values.find(control.effort);
        if (effort != capability.effort_values.end())
            write_at_path(payload, *capability.effort_path, effort->second);
        const auto note = capability.effort_notes.find(control.effort);
        if (note != capability.effort_notes.end())
            notices.push_back(detail::request_changed(note->second, "reasoning"));
    }
    if (control.mode != ReasoningMode::off && control.summary != ReasoningSummary::none) {
        const auto summary = capability.summary_values.find(control.summary);
        if (capability.summary_path && summary != capability.summary_values.end()) {
            write_at_path(payload, *capability.summary_path, summary->second);
        } else if (capability.unsupported_mode_policy != UnsupportedModePolicy::skip) {
            notices.push_back(
                detail::request_changed("A summary of the reasoning is not supported by this "
                                        "endpoint: left out",
                                        "reasoning"));
        }
    }
    include(payload, capability, "always");
    include(payload, capability, "mode:" + std::string(to_string(control.mode)));
    include(payload, capability, "effort:" + std::string(to_string(control.effort)));
    if (control.mode != ReasoningMode::off) {
        include(payload, capability, "summary:" + std::string(to_string(control.summary)));
    }
    return notices;
}

std::vector<Notice> apply_temperature(JsonObject& payload, const TemperatureSpec& spec,
                                      std::optional<double> temperature, bool reasoning) {
    std::vector<Notice> notices;
    if (spec.mode == TemperatureSpec::Mode::fixed && spec.fixed_value) {
        payload["temperature"] = *spec.fixed_value;
        if (temperature && *temperature != *spec.fixed_value) {
            notices.push_back(detail::request_changed(
                "The temperature is fixed at " + number_text(*spec.fixed_value) +
                    " for this model; " + number_text(*temperature) + " was requested",
                "temperature"));
        }
        return notices;
    }
    if (!temperature) return notices;
    const bool refused = spec.mode == TemperatureSpec::Mode::ignored ||
                         (spec.mode == TemperatureSpec::Mode::without_reasoning && reasoning);
    if (refused) {
        const std::string why = spec.mode == TemperatureSpec::Mode::ignored
                                    ? "This model does not accept a temperature: "
                                    : "This model does not accept a temperature while it reasons: ";
        notices.push_back(detail::request_changed(why + number_text(*temperature) + " was omitted",
                                                  "temperature"));
        return notices;
    }
    const double allowed = std::clamp(*temperature, spec.min, spec.max);
    payload["temperature"] = allowed;
    if (allowed != *temperature) {
        notices.push_back(detail::request_changed("The temperature " + number_text(*temperature) +
                                                      " was changed to " + number_text(allowed) +
                                                      ", the limit of this endpoint",
                                                  "temperature"));
    }
    return notices;
}

bool asks_to_reason(const JsonObject& payload, bool fallback) {
    const auto is_enabled = [](const Json* value) -> std::optional<bool> {
        if (!value || value->is_null()) return std::nullopt;
        if (value->is_bool()) return value->get_bool();
        if (!value->is_string()) return true;
        const std::string_view word = value->get_string();
        return word != "none" && word != "disabled";
    };
    const auto member = [&](std::string_view object, std::string_view key) -> const Json* {
        const Json* found = payload.if_contains(object);
        return found && found->is_object() ? found->get_object().if_contains(key) : nullptr;
    };
    for (const Json* value : {payload.if_contains("reasoning_effort"),
                              member("reasoning", "effort"), member("reasoning", "enabled"),
                              member("thinking", "type"), payload.if_contains("enable_thinking")}) {
        if (const std::optional<bool> reasons = is_enabled(value)) return *reasons;
    }
    return fallback;
}

namespace {

/// OpenAI's words, as CubePi spells them: "minimal" is "none", since newer models refuse "minimal".
ReasoningCapability openai_words(std::string path) {
    ReasoningCapability made;
    JsonObject off;
    write_at_path(off, path, "none");
    made.mode_payloads[ReasoningMode::off] = std::move(off);
    made.effort_path = std::move(path);
    made.effort_values[ReasoningEffort::minimal] = "none";
    made.effort_values[ReasoningEffort::low] = "low";
    made.effort_values[ReasoningEffort::medium] = "medium";
    made.effort_values[ReasoningEffort::high] = "high";
    made.effort_values[ReasoningEffort::max] = "xhigh";
    made.apply_effort_when_off = false;
    made.unsupported_mode_policy = UnsupportedModePolicy::skip;
    return made;
}

ReasoningCapability responses_words() {
    ReasoningCapability made = openai_words("reasoning.effort");
    made.summary_path = "reasoning.summary";
    JsonArray wanted;
    wanted.push_back("reasoning.encrypted_content");
    JsonObject include;
    include["include"] = std::move(wanted);
    for (const ReasoningSummary summary :
         {ReasoningSummary::automatic, ReasoningSummary::detailed, ReasoningSummary::summarized}) {
        made.summary_values[summary] = to_string(summary);
        made.include_payloads["summary:" + std::string(to_string(summary))] = include;
    }
    return made;
}

JsonObject thinking_type(std::string_view type) {
    JsonObject thinking;
    thinking["type"] = type;
    JsonObject payload;
    payload["thinking"] = std::move(thinking);
    return payload;
}

ReasoningCapability budget_words() {
    ReasoningCapability made;
    made.mode_payloads[ReasoningMode::off] = thinking_type("disabled");
    made.mode_payloads[ReasoningMode::automatic] = thinking_type("enabled");
    made.mode_payloads[ReasoningMode::on] = thinking_type("enabled");
    made.effort_path = "thinking.budget_tokens";
    made.effort_values[ReasoningEffort::minimal] = 1024;
    made.effort_values[ReasoningEffort::low] = 2048;
    made.effort_values[ReasoningEffort::medium] = 8192;
    made.effort_values[ReasoningEffort::high] = 16384;
    made.effort_values[ReasoningEffort::max] = 16384;
    made.apply_effort_when_off = false;
    made.unsupported_mode_policy = UnsupportedModePolicy::skip;
    return made;
}

}  // namespace

const ReasoningCapability& openai_chat_reasoning() {
    static const ReasoningCapability profile = openai_words("reasoning_effort");
    return profile;
}

const ReasoningCapability& openai_responses_reasoning() {
    static const ReasoningCapability profile = responses_words();
    return profile;
}

const ReasoningCapability& anthropic_reasoning() {
    static const ReasoningCapability profile = budget_words();
    return profile;
}

}  // namespace cubepi
