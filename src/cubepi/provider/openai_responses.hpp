#pragma once

#include <chrono>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <cubepi/net/retry.hpp>
#include <cubepi/provider/capability.hpp>
#include <cubepi/provider/http_provider.hpp>

namespace cubepi {

struct OpenAIResponsesOptions {
    /// May be empty for local servers.
    std::string api_key = {};
    /// The URL before "/responses".
    std::string base_url = "https://api.openai.com/v1";
    std::string provider_id = "openai";
    /// Whether the endpoint stores each response, for its own logs and for `server_state` (OpenAI: 30 days).
    bool store = false;
    /// Sends only new messages, with `previous_response_id`, if the conversation at the endpoint equals the history
    /// (D57); implies `store`. The system prompt is then sent as `instructions`.
    bool server_state = false;
    /// Added to each request unchanged; they replace members of the same name.
    JsonObject extra_body = {};
    std::vector<std::pair<std::string, std::string>> extra_headers = {};
    /// Sets keys that expire, or signs; replaces the need for a key. See RequestSigner.
    RequestSigner sign_request = {};
    /// Capabilities of the endpoint where the built-in profiles are wrong or missing. The overrides are per model id.
    CapabilityDescriptor capability = {};
    std::map<std::string, CapabilityDescriptor> model_capability_overrides = {};
    RetryPolicy retry = {};
    /// The timeouts of a call (D16). Zero: off.
    std::chrono::nanoseconds connect_timeout = std::chrono::seconds(10);
    std::chrono::nanoseconds first_byte_timeout = std::chrono::seconds(120);
    std::chrono::nanoseconds idle_timeout =
        std::chrono::seconds(120);  ///< between events with content
    std::chrono::nanoseconds total_timeout = std::chrono::nanoseconds::zero();
};

/// The Responses API of OpenAI and of compatible servers (vLLM, Ollama, LM Studio, OpenRouter, ...). Copies are
/// handles to the same provider. Any thread may call any member.
///
///     auto openai = OpenAIResponsesProvider({.api_key = env("OPENAI_API_KEY")});
///     Agent agent({.model = openai.model("gpt-5.1")});
///
/// Every request returns the earlier, encrypted reasoning to the model, even if the endpoint stores nothing. A
/// request contains only what the caller set. A missing key is an error of the first call.
class OpenAIResponsesProvider final : public HttpProvider {
public:
    /// Throws Error(invalid_argument) if `base_url` is not an http(s) URL.
    explicit OpenAIResponsesProvider(OpenAIResponsesOptions options);

    BoundModel model(std::string id) const;
    BoundModel model(Model model) const;
};

/// A model of OpenAI by the Responses API, with the key in OPENAI_API_KEY; at OPENAI_BASE_URL if that is set. Throws as the
/// constructor of OpenAIResponsesProvider does; a missing key is an error of the first call.
BoundModel openai_responses_model(std::string id);

}  // namespace cubepi
