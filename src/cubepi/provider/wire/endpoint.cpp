#include <cubepi/provider/wire/endpoint.hpp>

#include <cctype>
#include <utility>

#include <cubepi/core/error.hpp>
#include <cubepi/provider/error_classification.hpp>

namespace cubepi::detail {

namespace {

std::string lower(std::string_view text) {
    std::string result(text);
    for (char& c : result) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    return result;
}

/// Returns whether a header of this name holds a secret.
bool carries_key(std::string_view header) {
    const std::string name = lower(header);
    for (const char* word :
         {"authorization", "api-key", "apikey", "token", "secret", "password", "cookie"}) {
        if (name.find(word) != std::string::npos) return true;
    }
    return name.ends_with("-key");
}

/// Removes the value of such a header, also without its scheme ("Bearer").
std::string without_header_secret(std::string text, std::string_view value) {
    text = without_secret(std::move(text), value);
    // "Bearer KEY": an endpoint that repeats it repeats the key.
    const std::size_t blank = value.rfind(' ');
    if (blank == std::string_view::npos) return text;
    return without_secret(std::move(text), value.substr(blank + 1));
}

}  // namespace

void require_http_url(std::string_view provider, std::string_view base_url) {
    if (base_url.starts_with("http://") || base_url.starts_with("https://")) return;
    throw Error(ErrorCode::invalid_argument,
                std::string(provider) +
                    ": the base URL must begin with http:// or https://, not '" +
                    public_url(base_url) + "'");
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

bool is_near(std::string_view host) {
    return host == "localhost" || host.ends_with(".localhost") || host.ends_with(".local") ||
           host == "[::1]" || host.starts_with("127.") || host.starts_with("10.") ||
           host.starts_with("192.168.") || host.find('.') == std::string_view::npos;
}

std::string url_below(std::string_view base_url, std::string_view path) {
    const std::size_t query = base_url.find('?');
    std::string url(base_url.substr(0, query));
    while (url.ends_with('/')) url.pop_back();
    url += path;
    if (query != std::string_view::npos) url += base_url.substr(query);
    return url;
}

HttpRequest json_post(std::string url) {
    HttpRequest request("POST", std::move(url));
    request.headers.set("content-type", "application/json");
    request.headers.set("accept", "text/event-stream");
    request.headers.set("user-agent", "cubepi-cpp");
    return request;
}

bool add_headers(HttpRequest& request, const ExtraHeaders& headers) {
    bool has_key = false;
    for (const auto& [name, value] : headers) {
        request.headers.set(name, value);
        has_key = has_key || carries_key(name);
    }
    return has_key;
}

ExtraHeaders headers_with_keys(const HttpRequest& request) {
    ExtraHeaders keys;
    for (const HttpHeader& header : request.headers) {
        if (carries_key(header.name)) keys.emplace_back(header.name, header.value);
    }
    return keys;
}

HttpHeaders headers_without_keys(const HttpRequest& request) {
    HttpHeaders others;
    for (const HttpHeader& header : request.headers) {
        if (!carries_key(header.name)) others.add(header.name, header.value);
    }
    return others;
}

std::string without_header_secrets(std::string text, const ExtraHeaders& headers) {
    for (const auto& [name, value] : headers) {
        if (carries_key(name)) text = without_header_secret(std::move(text), value);
    }
    return text;
}

void throw_missing_key(std::string_view host, std::string_view variable, std::string_view option) {
    ErrorInfo info;
    info.code = ErrorCode::auth;
    info.type = error_type_of(info.code);
    throw_provider_error(std::move(info), "there is no API key for " + std::string(host) +
                                              "; set " + std::string(variable) +
                                              " in the environment, or pass an api_key to the "
                                              "provider (" +
                                              std::string(option) + ")");
}

void unfold_extra_body(JsonObject& body) {
    const Json* extra = body.if_contains("extra_body");
    if (!extra || !extra->is_object()) return;
    const JsonObject members = extra->get_object();
    body.erase("extra_body");
    for (const auto& [key, value] : members) body[key] = value;
}

}  // namespace cubepi::detail
