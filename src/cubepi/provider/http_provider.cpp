#include <cubepi/core/support/lower_case.hpp>
#include <cubepi/provider/http_provider.hpp>

#include <algorithm>
#include <cstdlib>
#include <utility>

#include <cubepi/core/error.hpp>
#include <cubepi/provider/error_classification.hpp>
#include <cubepi/provider/wire/wire_protocol.hpp>

namespace cubepi::detail {

namespace {

/// Returns whether a header of this name holds a secret.
bool carries_key(std::string_view header) {
    const std::string name = detail::lower_case(header);
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

/// The host in lower case, without the port.
std::string host_of(std::string_view url) {
    const std::string bare = public_url(url);
    const std::size_t begin = bare.find("://") + 3;
    const std::size_t end = bare.find_first_of("/", begin);
    std::string host =
        detail::lower_case(bare.substr(begin, end == std::string::npos ? end : end - begin));
    const std::size_t port = host.rfind(':');
    if (port != std::string::npos && host.find(']', port) == std::string::npos) host.resize(port);
    return host;
}

[[noreturn]] void throw_missing_key(std::string_view host, std::string_view variable,
                                    std::string_view option) {
    ErrorInfo info;
    info.code = ErrorCode::auth;
    info.type = error_type_of(info.code);
    throw_provider_error(std::move(info), "there is no API key for " + std::string(host) +
                                              "; set " + std::string(variable) +
                                              " in the environment, or pass an api_key to the "
                                              "provider (" +
                                              std::string(option) + ")");
}

}  // namespace

ProviderResponse response_head(const HttpResponse& response) {
    ProviderResponse head;
    head.status = response.status;
    for (const HttpHeader& header : response.headers)
        head.headers.emplace_back(header.name, header.value);
    return head;
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

Endpoint::Endpoint(Vendor vendor, std::string base_url, ExtraHeaders extra_headers)
    : vendor_(std::move(vendor)),
      base_url_(std::move(base_url)),
      extra_headers_(std::move(extra_headers)) {
    if (!base_url_.starts_with("http://") && !base_url_.starts_with("https://")) {
        throw Error(ErrorCode::invalid_argument,
                    vendor_.name +
                        "Provider: the base URL must begin with http:// or https://, not '" +
                        public_url(base_url_) + "'");
    }
    if (!vendor_.ignored_path.empty()) {
        const std::size_t query = std::min(base_url_.find('?'), base_url_.size());
        std::string path = base_url_.substr(0, query);
        while (path.ends_with('/')) path.pop_back();
        if (path.ends_with(vendor_.ignored_path))
            path.resize(path.size() - vendor_.ignored_path.size());
        base_url_ = path + base_url_.substr(query);
    }
    host_ = host_of(base_url_);
    shown_url_ = public_url(base_url_);
}

HttpRequest Endpoint::post(std::string_view path) const {
    const std::string_view base = base_url_;
    const std::size_t query = base.find('?');
    std::string url(base.substr(0, query));
    while (url.ends_with('/')) url.pop_back();
    url += path;
    if (query != std::string_view::npos) {
        url += path.find('?') == std::string_view::npos ? '?' : '&';
        url += base.substr(query + 1);
    }
    HttpRequest request("POST", std::move(url));
    request.headers.set("content-type", "application/json");
    request.headers.set("accept", "text/event-stream");
    request.headers.set("user-agent", "cubepi-cpp");
    for (const auto& [name, value] : vendor_.headers) request.headers.set(name, value);
    bool has_key = std::any_of(keys_.begin(), keys_.end(),
                               [](const std::string& key) { return !key.empty(); });
    for (const auto& [name, value] : extra_headers_) {
        request.headers.set(name, value);
        has_key = has_key || carries_key(name);
    }
    if (!has_key && !signer_ && host_ == vendor_.own_host)
        throw_missing_key(host_, vendor_.key_variable, vendor_.name + "Options::api_key");
    return request;
}

std::string Endpoint::without_secrets(std::string text) const {
    for (const std::string& key : keys_) text = without_secret(std::move(text), key);
    return without_header_secrets(std::move(text), extra_headers_);
}

Endpoint::Vendor openai_vendor(std::string name, const std::string& key) {
    Endpoint::Vendor vendor;
    vendor.name = std::move(name);
    vendor.key_variable = "OPENAI_API_KEY";
    vendor.own_host = "api.openai.com";
    if (!key.empty()) vendor.headers.emplace_back("authorization", "Bearer " + key);
    return vendor;
}

}  // namespace cubepi::detail

namespace cubepi {

std::string env(const char* name) {
    const char* value = std::getenv(name);
    return value ? std::string(value) : std::string();
}

PayloadPreview preview_request(const BoundModel& model, MessageList messages,
                               SharedString system_prompt,
                               std::shared_ptr<const ToolDefinitions> tools,
                               StreamOptions options) {
    if (!model.provider()) {
        throw Error(ErrorCode::invalid_argument,
                    "Model '" + model.spec().id + "' has no provider: take it from one");
    }
    const auto* shows = dynamic_cast<const RequestPreview*>(model.provider().get());
    if (!shows) {
        throw Error(ErrorCode::unsupported, "The provider of model '" + model.spec().id +
                                                "' cannot show a request without sending it");
    }
    ModelRequest request;
    request.model = model.spec();
    request.messages = std::move(messages);
    request.system_prompt = std::move(system_prompt);
    request.tools = std::move(tools);
    request.options = std::move(options);
    return shows->preview(request);
}

HttpProvider::HttpProvider(std::string provider_id,
                           std::shared_ptr<const detail::WireProtocol> protocol)
    : BaseProvider(std::move(provider_id)), protocol_(std::move(protocol)) {}

Model HttpProvider::model_named(std::string id) {
    Model model;
    model.id = std::move(id);
    return model;
}

MessageStream HttpProvider::stream(ModelRequest request) {
    std::shared_ptr<const detail::WireProtocol> own = protocol_->of_one_call();
    return detail::http_stream(std::move(request), own ? std::move(own) : protocol_, observers());
}

PayloadPreview HttpProvider::preview(const ModelRequest& request) const {
    const std::shared_ptr<const detail::WireProtocol> own = protocol_->of_one_call();
    const detail::WireProtocol& protocol = own ? *own : *protocol_;
    detail::WireProtocol::Built built = protocol.build(request);
    protocol.finish_body(built.body);
    PayloadPreview preview;
    preview.payload = std::move(built.body);
    preview.notices = std::move(built.notices);
    return preview;
}

bool HttpProvider::takes_response_format(const Model& model) const {
    return protocol_->takes_response_format(model);
}

}  // namespace cubepi
