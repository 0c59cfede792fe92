#pragma once

#include <optional>
#include <string>
#include <vector>

#include <cubepi/core/json.hpp>

#include "../config/endpoint.hpp"

namespace cubepi::app {

/// The request of a model call, as its span recorded it.
class RecordedRequest {
public:
    /// `attributes` are those of the span, which must outlive the object. Throws Error(not_found) if neither the body nor
    /// the messages were recorded.
    explicit RecordedRequest(const JsonObject& attributes);

    /// "anthropic", "openai", ...; text of the trace. Empty: not recorded.
    const std::string& provider() const noexcept { return provider_; }
    /// The API of the recorded body; empty if there is none, or none of a vendor.
    std::optional<ProviderType> api() const noexcept { return api_; }

    /// A request as the body for an API.
    struct Body {
        JsonObject json = {};
        std::vector<std::string> notes = {};  ///< differences from the call that was made
    };
    /// Returns the recorded body, if it is of this API, else one that is encoded from the recorded messages, system prompt and
    /// tools. Throws Error(not_found) if these were not recorded.
    Body body(ProviderType type) const;

private:
    Body encoded(ProviderType type) const;

    const JsonObject& attributes_;
    std::string provider_;
    JsonObject body_;
    std::optional<ProviderType> api_;
};

}  // namespace cubepi::app
