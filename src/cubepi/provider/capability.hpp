#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <cubepi/core/json.hpp>
#include <cubepi/core/message.hpp>
#include <cubepi/core/model.hpp>
#include <cubepi/core/notice.hpp>

// Capabilities of an endpoint, as data. Profiles of current models are built in (model_profile.hpp); to correct them,
// pass a descriptor to the provider or to one model (Model::capability).

namespace cubepi {

enum class UnsupportedModePolicy : std::uint8_t { skip, warn, error };

/// The form of a ReasoningControl in the requests of an endpoint.
struct ReasoningCapability {
    /// Merged into the request for a mode.
    std::map<ReasoningMode, JsonObject> mode_payloads = {};
    /// Path of the effort: keys separated by dots, e.g. "reasoning.effort".
    std::optional<std::string> effort_path = {};
    std::map<ReasoningEffort, Json> effort_values = {};
    std::optional<std::string> summary_path = {};
    std::map<ReasoningSummary, Json> summary_values = {};
    /// Additional members to merge: "always", "mode:on", "effort:high", "summary:auto" (in that order).
    std::map<std::string, JsonObject> include_payloads = {};
    bool apply_effort_when_off = true;
    UnsupportedModePolicy unsupported_mode_policy = UnsupportedModePolicy::warn;
    /// Text of the notice about an effort that is sent differently from what was requested (D14).
    std::map<ReasoningMode, std::string> mode_notes = {};
    std::map<ReasoningEffort, std::string> effort_notes = {};
    /// The model reasons unless reasoning is switched off.
    bool on_by_default = false;
};

struct TemperatureSpec {
    enum class Mode : std::uint8_t {
        free,
        fixed,
        ignored,
        automatic,          ///< as in the profile of the model; free without a profile
        without_reasoning,  ///< accepted only by requests without reasoning
    };
    Mode mode = Mode::automatic;
    double min = 0.0;
    double max = 2.0;
    std::optional<double> fixed_value = {};
};

/// The transformation of a tool's JSON Schema for a request (D27).
enum class SchemaDialect : std::uint8_t {
    as_given,     ///< only a missing `"type": "object"` at the top is added
    inline_refs,  ///< like it, and `$ref`s are replaced by their targets, unless recursive or huge
};

struct CapabilityDescriptor {
    std::optional<ReasoningCapability> reasoning = {};
    TemperatureSpec temperature = {};
    /// Name under which Model::max_tokens is sent; absent: the name that the model's family requires.
    std::optional<std::string> max_tokens_field = {};
    SchemaDialect schema_dialect = SchemaDialect::as_given;
    /// Key under which the model's thinking is returned in later requests ("reasoning_content"); absent: it is not
    /// sent.
    std::optional<std::string> thinking_field = {};
    /// False for servers that reject `stream_options`: usage is then not requested.
    bool stream_usage = true;
    /// Whether the endpoint can enforce a JSON Schema for answers; absent: decided by the profile of endpoint and
    /// model.
    std::optional<bool> response_format = {};
    /// Whether the endpoint compacts conversations itself (StreamOptions::compact_at()); absent: decided by the profile of
    /// endpoint and model.
    std::optional<bool> compaction = {};
};

/// Returns true if the endpoint has compacted the conversation in this answer. Its usage is that of the conversation before.
bool has_compacted(const AssistantMessage& answer);

/// Merges `patch` into `target`: objects key by key; everything else is replaced.
void deep_merge(JsonObject& target, const JsonObject& patch);
/// Writes `value` at a path of keys separated by dots, and creates missing objects.
void write_at_path(JsonObject& target, std::string_view path, Json value);

/// Writes the control into a request. Returns notices about settings that the endpoint cannot express, or throws
/// Error(unsupported) if the policy requires it. `reasons`: the model is known to reason.
std::vector<Notice> apply_reasoning_control(JsonObject& payload,
                                            const ReasoningCapability& capability,
                                            const ReasoningControl& control, bool reasons);

/// Writes the temperature, unless it is absent and not fixed. `reasoning`: the request enables reasoning.
std::vector<Notice> apply_temperature(JsonObject& payload, const TemperatureSpec& spec,
                                      std::optional<double> temperature, bool reasoning = false);

/// Returns whether a request enables reasoning, in any of the known forms; `fallback` if it sets nothing.
bool asks_to_reason(const JsonObject& payload, bool fallback = false);

// The complete form of the control in each API, for a model without a profile.
const ReasoningCapability& openai_chat_reasoning();
const ReasoningCapability& openai_responses_reasoning();
const ReasoningCapability& anthropic_reasoning();

}  // namespace cubepi
