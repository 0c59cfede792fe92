#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

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

}  // namespace cubepi::app
