#pragma once

#include <string>

namespace cubepi::detail {

/// Returns true if the host is an IPv4 or IPv6 address, which needs no resolution.
bool is_ip_address(const std::string& host) noexcept;

}  // namespace cubepi::detail
