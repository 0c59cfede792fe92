#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <cubepi/core/clock.hpp>
#include <cubepi/net/name_resolver.hpp>

// The way of a request: its URL, its proxy, and the addresses of their names.

namespace cubepi::detail {

/// A URL as parsed by libcurl, so that name resolution and connection cannot differ.
struct RequestUrl {
    std::string url;     ///< normalized; the host in ASCII
    std::string scheme;  ///< "http" or "https"
    std::string host;    ///< without the brackets of an IPv6 address
    std::uint16_t port = 0;
    bool is_address = false;  ///< the host is an IP address

    std::string server() const;  ///< "host:port", for messages
};

/// Throws Error(invalid_argument) if it is not an http or https URL; the message does not repeat the URL.
RequestUrl parse_url(const std::string& url);

/// Returns the URL to which a `Location` refers.
RequestUrl resolve_url(const RequestUrl& base, const std::string& location);

/// Returns true for the same scheme, host and port, to which credentials are bound.
bool same_origin(const RequestUrl& a, const RequestUrl& b) noexcept;

/// Returns true if the host is this machine by its name or its address: localhost, loopback or unspecified addresses.
bool is_this_machine(const RequestUrl& url);

struct ProxyChoice {
    std::string url;   ///< from the environment; empty: no proxy
    std::string host;  ///< without brackets
    std::uint16_t port = 0;
    bool is_address = false;
    bool resolves_target = true;  ///< false for socks4 and socks5, where the client does

    std::string server() const;
};

/// Looks up an environment variable.
using EnvLookup = std::function<std::optional<std::string>(const std::string& name)>;

/// Returns the proxy for a URL from the environment, by libcurl's rules: `http_proxy` (lower case only: the upper-case
/// variable can come from a CGI request), `https_proxy`, `all_proxy`, unless `no_proxy` names the host. Requests to this machine,
/// which has another network than the proxy, use none.
ProxyChoice choose_proxy(const RequestUrl& url, const EnvLookup& env);

/// Returns true if a `no_proxy` list (separated by commas or blanks; names with their subdomains, addresses, CIDR, `*`;
/// a name or an address may have a port) contains the host. Extensions over libcurl: ports, and `*.name` for `.name`.
bool no_proxy_matches(std::string_view list, const std::string& host, bool is_address,
                      std::uint16_t port = 0);

/// Returns "1.2.3.4", "[::1]".
std::string bracketed(const std::string& host);

/// The last addresses of names. Thread-safe.
///
/// An entry is fresh for ten seconds. For five more minutes it is still returned, and the caller is told to refresh it
/// in the background: a request on a pooled connection should not wait for a name that it does not need.
class NameCache {
public:
    NameCache(std::shared_ptr<Clock> clock, Resolver resolver);

    struct Lookup {
        std::vector<std::string> addresses;  ///< empty: resolve now
        bool refresh = false;                ///< call resolve() soon
    };
    Lookup find(const std::string& host);

    /// Resolves on the calling thread, which may take long, and caches the result. Rethrows exceptions of the resolver.
    std::vector<std::string> resolve(const std::string& host);

    /// Reports that no connection could be established: the next request resolves again and starts with another
    /// address.
    void failed(const std::string& host);

private:
    struct Entry {
        std::vector<std::string> addresses;
        Clock::time_point since;
        bool refreshing = false;
        std::size_t first = 0;
    };

    bool fresh_locked(const Entry& entry) const;

    const std::shared_ptr<Clock> clock_;
    const Resolver resolver_;
    std::mutex mutex_;
    std::map<std::string, Entry> entries_;
};

}  // namespace cubepi::detail
