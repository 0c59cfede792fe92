#include <bub/channel/telegram/telegram_api.hpp>

#include <algorithm>
#include <cctype>
#include <utility>

#include <cubepi/core/cancellation.hpp>
#include <cubepi/core/http_transport.hpp>
#include <cubepi/core/outcome.hpp>
#include <cubepi/core/support/error_code_of.hpp>
#include <cubepi/core/support/json_member.hpp>
#include <cubepi/core/support/random_word.hpp>
#include <cubepi/net/http_client.hpp>
#include <cubepi/net/utf8.hpp>
#include <cubepi/schema/json_text.hpp>

namespace bub::telegram {

namespace {

using cubepi::Error;
using cubepi::ErrorCode;
using cubepi::HttpRequest;
using cubepi::HttpResponse;
using cubepi::Outcome;

bool is_token(std::string_view token) {
    return !token.empty() && std::all_of(token.begin(), token.end(), [](unsigned char c) {
        return std::isalnum(c) != 0 || c == ':' || c == '_' || c == '-';
    });
}

void replace_all(std::string& text, std::string_view word, std::string_view by) {
    for (std::size_t at = text.find(word); at != std::string::npos; at = text.find(word, at)) {
        text.replace(at, word.size(), by);
        at += by.size();
    }
}

/// Returns true for failures before the request was sent completely.
bool is_unsent(const std::exception_ptr& failure) {
    try {
        std::rethrow_exception(failure);
    } catch (const cubepi::TimeoutError& error) {
        return error.timeout() == "connect";
    } catch (const Error& error) {
        switch (error.code()) {
            case ErrorCode::dns:
            case ErrorCode::connect:
            case ErrorCode::tls:
            case ErrorCode::proxy:
            case ErrorCode::invalid_argument: return true;
            default: return false;
        }
    } catch (...) {
        return false;
    }
}

ErrorCode code_for(int status) {
    switch (status) {
        case 401:
        case 404: return ErrorCode::auth;
        case 403: return ErrorCode::permission_denied;
        case 409: return ErrorCode::busy;
        case 429: return ErrorCode::rate_limited;
        default: return status >= 500 ? ErrorCode::unavailable : ErrorCode::bad_request;
    }
}

std::string new_boundary() {
    std::string boundary = "cubepi";
    for (int words = 0; words < 2; ++words)
        boundary += std::to_string(cubepi::detail::random_word());
    return boundary;
}

std::string header_text(std::string text) {
    std::replace_if(
        text.begin(), text.end(), [](char c) { return c == '"' || c == '\r' || c == '\n'; }, '_');
    return text;
}

std::string form_text(const Json& value) {
    return value.is_string() ? std::string(value.get_string()) : cubepi::json_text(value);
}

/// A form of RFC 7578.
std::string multipart(const std::string& boundary, const JsonObject& parameters,
                      const UploadedFile& file) {
    std::string form;
    const std::string begin = "--" + boundary + "\r\nContent-Disposition: form-data; name=\"";
    for (const auto& [name, value] : parameters)
        form += begin + std::string(name) + "\"\r\n\r\n" + form_text(value) + "\r\n";
    form += begin + file.field + "\"; filename=\"" + header_text(file.name) +
            "\"\r\nContent-Type: " + header_text(file.mime_type) + "\r\n\r\n";
    form += file.bytes;
    form += "\r\n--" + boundary + "--\r\n";
    return form;
}

/// Encodes the characters of a path that are not allowed in a URL.
std::string url_path(std::string_view path) {
    constexpr char digits[] = "0123456789ABCDEF";
    std::string encoded;
    for (const char c : path) {
        const auto byte = static_cast<unsigned char>(c);
        if (std::isalnum(byte) != 0 ||
            std::string_view("-._~/").find(c) != std::string_view::npos) {
            encoded += c;
        } else {
            encoded += {'%', digits[byte >> 4U], digits[byte & 15U]};
        }
    }
    return encoded;
}

Task<std::string> read_body(std::unique_ptr<cubepi::HttpBody> body) {
    std::string text;
    for (bool more = true; more;) more = co_await body->read(text);
    co_return text;
}

ApiFailure failure_of(const JsonObject& answer, int status) {
    ApiFailure failure;
    failure.status =
        static_cast<int>(cubepi::detail::integer_member(answer, "error_code").value_or(status));
    failure.description = cubepi::detail::text_member(answer, "description");
    failure.is_unsettled = failure.status >= 500;
    const JsonObject* const details = cubepi::detail::object_member(answer, "parameters");
    if (!details) return failure;
    if (const auto delay = cubepi::detail::integer_member(*details, "retry_after"))
        failure.retry_after = std::chrono::seconds(std::clamp<std::int64_t>(*delay, 1, 3600));
    failure.migrated_to = cubepi::detail::integer_member(*details, "migrate_to_chat_id");
    return failure;
}

}  // namespace

TelegramApi::TelegramApi(ApiOptions options) : options_(std::move(options)) {
    if (!is_token(options_.token)) {
        throw Error(ErrorCode::invalid_argument,
                    options_.token.empty()
                        ? "the channel telegram needs a bot token; @BotFather in Telegram makes one"
                        : "the bot token has characters that no token has; copy it again from "
                          "@BotFather in Telegram");
    }
    if (!options_.base_url.starts_with("http://") && !options_.base_url.starts_with("https://"))
        throw Error(ErrorCode::invalid_argument,
                    "the address of the Bot API must begin with https:// or http://");
    while (options_.base_url.ends_with('/')) options_.base_url.pop_back();
    if (!options_.runtime) options_.runtime = cubepi::Runtime::standard();
}

std::string TelegramApi::redacted(std::string text) const {
    replace_all(text, options_.token, "<token>");
    const std::size_t colon = options_.token.find(':');
    // A URL may be encoded, and a part of it be quoted.
    const std::string secret =
        colon == std::string::npos ? std::string() : options_.token.substr(colon + 1);
    if (secret.size() >= 8) replace_all(text, secret, "<token>");
    return text;
}

void TelegramApi::fail_without_response(const std::string& what,
                                        const std::exception_ptr& failure) const {
    if (cubepi::is_cancellation(failure)) std::rethrow_exception(failure);
    ApiFailure details;
    details.is_unsettled = !is_unsent(failure);
    const ErrorCode code = cubepi::detail::error_code_of(failure);
    throw ApiError(code == ErrorCode::unknown ? ErrorCode::disconnected : code, std::move(details),
                   what + ": " + redacted(cubepi::exception_text(failure)));
}

Task<TelegramApi::Response> TelegramApi::request(std::string verb, std::string path,
                                                 std::string body, std::string content_type,
                                                 CallLimits limits) const {
    HttpRequest request(std::move(verb), options_.base_url + path);
    if (!content_type.empty()) {
        request.body = std::move(body);
        request.headers.set("content-type", std::move(content_type));
    }
    request.timeouts.first_byte = limits.answer;
    request.timeouts.total = limits.total;
    request.max_response_bytes = limits.max_response_bytes;
    const std::shared_ptr<cubepi::HttpTransport> transport =
        cubepi::transport_of(*options_.runtime);
    HttpResponse response = co_await transport->send(std::move(request));
    Response received;
    received.status = response.status;
    received.body = co_await read_body(std::move(response.body));
    co_return received;
}

Json TelegramApi::result_of(const std::string& method, Response response) const {
    boost::system::error_code failed;
    Json parsed = boost::json::parse(response.body, failed);
    const JsonObject* const answer = failed ? nullptr : parsed.if_object();
    const Json* const ok = answer ? answer->if_contains("ok") : nullptr;
    if (!ok || !ok->is_bool()) {
        ApiFailure failure;
        failure.is_unsettled = true;
        throw ApiError(ErrorCode::protocol, std::move(failure),
                       "Telegram's answer to " + method + " is not one of the Bot API (HTTP " +
                           std::to_string(response.status) + "); check the address and the proxy");
    }
    if (ok->get_bool()) {
        const Json* const result = answer->if_contains("result");
        return result ? *result : Json();
    }
    ApiFailure failure = failure_of(*answer, response.status);
    failure.description = redacted(cubepi::replace_broken_utf8(failure.description));
    const int status = failure.status;
    std::string text =
        "Telegram rejected " + method + " (" + std::to_string(status) + "): " + failure.description;
    throw ApiError(code_for(status), std::move(failure), text);
}

Task<Json> TelegramApi::exchange(std::string method, std::string body, std::string content_type,
                                 CallLimits limits) const {
    std::string path = "/bot" + options_.token + "/" + method;
    Task<Response> requesting =
        request("POST", std::move(path), std::move(body), std::move(content_type), limits);
    Outcome<Response> response = co_await cubepi::outcome_of(std::move(requesting));
    if (!response) fail_without_response("Telegram did not answer " + method, response.failure());
    co_return result_of(method, std::move(response).value());
}

Task<Json> TelegramApi::call(std::string method, JsonObject parameters, CallLimits limits) const {
    std::string body = cubepi::json_text(parameters);
    return exchange(std::move(method), std::move(body), "application/json", limits);
}

Task<Json> TelegramApi::upload(std::string method, JsonObject parameters, UploadedFile file) const {
    const std::string boundary = new_boundary();
    std::string form = multipart(boundary, parameters, file);
    CallLimits limits;
    limits.answer = std::chrono::minutes(5);
    limits.total = std::chrono::minutes(10);
    return exchange(std::move(method), std::move(form), "multipart/form-data; boundary=" + boundary,
                    limits);
}

Task<std::string> TelegramApi::download(std::string file_id, std::size_t limit) const {
    JsonObject parameters;
    parameters["file_id"] = std::move(file_id);
    const Json file = co_await call("getFile", std::move(parameters));
    const std::string path = file.is_object()
                                 ? cubepi::detail::text_member(file.get_object(), "file_path")
                                 : std::string();
    if (path.empty()) throw Error(ErrorCode::not_found, "Telegram does not have the file any more");
    CallLimits limits;
    limits.total = std::chrono::minutes(5);
    limits.max_response_bytes = limit;
    Task<Response> requesting = request("GET", "/file/bot" + options_.token + "/" + url_path(path),
                                        std::string(), {}, limits);
    Outcome<Response> received = co_await cubepi::outcome_of(std::move(requesting));
    if (!received) fail_without_response("could not download a file", received.failure());
    Response response = std::move(received).value();
    if (response.status != 200) {
        ApiFailure failure;
        failure.status = response.status;
        throw ApiError(code_for(response.status), std::move(failure),
                       "could not download a file: HTTP " + std::to_string(response.status));
    }
    co_return std::move(response.body);
}

Task<bool> try_call(std::shared_ptr<const TelegramApi> api, std::string method,
                    JsonObject parameters) {
    Task<Json> calling = api->call(std::move(method), std::move(parameters));
    const Outcome<Json> done = co_await cubepi::outcome_of(std::move(calling));
    if (done.cancelled()) done.rethrow();
    co_return static_cast<bool>(done);
}

Task<> ignore_result(Task<bool> call) { (void)co_await std::move(call); }

Task<bool> answer_press(std::shared_ptr<const TelegramApi> api, std::string callback_id,
                        std::string text) {
    JsonObject parameters;
    parameters["callback_query_id"] = std::move(callback_id);
    if (!text.empty()) {
        parameters["text"] = std::move(text);
        parameters["show_alert"] = true;
    }
    return try_call(std::move(api), "answerCallbackQuery", std::move(parameters));
}

std::optional<ApiFailure> api_failure(const std::exception_ptr& failure) {
    if (!failure) return std::nullopt;
    try {
        std::rethrow_exception(failure);
    } catch (const ApiError& error) {
        return error.failure();
    } catch (...) {
        return std::nullopt;
    }
}

}  // namespace bub::telegram
