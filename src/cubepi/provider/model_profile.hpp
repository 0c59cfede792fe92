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

// What is known of today's models: data with a date, looked up by API, endpoint and model id. What a caller says comes
// before it. Any thread may call these.

namespace cubepi {

/// The wire formats that the providers speak.
enum class ModelApi : std::uint8_t { openai_chat, openai_responses, anthropic_messages };
std::string_view to_string(ModelApi api) noexcept;

/// The day on which the table was last compared with the vendors' documentation: "2026-11-22".
std::string_view model_profiles_date() noexcept;

/// What Chat Completions takes of a model's tools. (Responses takes them all.)
enum class ChatTools : std::uint8_t { yes, without_reasoning, no };

struct ModelProfile {
    std::string family = {};  ///< the table's row, "gpt-5.1"; empty: nothing is known of the model
    bool reasons = false;
    std::optional<std::int64_t> context_window = {};  ///< tokens
    std::optional<std::int64_t> max_output = {};      ///< tokens of one answer
    bool forces_tools = true;                         ///< takes a tool choice that forces a call
    ChatTools chat_tools = ChatTools::yes;
    /// How to ask it; complete.
    CapabilityDescriptor capability = {};

    bool known() const noexcept { return !family.empty(); }
};

/// What is known of a model. Ids may carry a router's vendor ("openai/gpt-5.1") and a date. `base_url` tells the
/// compatible servers apart, which spell reasoning in ways of their own; empty: the API's own endpoint.
ModelProfile model_profile(ModelApi api, std::string_view model_id, std::string_view base_url = {});

/// What a provider was told of its endpoint.
struct ProviderCapability {
    const CapabilityDescriptor& capability;
    const std::map<std::string, CapabilityDescriptor>& model_overrides;  ///< by model id
    std::string_view base_url = {};
};

/// What holds for a request to `model`: its own descriptor (Model::capability), else the provider's for that id, else
/// the provider's; what that one leaves open comes from the model's profile. `capability.reasoning` is always there.
ModelProfile effective_profile(ModelApi api, const Model& model,
                               const ProviderCapability& provider);

/// What a request would be. See also BoundModel::preview for the whole of it.
struct PayloadPreview {
    JsonObject payload = {};
    std::vector<Notice> notices = {};
};

/// What a control changes in a request: the keys that it adds to `base` or changes there. Throws Error(unsupported)
/// where the capability's policy says so.
PayloadPreview preview_payload(const CapabilityDescriptor& capability,
                               const ReasoningControl& control, const JsonObject& base = {});

/// What is wrong with a descriptor, as far as it can be known without asking the endpoint: one notice per finding,
/// with the stable codes "openai_chat_top_level_thinking", "effort_without_path", "summary_without_path",
/// "temperature_limits", "unknown_include".
std::vector<Notice> lint_capability(const CapabilityDescriptor& capability, ModelApi api);

}  // namespace cubepi
