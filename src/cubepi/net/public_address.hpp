#pragma once

#include <string>
#include <string_view>

namespace cubepi {

/// True for a publicly routable IPv4 or IPv6 address (text): not loopback, link-local, private, carrier-grade NAT, multicast,
/// reserved or documentation, nor an IPv6 address that embeds such an IPv4 address (mapped, NAT64, 6to4, Teredo). False for a
/// text that is not an address. Follows the IANA special-purpose address registries (RFC 6890).
bool is_public_address(std::string_view address);

/// True for a link-local address (text), at which clouds have the service that hands out their credentials, and for such services
/// at other addresses. No program has a reason to let another party name one. False for a text that is not an address.
bool is_metadata_address(std::string_view address);

namespace detail {
/// Returns true if the host is an IPv4 or IPv6 address, which needs no resolution.
bool is_ip_address(const std::string& host) noexcept;
}  // namespace detail

}  // namespace cubepi
