#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <cubepi/core/json.hpp>
#include <cubepi/core/model.hpp>
#include <cubepi/core/notice.hpp>
#include <cubepi/provider/capability.hpp>

// Profiles of current models: dated data, selected by API, endpoint and model id. Settings of the caller override
// them. Any thread may call these functions.

namespace cubepi {

/// The wire formats of the providers.
enum class ModelApi : std::uint8_t { openai_chat, openai_responses, anthropic_messages, gemini };
std::string_view to_string(ModelApi api) noexcept;

/// The day on which the table was last compared with the vendors' documentation: "2026-11-22".
std::string_view model_profiles_date() noexcept;

/// Whether Chat Completions accepts tools for a model. (Responses always does.)
enum class ChatTools : std::uint8_t { yes, without_reasoning, no };

struct ModelProfile {
    std::string family = {};  ///< the row of the table, "gpt-5.1"; empty: unknown model
    bool reasons = false;
    std::optional<std::int64_t> context_window = {};  ///< tokens
    std::optional<std::int64_t> max_output = {};      ///< tokens of one answer
    bool forces_tools = true;                         ///< accepts a tool choice that forces a call
    ChatTools chat_tools = ChatTools::yes;
    /// The complete form of its requests.
    CapabilityDescriptor capability = {};

    bool known() const noexcept { return !family.empty(); }
};

/// Returns the profile of a model. Ids may contain the vendor prefix of a router ("openai/gpt-5.1") and a date.
/// `base_url` distinguishes compatible servers, whose forms of reasoning differ; empty: the API's own endpoint.
ModelProfile model_profile(ModelApi api, std::string_view model_id, std::string_view base_url = {});

/// The settings of a provider for its endpoint.
struct ProviderCapability {
    const CapabilityDescriptor& capability;
    const std::map<std::string, CapabilityDescriptor>& model_overrides;  ///< by model id
    std::string_view base_url = {};
};

/// Returns the profile that applies to a request for `model`: its own descriptor (Model::capability), else the
/// provider's for that id, else the provider's; unset values come from the profile of the model.
/// `capability.reasoning` is always set.
ModelProfile effective_profile(ModelApi api, const Model& model,
                               const ProviderCapability& provider);

/// A request that was not sent. See also BoundModel::preview for the whole request.
struct PayloadPreview {
    JsonObject payload = {};
    std::vector<Notice> notices = {};
};

/// Returns the members that a control adds to `base` or changes there. Throws Error(unsupported) if the policy of the
/// capability requires it.
PayloadPreview preview_payload(const CapabilityDescriptor& capability,
                               const ReasoningControl& control, const JsonObject& base = {});

/// Returns the errors of a descriptor that can be found without calling the endpoint: one notice per finding, with
/// the stable codes "openai_chat_top_level_thinking", "effort_without_path", "summary_without_path",
/// "temperature_limits", "unknown_include".
std::vector<Notice> lint_capability(const CapabilityDescriptor& capability, ModelApi api);

}  // namespace cubepi
