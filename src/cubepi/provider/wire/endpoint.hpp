#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <cubepi/core/http_transport.hpp>
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
/// The `extra_headers` of a provider.
using ExtraHeaders = std::vector<std::pair<std::string, std::string>>;
/// A streaming POST of JSON, without a key.
HttpRequest json_post(std::string url);
/// Adds the headers to a request. Returns whether one of them holds a key.
bool add_headers(HttpRequest& request, const ExtraHeaders& headers);
/// Returns the headers of a request that hold keys, or all others.
ExtraHeaders headers_with_keys(const HttpRequest& request);
HttpHeaders headers_without_keys(const HttpRequest& request);
/// Removes the keys in the headers from `text`, also without their scheme ("Bearer").
std::string without_header_secrets(std::string text, const ExtraHeaders& headers);
/// Throws ProviderError (auth) with the remedies: the environment variable, or `option`, "OpenAIOptions::api_key".
[[noreturn]] void throw_missing_key(std::string_view host, std::string_view variable,
                                    std::string_view option);
/// Merges a member `extra_body`, which hooks may set as in CubePi, into the body.
void unfold_extra_body(JsonObject& body);

}  // namespace cubepi::detail
