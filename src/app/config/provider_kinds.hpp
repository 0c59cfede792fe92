#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <cubepi/core/json.hpp>
#include <cubepi/provider/model_profile.hpp>
#include <cubepi/provider/provider.hpp>

// The protocols of model servers and the built-in providers: two tables. A new provider is a row in each.

namespace cubepi::app {

struct CallLimits;
struct Endpoint;

/// A protocol, with what the program must know of it besides its provider class.
struct ProviderKind {
    ModelApi api;
    std::string_view name;   ///< `type` in the configuration
    std::string_view title;  ///< tells it from another one of the same vendor; empty: needs none
    /// The path of a call of a model, after the address. Throws Error(invalid_argument) for an id that cannot be one.
    std::string (*call_path)(std::string_view model);
    std::string_view list_path;  ///< of the list of models
    std::string_view list_query;
    std::string_view key_header;      ///< the line that ends with the key
    std::string_view version_header;  ///< a line of each request; empty: none
    /// Whether a recorded request body is of this protocol.
    bool (*wrote)(const JsonObject& body, std::string_view provider_id);
    /// The query for the page that follows a page of the list; empty at its end.
    std::string (*next_page)(const JsonObject& page);
    BoundModel (*bind)(const Endpoint& endpoint, const std::string& id, const CallLimits& limits);
};

std::span<const ProviderKind> provider_kinds() noexcept;
const ProviderKind& provider_kind(ModelApi api) noexcept;
/// The protocol with this name in the configuration.
std::optional<ModelApi> provider_type(std::string_view name) noexcept;

/// A built-in provider.
struct KnownProvider {
    std::string_view name;
    std::string_view title;
    ModelApi type;
    std::string_view base_url;
    std::string_view key_variable;       ///< empty: needs no key
    std::string_view base_url_variable;  ///< empty: none
    std::string_view model;              ///< empty: taken from the list of the endpoint
    /// Searched for on the local machine if nothing is configured.
    bool local;
};

std::span<const KnownProvider> known_providers() noexcept;
const KnownProvider* known_provider(std::string_view name) noexcept;
/// The first provider with the same key: one service may have two protocols. Another name stands for itself.
std::string_view service_of(std::string_view name) noexcept;
/// True for the same provider, or two of one service.
inline bool same_service(std::string_view one, std::string_view other) noexcept {
    return service_of(one) == service_of(other);
}

/// An endpoint from `providers` of the configuration file. Empty members are not set.
struct ProviderConfig {
    std::string name = {};
    std::optional<ModelApi> type = {};
    std::string base_url = {};
    std::string api_key = {};
    std::string api_key_env = {};
    std::string model = {};  ///< the default model
    std::string thinking_tag = {};
};

/// Limits of one call of a model. Empty: the default of the endpoint.
struct CallLimits {
    std::optional<std::chrono::milliseconds> time = {};        ///< in total
    std::optional<std::chrono::milliseconds> first_byte = {};  ///< until the answer begins
    std::optional<std::chrono::milliseconds> idle = {};        ///< between parts of the answer
    std::optional<std::int64_t> max_tokens = {};
    bool has_fallbacks = false;  ///< another model is asked if this one fails for long
};

/// The sources of the settings of an endpoint, as readable text: a flag, a variable, a file. Empty: the default.
struct EndpointOrigin {
    std::string provider = {};
    std::string base_url = {};
    std::string api_key = {};
    std::string model = {};
};

/// A candidate key, with the addresses for which it is configured: it is sent only to their origins (scheme, host,
/// port).
struct OfferedKey {
    std::string key = {};
    std::string from = {};  ///< as EndpointOrigin::api_key
    std::string variable = {};
    std::vector<std::string> addresses = {};
};

/// Returns whether two URLs have the same scheme, host and port. False for invalid URLs.
bool same_origin(const std::string& one, const std::string& other);
/// Whether what is sent there can be read on the way: http to a host that is not this machine.
bool is_sent_in_clear(const std::string& url);

/// An endpoint for model calls, with everything needed to call it.
struct Endpoint {
    std::string provider = {};
    std::string title = {};  ///< "Ollama"; empty if the host is descriptive
    ModelApi type = ModelApi::openai_chat;
    std::string base_url = {};
    std::string api_key = {};
    std::string key_variable = {};  ///< the variable with the key; empty: none
    bool needs_key = false;         ///< calls without a key fail
    std::string model = {};         ///< empty: taken from the list of the endpoint
    bool model_named =
        false;  ///< the model was configured; otherwise it is the default of the endpoint
    std::string thinking_tag = {};  ///< OpenAIOptions::thinking_tag
    EndpointOrigin from = {};
    std::vector<OfferedKey> offered_keys = {};  ///< in the order of their precedence
    std::string withheld_key = {};  ///< source of a key that is for another address; empty: none

    /// Appends a candidate key. An empty one is ignored.
    void offer_key(OfferedKey key);
    /// Selects the first candidate key for this address, if any. Called after the last redirect().
    void bind_key();
    /// Warning about the key: that it was withheld, or that it is sent in plain text; empty: none.
    std::string key_note() const;

    bool is_elsewhere() const;  ///< not on the local machine, according to its name
    /// Host and port, without secrets.
    std::string host() const;
    /// The variable to check if the key is rejected; empty: it is in the configuration file.
    std::string variable_of_the_key() const;
    /// The provider id of messages from the endpoint: the provider, or the host if that is not the provider's own.
    std::string provider_id() const;
    /// Changes the address. The other server has other models and may need no key.
    void redirect(const std::string& url, std::string source);
    void name_model(const std::string& id, std::string source);
    /// Throws Error(invalid_argument), which names the source, if the address is invalid.
    void check_address() const;
    /// The model `id` of the endpoint, if the address is valid. Sends nothing.
    BoundModel bind(const std::string& id, const CallLimits& limits = {}) const;
};

/// The name of the configuration file among the origins.
inline constexpr const char* config_origin = "config.yaml";

using Environment = std::map<std::string, std::string>;

/// The endpoint of a known provider, with the settings of the environment.
Endpoint endpoint_of(const KnownProvider& known, const Environment& environment);
/// A configured endpoint. Unset members come from the known provider of its name, if there is one.
Endpoint endpoint_of(const ProviderConfig& config, const Environment& environment);

}  // namespace cubepi::app
