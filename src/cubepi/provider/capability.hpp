#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <cubepi/core/json.hpp>
#include <cubepi/core/model.hpp>
#include <cubepi/core/notice.hpp>

// What an endpoint takes, as data. What is known of today's models is built in (model_profile.hpp); where it does not
// fit, give the provider, or one model (Model::capability), a descriptor of your own.

namespace cubepi {

enum class UnsupportedModePolicy : std::uint8_t { skip, warn, error };

/// How a ReasoningControl is spelled in an endpoint's request.
struct ReasoningCapability {
    /// Merged into the request for a mode.
    std::map<ReasoningMode, JsonObject> mode_payloads = {};
    /// Where the effort goes: keys separated by dots, e.g. "reasoning.effort".
    std::optional<std::string> effort_path = {};
    std::map<ReasoningEffort, Json> effort_values = {};
    std::optional<std::string> summary_path = {};
    std::map<ReasoningSummary, Json> summary_values = {};
    /// Merged in besides: "always", "mode:on", "effort:high", "summary:auto" (in that order).
    std::map<std::string, JsonObject> include_payloads = {};
    bool apply_effort_when_off = true;
    UnsupportedModePolicy unsupported_mode_policy = UnsupportedModePolicy::warn;
    /// Where the endpoint gets something else than what was asked for, a sentence that says so: it becomes a notice (D14).
    std::map<ReasoningMode, std::string> mode_notes = {};
    std::map<ReasoningEffort, std::string> effort_notes = {};
    /// The model thinks unless it is told not to.
    bool on_by_default = false;
};

struct TemperatureSpec {
    enum class Mode : std::uint8_t {
        free,
        fixed,
        ignored,
        automatic,          ///< as the model's profile says; free where there is none
        without_reasoning,  ///< taken only by a request that does not ask the model to reason
    };
    Mode mode = Mode::automatic;
    double min = 0.0;
    double max = 2.0;
    std::optional<double> fixed_value = {};
};

/// What a tool's JSON Schema is turned into on the way out (D27).
enum class SchemaDialect : std::uint8_t {
    as_given,     ///< only a missing `"type": "object"` at the top is added
    inline_refs,  ///< `$ref`s into the schema are replaced by what they name, except recursive ones
};

struct CapabilityDescriptor {
    std::optional<ReasoningCapability> reasoning = {};
    TemperatureSpec temperature = {};
    /// Under which name Model::max_tokens is sent; absent: the name that the model's family wants.
    std::optional<std::string> max_tokens_field = {};
    SchemaDialect schema_dialect = SchemaDialect::as_given;
    /// Under this key the model's thinking is sent back in later requests ("reasoning_content"); absent: it is not.
    std::optional<std::string> thinking_field = {};
    /// False for servers that refuse `stream_options`: usage is then not asked for.
    bool stream_usage = true;
    /// Whether the endpoint can hold an answer to a JSON Schema; absent: what is known of endpoint and model.
    std::optional<bool> response_format = {};
};

/// Merges `patch` into `target`: objects key by key, everything else is replaced.
void deep_merge(JsonObject& target, const JsonObject& patch);
/// Writes `value` at a path of keys separated by dots, making objects on the way.
void write_at_path(JsonObject& target, std::string_view path, Json value);

/// Writes the control into a request. What the endpoint cannot express comes back as notices, or throws
/// Error(unsupported) where the policy says so. `reasons`: the model is known to reason.
std::vector<Notice> apply_reasoning(JsonObject& payload, const ReasoningCapability& capability,
                                    const ReasoningControl& control, bool reasons);

/// Writes the temperature. Absent and not fixed: nothing. `reasoning`: the request asks the model to reason.
std::vector<Notice> apply_temperature(JsonObject& payload, const TemperatureSpec& spec,
                                      std::optional<double> temperature, bool reasoning = false);

/// Whether a request asks its model to reason, in any of the spellings that are known; `fallback` when it says nothing.
bool asks_to_reason(const JsonObject& payload, bool fallback = false);

// How each API spells the whole control, for a model of which nothing is known.
const ReasoningCapability& openai_chat_reasoning();
const ReasoningCapability& openai_responses_reasoning();
const ReasoningCapability& anthropic_reasoning();

}  // namespace cubepi
