#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include <cubepi/core/json.hpp>
#include <cubepi/core/shared_string.hpp>

namespace cubepi {

struct CapabilityDescriptor;  // provider/capability.hpp

/// Surcharge for a long prompt: applies to the whole call, not only to the tokens above the limit.
struct LongPromptCost {
    std::int64_t above_tokens = 0;  ///< of the whole prompt, cached parts included
    double input_factor = 1.0;      ///< for every part of the prompt
    double output_factor = 1.0;
    friend bool operator==(const LongPromptCost&, const LongPromptCost&) = default;
};

/// USD per million tokens. Absent means unknown, not free.
struct ModelCost {
    std::optional<double> input = {};
    std::optional<double> output = {};
    std::optional<double> cache_read = {};
    std::optional<double> cache_write = {};     ///< stored for the endpoint's default (short) time
    std::optional<double> cache_write_1h = {};  ///< stored for an hour
    std::optional<LongPromptCost> long_prompt = {};
    friend bool operator==(const ModelCost&, const ModelCost&) = default;
};

/// A model as described by the caller. An absent value is not sent (D14).
struct Model {
    std::string id = {};
    std::string provider_id = {};
    std::string api = {};                             ///< wire dialect, if the provider has several
    bool reasoning = false;                           ///< the model reasons
    std::optional<std::int64_t> context_window = {};  ///< tokens
    std::optional<std::int64_t> max_tokens = {};      ///< limit of one answer, tokens
    std::optional<double> temperature = {};
    std::optional<ModelCost> cost = {};  ///< absent: from the price table (provider/cost.hpp)
    /// The capabilities of this model at its endpoint, overriding those of its provider; null: no override.
    std::shared_ptr<const CapabilityDescriptor> capability = {};
};

/// The description of a tool that is sent to the model.
struct ToolDefinition {
    SharedString name = {};
    SharedString description = {};
    std::shared_ptr<const Json> parameters = {};  ///< JSON Schema, never null in a request
};
using ToolDefinitions = std::vector<ToolDefinition>;

/// The tool that the model may or must call. `named` forces one.
struct ToolChoice {
    enum class Mode : std::uint8_t { automatic, required, none, named };
    Mode mode = Mode::automatic;
    std::string name = {};
};

/// Reasoning before the answer: disabled, left to the model, or enabled.
enum class ReasoningMode : std::uint8_t { off, automatic, on };
/// The extent of the reasoning, in the terms shared by endpoints.
enum class ReasoningEffort : std::uint8_t { minimal, low, medium, high, max };
/// The form in which the endpoint returns the reasoning.
enum class ReasoningSummary : std::uint8_t { none, automatic, detailed, summarized };

/// The reasoning settings of a request. Only values that were set matter: a default-constructed control sends nothing
/// (D14).
struct ReasoningControl {
    ReasoningMode mode = ReasoningMode::off;
    ReasoningEffort effort = ReasoningEffort::medium;
    ReasoningSummary summary = ReasoningSummary::none;
    friend bool operator==(const ReasoningControl&, const ReasoningControl&) = default;
};

std::string_view to_string(ReasoningMode mode) noexcept;
std::string_view to_string(ReasoningEffort effort) noexcept;
std::string_view to_string(ReasoningSummary summary) noexcept;

}  // namespace cubepi
