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

struct GeminiOptions {
    /// Sent as x-goog-api-key. May be empty for a gateway.
    std::string api_key = {};
    /// The URL before "/v1beta/models".
    std::string base_url = "https://generativelanguage.googleapis.com";
    std::string provider_id = "gemini";
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

/// Gemini models by Google's own API (generateContent, streamed). Copies are handles to the same provider. Any thread may call
/// any member.
///
///     auto gemini = GeminiProvider({.api_key = env("GEMINI_API_KEY")});
///     Agent agent({.model = gemini.model("gemini-3.8-flash")});
///
/// Every request returns the thought signatures of earlier answers, which the models require to continue after a tool call. A
/// request contains only what the caller set. A missing key is an error of the first call.
class GeminiProvider final : public HttpProvider {
public:
    /// Throws Error(invalid_argument) if `base_url` is not an http(s) URL.
    explicit GeminiProvider(GeminiOptions options);

    /// The id of a model, also as a resource name: "gemini-3.8-flash", "tunedModels/my-model".
    BoundModel model(std::string id) const;
    BoundModel model(Model model) const;
};

/// A Gemini model with the key in GEMINI_API_KEY; at GEMINI_BASE_URL if that is set. Throws as the constructor of GeminiProvider
/// does; a missing key is an error of the first call.
BoundModel gemini_model(std::string id);

}  // namespace cubepi
