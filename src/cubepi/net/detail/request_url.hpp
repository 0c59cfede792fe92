#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

namespace cubepi::detail {

/// A URL as libcurl reads it, so that what we resolve and what it connects to can never differ.
struct RequestUrl {
    std::string url;     ///< normalised; the host in ASCII
    std::string scheme;  ///< "http" or "https"
    std::string host;    ///< without the brackets of an IPv6 address
    std::uint16_t port = 0;
    bool is_address = false;  ///< the host is an IP address

    std::string server() const;  ///< "host:port", for messages
};

/// Throws Error(invalid_argument) for what is no http or https URL; its text does not repeat the URL.
RequestUrl parse_url(const std::string& url);

/// Where a `Location` leads.
RequestUrl resolve_url(const RequestUrl& base, const std::string& location);

/// Same scheme, host and port: what credentials are bound to.
bool same_origin(const RequestUrl& a, const RequestUrl& b) noexcept;

struct ProxyChoice {
    std::string url;   ///< what the environment says; empty: no proxy
    std::string host;  ///< without brackets
    std::uint16_t port = 0;
    bool is_address = false;
    bool resolves_target = true;  ///< false for socks4 and socks5, where the client does

    std::string server() const;
};

/// Looks up an environment variable.
using EnvLookup = std::function<std::optional<std::string>(const std::string& name)>;

/// The proxy for a URL by the environment, with libcurl's rules: `http_proxy` (in lower case only: the other
/// spelling can come from a CGI request), `https_proxy`, `all_proxy`, unless `no_proxy` names the host.
ProxyChoice choose_proxy(const RequestUrl& url, const EnvLookup& env);

/// Whether a `no_proxy` list (commas or blanks; names with their subdomains, addresses, CIDR, `*`; a name or an
/// address may have a port) has the host. Beyond libcurl: ports, and `*.name` for `.name`.
bool no_proxy_matches(std::string_view list, const std::string& host, bool is_address,
                      std::uint16_t port = 0);

bool is_ip_address(const std::string& host) noexcept;

/// "1.2.3.4", "[::1]"
std::string bracketed(const std::string& host);

}  // namespace cubepi::detail
