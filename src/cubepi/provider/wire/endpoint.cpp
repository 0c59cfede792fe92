#include <cubepi/provider/wire/endpoint.hpp>

#include <cctype>

#include <cubepi/core/error.hpp>
#include <cubepi/provider/error_classification.hpp>

namespace cubepi::detail {

namespace {

std::string lower(std::string_view text) {
    std::string result(text);
    for (char& c : result) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    return result;
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

bool carries_key(std::string_view header) {
    const std::string name = lower(header);
    for (const char* word :
         {"authorization", "api-key", "apikey", "token", "secret", "password", "cookie"}) {
        if (name.find(word) != std::string::npos) return true;
    }
    return name.ends_with("-key");
}

std::string without_header_secret(std::string text, std::string_view value) {
    text = without_secret(std::move(text), value);
    // "Bearer KEY": an endpoint that repeats it repeats the key.
    const std::size_t blank = value.rfind(' ');
    if (blank == std::string_view::npos) return text;
    return without_secret(std::move(text), value.substr(blank + 1));
}

void unfold_extra_body(JsonObject& body) {
    const Json* extra = body.if_contains("extra_body");
    if (!extra || !extra->is_object()) return;
    const JsonObject members = extra->get_object();
    body.erase("extra_body");
    for (const auto& [key, value] : members) body[key] = value;
}

}  // namespace cubepi::detail
