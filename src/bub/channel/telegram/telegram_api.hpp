#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include <cubepi/core/error.hpp>
#include <cubepi/core/json.hpp>
#include <cubepi/core/runtime.hpp>
#include <cubepi/core/task.hpp>

namespace bub::telegram {

using cubepi::Json;
using cubepi::JsonArray;
using cubepi::JsonObject;
using cubepi::Task;

/// The details of a failed call of the Bot API.
struct ApiFailure {
    int status = 0;  ///< of the response; 0: there was none, or it was not one of the Bot API
    std::string description = {};  ///< of the response
    std::optional<std::chrono::seconds> retry_after = {};
    std::optional<std::int64_t> migrated_to = {};  ///< the new id of the chat
    /// The service may have executed the call: the connection was lost after the request was sent, or the service failed.
    bool is_unsettled = false;

    /// The same call may succeed later: no connection, 429, or a failure of the service.
    bool is_transient() const noexcept { return status == 0 || status == 429 || status >= 500; }
    bool mentions(std::string_view words) const noexcept {
        return description.find(words) != std::string::npos;
    }
};

/// A failed call of the Bot API. `what()` never contains the token.
class ApiError : public cubepi::Error {
public:
    ApiError(cubepi::ErrorCode code, ApiFailure failure, const std::string& message)
        : Error(code, message), failure_(std::move(failure)) {}
    const ApiFailure& failure() const noexcept { return failure_; }

private:
    ApiFailure failure_;
};

/// A file to be sent.
struct UploadedFile {
    std::string field = {};  ///< the parameter: "photo", "document"
    std::string name = {};
    std::string mime_type = {};
    std::string bytes = {};
};

struct ApiOptions {
    std::string token = {};
    std::string base_url = "https://api.telegram.org";
    std::shared_ptr<const cubepi::Runtime> runtime = {};
};

/// The timeouts and limits of one call.
struct CallLimits {
    std::chrono::nanoseconds answer = std::chrono::seconds(30);  ///< until the response begins
    std::chrono::nanoseconds total = std::chrono::seconds(60);
    std::size_t max_response_bytes = 4 << 20;

    CallLimits() {}
};

/// A client of the Telegram Bot API (https://core.telegram.org/bots/api). Each call is one request, which is not retried. Failures
/// are ApiErrors. Immutable, so that any thread may use it.
class TelegramApi {
public:
    /// Throws Error(invalid_argument) for a token or address that is not one.
    explicit TelegramApi(ApiOptions options);

    /// Calls a method and returns the member `result`.
    Task<Json> call(std::string method, JsonObject parameters,
                    CallLimits limits = CallLimits()) const;
    /// Calls a method with a file as one of its parameters.
    Task<Json> upload(std::string method, JsonObject parameters, UploadedFile file) const;
    /// Returns a file that a user has sent. Throws Error(too_large) if it has more than `limit` bytes.
    Task<std::string> download(std::string file_id, std::size_t limit) const;

    /// Returns the text with the token replaced.
    std::string redacted(std::string text) const;

private:
    struct Response {
        int status = 0;
        std::string body = {};
    };
    Task<Json> exchange(std::string method, std::string body, std::string content_type,
                        CallLimits limits) const;
    Task<Response> request(std::string verb, std::string path, std::string body,
                           std::string content_type, CallLimits limits) const;
    [[noreturn]] void fail_without_response(const std::string& what,
                                            const std::exception_ptr& failure) const;
    Json result_of(const std::string& method, Response response) const;

    ApiOptions options_;
};

/// Calls a method whose failure has no consequence. Returns true if Telegram has accepted the call.
Task<bool> try_call(std::shared_ptr<const TelegramApi> api, std::string method,
                    JsonObject parameters);
Task<> ignore_result(Task<bool> call);

/// Answers a pressed button, with a text in a window if there is one (of which Telegram shows 200 characters). Telegram accepts that
/// for a short time only. Returns true if it has.
Task<bool> answer_press(std::shared_ptr<const TelegramApi> api, std::string callback_id,
                        std::string text);

/// Returns the failure of a call; nothing if the exception is of another kind.
std::optional<ApiFailure> api_failure(const std::exception_ptr& failure);

}  // namespace bub::telegram
