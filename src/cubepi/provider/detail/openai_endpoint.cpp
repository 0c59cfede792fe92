#include <cubepi/provider/detail/openai_endpoint.hpp>

#include <cctype>

#include <cubepi/provider/error_classification.hpp>

namespace cubepi::detail {

namespace {

std::string lower(std::string_view text) {
    std::string result(text);
    for (char& c : result) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    return result;
}

std::string host_of(std::string_view url) {
    const std::string bare = public_url(url);
    const std::size_t begin = bare.find("://") + 3;
    const std::size_t end = bare.find_first_of("/", begin);
    std::string host = lower(bare.substr(begin, end == std::string::npos ? end : end - begin));
    const std::size_t port = host.rfind(':');
    if (port != std::string::npos && host.find(']', port) == std::string::npos) host.resize(port);
    return host;
}

/// A server on this machine or in the private network, which often wants no key.
bool is_near(std::string_view host) {
    return host == "localhost" || host.ends_with(".localhost") || host.ends_with(".local") ||
           host == "[::1]" || host.starts_with("127.") || host.starts_with("10.") ||
           host.starts_with("192.168.") || host.find('.') == std::string_view::npos;
}

/// `base_url` with a path behind it and in front of its query (Azure's api-version).
std::string url_below(std::string_view base_url, std::string_view path) {
    const std::size_t query = base_url.find('?');
    std::string url(base_url.substr(0, query));
    while (url.ends_with('/')) url.pop_back();
    url += path;
    if (query != std::string_view::npos) url += base_url.substr(query);
    return url;
}

bool carries_key(std::string_view header) {
    const std::string name = lower(header);
    return name == "authorization" || name == "api-key" || name == "x-api-key" ||
           name.find("token") != std::string::npos;
}

}  // namespace

OpenAIEndpoint::OpenAIEndpoint(std::string_view name, std::string base_url, std::string api_key,
                               Headers extra_headers)
    : name_(name),
      base_url_(std::move(base_url)),
      api_key_(std::move(api_key)),
      extra_headers_(std::move(extra_headers)),
      shown_url_(public_url(base_url_)) {
    if (!base_url_.starts_with("http://") && !base_url_.starts_with("https://")) {
        throw Error(ErrorCode::invalid_argument,
                    name_ + "Provider: the base URL must begin with http:// or https://, not '" +
                        shown_url_ + "'");
    }
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
                             ": set OPENAI_API_KEY in the environment, or give the provider an "
                             "api_key (" +
                             name_ + "Options::api_key)");
}

std::string OpenAIEndpoint::without_secrets(std::string text) const {
    text = without_secret(std::move(text), api_key_);
    for (const auto& [name, value] : extra_headers_) {
        if (carries_key(name)) text = without_secret(std::move(text), value);
    }
    return text;
}

void unfold_extra_body(JsonObject& body) {
    const Json* extra = body.if_contains("extra_body");
    if (!extra || !extra->is_object()) return;
    const JsonObject members = extra->get_object();
    body.erase("extra_body");
    for (const auto& [key, value] : members) body[key] = value;
}

}  // namespace cubepi::detail
