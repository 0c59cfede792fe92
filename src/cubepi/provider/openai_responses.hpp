#pragma once

#include <chrono>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <cubepi/net/retry.hpp>
#include <cubepi/provider/base_provider.hpp>
#include <cubepi/provider/capability.hpp>
#include <cubepi/provider/env.hpp>
#include <cubepi/provider/preview.hpp>

namespace cubepi {

namespace detail {
struct OpenAIResponsesEndpoint;
}

struct OpenAIResponsesOptions {
    /// May be empty for servers on this machine.
    std::string api_key = {};
    /// Up to and without "/responses".
    std::string base_url = "https://api.openai.com/v1";
    std::string provider_id = "openai";
    /// The endpoint keeps each response, for its own logs and for `server_state` (OpenAI: 30 days).
    bool store = false;
    /// Where the conversation at the endpoint equals the history, only what is new is sent, with
    /// `previous_response_id` (D57); implies `store`. The system prompt then goes to `instructions`.
    bool server_state = false;
    /// Put into each request as they are, over what is there.
    JsonObject extra_body = {};
    std::vector<std::pair<std::string, std::string>> extra_headers = {};
    /// What the endpoint takes, where the built-in knowledge does not fit; per model id in the overrides.
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

/// The Responses API, of OpenAI and of servers that have it (vLLM, Ollama, LM Studio, OpenRouter, ...). A copy is
/// another handle to the same provider. Any thread may call any member.
///
///     auto openai = OpenAIResponsesProvider({.api_key = env("OPENAI_API_KEY")});
///     Agent agent({.model = openai.model("gpt-5.1")});
///
/// Reasoning models get their earlier reasoning back, encrypted, with every request, also when nothing is stored at the
/// endpoint. A request has what the caller set, and nothing else. A key that is missing is an error of the first call.
class OpenAIResponsesProvider final : public BaseProvider, public RequestPreview {
public:
    /// Throws Error(invalid_argument) when `base_url` is not an http(s) URL.
    explicit OpenAIResponsesProvider(OpenAIResponsesOptions options);

    BoundModel model(std::string id) const;
    BoundModel model(Model model) const;

    MessageStream stream(ModelRequest request) override;
    PayloadPreview preview(const ModelRequest& request) const override;
    bool takes_response_format(const Model& model) const override;

private:
    std::shared_ptr<const detail::OpenAIResponsesEndpoint> endpoint_;
};

}  // namespace cubepi
