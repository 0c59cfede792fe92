#pragma once

#include <string>
#include <string_view>

#include <cubepi/core/json.hpp>

// Addresses and headers of endpoints, the same for all providers.

namespace cubepi::detail {

/// Throws Error(invalid_argument) when `base_url` is not an http(s) URL. `provider` is for the text: "OpenAIProvider".
void require_http_url(std::string_view provider, std::string_view base_url);
/// In lower case, without port.
std::string host_of(std::string_view url);
/// A server on this machine or in the private network, which often wants no key.
bool is_near(std::string_view host);
/// `base_url` with a path behind it and in front of its query (Azure's api-version).
std::string url_below(std::string_view base_url, std::string_view path);
/// Whether a header of this name holds a secret.
bool carries_key(std::string_view header);
/// `text` without the value of such a header, and without what follows the scheme in it.
std::string without_header_secret(std::string text, std::string_view value);
/// A hook may leave an `extra_body` in a body as CubePi's do: its members belong to the body.
void unfold_extra_body(JsonObject& body);

}  // namespace cubepi::detail
