#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include <cubepi/checkpoint/postgres_server_test.hpp>

namespace cubepi::cluster_tests {

/// HAProxy before gateways whose ports change when they are started again, as docs/guides/bub/several-gateways.md configures it.
class Balancer {
public:
    /// Starts it for so many gateways, of which none is in service. Its files are those of the server. It ends with this thread. Throws if
    /// it is not installed on this machine.
    Balancer(const PostgresServer& server, std::size_t gateways);
    ~Balancer();
    Balancer(const Balancer&) = delete;
    Balancer& operator=(const Balancer&) = delete;

    std::uint16_t port() const noexcept { return port_; }
    /// Puts a gateway into service that listens at this port. One that accepts no connections is out of service meanwhile.
    void serve(std::size_t index, std::uint16_t port) const;

private:
    const std::string control_;  ///< the socket for commands
    std::uint16_t port_ = 0;
    int pid_ = -1;
};

}  // namespace cubepi::cluster_tests
