#include <cubepi/provider/openai/openai_endpoint.hpp>

#include <cubepi/provider/error_classification.hpp>
#include <cubepi/provider/wire/endpoint.hpp>

namespace cubepi::detail {

OpenAIEndpoint::OpenAIEndpoint(std::string_view name, std::string base_url, std::string api_key,
                               Headers extra_headers)
    : name_(name),
      base_url_(std::move(base_url)),
      api_key_(std::move(api_key)),
      extra_headers_(std::move(extra_headers)),
      shown_url_(public_url(base_url_)) {
    require_http_url(name_ + "Provider", base_url_);
    host_ = host_of(base_url_);
}

bool OpenAIEndpoint::is_openai() const noexcept {
    return host_ == "api.openai.com" || host_.ends_with(".openai.azure.com");
}

HttpRequest OpenAIEndpoint::post(std::string_view path) const {
    HttpRequest http("POST", url_below(base_url_, path));
    http.headers.set("content-type", "application/json");
    http.headers.set("accept", "text/event-stream");
    http.headers.set("user-agent", "cubepi-cpp");
    bool has_key = !api_key_.empty();
    if (has_key) http.headers.set("authorization", "Bearer " + api_key_);
    for (const auto& [name, value] : extra_headers_) {
        http.headers.set(name, value);
        has_key = has_key || carries_key(name);
    }
    if (has_key || is_near(host_)) return http;
    ErrorInfo info;
    info.code = ErrorCode::auth;
    info.type = error_type_of(info.code);
    throw_provider_error(std::move(info),
                         "there is no API key for " + host_ +
                             "; set OPENAI_API_KEY in the environment, or pass an api_key to the "
                             "provider (" +
                             name_ + "Options::api_key)");
}

std::string OpenAIEndpoint::without_secrets(std::string text) const {
    text = without_secret(std::move(text), api_key_);
    for (const auto& [name, value] : extra_headers_) {
        if (carries_key(name)) text = without_header_secret(std::move(text), value);
    }
    return text;
}

}  // namespace cubepi::detail
