#include "sent_files.hpp"

#include <charconv>
#include <cstdint>
#include <utility>

#include <cubepi/core/outcome.hpp>
#include <cubepi/core/support/percent_decoded.hpp>

#include "admin_routes.hpp"

namespace cubepi::app {

namespace {

/// Each may have as many bytes as a file of a session.
constexpr std::size_t most_requests = 12;
constexpr std::size_t longest_session = 1'024;

/// Nothing in a file runs, or loads anything, also if it is opened by itself.
constexpr const char* file_policy = "default-src 'none'; sandbox; frame-ancestors 'none'";

std::string ascii_name(std::string_view name) {
    std::string plain;
    for (const char c : name) {
        const bool is_plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
                              (c >= '0' && c <= '9') || c == '.' || c == '-' || c == '_';
        plain += is_plain ? c : '_';
    }
    return plain.empty() ? "file" : plain;
}

std::int64_t number_of(std::string_view text) {
    std::int64_t value = -1;
    const char* const last = text.data() + text.size();
    const auto [end, failed] = std::from_chars(text.data(), last, value);
    return failed == std::errc() && end == last ? value : -1;
}

using Secure = std::function<HttpServerResponse(HttpServerResponse)>;

Task<HttpServerResponse> answer(Task<SentFile> reading, Secure secure) {
    Outcome<SentFile> read = co_await outcome_of(std::move(reading));
    if (read.cancelled()) read.rethrow();
    HttpServerResponse response;
    const bool is_read = static_cast<bool>(read);
    if (is_read) {
        SentFile file = std::move(read).value();
        response = file_response(file.name, std::move(file.bytes));
    } else {
        response = failure_response(read.failure());
    }
    response.headers.set("cache-control", "no-store");
    response.headers.set("x-content-type-options", "nosniff");
    if (secure) response = secure(std::move(response));
    if (is_read) response.headers.set("content-security-policy", file_policy);
    co_return response;
}

Task<HttpServerResponse> answer_file(GatewayApi* api, HttpServerRequest request, Secure secure) {
    std::string session(request.parameter("id").substr(0, longest_session));
    std::string file(request.parameter("file"));
    Task<SentFile> reading = api->sent_file(std::move(session), std::move(file));
    Task<HttpServerResponse> answering = answer(std::move(reading), std::move(secure));
    co_return co_await std::move(answering);
}

Task<HttpServerResponse> answer_image(GatewayApi* api, HttpServerRequest request, Secure secure) {
    std::string session(request.parameter("id").substr(0, longest_session));
    const std::int64_t entry = number_of(request.parameter("entry"));
    const std::int64_t number = number_of(request.parameter("number"));
    Task<SentFile> reading = api->image(std::move(session), entry, number);
    Task<HttpServerResponse> answering = answer(std::move(reading), std::move(secure));
    co_return co_await std::move(answering);
}

}  // namespace

std::string_view shown_image_type(std::string_view bytes) {
    using namespace std::string_view_literals;
    if (bytes.starts_with("\x89PNG\r\n\x1a\n"sv)) return "image/png";
    if (bytes.starts_with("\xff\xd8\xff"sv)) return "image/jpeg";
    if (bytes.starts_with("GIF87a"sv) || bytes.starts_with("GIF89a"sv)) return "image/gif";
    if (bytes.starts_with("RIFF"sv) && bytes.size() >= 12 && bytes.substr(8, 4) == "WEBP"sv)
        return "image/webp";
    return {};
}

HttpServerResponse file_response(std::string_view name, std::string bytes) {
    const std::string_view type = shown_image_type(bytes);
    const bool is_image = !type.empty();
    HttpServerResponse response(200, std::move(bytes),
                                std::string(is_image ? type : "application/octet-stream"));
    response.headers.set("content-disposition", std::string(is_image ? "inline" : "attachment") +
                                                    "; filename=\"" + ascii_name(name) +
                                                    "\"; filename*=UTF-8''" +
                                                    detail::percent_encoded(name));
    return response;
}

void add_file_routes(HttpRoutes& routes, GatewayApi& api, const std::string& prefix,
                     Secure secure) {
    const std::string path = prefix + "/v1/admin/sessions/{id}";
    routes.add(
        "GET", path + "/files/{file}",
        [&api, secure](HttpServerRequest request) {
            return answer_file(&api, std::move(request), secure);
        },
        most_requests);
    routes.add(
        "GET", path + "/images/{entry}/{number}",
        [&api, secure](HttpServerRequest request) {
            return answer_image(&api, std::move(request), secure);
        },
        most_requests);
}

}  // namespace cubepi::app
