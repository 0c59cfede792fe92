#include <cubepi/provider/model_profile.hpp>

#include <array>
#include <cctype>
#include <utility>

#include <cubepi/provider/models/model_tables.hpp>

namespace cubepi {

namespace {

using detail::EffortSet;
using detail::EffortWord;
using detail::ProfileRow;
using detail::ReasoningStyle;

constexpr std::array<std::string_view, 7> words{"none", "minimal", "low", "medium",
                                                "high", "xhigh",   "max"};

std::string_view word_of(EffortWord word) { return words[static_cast<std::size_t>(word)]; }

/// The first of these that the model takes.
EffortWord first_of(EffortSet set, std::initializer_list<EffortWord> wanted) {
    for (const EffortWord word : wanted) {
        if (detail::has(set, word)) return word;
    }
    return EffortWord::none;
}

EffortWord nearest(EffortSet set, ReasoningEffort effort) {
    using enum EffortWord;
    switch (effort) {
        case ReasoningEffort::minimal:
            return first_of(set, {minimal, none, low, medium, high, xhigh, max});
        case ReasoningEffort::low: return first_of(set, {low, medium, high, xhigh, max});
        case ReasoningEffort::medium: return first_of(set, {medium, high, xhigh, max, low});
        case ReasoningEffort::high: return first_of(set, {high, xhigh, max, medium, low});
        case ReasoningEffort::max: return first_of(set, {max, xhigh, high, medium, low});
    }
    return none;
}

EffortWord lowest(EffortSet set) {
    using enum EffortWord;
    return first_of(set, {none, minimal, low, medium, high, xhigh, max});
}

constexpr std::array<ReasoningEffort, 5> efforts{ReasoningEffort::minimal, ReasoningEffort::low,
                                                 ReasoningEffort::medium, ReasoningEffort::high,
                                                 ReasoningEffort::max};

/// Efforts in the words that the model takes. One that it has not gets the nearest, and a note.
void add_efforts(ReasoningCapability& to, EffortSet set, std::string path) {
    to.effort_path = std::move(path);
    to.apply_effort_when_off = false;
    for (const ReasoningEffort effort : efforts) {
        const EffortWord word = nearest(set, effort);
        to.effort_values[effort] = word_of(word);
        // Its highest is what "max" asks for, whatever its name.
        if (word_of(word) == to_string(effort) || effort == ReasoningEffort::max) continue;
        to.effort_notes[effort] = "This model has no reasoning effort '" +
                                  std::string(to_string(effort)) + "': '" +
                                  std::string(word_of(word)) + "' is sent";
    }
}

JsonObject at_path(std::string_view path, Json value) {
    JsonObject payload;
    write_at_path(payload, path, std::move(value));
    return payload;
}

void always_on(ReasoningCapability& to, EffortSet set, std::string_view path) {
    const std::string_view word = word_of(lowest(set));
    to.mode_payloads[ReasoningMode::off] = at_path(path, Json(word));
    to.mode_notes[ReasoningMode::off] =
        "This model always reasons; its lowest effort, '" + std::string(word) + "', is sent";
}

ReasoningCapability effort_style(EffortSet set, std::string path) {
    ReasoningCapability made;
    if (detail::has(set, EffortWord::none)) {
        made.mode_payloads[ReasoningMode::off] = at_path(path, "none");
    } else {
        always_on(made, set, path);
    }
    add_efforts(made, set, std::move(path));
    return made;
}

void add_responses_summary(ReasoningCapability& to) {
    const ReasoningCapability& known = openai_responses_reasoning();
    to.summary_path = known.summary_path;
    to.summary_values = known.summary_values;
    to.include_payloads = known.include_payloads;
}

ReasoningCapability adaptive_style(const ProfileRow& row) {
    ReasoningCapability made;
    made.mode_payloads[ReasoningMode::automatic] = at_path("thinking.type", "adaptive");
    made.mode_payloads[ReasoningMode::on] = at_path("thinking.type", "adaptive");
    if (row.off.empty()) {
        always_on(made, row.efforts, "output_config.effort");
    } else {
        made.mode_payloads[ReasoningMode::off] = at_path("thinking.type", Json(row.off));
    }
    if (row.off == "between_tools") {
        made.mode_notes[ReasoningMode::off] =
            "This model cannot be kept from short notes between tool calls: thinking "
            "'between_tools' is sent";
    }
    add_efforts(made, row.efforts, "output_config.effort");
    // Since 4.7 the thinking comes without its text unless it is asked for.
    made.summary_path = "thinking.display";
    for (const ReasoningSummary summary :
         {ReasoningSummary::automatic, ReasoningSummary::detailed, ReasoningSummary::summarized}) {
        made.summary_values[summary] = "summarized";
    }
    return made;
}

ReasoningCapability switch_style(EffortSet set) {
    ReasoningCapability made;
    made.mode_payloads[ReasoningMode::off] = at_path("thinking.type", "disabled");
    made.mode_payloads[ReasoningMode::automatic] = at_path("thinking.type", "enabled");
    made.mode_payloads[ReasoningMode::on] = at_path("thinking.type", "enabled");
    if (set != 0) add_efforts(made, set, "reasoning_effort");
    return made;
}

ReasoningCapability enable_style() {
    ReasoningCapability made;
    made.mode_payloads[ReasoningMode::off] = at_path("enable_thinking", false);
    made.mode_payloads[ReasoningMode::automatic] = at_path("enable_thinking", true);
    made.mode_payloads[ReasoningMode::on] = at_path("enable_thinking", true);
    return made;
}

ReasoningCapability always_style() {
    ReasoningCapability made;
    made.mode_payloads[ReasoningMode::automatic] = JsonObject();
    made.mode_payloads[ReasoningMode::on] = JsonObject();
    made.mode_payloads[ReasoningMode::off] = JsonObject();
    made.mode_notes[ReasoningMode::off] = "The reasoning of this model cannot be switched off";
    return made;
}

// Gemini's forms (ai.google.dev/gemini-api/docs/thinking): a level since version 3, a budget before.

constexpr const char* thinking_level = "generationConfig.thinkingConfig.thinkingLevel";
constexpr const char* thinking_budget = "generationConfig.thinkingConfig.thinkingBudget";

ReasoningCapability with_thoughts(ReasoningCapability made) {
    made.summary_path = "generationConfig.thinkingConfig.includeThoughts";
    for (const ReasoningSummary summary :
         {ReasoningSummary::automatic, ReasoningSummary::detailed, ReasoningSummary::summarized}) {
        made.summary_values[summary] = true;
    }
    return made;
}

ReasoningCapability gemini_levels(EffortSet set) {
    return with_thoughts(effort_style(set, thinking_level));
}

/// -1 lets the model decide. `can_stop`: 0 switches thinking off.
ReasoningCapability gemini_budget(bool can_stop) {
    constexpr int lowest_budget = 128;
    ReasoningCapability made;
    made.mode_payloads[ReasoningMode::off] = at_path(thinking_budget, can_stop ? 0 : lowest_budget);
    if (!can_stop) {
        made.mode_notes[ReasoningMode::off] =
            "This model always reasons; its lowest budget, 128 tokens, is sent";
    }
    made.mode_payloads[ReasoningMode::automatic] = at_path(thinking_budget, -1);
    made.mode_payloads[ReasoningMode::on] = at_path(thinking_budget, -1);
    made.effort_path = thinking_budget;
    made.effort_values[ReasoningEffort::minimal] = 512;
    made.effort_values[ReasoningEffort::low] = 2048;
    made.effort_values[ReasoningEffort::medium] = 8192;
    made.effort_values[ReasoningEffort::high] = 16384;
    made.effort_values[ReasoningEffort::max] = 24576;
    made.apply_effort_when_off = false;
    return with_thoughts(std::move(made));
}

const ReasoningCapability& gemini_reasoning() {
    // The levels that every model since version 3 takes.
    static const ReasoningCapability levels =
        gemini_levels(detail::only(EffortWord::low) | detail::only(EffortWord::high));
    return levels;
}

const ReasoningCapability& spelling_of(ModelApi api) {
    switch (api) {
        case ModelApi::openai_chat: return openai_chat_reasoning();
        case ModelApi::openai_responses: return openai_responses_reasoning();
        case ModelApi::anthropic_messages: return anthropic_reasoning();
        case ModelApi::gemini: return gemini_reasoning();
    }
    return openai_chat_reasoning();
}

ReasoningCapability reasoning_of(ModelApi api, const ProfileRow& row) {
    const bool claude_api = api == ModelApi::anthropic_messages;
    if (api == ModelApi::gemini && row.style != ReasoningStyle::none) {
        if (row.style == ReasoningStyle::budget) return gemini_budget(!row.off.empty());
        return row.efforts == 0 ? gemini_reasoning() : gemini_levels(row.efforts);
    }
    switch (row.style) {
        case ReasoningStyle::none: return ReasoningCapability();
        case ReasoningStyle::always: return always_style();
        case ReasoningStyle::budget: return claude_api ? anthropic_reasoning() : spelling_of(api);
        case ReasoningStyle::adaptive:
            if (claude_api) return adaptive_style(row);
            break;
        case ReasoningStyle::effort:
        case ReasoningStyle::router:
            if (claude_api) return anthropic_reasoning();
            break;
        case ReasoningStyle::thinking_switch:
        case ReasoningStyle::thinking_effort:
            if (api == ModelApi::openai_chat) return switch_style(row.efforts);
            break;
        case ReasoningStyle::enable_thinking:
            if (api == ModelApi::openai_chat) return enable_style();
            break;
    }
    if (row.efforts == 0) return spelling_of(api);
    const bool nested = api == ModelApi::openai_responses || row.style == ReasoningStyle::router;
    ReasoningCapability made =
        effort_style(row.efforts, nested ? "reasoning.effort" : "reasoning_effort");
    if (api == ModelApi::openai_responses) add_responses_summary(made);
    return made;
}

/// Ids of a family: the row's text and then nothing, or one of the marks that begin a variant or a date. A row that
/// ends in a dot stands for all that follows it.
bool in_family(std::string_view id, std::string_view family) {
    if (!id.starts_with(family)) return false;
    if (family.ends_with('.') || id.size() == family.size()) return true;
    const char next = id[family.size()];
    return next == '-' || next == ':' || next == '@';
}

const ProfileRow* find_row(std::string_view id) {
    const ProfileRow* best = nullptr;
    for (const ProfileRow& row : detail::profile_rows()) {
        if (in_family(id, row.id) && (!best || row.id.size() > best->id.size())) best = &row;
    }
    return best;
}

std::string host_of(std::string_view url) {
    if (const std::size_t scheme = url.find("://"); scheme != std::string_view::npos)
        url.remove_prefix(scheme + 3);
    url = url.substr(0, url.find_first_of("/?#"));
    if (const std::size_t user = url.rfind('@'); user != std::string_view::npos)
        url.remove_prefix(user + 1);
    std::string host(url.substr(0, url.find(':')));
    for (char& c : host) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    return host;
}

const detail::EndpointRow* find_endpoint(std::string_view base_url) {
    if (base_url.empty()) return nullptr;
    const std::string host = host_of(base_url);
    for (const detail::EndpointRow& row : detail::endpoint_rows()) {
        const bool below = host.ends_with(row.host) && host.size() > row.host.size() &&
                           host[host.size() - row.host.size() - 1] == '.';
        if (host == row.host || below) return &row;
    }
    return nullptr;
}

/// Claude ids as the clouds write them: "us.anthropic.claude-opus-4-6-v1", "claude-sonnet-4-5@20250929".
std::string plain_id(std::string_view id) {
    if (const std::size_t slash = id.rfind('/'); slash != std::string_view::npos)
        id.remove_prefix(slash + 1);
    if (const std::size_t vendor = id.find("anthropic."); vendor != std::string_view::npos)
        id.remove_prefix(vendor + std::string_view("anthropic.").size());
    std::string plain(id);
    for (char& c : plain) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    // Routers write Claude's versions with dots.
    if (plain.starts_with("claude-")) {
        for (char& c : plain) c = c == '.' ? '-' : c;
    }
    return plain;
}

TemperatureSpec temperature_of(ModelApi api, detail::TemperatureRule rule) {
    TemperatureSpec spec;
    spec.mode = TemperatureSpec::Mode::free;
    if (rule == detail::TemperatureRule::refused) spec.mode = TemperatureSpec::Mode::ignored;
    if (rule == detail::TemperatureRule::without_reasoning)
        spec.mode = TemperatureSpec::Mode::without_reasoning;
    if (api == ModelApi::anthropic_messages) spec.max = 1.0;
    return spec;
}

ModelProfile unknown_profile(ModelApi api) {
    ModelProfile made;
    made.capability.reasoning = spelling_of(api);
    made.capability.temperature = temperature_of(
        api, api == ModelApi::anthropic_messages ? detail::TemperatureRule::without_reasoning
                                                 : detail::TemperatureRule::free);
    return made;
}

void put_endpoint(ModelProfile& profile, ModelApi api, const detail::EndpointRow& endpoint) {
    ProfileRow row;
    row.style = endpoint.style;
    row.efforts = endpoint.efforts;
    profile.capability.reasoning = reasoning_of(api, row);
    profile.capability.reasoning->on_by_default = endpoint.on_by_default;
    if (!endpoint.thinking_field.empty())
        profile.capability.thinking_field = endpoint.thinking_field;
}

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

std::string_view to_string(ModelApi api) noexcept {
    switch (api) {
        case ModelApi::openai_chat: return "openai-chat";
        case ModelApi::openai_responses: return "openai-responses";
        case ModelApi::anthropic_messages: return "anthropic-messages";
        case ModelApi::gemini: return "gemini";
    }
    return "";
}

std::string_view model_profiles_date() noexcept { return detail::profiles_date(); }

ModelProfile model_profile(ModelApi api, std::string_view model_id, std::string_view base_url) {
    const std::string id = plain_id(model_id);
    const ProfileRow* row = find_row(id);
    ModelProfile made = unknown_profile(api);
    if (row) {
        made.family = row->id;
        made.reasons = row->style != ReasoningStyle::none;
        if (row->context_window > 0) made.context_window = row->context_window;
        if (row->max_output > 0) made.max_output = row->max_output;
        made.forces_tools = row->forces_tools;
        made.chat_tools = row->chat_tools;
        made.capability.temperature = temperature_of(api, row->temperature);
        made.capability.reasoning = reasoning_of(api, *row);
        made.capability.reasoning->on_by_default = row->on_by_default;
        if (api == ModelApi::openai_chat && made.reasons && !id.starts_with("claude-") &&
            !id.starts_with("gemini-") && !id.starts_with("gpt-oss")) {
            made.capability.max_tokens_field = "max_completion_tokens";
        }
    }
    const detail::EndpointRow* endpoint =
        api == ModelApi::openai_chat ? find_endpoint(base_url) : nullptr;
    // A model that cannot reason does not learn it at a router.
    if (endpoint && (!row || made.reasons)) put_endpoint(made, api, *endpoint);
    return made;
}

ModelProfile effective_profile(ModelApi api, const Model& model,
                               const ProviderCapability& provider) {
    ModelProfile made = model_profile(api, model.id, provider.base_url);
    const auto by_id = provider.model_overrides.find(model.id);
    const CapabilityDescriptor& configured = model.capability ? *model.capability
                                             : by_id != provider.model_overrides.end()
                                                 ? by_id->second
                                                 : provider.capability;
    CapabilityDescriptor known = std::move(made.capability);
    made.capability = configured;
    CapabilityDescriptor& holds = made.capability;
    // A caller that declares a model as reasoning overrides the table.
    const bool contradicted = model.reasoning && made.known() && !made.reasons;
    if (!holds.reasoning)
        holds.reasoning = contradicted ? spelling_of(api) : std::move(known.reasoning);
    if (holds.temperature.mode == TemperatureSpec::Mode::automatic)
        holds.temperature = known.temperature;
    if (!holds.max_tokens_field) holds.max_tokens_field = std::move(known.max_tokens_field);
    if (!holds.thinking_field) holds.thinking_field = std::move(known.thinking_field);
    made.reasons = made.reasons || model.reasoning;
    return made;
}

PayloadPreview preview_payload(const CapabilityDescriptor& capability,
                               const ReasoningControl& control, const JsonObject& base) {
    PayloadPreview preview;
    if (!capability.reasoning) return preview;
    JsonObject changed = base;
    preview.notices = apply_reasoning_control(changed, *capability.reasoning, control, true);
    for (const auto& [key, value] : changed) {
        const Json* before = base.if_contains(key);
        if (!before || *before != value) preview.payload[key] = value;
    }
    return preview;
}

std::vector<Notice> lint_capability(const CapabilityDescriptor& capability, ModelApi api) {
    std::vector<Notice> found;
    if (capability.reasoning) lint_reasoning(*capability.reasoning, api, found);
    lint_temperature(capability.temperature, found);
    return found;
}

}  // namespace cubepi
