#include <cubepi/provider/capability.hpp>

#include <algorithm>

#include <cubepi/core/error.hpp>

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

Notice request_changed(std::string text, std::string_view field) {
    Notice notice;
    notice.code = "request_changed";
    notice.text = std::move(text);
    notice.details["field"] = field;
    return notice;
}

void include(JsonObject& payload, const ReasoningCapability& capability, const std::string& key) {
    const auto found = capability.include_payloads.find(key);
    if (found != capability.include_payloads.end()) deep_merge(payload, found->second);
}

std::string number_text(double value) { return boost::json::serialize(Json(value)); }

}  // namespace

std::vector<Notice> apply_reasoning(JsonObject& payload, const ReasoningCapability& capability,
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
                           "' cannot be asked of this endpoint";
        if (capability.unsupported_mode_policy == UnsupportedModePolicy::error)
            throw Error(ErrorCode::unsupported, text);
        notices.push_back(request_changed(std::move(text) + ": left out", "reasoning"));
    }
    if (has_effort) {
        const auto effort = capability.effort_values.find(control.effort);
        if (effort != capability.effort_values.end())
            write_at_path(payload, *capability.effort_path, effort->second);
    }
    if (capability.summary_path && control.mode != ReasoningMode::off) {
        const auto summary = capability.summary_values.find(control.summary);
        if (summary != capability.summary_values.end())
            write_at_path(payload, *capability.summary_path, summary->second);
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
                                      std::optional<double> temperature) {
    std::vector<Notice> notices;
    if (spec.mode == TemperatureSpec::Mode::fixed && spec.fixed_value) {
        payload["temperature"] = *spec.fixed_value;
        if (temperature && *temperature != *spec.fixed_value) {
            notices.push_back(request_changed(
                "The temperature is fixed at " + number_text(*spec.fixed_value) +
                    " for this model; " + number_text(*temperature) + " was asked for",
                "temperature"));
        }
        return notices;
    }
    if (!temperature) return notices;
    if (spec.mode == TemperatureSpec::Mode::ignored) {
        notices.push_back(request_changed(
            "This model takes no temperature: " + number_text(*temperature) + " was left out",
            "temperature"));
        return notices;
    }
    const double allowed = std::clamp(*temperature, spec.min, spec.max);
    payload["temperature"] = allowed;
    if (allowed != *temperature) {
        notices.push_back(request_changed("The temperature " + number_text(*temperature) +
                                              " was changed to " + number_text(allowed) +
                                              ", the limit of this endpoint",
                                          "temperature"));
    }
    return notices;
}

const ReasoningCapability& openai_chat_reasoning() {
    static const ReasoningCapability profile = [] {
        ReasoningCapability made;
        made.mode_payloads[ReasoningMode::off] = JsonObject({{"reasoning_effort", "none"}});
        made.effort_path = "reasoning_effort";
        made.effort_values[ReasoningEffort::minimal] = "none";
        made.effort_values[ReasoningEffort::low] = "low";
        made.effort_values[ReasoningEffort::medium] = "medium";
        made.effort_values[ReasoningEffort::high] = "high";
        made.effort_values[ReasoningEffort::max] = "xhigh";
        made.apply_effort_when_off = false;
        made.unsupported_mode_policy = UnsupportedModePolicy::skip;
        return made;
    }();
    return profile;
}

}  // namespace cubepi
