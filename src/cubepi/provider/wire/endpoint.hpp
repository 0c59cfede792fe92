#pragma once

#include <string>
#include <string_view>

#include <cubepi/core/json.hpp>

// Addresses and headers of endpoints, shared by all providers.

namespace cubepi::detail {

/// Throws Error(invalid_argument) if `base_url` is not an http(s) URL. `provider` is for the message:
/// "OpenAIProvider".
void require_http_url(std::string_view provider, std::string_view base_url);
/// The host in lower case, without the port.
std::string host_of(std::string_view url);
/// True for a server on this machine or in a private network, which often needs no key.
bool is_near(std::string_view host);
/// Inserts a path into `base_url`, before its query (Azure's api-version).
std::string url_below(std::string_view base_url, std::string_view path);
/// Returns whether a header of this name holds a secret.
bool carries_key(std::string_view header);
/// Removes the value of such a header from `text`, also without its scheme ("Bearer").
std::string without_header_secret(std::string text, std::string_view value);
/// Merges a member `extra_body`, which hooks may set as in CubePi, into the body.
void unfold_extra_body(JsonObject& body);

}  // namespace cubepi::detail
