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

// What an endpoint takes, as data. A provider has profiles built in; where they do not fit, give it a descriptor of
// your own.

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
};

struct TemperatureSpec {
    enum class Mode : std::uint8_t { free, fixed, ignored };
    Mode mode = Mode::free;
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

/// Writes the temperature. Absent and not fixed: nothing.
std::vector<Notice> apply_temperature(JsonObject& payload, const TemperatureSpec& spec,
                                      std::optional<double> temperature);

/// The built-in profile of OpenAI's Chat Completions (as of 2026-11).
const ReasoningCapability& openai_chat_reasoning();

}  // namespace cubepi
