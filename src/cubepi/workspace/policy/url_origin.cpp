#include <cubepi/workspace/policy/url_origin.hpp>

#include <boost/url.hpp>

namespace cubepi::detail {

namespace {

std::string lower(std::string text) {
    for (char& c : text) {
        if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
    }
    return text;
}

std::string origin_of(const boost::urls::url_view& url) {
    const bool https = url.scheme_id() == boost::urls::scheme::https;
    if (!https && url.scheme_id() != boost::urls::scheme::http) return {};
    if (url.has_userinfo()) return {};
    // Decoded and normalized: %65xample.org is example.org.
    const bool ip6 = url.host_type() == boost::urls::host_type::ipv6;
    const std::string host = ip6 ? "[" + std::string(url.host_ipv6_address().to_string()) + "]"
                                 : lower(std::string(url.host_name()));
    if (!ip6 && host.empty() && url.host_type() != boost::urls::host_type::ipv4) return {};
    const std::string name = url.host_type() == boost::urls::host_type::ipv4
                                 ? std::string(url.host_ipv4_address().to_string())
                                 : host;
    for (const char c : name) {
        if (c <= ' ' || c >= 0x7F || c == '%' || c == '/' || c == '@') return {};
    }
    std::string origin = (https ? "https://" : "http://") + name;
    if (url.has_port() && !url.port().empty()) {
        const std::uint16_t port = url.port_number();
        if (port == 0) return {};
        if (port != (https ? 443 : 80)) origin += ":" + std::to_string(port);
    }
    return origin;
}

}  // namespace

std::string url_origin(std::string_view url) {
    const auto parsed = boost::urls::parse_uri(url);
    return parsed ? origin_of(*parsed) : std::string();
}

std::string rule_origin(std::string_view match) {
    const std::string url = match.find("://") == std::string_view::npos
                                ? "https://" + std::string(match)
                                : std::string(match);
    const auto parsed = boost::urls::parse_uri(url);
    if (!parsed || !(parsed->path().empty() || parsed->path() == "/") || parsed->has_query() ||
        parsed->has_fragment()) {
        return {};
    }
    return origin_of(*parsed);
}

bool covers_redirect(std::string_view asked, std::string_view next) {
    if (asked.empty() || next.empty()) return false;
    if (asked == next) return true;
    if (!asked.starts_with("http://") || !next.starts_with("https://")) return false;
    const std::string_view host = asked.substr(7);
    return host == next.substr(8) && host.find(':', host.rfind(']') + 1) == std::string_view::npos;
}

}  // namespace cubepi::detail
