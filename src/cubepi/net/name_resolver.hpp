#pragma once

#include <functional>
#include <string>
#include <vector>

namespace cubepi {

/// Resolves a host name to addresses (IPv4 or IPv6 text), best first. May block for any time: it runs on a thread of
/// its own, for which an abort does not wait. Called from several threads. Throws Error(dns).
using Resolver = std::function<std::vector<std::string>(const std::string& host)>;

/// Resolves a name with the system's resolver (getaddrinfo: /etc/hosts, DNS, and other configured sources).
std::vector<std::string> resolve_with_system(const std::string& host);

}  // namespace cubepi
