#include <cubepi/mcp/auth/guarded_http.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>

#include <boost/url.hpp>

#include <cubepi/core/error.hpp>
#include <cubepi/core/offload.hpp>
#include <cubepi/core/support/lower_case.hpp>
#include <cubepi/core/timeout.hpp>
#include <cubepi/mcp/protocol.hpp>
#include <cubepi/net/http_client.hpp>
#include <cubepi/net/public_address.hpp>
#include <cubepi/schema/parse_json.hpp>

namespace cubepi::detail {

namespace {

constexpr std::size_t max_url_bytes = 2048;
constexpr std::size_t max_body_bytes = 256 * 1024;

bool is_loopback_host(const std::string& host) {
    return host == "localhost" || host == "127.0.0.1" || host == "::1";
}

bool is_plain(std::string_view text) {
    return std::ranges::all_of(text, [](char c) { return c > ' ' && c < 0x7F && c != '\\'; });
}

}  // namespace

std::optional<GuardedUrl> guarded_url(std::string_view text) {
    if (text.size() > max_url_bytes || !is_plain(text)) return std::nullopt;
    const auto parsed = boost::urls::parse_uri(text);
    if (!parsed || parsed->has_userinfo() || !parsed->has_authority()) return std::nullopt;
    const bool is_https = parsed->scheme_id() == boost::urls::scheme::https;
    if (!is_https && parsed->scheme_id() != boost::urls::scheme::http) return std::nullopt;
    GuardedUrl url;
    std::string shown;
    if (parsed->host_type() == boost::urls::host_type::ipv6) {
        url.host = parsed->host_ipv6_address().to_string();
        shown = "[" + url.host + "]";
    } else if (parsed->host_type() == boost::urls::host_type::ipv4) {
        url.host = parsed->host_ipv4_address().to_string();
        shown = url.host;
    } else {
        url.host = lower_case(std::string(parsed->host_name()));
        shown = url.host;
    }
    if (url.host.empty() || !is_plain(url.host) ||
        url.host.find_first_of("%/@?#") != std::string::npos)
        return std::nullopt;
    url.is_loopback = is_loopback_host(url.host);
    if (!is_https && !url.is_loopback) return std::nullopt;
    url.origin = (is_https ? "https://" : "http://") + shown;
    if (parsed->has_port() && !parsed->port().empty()) {
        const std::uint16_t port = parsed->port_number();
        if (port == 0) return std::nullopt;
        if (port != (is_https ? 443 : 80)) url.origin += ":" + std::to_string(port);
    }
    url.text = text.substr(0, text.find('#'));
    url.path = std::string(parsed->encoded_path());
    return url;
}

GuardedHttp::GuardedHttp(Options options, std::shared_ptr<const Runtime> runtime)
    : options_(std::move(options)), runtime_(std::move(runtime)) {
    std::optional<GuardedUrl> url = guarded_url(options_.url);
    if (!url) {
        throw Error(ErrorCode::invalid_argument,
                    about("needs a URL by https, or of this machine, for a login."));
    }
    url_ = std::move(*url);
}

GuardedUrl GuardedHttp::checked(std::string_view url, std::string_view what) const {
    std::optional<GuardedUrl> found = guarded_url(url);
    if (!found || (found->is_loopback && !url_.is_loopback)) {
        throw Error(ErrorCode::permission_denied,
                    about("names an address for " + std::string(what) +
                          " that may not be used: " + shown_mcp_text(url)));
    }
    return std::move(*found);
}

Task<std::vector<std::string>> GuardedHttp::resolved(std::shared_ptr<const GuardedHttp> self,
                                                     std::string host) {
    auto work = [resolve = self->options_.resolve, host] {
        return resolve ? resolve(host) : resolve_with_system(host);
    };
    std::vector<std::string> addresses =
        co_await offload(*self->runtime_->resolvers, std::move(work));
    if (addresses.empty()) throw Error(ErrorCode::dns, "The host " + host + " has no address.");
    co_return addresses;
}

Task<std::vector<std::string>> GuardedHttp::checked_addresses(
    std::shared_ptr<const GuardedHttp> self, std::string host) {
    std::vector<std::string> addresses = co_await resolved(self, host);
    const auto metadata = std::ranges::find_if(addresses, is_metadata_address);
    if (metadata != addresses.end()) {
        throw Error(ErrorCode::permission_denied,
                    self->about("names the host " + host + " with the address " + *metadata +
                                ", which may belong to a metadata service and is not used."));
    }
    const auto special = std::ranges::find_if_not(addresses, is_public_address);
    if (special == addresses.end() || host == self->url_.host) co_return addresses;
    // A server of this machine or of a private network may have its authorization server there too.
    const std::vector<std::string> own = co_await resolved(self, self->url_.host);
    if (std::ranges::any_of(own, is_public_address)) {
        throw Error(ErrorCode::permission_denied,
                    self->about("names the host " + host + " with the private address " + *special +
                                ", although it is public itself; that is not used."));
    }
    co_return addresses;
}

Task<GuardedHttp::Reply> GuardedHttp::send(std::shared_ptr<const GuardedHttp> self,
                                           HttpRequest request) {
    const GuardedUrl url = self->checked(request.url, "its login");
    request.url = url.text;
    request.resolve_to = co_await checked_addresses(self, url.host);
    request.follow_redirects = false;
    request.max_response_bytes = max_body_bytes;
    request.timeouts.first_byte = self->options_.timeout;
    request.timeouts.total = self->options_.timeout;
    request.headers.set("accept", "application/json");
    const std::shared_ptr<HttpTransport> transport = transport_of(*self->runtime_);
    HttpResponse response = co_await transport->send(std::move(request));
    Reply reply;
    reply.status = response.status;
    reply.location = std::string(response.headers.get("location"));
    std::string body;
    const std::unique_ptr<HttpBody> reading = std::move(response.body);
    if (!reading) co_return reply;
    while (co_await reading->read(body)) {
        if (body.size() > max_body_bytes) {
            throw Error(ErrorCode::too_large, url.origin + " sent a response of more than " +
                                                  std::to_string(max_body_bytes) + " bytes.");
        }
    }
    reply.headers = std::move(response.headers);
    try {
        Json json = parse_json(body);
        if (json.is_object()) reply.json = std::move(json.get_object());
    } catch (const Error&) {
        // Pages and empty bodies are not JSON.
        reply.json.reset();
    }
    co_return reply;
}

}  // namespace cubepi::detail
