#pragma once

#include <functional>
#include <string>
#include <vector>

namespace cubepi {

/// Turns a host name into addresses (IPv4 or IPv6 text), best first. May block, as long as it likes: it runs
/// on a thread of its own, which an abort does not wait for. Called from several threads. Throws
/// Error(dns).
using Resolver = std::function<std::vector<std::string>(const std::string& host)>;

/// What the system knows (getaddrinfo: /etc/hosts, DNS, and whatever else is set up).
std::vector<std::string> resolve_with_system(const std::string& host);

}  // namespace cubepi
