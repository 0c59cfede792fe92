#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <cubepi/provider/provider.hpp>

namespace cubepi::app {

/// What is spoken at an endpoint.
enum class ProviderType { openai, openai_responses, anthropic };

/// "openai", "openai-responses", "anthropic"
std::string_view name_of(ProviderType type) noexcept;
std::optional<ProviderType> provider_type(std::string_view name) noexcept;

/// An endpoint as the configuration file names it under `providers`. Empty members say nothing.
struct ProviderConfig {
    std::string name = {};
    std::optional<ProviderType> type = {};
    std::string base_url = {};
    std::string api_key = {};
    std::string api_key_env = {};
    std::string model = {};  ///< the one that is used when nobody names one
};

/// An endpoint that the program knows by itself.
struct KnownProvider {
    std::string_view name;
    std::string_view title;
    ProviderType type;
    std::string_view base_url;
    std::string_view key_variable;       ///< empty: needs no key
    std::string_view base_url_variable;  ///< empty: none
    std::string_view model;              ///< empty: the endpoint is asked what it has
    /// Looked for on this machine when nothing is configured.
    bool local;
};

const std::vector<KnownProvider>& known_providers();
const KnownProvider* known_provider(std::string_view name) noexcept;
/// The same provider, or two that take the same key: one service in two protocols.
bool same_service(std::string_view one, std::string_view other);

/// What a call of a model may take, all in all. Empty: as much as it wants.
struct CallLimits {
    std::optional<std::chrono::milliseconds> time = {};
    std::optional<std::int64_t> max_tokens = {};
};

/// Who said what an endpoint is made of, for people: a flag, a variable, a file. Empty: nobody, it is the usual.
struct EndpointOrigin {
    std::string provider = {};
    std::string base_url = {};
    std::string api_key = {};
    std::string model = {};
};

/// A key that could be used, and the addresses it was configured for: it is sent to their origins alone (scheme, host, port).
struct OfferedKey {
    std::string key = {};
    std::string from = {};  ///< as EndpointOrigin::api_key
    std::string variable = {};
    std::vector<std::string> addresses = {};
};

/// Whether two URLs have the same scheme, host and port. False for what is no URL.
bool same_origin(const std::string& one, const std::string& other);
/// Whether what is sent there can be read on the way: http to a host that is not this machine.
bool is_sent_in_clear(const std::string& url);

/// A place that answers model calls, with all that is needed to speak to it.
struct Endpoint {
    std::string provider = {};
    std::string title = {};  ///< "Ollama"; empty when the host says it
    ProviderType type = ProviderType::openai;
    std::string base_url = {};
    std::string api_key = {};
    std::string key_variable = {};  ///< where a key is looked for; empty: nowhere
    bool needs_key = false;         ///< nothing there answers without one
    std::string model = {};         ///< empty: the endpoint is asked what it has
    bool model_named = false;       ///< somebody named it; otherwise it is the endpoint's usual one
    EndpointOrigin from = {};
    std::vector<OfferedKey> offered_keys = {};  ///< in the order of their precedence
    std::string withheld_key =
        {};  ///< where a key came from that is for another address; empty: none

    /// Adds a key behind those that were offered before. An empty one is ignored.
    void offer_key(OfferedKey key);
    /// Takes the first key that was offered for this address; none otherwise. After the last redirect().
    void bind_key();
    /// What the user must know about the key: that one was withheld, or that it is sent in clear; empty: nothing.
    std::string key_note() const;

    bool is_elsewhere() const;  ///< not on this machine, as far as the name says
    /// Host and port, without what may be secret.
    std::string host() const;
    /// The variable to look at when the key is refused; empty: it is in the configuration file.
    std::string variable_of_the_key() const;
    /// What messages from there carry: the provider, or the host where that is not the provider's own.
    std::string provider_id() const;
    /// Sends the same to another server, which has other models and may want no key.
    void redirect(const std::string& url, std::string said_by);
    void name_model(const std::string& id, std::string said_by);
    /// Throws Error(invalid_argument) when the address cannot be one, and says who gave it.
    void check_address() const;
    /// `id` there, when the address can be one. Nothing is sent.
    BoundModel bind(const std::string& id, const CallLimits& limits = {}) const;
};

/// How the configuration file is called among the origins.
inline constexpr const char* config_origin = "config.yaml";

using Environment = std::map<std::string, std::string>;

/// The endpoint of a known provider as the environment has it.
Endpoint endpoint_of(const KnownProvider& known, const Environment& environment);
/// A configured one. What it leaves open comes from the known provider of its name, if there is one.
Endpoint endpoint_of(const ProviderConfig& config, const Environment& environment);

}  // namespace cubepi::app
