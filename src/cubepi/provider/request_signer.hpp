#pragma once

#include <cubepi/core/detail/async_function.hpp>
#include <cubepi/core/http_transport.hpp>

namespace cubepi {

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

}  // namespace cubepi
