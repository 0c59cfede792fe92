#include <cubepi/net/curl/request_route.hpp>

#include <algorithm>
#include <array>
#include <charconv>
#include <chrono>
#include <cstring>
#include <memory>
#include <utility>

#include <arpa/inet.h>
#include <curl/curl.h>

#include <cubepi/core/error.hpp>
#include <cubepi/core/support/lower_case.hpp>
#include <cubepi/core/support/parsed_number.hpp>
#include <cubepi/net/network_error.hpp>
#include <cubepi/net/public_address.hpp>

namespace cubepi::detail {

namespace {

struct UrlDeleter {
    void operator()(CURLU* url) const noexcept { curl_url_cleanup(url); }
};
using UrlHandle = std::unique_ptr<CURLU, UrlDeleter>;

[[noreturn]] void throw_bad_url(const std::string& why) {
    throw Error(ErrorCode::invalid_argument,
                "The address of the server is not a usable http or https URL (" + why +
                    "). It must look like https://host/path.");
}

std::string part(CURLU* url, CURLUPart which, unsigned flags = 0) {
    char* text = nullptr;
    if (curl_url_get(url, which, &text, flags) != CURLUE_OK) return {};
    std::string copy = text;
    curl_free(text);
    return copy;
}

std::string unbracketed(std::string host) {
    if (host.size() > 2 && host.front() == '[' && host.back() == ']')
        host = host.substr(1, host.size() - 2);
    return host;
}

std::uint16_t to_port(const std::string& text) {
    unsigned port = 0;
    std::from_chars(text.data(), text.data() + text.size(), port);
    return static_cast<std::uint16_t>(port);
}

RequestUrl read_parts(CURLU* handle) {
    RequestUrl url;
    url.scheme = lower_case(part(handle, CURLUPART_SCHEME));
    if (url.scheme != "http" && url.scheme != "https")
        throw_bad_url("the scheme is not http or https");
    std::string host = part(handle, CURLUPART_HOST, CURLU_PUNYCODE);
    if (host.empty()) throw_bad_url("no host, or one that cannot be written in ASCII");
    host = lower_case(std::move(host));
    curl_url_set(handle, CURLUPART_HOST, host.c_str(), 0);
    curl_url_set(handle, CURLUPART_FRAGMENT, nullptr, 0);
    url.host = unbracketed(std::move(host));
    url.port = to_port(part(handle, CURLUPART_PORT, CURLU_DEFAULT_PORT));
    if (url.port == 0) throw_bad_url("the port is 0");
    url.url = part(handle, CURLUPART_URL);
    url.is_address = is_ip_address(url.host);
    return url;
}

struct Address {
    std::array<unsigned char, 16> bytes{};
    int bits = 0;
};

std::optional<Address> parse_address(const std::string& text) {
    Address address;
    if (inet_pton(AF_INET, text.c_str(), address.bytes.data()) == 1) {
        address.bits = 32;
    } else if (inet_pton(AF_INET6, text.c_str(), address.bytes.data()) == 1) {
        address.bits = 128;
    } else {
        return std::nullopt;
    }
    return address;
}

bool address_matches(std::string_view entry, const Address& host) {
    int bits = host.bits;
    if (const std::size_t slash = entry.find('/'); slash != std::string_view::npos) {
        bits = parsed_number<int>(entry.substr(slash + 1)).value_or(-1);
        if (bits < 0 || bits > host.bits) return false;
        entry = entry.substr(0, slash);
    }
    const auto network = parse_address(unbracketed(std::string(entry)));
    if (!network || network->bits != host.bits) return false;
    const auto whole = static_cast<std::size_t>(bits / 8);
    if (std::memcmp(network->bytes.data(), host.bytes.data(), whole) != 0) return false;
    if (bits % 8 == 0) return true;
    const int mask = 0xFF << (8 - bits % 8) & 0xFF;
    return (network->bytes[whole] & mask) == (host.bytes[whole] & mask);
}

/// Removes the port from "name:443", "10.0.0.1:443" or "[::1]:443". Returns an empty view if there is none.
std::string_view take_port(std::string_view& entry) {
    const std::size_t colon = entry.rfind(':');
    if (colon == std::string_view::npos || colon + 1 == entry.size()) return {};
    const std::string_view port = entry.substr(colon + 1);
    const std::string_view host = entry.substr(0, colon);
    const bool bare_address = host.find(':') != std::string_view::npos && !host.ends_with(']');
    if (bare_address || port.find_first_not_of("0123456789") != std::string_view::npos) return {};
    entry = host;
    return port;
}

bool name_matches(std::string_view entry, std::string_view host) {
    if (entry.starts_with("*.")) entry.remove_prefix(1);
    if (entry.starts_with('.')) entry.remove_prefix(1);
    if (entry.ends_with('.')) entry.remove_suffix(1);
    if (host.ends_with('.')) host.remove_suffix(1);
    if (entry.empty() || !host.ends_with(entry)) return false;
    return host.size() == entry.size() || host[host.size() - entry.size() - 1] == '.';
}

std::string first_set(const EnvLookup& env, std::initializer_list<const char*> names) {
    for (const char* name : names) {
        auto value = env(name);
        if (value && !value->empty()) return *value;
    }
    return {};
}

}  // namespace

std::string bracketed(const std::string& host) {
    return host.find(':') == std::string::npos ? host : "[" + host + "]";
}

std::string RequestUrl::server() const { return bracketed(host) + ":" + std::to_string(port); }
std::string ProxyChoice::server() const { return bracketed(host) + ":" + std::to_string(port); }

RequestUrl parse_url(const std::string& url) {
    const UrlHandle handle(curl_url());
    if (!handle) throw std::bad_alloc();
    // Spaces and similar characters in a path are errors of the caller that are escaped; libcurl itself rejects control
    // bytes.
    const CURLUcode code = curl_url_set(handle.get(), CURLUPART_URL, url.c_str(), CURLU_URLENCODE);
    if (code != CURLUE_OK) throw_bad_url(curl_url_strerror(code));
    return read_parts(handle.get());
}

RequestUrl resolve_url(const RequestUrl& base, const std::string& location) {
    const UrlHandle handle(curl_url());
    if (!handle) throw std::bad_alloc();
    curl_url_set(handle.get(), CURLUPART_URL, base.url.c_str(), 0);
    const CURLUcode code =
        curl_url_set(handle.get(), CURLUPART_URL, location.c_str(), CURLU_URLENCODE);
    if (code != CURLUE_OK)
        throw_bad_url(std::string("after a redirect: ") + curl_url_strerror(code));
    return read_parts(handle.get());
}

bool same_origin(const RequestUrl& a, const RequestUrl& b) noexcept {
    return a.scheme == b.scheme && a.host == b.host && a.port == b.port;
}

bool no_proxy_matches(std::string_view list, const std::string& host, bool is_address,
                      std::uint16_t port) {
    const auto address = is_address ? parse_address(host) : std::nullopt;
    while (!list.empty()) {
        const std::size_t begin = list.find_first_not_of(", \t");
        if (begin == std::string_view::npos) return false;
        list.remove_prefix(begin);
        std::string_view entry = list.substr(0, list.find_first_of(", \t"));
        list.remove_prefix(entry.size());
        if (entry == "*") return true;
        const std::string_view only = take_port(entry);
        if (!only.empty() && to_port(std::string(only)) != port) continue;
        if (address ? address_matches(entry, *address)
                    : name_matches(lower_case(std::string(entry)), host))
            return true;
    }
    return false;
}

bool is_this_machine(const RequestUrl& url) {
    constexpr std::string_view own = "localhost 127.0.0.0/8 ::1 ::ffff:127.0.0.0/104 0.0.0.0 ::";
    return no_proxy_matches(own, url.host, url.is_address);
}

ProxyChoice choose_proxy(const RequestUrl& url, const EnvLookup& env) {
    ProxyChoice proxy;
    if (is_this_machine(url)) return proxy;
    std::string value = url.scheme == "http" ? first_set(env, {"http_proxy"})
                                             : first_set(env, {"https_proxy", "HTTPS_PROXY"});
    if (value.empty()) value = first_set(env, {"all_proxy", "ALL_PROXY"});
    if (value.empty()) return proxy;
    if (no_proxy_matches(first_set(env, {"no_proxy", "NO_PROXY"}), url.host, url.is_address,
                         url.port))
        return proxy;

    const UrlHandle handle(curl_url());
    if (!handle) throw std::bad_alloc();
    const std::string with_scheme =
        value.find("://") == std::string::npos ? "http://" + value : value;
    const CURLUcode code =
        curl_url_set(handle.get(), CURLUPART_URL, with_scheme.c_str(), CURLU_NON_SUPPORT_SCHEME);
    if (code != CURLUE_OK) {
        throw Error(ErrorCode::proxy,
                    "The proxy that the environment names for " + url.scheme + " (" + url.scheme +
                        "_proxy or all_proxy) is not a usable URL: " + curl_url_strerror(code) +
                        ".");
    }
    const std::string scheme = lower_case(part(handle.get(), CURLUPART_SCHEME));
    const std::string port = part(handle.get(), CURLUPART_PORT);
    proxy.url = with_scheme;
    proxy.host = unbracketed(lower_case(part(handle.get(), CURLUPART_HOST)));
    // libcurl's own defaults.
    proxy.port = port.empty() ? (scheme == "https" ? 443 : 1080) : to_port(port);
    proxy.is_address = is_ip_address(proxy.host);
    proxy.resolves_target = scheme != "socks4" && scheme != "socks5";
    return proxy;
}

namespace {

constexpr std::chrono::seconds fresh_for{10};
constexpr std::chrono::minutes usable_for{5};
constexpr std::size_t max_names = 1000;

std::vector<std::string> beginning_with(std::vector<std::string> addresses, std::size_t first) {
    const auto shift = static_cast<std::ptrdiff_t>(first % addresses.size());
    std::rotate(addresses.begin(), addresses.begin() + shift, addresses.end());
    return addresses;
}

}  // namespace

NameCache::NameCache(std::shared_ptr<Clock> clock, Resolver resolver)
    : clock_(std::move(clock)), resolver_(std::move(resolver)) {}

bool NameCache::fresh_locked(const Entry& entry) const {
    return !entry.addresses.empty() && clock_->now() - entry.since < fresh_for;
}

NameCache::Lookup NameCache::find(const std::string& host) {
    Lookup lookup;
    const std::lock_guard lock(mutex_);
    const auto found = entries_.find(host);
    if (found == entries_.end()) return lookup;
    Entry& entry = found->second;
    if (entry.addresses.empty() || clock_->now() - entry.since >= usable_for) return lookup;
    lookup.addresses = beginning_with(entry.addresses, entry.first);
    lookup.refresh = !fresh_locked(entry) && !std::exchange(entry.refreshing, true);
    return lookup;
}

std::vector<std::string> NameCache::resolve(const std::string& host) {
    {
        // Many requests may have queued up after the first one for the same name.
        const std::lock_guard lock(mutex_);
        const auto found = entries_.find(host);
        if (found != entries_.end() && fresh_locked(found->second)) {
            return beginning_with(found->second.addresses, found->second.first);
        }
    }
    std::vector<std::string> addresses;
    try {
        addresses = resolver_(host);
    } catch (...) {
        const std::lock_guard lock(mutex_);
        if (const auto found = entries_.find(host); found != entries_.end())
            found->second.refreshing = false;
        throw;
    }
    if (addresses.empty()) {
        throw NetworkError(ErrorCode::dns, host, false,
                           "Cannot find the server " + host + ": the name has no address.");
    }
    const std::lock_guard lock(mutex_);
    if (entries_.size() >= max_names && entries_.find(host) == entries_.end()) entries_.clear();
    Entry& entry = entries_[host];
    entry.addresses = addresses;
    entry.since = clock_->now();
    entry.refreshing = false;
    return beginning_with(std::move(addresses), entry.first);
}

void NameCache::failed(const std::string& host) {
    const std::lock_guard lock(mutex_);
    const auto found = entries_.find(host);
    if (found == entries_.end()) return;
    found->second.addresses.clear();
    ++found->second.first;
}

}  // namespace cubepi::detail
