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

struct OpenAIOptions {
    /// May be empty for servers on this machine.
    std::string api_key = {};
    /// Up to and without "/chat/completions".
    std::string base_url = "https://api.openai.com/v1";
    std::string provider_id = "openai";
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
    /// For servers that never send a finish_reason: [DONE] or the end of the stream is then a proper end.
    bool accept_missing_finish = false;
};

/// Chat Completions, of OpenAI and of every server that is compatible with it (Ollama, llama.cpp, vLLM, LM Studio,
/// OpenRouter, ...). A copy is another handle to the same provider. Any thread may call any member.
///
///     auto openai = OpenAIProvider({.api_key = env("OPENAI_API_KEY")});
///     auto local = OpenAIProvider({.base_url = "http://localhost:11434/v1"});
///     Agent agent({.model = openai.model("gpt-5.1")});
///
/// A request has what the caller set, and nothing else. A key that is missing is an error of the first call.
class OpenAIProvider final : public BaseProvider, public RequestPreview {
public:
    /// Throws Error(invalid_argument) when `base_url` is not an http(s) URL.
    explicit OpenAIProvider(OpenAIOptions options);

    BoundModel model(std::string id) const;
    BoundModel model(Model model) const;

    MessageStream stream(ModelRequest request) override;
    PayloadPreview preview(const ModelRequest& request) const override;
    /// OpenAI's own endpoint: yes, but for its oldest models. Others: where the capability says so.
    bool takes_response_format(const Model& model) const override;

private:
    class Protocol;
    std::shared_ptr<const Protocol> protocol_;
};

}  // namespace cubepi
