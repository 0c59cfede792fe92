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

struct OpenAIOptions {
    /// May be empty for local servers.
    std::string api_key = {};
    /// The URL before "/chat/completions".
    std::string base_url = "https://api.openai.com/v1";
    std::string provider_id = "openai";
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
    /// For servers that never send a finish_reason: accepts [DONE] or the end of the stream as the end of the answer.
    bool accept_missing_finish = false;
    /// For servers that send thinking as a part of the text: the tag around it at the beginning of an answer, "think" for
    /// <think>...</think>. Its content becomes thinking. Empty: none.
    std::string thinking_tag = {};
};

/// Chat Completions of OpenAI and of compatible servers (Ollama, llama.cpp, vLLM, LM Studio, OpenRouter, ...). Copies
/// are handles to the same provider. Any thread may call any member.
///
///     auto openai = OpenAIProvider({.api_key = env("OPENAI_API_KEY")});
///     auto local = OpenAIProvider({.base_url = "http://localhost:11434/v1"});
///     Agent agent({.model = openai.model("gpt-5.1")});
///
/// A request contains only what the caller set. A missing key is an error of the first call. takes_response_format() is true
/// for OpenAI's own endpoint, except for its oldest models; for other endpoints it is as the capability declares.
class OpenAIProvider final : public HttpProvider {
public:
    /// Throws Error(invalid_argument) if `base_url` is not an http(s) URL.
    explicit OpenAIProvider(OpenAIOptions options);

    BoundModel model(std::string id) const;
    BoundModel model(Model model) const;
};

/// A model of OpenAI by the Chat Completions API, with the key in OPENAI_API_KEY; at OPENAI_BASE_URL if that is set. Throws as the
/// constructor of OpenAIProvider does; a missing key is an error of the first call.
BoundModel openai_model(std::string id);

}  // namespace cubepi
