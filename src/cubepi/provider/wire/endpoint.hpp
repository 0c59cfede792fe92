#pragma once

#include <chrono>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <cubepi/core/http_transport.hpp>
#include <cubepi/net/retry.hpp>
#include <cubepi/provider/http_provider.hpp>

// Addresses, keys and headers of endpoints, shared by all providers.

namespace cubepi::detail {

/// The `extra_headers` of a provider.
using ExtraHeaders = std::vector<std::pair<std::string, std::string>>;
/// Returns the headers of a request that hold keys, or all others.
ExtraHeaders headers_with_keys(const HttpRequest& request);
HttpHeaders headers_without_keys(const HttpRequest& request);
/// Removes the keys in the headers from `text`, also without their scheme ("Bearer").
std::string without_header_secrets(std::string text, const ExtraHeaders& headers);
/// The head of a response, for on_response.
ProviderResponse response_head(const HttpResponse& response);

/// The timeouts of a call (D16). Zero: off.
struct CallTimeouts {
    HttpTimeouts http{};
    std::chrono::nanoseconds idle = std::chrono::seconds(120);  ///< between events with content
};

/// Address, keys and headers of a vendor's endpoint, and the options that all providers have: retries, timeouts, a signer.
class Endpoint {
public:
    /// The part that differs between vendors.
    struct Vendor {
        std::string name =
            {};  ///< for error messages: "OpenAI" of OpenAIProvider and OpenAIOptions
        std::string key_variable = {};  ///< the environment variable with the key
        ExtraHeaders headers = {};      ///< of each request, with the key
        std::string ignored_path =
            {};  ///< at the end of a base URL, as those of other vendors have: "/v1"
    };

    /// Uses the members of an options struct. Throws Error(invalid_argument) if its `base_url` is not an http(s) URL.
    template <class Options>
    Endpoint(Vendor vendor, const Options& options)
        : Endpoint(std::move(vendor), options.base_url, options.extra_headers) {
        timeouts_.http.connect = options.connect_timeout;
        timeouts_.http.first_byte = options.first_byte_timeout;
        timeouts_.http.total = options.total_timeout;
        timeouts_.idle = options.idle_timeout;
        retry_ = options.retry;
        keys_.push_back(options.api_key);
        if constexpr (requires { options.auth_token; }) keys_.push_back(options.auth_token);
        if constexpr (requires { options.sign_request; }) signer_ = options.sign_request;
    }

    /// A streaming POST of JSON below the base URL, before its query (Azure's api-version). Throws ProviderError if a
    /// required key is missing: servers on this machine or in a private network often need none.
    HttpRequest post(std::string_view path) const;
    /// In lower case, without the port.
    const std::string& host() const noexcept { return host_; }
    /// The base URL without secrets.
    const std::string& shown_url() const noexcept { return shown_url_; }
    const CallTimeouts& timeouts() const noexcept { return timeouts_; }
    const RetryPolicy& retry() const noexcept { return retry_; }
    /// Completes each request; may be empty.
    const RequestSigner& signer() const noexcept { return signer_; }
    /// `text` without the endpoint's keys (D58).
    std::string without_secrets(std::string text) const;

private:
    Endpoint(Vendor vendor, std::string base_url, ExtraHeaders extra_headers);

    Vendor vendor_;
    std::string base_url_;
    std::vector<std::string> keys_;
    ExtraHeaders extra_headers_;
    std::string host_;
    std::string shown_url_;
    CallTimeouts timeouts_;
    RetryPolicy retry_;
    RequestSigner signer_;
};

/// OpenAI and compatible servers, whose key is a bearer token. `name` as in Endpoint::Vendor.
Endpoint::Vendor openai_vendor(std::string name, const std::string& key);

}  // namespace cubepi::detail
