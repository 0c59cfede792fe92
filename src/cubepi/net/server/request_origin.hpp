#pragma once

#include <string>
#include <string_view>
#include <vector>

#include <boost/asio/ip/address.hpp>

#include <cubepi/core/http_transport.hpp>

namespace cubepi::detail {

/// Returns the IPv4 address that an IPv4-mapped one stands for; others unchanged.
boost::asio::ip::address unmapped(const boost::asio::ip::address& address);

/// Addresses and ranges of addresses in CIDR notation (RFC 4632).
class AddressRanges {
public:
    AddressRanges() = default;
    /// Throws Error(invalid_argument) that names a text that is neither.
    explicit AddressRanges(const std::vector<std::string>& ranges);
    bool contains(const boost::asio::ip::address& address) const;

private:
    struct Range {
        boost::asio::ip::address address;
        unsigned short bits = 0;
    };
    std::vector<Range> ranges_;
};

/// Where a request comes from.
struct RequestOrigin {
    boost::asio::ip::address client = {};
    std::string scheme = {};
    std::string host = {};
};

/// Returns the origin of a request from `peer`. If `peer` is listed, the headers of proxies are read from the last entry to the first:
/// each was added by the proxy that the entry after it names, so they are true as far as these are listed. What is not an address
/// ("unknown", a name, garbage) ends the search at the proxy that has reported it, and so does a client about which `Forwarded` and
/// `X-Forwarded-For` disagree: many proxies pass on the one that they do not set.
RequestOrigin request_origin(const HttpHeaders& headers, const boost::asio::ip::address& peer,
                             std::string_view scheme, const AddressRanges& proxies);

/// Returns true if HttpAccess::allowed_hosts accepts the origin.
bool is_host_allowed(const RequestOrigin& origin, const std::vector<std::string>& allowed);

}  // namespace cubepi::detail
