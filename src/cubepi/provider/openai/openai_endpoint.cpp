#include <cubepi/provider/openai/openai_endpoint.hpp>

#include <cubepi/provider/error_classification.hpp>
#include <cubepi/provider/wire/endpoint.hpp>

namespace cubepi::detail {

OpenAIEndpoint::OpenAIEndpoint(std::string_view name, std::string base_url, std::string api_key,
                               ExtraHeaders extra_headers)
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
    HttpRequest http = json_post(url_below(base_url_, path));
    if (!api_key_.empty()) http.headers.set("authorization", "Bearer " + api_key_);
    const bool key_in_headers = add_headers(http, extra_headers_);
    if (api_key_.empty() && !key_in_headers && !is_signed_ && !is_near(host_))
        throw_missing_key(host_, "OPENAI_API_KEY", name_ + "Options::api_key");
    return http;
}

std::string OpenAIEndpoint::without_secrets(std::string text) const {
    return without_header_secrets(without_secret(std::move(text), api_key_), extra_headers_);
}

}  // namespace cubepi::detail
