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
#include <cubepi/net/retry.hpp>

// Classification of failed model calls, shared by all providers.

namespace cubepi {

/// A failure as reported by the endpoint, before it is classified.
struct EndpointFailure {
    std::optional<int> status = {};  ///< HTTP status; absent for an error inside a stream
    std::string message = {};        ///< the text of the endpoint
    std::string code = {};           ///< its code, e.g. "insufficient_quota"
    std::string type = {};           ///< its kind, e.g. "invalid_request_error"
    std::string param = {};          ///< the part of the request, e.g. "messages[2].content"
    std::optional<double> retry_after = {};  ///< seconds; of a header, else of the body
};

/// Reads the body of a failed answer: `{"error": {...}}`, `{"error": "..."}`, `{"message": ...}`,
/// `{"detail": ...}`, HTML, plain text. Long texts are cut. `hints` are those of the headers.
EndpointFailure read_endpoint_failure(int status, const HttpHeaders& headers, std::string_view body,
                                      const RetryHints& hints = RetryHints());
/// ErrorInfo::message of a response that is a web page (HTML), such as a proxy or a login form returns.
inline constexpr std::string_view web_page_text =
    "the address answered with a web page instead of the API; check the base URL";
bool is_web_page(const HttpHeaders& headers, std::string_view body);
/// Throws the ProviderError of a response with this status that is a web page although it reports success.
[[noreturn]] void throw_web_page(int status);
/// Reads an error object that was received inside a stream.
EndpointFailure read_stream_failure(const Json& error);

/// `prompt_tokens`: an estimate for the prompt; needed to recognize a prompt that is too long if the endpoint only
/// reports "bad request".
ErrorInfo classify_failure(const EndpointFailure& failure,
                           std::optional<std::int64_t> context_window,
                           std::optional<std::int64_t> prompt_tokens);

/// Returns whether the endpoint reports that the conversation exceeds the model's context window (D87): status, code, type and
/// parameter decide before the text, and neither a rate limit nor a refused parameter is an overflow.
bool is_context_overflow(const EndpointFailure& failure);

/// Returns whether a rate limit lasts longer than minutes: a quota, a balance, a limit of the day, or a request that exceeds it alone.
bool is_lasting_limit(const EndpointFailure& failure);
/// Returns the seconds after which a text asks to retry: "Please try again in 6.5s", "retry after 26 seconds", "请在 2 秒后重试".
std::optional<double> delay_in_text(std::string_view text);

/// Classifies a network failure. The error keeps its `code()`: dns, connect, tls, proxy, timeout, disconnected,
/// protocol; its type is ProviderUnavailable, which CubePi uses for all of them.
ErrorInfo classify_exception(const std::exception_ptr& failure);

/// The class name of a code: "RateLimited", "ProviderUnavailable", ...
std::string_view error_type_of(ErrorCode code) noexcept;

/// Returns whether to retry after an error that was received inside a stream before any content.
bool is_transient(ErrorCode code) noexcept;

/// The end of the text of a stream that was silent for too long (D16).
inline constexpr std::string_view idle_timeout_mark = "(idle timeout)";
/// Returns whether a failure in the middle of an answer is temporary, so that the call may succeed when it is made again (D15): a lost
/// connection, silence, an unavailable server, or a rate limit that ends within a minute.
bool is_temporary_cut(const ErrorInfo& info);

/// Returns whether an endpoint rejected a request because of an image in it, or because it takes no images, or with a status of 400,
/// 415 or 422 for which it states no other cause (D89).
bool refuses_image(const EndpointFailure& failure);
/// Returns whether the words of such a rejection name an image, so that it is known to be the cause.
bool names_image(const EndpointFailure& failure);
/// Returns whether it rejected the request because of thinking of earlier answers, which it did not sign or cannot decrypt.
bool refuses_thinking(const EndpointFailure& failure);

/// Estimates the tokens of the text in a prompt as a quarter of its characters; absent if there is no text.
std::optional<std::int64_t> estimate_prompt_tokens(const MessageList& messages);

/// Describes a failure for the user of a program, to follow the name of a model: "is unavailable (HTTP 503: overloaded)". `text`
/// is described if the failure has no message.
std::string plain_failure(const ErrorInfo& info, std::string_view text);

/// "[provider/model @ base_url] Type: message"
std::string failure_text(const Model& model, std::string_view base_url, const ErrorInfo& info,
                         std::string_view message);

/// Removes the parts of a URL that may be secret: user, password, query.
std::string public_url(std::string_view url);
/// `text` with each occurrence of `secret` replaced (D58), also where characters of it are escaped as in JSON ("\/", "\u002f")
/// or percent-encoded. A secret of fewer than six characters is not replaced.
std::string without_secret(std::string text, std::string_view secret);

}  // namespace cubepi
