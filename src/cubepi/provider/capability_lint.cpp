#include <utility>

#include <cubepi/provider/model_profile.hpp>

namespace cubepi {

namespace {

Notice finding(std::string code, std::string text) {
    Notice notice;
    notice.code = std::move(code);
    notice.text = std::move(text);
    return notice;
}

/// A key of `include_payloads` that some control brings up.
bool is_include_key(std::string_view key) {
    if (key == "always") return true;
    const std::size_t colon = key.find(':');
    if (colon == std::string_view::npos) return false;
    const std::string_view kind = key.substr(0, colon);
    const std::string_view word = key.substr(colon + 1);
    const auto among = [&](auto... values) { return ((word == to_string(values)) || ...); };
    if (kind == "mode")
        return among(ReasoningMode::off, ReasoningMode::automatic, ReasoningMode::on);
    if (kind == "effort")
        return among(ReasoningEffort::minimal, ReasoningEffort::low, ReasoningEffort::medium,
                     ReasoningEffort::high, ReasoningEffort::max);
    if (kind == "summary")
        return among(ReasoningSummary::none, ReasoningSummary::automatic,
                     ReasoningSummary::detailed, ReasoningSummary::summarized);
    return false;
}

void lint_reasoning(const ReasoningCapability& reasoning, ModelApi api,
                    std::vector<Notice>& found) {
    for (const auto& [mode, payload] : reasoning.mode_payloads) {
        if (api != ModelApi::openai_chat || !payload.if_contains("thinking")) continue;
        found.push_back(finding("openai_chat_top_level_thinking",
                                "The payload of mode '" + std::string(to_string(mode)) +
                                    "' puts `thinking` at the top of a Chat Completions request: "
                                    "OpenAI refuses it, only some compatible servers take it"));
    }
    if (!reasoning.effort_path && !reasoning.effort_values.empty()) {
        found.push_back(finding("effort_without_path",
                                "There are effort_values but no effort_path: no effort is sent"));
    }
    if (!reasoning.summary_path && !reasoning.summary_values.empty()) {
        found.push_back(
            finding("summary_without_path",
                    "There are summary_values but no summary_path: no summary is asked"));
    }
    for (const auto& [key, payload] : reasoning.include_payloads) {
        if (is_include_key(key)) continue;
        found.push_back(finding("unknown_include",
                                "include_payloads has '" + key +
                                    "', which no setting selects: use always, mode:, effort: or "
                                    "summary: and a value"));
    }
}

void lint_temperature(const TemperatureSpec& spec, std::vector<Notice>& found) {
    if (spec.mode == TemperatureSpec::Mode::fixed && !spec.fixed_value) {
        found.push_back(finding("temperature_limits", "The temperature is fixed without a value"));
    }
    if (spec.min > spec.max) {
        found.push_back(
            finding("temperature_limits", "The least temperature is above the greatest"));
    }
}

}  // namespace

std::vector<Notice> lint_capability(const CapabilityDescriptor& capability, ModelApi api) {
    std::vector<Notice> found;
    if (capability.reasoning) lint_reasoning(*capability.reasoning, api, found);
    lint_temperature(capability.temperature, found);
    return found;
}

}  // namespace cubepi
