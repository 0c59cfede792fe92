#pragma once

#include <memory>
#include <string>

#include <cubepi/core/detail/async_function.hpp>
#include <cubepi/core/http_transport.hpp>
#include <cubepi/provider/base_provider.hpp>
#include <cubepi/provider/model_profile.hpp>

// The common part of the providers of HTTP endpoints: keys, signed requests, previews of requests.

namespace cubepi {

/// The environment variable `name`, empty when it is not set.
std::string env(const char* name);

namespace detail {
CUBEPI_DETAIL_SLOT(
    sign_request,
    "a request signer must be callable as void (HttpRequest& request); it may return a "
    "Task<void>")
}  // namespace detail

/// Completes each request of a provider right before it is sent, also that of a retry: sets the headers of a key that
/// expires, or signs method, URL and body, which are final. It may be a coroutine, and an instance may be called for several
/// requests at once. An exception ends the call; its error names `sign_request`. Texts of errors do not contain the values of
/// headers that hold keys.
///
///     OpenAIProvider openai({.sign_request = [](HttpRequest& request) -> Task<void> {
///         std::string token = co_await fresh_token();
///         request.headers.set("authorization", "Bearer " + token);
///     }});
using RequestSigner = detail::AsyncFunction<void(HttpRequest& request), detail::sign_request_slot>;

/// Optional interface of a provider that can show a request without sending it.
class RequestPreview {
public:
    virtual ~RequestPreview() = default;
    /// Returns the body as it would be sent, with the notices about it. The hook `on_payload` is not called. Throws
    /// like a call that fails before anything is sent. Any thread may call it.
    virtual PayloadPreview preview(const ModelRequest& request) const = 0;
};

/// Returns the whole body of a call without sending it. Throws Error(unsupported) if the provider cannot show it,
/// Error(invalid_argument) if the model has no provider.
PayloadPreview preview_request(const BoundModel& model, MessageList messages,
                               SharedString system_prompt = {},
                               std::shared_ptr<const ToolDefinitions> tools = {},
                               StreamOptions options = {});

namespace detail {
class WireProtocol;
}

/// The provider of an API over HTTP. Copies are handles to the same provider. Any thread may call any member.
class HttpProvider : public BaseProvider, public RequestPreview {
public:
    MessageStream stream(ModelRequest request) override;
    PayloadPreview preview(const ModelRequest& request) const override;
    bool takes_response_format(const Model& model) const override;

protected:
    HttpProvider(std::string provider_id, std::shared_ptr<const detail::WireProtocol> protocol);
    static Model model_named(std::string id);

private:
    std::shared_ptr<const detail::WireProtocol> protocol_;
};

}  // namespace cubepi
