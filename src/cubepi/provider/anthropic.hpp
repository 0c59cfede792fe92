#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <cubepi/core/message_list.hpp>
#include <cubepi/net/retry.hpp>
#include <cubepi/provider/capability.hpp>
#include <cubepi/provider/http_provider.hpp>

namespace cubepi {

/// The lifetime requested for a cached prompt: CubePi's "short", "long" and "none".
enum class CacheRetention : std::uint8_t {
    five_minutes,
    one_hour,  ///< cache writes cost more
    none,      ///< no markers are sent
};

/// Decides where the markers of a request (cache_control) are placed. Everything before a marker is cached: tools, then system
/// prompt, then messages. Endpoints accept four markers; surplus ones are removed from the beginning of the messages,
/// with a notice. Called from the threads that start calls.
class CacheMarkerPolicy {
public:
    virtual ~CacheMarkerPolicy() = default;
    virtual bool mark_system() const { return true; }
    virtual bool mark_last_tool() const { return true; }
    /// Indices of the messages whose last block gets a marker; invalid indices are ignored. The default is the last
    /// message, so that each request of a conversation reads what the previous one wrote.
    virtual std::vector<std::size_t> message_breakpoint_indices(const MessageList& messages) const {
        if (messages.empty()) return {};
        return {messages.size() - 1};
    }
};

struct AnthropicOptions {
    /// Sent as x-api-key. May be empty for local servers.
    std::string api_key = {};
    /// Sent as a bearer token instead, for gateways that require one.
    std::string auth_token = {};
    /// The URL before "/v1/messages".
    std::string base_url = "https://api.anthropic.com";
    std::string provider_id = "anthropic";
    CacheRetention cache_retention = CacheRetention::five_minutes;
    /// Places the cache markers; null: on the system prompt, the last tool and the last message.
    std::shared_ptr<const CacheMarkerPolicy> cache_policy = {};
    /// From this many tokens on, the endpoint leaves old tool results out of what the model reads (context editing of
    /// api.anthropic.com, which is sent the whole history all the same). Each new result moves that place, and what the cache has
    /// after it is lost; CompactionMiddleware shortens results once for many calls. Zero: never.
    std::int64_t clear_tool_results_at = 0;
    /// Names of beta features to enable: "context-1m-2025-08-07", ... (the anthropic-beta header).
    std::vector<std::string> betas = {};
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

/// The Messages API of Anthropic and of compatible servers. Copies are handles to the same provider. Any thread may
/// call any member.
///
///     auto anthropic = AnthropicProvider({.api_key = env("ANTHROPIC_API_KEY")});
///     Agent agent({.model = anthropic.model("claude-sonnet-4-5")});
///
/// A request contains what the caller set, what the API requires (max_tokens), and cache markers. A missing key is an
/// error of the first call.
class AnthropicProvider final : public HttpProvider {
public:
    /// Throws Error(invalid_argument) if `base_url` is not an http(s) URL.
    explicit AnthropicProvider(AnthropicOptions options);

    BoundModel model(std::string id) const;
    BoundModel model(Model model) const;
};

/// A model of Anthropic by the Messages API, with the key in ANTHROPIC_API_KEY; at ANTHROPIC_BASE_URL if that is set. Throws as the
/// constructor of AnthropicProvider does; a missing key is an error of the first call.
BoundModel anthropic_model(std::string id);

}  // namespace cubepi
