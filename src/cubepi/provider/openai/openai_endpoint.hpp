#pragma once

#include <string>
#include <string_view>

#include <cubepi/core/http_transport.hpp>
#include <cubepi/provider/wire/endpoint.hpp>
#include <cubepi/provider/wire/wire_protocol.hpp>

namespace cubepi::detail {

/// Address, key and headers of an OpenAI-compatible endpoint, shared by all of its APIs.
class OpenAIEndpoint {
public:
    /// Uses the members of an options struct. `name` is for error messages: "OpenAI" of OpenAIProvider and
    /// OpenAIOptions. Throws Error(invalid_argument) if `base_url` is not an http(s) URL.
    template <class Options>
    OpenAIEndpoint(std::string_view name, const Options& options)
        : OpenAIEndpoint(name, options.base_url, options.api_key, options.extra_headers) {
        timeouts_ = timeouts_of(options);
        if constexpr (requires { options.sign_request; })
            is_signed_ = static_cast<bool>(options.sign_request);
    }

    /// A streaming POST below the base URL. Throws ProviderError if a required key is missing.
    HttpRequest post(std::string_view path) const;
    /// True for OpenAI's own endpoint, also at Azure; false for compatible servers.
    bool is_openai() const noexcept;
    /// Removes secrets.
    const std::string& shown_url() const noexcept { return shown_url_; }
    const CallTimeouts& timeouts() const noexcept { return timeouts_; }
    std::string without_secrets(std::string text) const;

private:
    OpenAIEndpoint(std::string_view name, std::string base_url, std::string api_key,
                   ExtraHeaders extra_headers);

    std::string name_;
    std::string base_url_;
    std::string api_key_;
    ExtraHeaders extra_headers_;
    std::string host_;
    std::string shown_url_;
    CallTimeouts timeouts_;
    bool is_signed_ = false;  ///< each request gets its key later
};

}  // namespace cubepi::detail
