#include <cubepi/net/server/server_core.hpp>

#include <algorithm>
#include <cstddef>
#include <optional>
#include <utility>

#include <boost/asio/ip/network_v4.hpp>
#include <boost/asio/ip/network_v6.hpp>

#include <cubepi/core/error.hpp>
#include <cubepi/core/support/lower_case.hpp>
#include <cubepi/core/support/parsed_number.hpp>
#include <cubepi/core/support/trimmed.hpp>

namespace cubepi::detail {

namespace {

namespace ip = boost::asio::ip;

std::optional<ip::address> address_in(std::string_view text) {
    // The zone of a link-local address means something only on the host that wrote it.
    if (text.find('%') != std::string_view::npos) return std::nullopt;
    boost::system::error_code failed;
    const ip::address address = ip::make_address(std::string(text), failed);
    if (failed) return std::nullopt;
    return unmapped(address);
}

/// A host or address and its port: "[::1]:80".
struct HostAndPort {
    std::string_view host = {};  ///< without brackets
    std::string_view port = {};  ///< empty: none
};

/// Returns nothing for a text that is neither a host nor one with a port. An IPv6 address without brackets is a host.
std::optional<HostAndPort> split_port(std::string_view text) {
    HostAndPort split{text, {}};
    std::size_t end = text.size();
    if (text.starts_with('[')) {
        end = text.find(']');
        if (end == std::string_view::npos) return std::nullopt;
        split.host = text.substr(1, end++ - 1);
    } else if (std::count(text.begin(), text.end(), ':') == 1) {
        end = text.find(':');
        split.host = text.substr(0, end);
    }
    if (split.host.empty()) return std::nullopt;
    if (end == text.size()) return split;
    split.port = text.substr(end + 1);
    const bool is_port = text[end] == ':' && !split.port.empty() && split.port.size() <= 5 &&
                         split.port.find_first_not_of("0123456789") == std::string_view::npos;
    if (!is_port) return std::nullopt;
    return split;
}

std::optional<ip::address> node_address(std::string_view node) {
    const std::optional<HostAndPort> split = split_port(node);
    return split ? address_in(split->host) : std::nullopt;
}

/// The report of a proxy about its client.
struct Hop {
    std::string node = {};
    std::string scheme = {};
    std::string host = {};
};

/// Returns the values of all fields with this name, separated by commas, in order.
std::string all_values(const HttpHeaders& headers, std::string_view name) {
    std::string all;
    bool found = false;
    for (const HttpHeader& field : headers) {
        if (lower_case(field.name) != name) continue;
        if (std::exchange(found, true)) all += ',';
        all += field.value;
    }
    return all;
}

std::vector<std::string_view> entries_of(std::string_view list) {
    std::vector<std::string_view> entries;
    if (trimmed(list).empty()) return entries;
    for (bool more = true; more;) {
        const std::size_t comma = list.find(',');
        more = comma != std::string_view::npos;
        entries.push_back(trimmed(list.substr(0, comma)));
        if (more) list.remove_prefix(comma + 1);
    }
    return entries;
}

/// Reads a token or a quoted string (RFC 9110, 5.6.4), and removes it from `text`.
std::optional<std::string> take_value(std::string_view& text) {
    std::string value;
    if (!text.starts_with('"')) {
        const std::size_t end = std::min(text.find_first_of(",;"), text.size());
        value = trimmed(text.substr(0, end));
        text.remove_prefix(end);
        if (value.find('"') != std::string::npos) return std::nullopt;
        return value;
    }
    for (std::size_t i = 1; i < text.size(); ++i) {
        if (text[i] == '"') {
            text = trimmed(text.substr(i + 1));
            return value;
        }
        if (text[i] == '\\' && ++i == text.size()) break;
        value += text[i];
    }
    return std::nullopt;
}

/// Reads `Forwarded` (RFC 7239). Nothing is known from a field that is not one.
std::vector<Hop> forwarded_hops(std::string_view text) {
    std::vector<Hop> hops(1);
    for (;;) {
        text = trimmed(text);
        const std::size_t equals = text.find('=');
        if (equals == std::string_view::npos) return {};
        const std::string name = lower_case(text.substr(0, equals));
        text.remove_prefix(equals + 1);
        std::optional<std::string> value = take_value(text);
        if (!value) return {};
        Hop& hop = hops.back();
        std::string* const member = name == "for"     ? &hop.node
                                    : name == "proto" ? &hop.scheme
                                    : name == "host"  ? &hop.host
                                                      : nullptr;
        if (member && !member->empty()) return {};
        if (member) *member = std::move(*value);
        if (text.empty()) return hops;
        if (text.front() == ',') {
            hops.emplace_back();
        } else if (text.front() != ';') {
            return {};
        }
        text.remove_prefix(1);
    }
}

/// Reads the headers that proxies use in place of `Forwarded`.
std::vector<Hop> separate_hops(const HttpHeaders& headers) {
    const std::string all_nodes = all_values(headers, "x-forwarded-for");
    const std::string all_schemes = all_values(headers, "x-forwarded-proto");
    const std::string all_hosts = all_values(headers, "x-forwarded-host");
    const auto nodes = entries_of(all_nodes);
    const auto schemes = entries_of(all_schemes);
    const auto hosts = entries_of(all_hosts);
    const bool is_empty = nodes.empty() && schemes.empty() && hosts.empty();
    std::vector<Hop> hops(is_empty ? 0 : std::max<std::size_t>(nodes.size(), 1));
    // Some proxies add to a list, some replace it: the last entries belong together.
    const auto entry = [&](const std::vector<std::string_view>& list, std::size_t from_end) {
        return list.empty()
                   ? std::string()
                   : std::string(list[list.size() - 1 - std::min(from_end, list.size() - 1)]);
    };
    for (std::size_t i = 0; i < hops.size(); ++i) {
        Hop& hop = hops[hops.size() - 1 - i];
        if (!nodes.empty()) hop.node = entry(nodes, i);
        hop.scheme = entry(schemes, i);
        hop.host = entry(hosts, i);
    }
    return hops;
}

RequestOrigin follow(const std::vector<Hop>& hops, RequestOrigin origin,
                     const AddressRanges& proxies) {
    for (auto hop = hops.rbegin(); hop != hops.rend() && proxies.contains(origin.client); ++hop) {
        const std::string scheme = lower_case(hop->scheme);
        if (scheme == "http" || scheme == "https") origin.scheme = scheme;
        if (!hop->host.empty()) origin.host = hop->host;
        const std::optional<ip::address> client = node_address(hop->node);
        if (!client) break;
        origin.client = *client;
    }
    return origin;
}

/// Returns the first address of the range.
ip::address first_in_range(const ip::address& address, unsigned short bits) {
    if (address.is_v4()) return ip::make_network_v4(address.to_v4(), bits).network();
    return ip::make_network_v6(address.to_v6(), bits).network();
}

}  // namespace

ip::address unmapped(const ip::address& address) {
    if (!address.is_v6() || !address.to_v6().is_v4_mapped()) return address;
    return ip::make_address_v4(ip::v4_mapped, address.to_v6());
}

AddressRanges::AddressRanges(const std::vector<std::string>& ranges) {
    for (const std::string& text : ranges) {
        const std::size_t slash = text.find('/');
        boost::system::error_code failed;
        Range range{ip::make_address(text.substr(0, slash), failed), 0};
        const unsigned short most = range.address.is_v4() ? 32 : 128;
        range.bits = most;
        bool is_valid = !failed && text.find('%') == std::string::npos;
        if (is_valid && slash != std::string::npos) {
            const auto bits =
                parsed_number<decltype(range.bits)>(std::string_view(text).substr(slash + 1));
            range.bits = bits.value_or(0);
            is_valid = bits && *bits <= most;
        }
        if (!is_valid)
            throw Error(ErrorCode::invalid_argument,
                        "'" + text + "' is neither an address nor a range such as 10.0.0.0/8");
        if (range.bits >= 96 && unmapped(range.address) != range.address) {
            range.address = unmapped(range.address);
            range.bits = static_cast<unsigned short>(range.bits - 96);
        }
        range.address = first_in_range(range.address, range.bits);
        ranges_.push_back(std::move(range));
    }
}

bool AddressRanges::contains(const ip::address& address) const {
    return std::any_of(ranges_.begin(), ranges_.end(), [&](const Range& range) {
        return range.address.is_v4() == address.is_v4() &&
               first_in_range(address, range.bits) == range.address;
    });
}

RequestOrigin request_origin(const HttpHeaders& headers, const ip::address& peer,
                             std::string_view scheme, const AddressRanges& proxies) {
    RequestOrigin origin;
    origin.client = unmapped(peer);
    origin.scheme = scheme;
    // Several names are none: which one another program has read is not known.
    origin.host = all_values(headers, "host");
    if (!proxies.contains(origin.client)) return origin;
    const std::vector<Hop> separate = separate_hops(headers);
    const std::string forwarded = all_values(headers, "forwarded");
    if (forwarded.empty()) return follow(separate, std::move(origin), proxies);
    RequestOrigin reported = follow(forwarded_hops(forwarded), origin, proxies);
    if (separate.empty()) return reported;
    const bool agree = follow(separate, origin, proxies).client == reported.client;
    return agree ? reported : origin;
}

bool is_host_allowed(const RequestOrigin& origin, const std::vector<std::string>& allowed) {
    if (allowed.empty()) return true;
    const std::string host = lower_case(origin.host);
    const std::optional<HostAndPort> split = split_port(host);
    if (!split) return false;
    const std::optional<ip::address> address = address_in(split->host);
    if (origin.client.is_loopback() &&
        (split->host == "localhost" || (address && address->is_loopback())))
        return true;
    return std::any_of(allowed.begin(), allowed.end(), [&](const std::string& one) {
        const std::string text = lower_case(one);
        const std::optional<HostAndPort> listed = split_port(text);
        return listed && listed->host == split->host &&
               (listed->port.empty() || listed->port == split->port);
    });
}

}  // namespace cubepi::detail
