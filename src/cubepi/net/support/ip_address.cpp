#include <cubepi/net/support/ip_address.hpp>

#include <arpa/inet.h>
#include <netinet/in.h>

namespace cubepi::detail {

bool is_ip_address(const std::string& host) noexcept {
    in6_addr unused{};
    return inet_pton(AF_INET, host.c_str(), &unused) == 1 ||
           inet_pton(AF_INET6, host.c_str(), &unused) == 1;
}

}  // namespace cubepi::detail
