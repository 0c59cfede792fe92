#pragma once

#include <cstdint>
#include <exception>
#include <optional>
#include <string>
#include <string_view>

#include <cubepi/core/error.hpp>
#include <cubepi/core/http_transport.hpp>
#include <cubepi/core/json.hpp>
#include <cubepi/core/message_list.hpp>
#include <cubepi/core/model.hpp>

// What a failed model call means, the same for all providers.

namespace cubepi {

/// A failure as the endpoint told it, before it is classified.
struct EndpointFailure {
    std::optional<int> status = {};          ///< HTTP status; absent for an error inside a stream
    std::string message = {};                ///< the endpoint's own words
    std::string code = {};                   ///< its code, e.g. "insufficient_quota"
    std::string type = {};                   ///< its kind, e.g. "invalid_request_error"
    std::optional<double> retry_after = {};  ///< seconds
};

/// Reads the body of a failed answer: `{"error": {...}}`, `{"error": "..."}`, `{"message": ...}`,
/// `{"detail": ...}`, HTML, plain text. Long texts are cut.
EndpointFailure read_endpoint_failure(int status, const HttpHeaders& headers,
                                      std::string_view body);
/// Reads an error object that came inside a stream.
EndpointFailure read_stream_failure(const Json& error);

/// `prompt_tokens`: an estimate of the prompt; needed to recognise a prompt that is too long when the endpoint
/// only says "bad request".
ErrorInfo classify_failure(const EndpointFailure& failure,
                           std::optional<std::int64_t> context_window,
                           std::optional<std::int64_t> prompt_tokens);

/// What the network did. `code()` of the error is kept: dns, connect, tls, proxy, timeout, disconnected, protocol;
/// the type is ProviderUnavailable, as CubePi has one for all of them.
ErrorInfo classify_exception(const std::exception_ptr& failure);

/// The class name that goes with a code: "RateLimited", "ProviderUnavailable", ...
std::string_view error_type_of(ErrorCode code) noexcept;

/// Whether an error that came inside a stream, before any content, is worth another try.
bool is_transient(ErrorCode code) noexcept;

/// Tokens of the text in a prompt, a quarter of its characters; absent when there is none.
std::optional<std::int64_t> estimate_prompt_tokens(const MessageList& messages);

/// "[provider/model @ base_url] Type: message"
std::string failure_text(const Model& model, std::string_view base_url, const ErrorInfo& info,
                         std::string_view message);

/// A URL without what may be secret: user, password, query.
std::string public_url(std::string_view url);
/// `text` with each occurrence of `secret` replaced (D58), also where characters of it are escaped as in JSON ("\/", "\u002f")
/// or percent-encoded. A secret of under six characters is left alone.
std::string without_secret(std::string text, std::string_view secret);

}  // namespace cubepi
