// Requests and responses of HttpServer.

#include <cubepi/net/http_server.hpp>

#include <utility>

namespace cubepi {

std::string_view ServerRequest::parameter(std::string_view name) const noexcept {
    const auto found = parameters.find(name);
    return found == parameters.end() ? std::string_view() : std::string_view(found->second);
}

std::string_view ServerRequest::bearer_token() const noexcept {
    constexpr std::string_view scheme = "bearer ";
    std::string_view value = headers.get("authorization");
    if (value.size() < scheme.size()) return {};
    for (std::size_t i = 0; i < scheme.size(); ++i) {
        const char c = value[i];
        if ((c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c) != scheme[i]) return {};
    }
    value.remove_prefix(scheme.size());
    while (value.starts_with(' ')) value.remove_prefix(1);
    return value;
}

ServerResponse::ServerResponse(unsigned code, std::string text, std::string content_type)
    : status(code), body(std::move(text)) {
    headers.set("content-type", std::move(content_type));
}

ServerResponse ServerResponse::json(unsigned code, const Json& value) {
    return ServerResponse(code, boost::json::serialize(value) + "\n", "application/json");
}

ServerResponse ServerResponse::error(unsigned code, std::string_view text) {
    JsonObject error;
    error["message"] = text;
    JsonObject body;
    body["error"] = std::move(error);
    return json(code, body);
}

ServerResponse ServerResponse::events(std::function<Task<>(ResponseStream& out)> stream) {
    ServerResponse response(200, {}, "text/event-stream");
    response.headers.set("cache-control", "no-store");
    response.stream = std::move(stream);
    return response;
}

std::string server_sent_event(std::string_view name, std::string_view data) {
    std::string text;
    if (!name.empty()) text.append("event: ").append(name).append("\n");
    for (;;) {
        const std::size_t end = data.find_first_of("\r\n");
        text.append("data: ").append(data.substr(0, end)).append("\n");
        if (end == std::string_view::npos) break;
        const bool pair = data.substr(end).starts_with("\r\n");
        data.remove_prefix(end + (pair ? 2 : 1));
    }
    return text + "\n";
}

bool equal_secrets(std::string_view a, std::string_view b) noexcept {
    unsigned char difference = a.size() == b.size() ? 0 : 1;
    for (std::size_t i = 0; i < a.size(); ++i) {
        const char other = b.empty() ? '\0' : b[i % b.size()];
        difference = static_cast<unsigned char>(
            difference | (static_cast<unsigned char>(a[i]) ^ static_cast<unsigned char>(other)));
    }
    return difference == 0;
}

}  // namespace cubepi
