#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <utility>

#include <cubepi/checkpoint/postgres_server_test.hpp>

// Hosts of the database that fail: the tests make namespaces of their own for them, which end with their process.

namespace cubepi::cluster_tests {

/// A file system of its own, in memory, that can be full. It ends with this process.
class SmallDisk {
public:
    /// Returns null if this process may not mount file systems.
    static std::unique_ptr<SmallDisk> mount();
    ~SmallDisk();
    SmallDisk(const SmallDisk&) = delete;
    SmallDisk& operator=(const SmallDisk&) = delete;

    /// Starts a server whose files are all here.
    std::unique_ptr<PostgresServer> new_server() const;
    /// Reduces its size to what is used.
    void fill() const;
    void free() const;

private:
    explicit SmallDisk(std::string path) : path_(std::move(path)) {}

    const std::string path_;
};

/// The network of a server that each gateway reaches by a link of its own, which can lose all packets. The thread that makes it is in
/// another network than before until the end of the object, as are the processes and threads that it starts meanwhile.
class ServerNetwork {
public:
    /// Returns null if this process may not make networks.
    static std::unique_ptr<ServerNetwork> make(std::size_t links);
    ~ServerNetwork();
    ServerNetwork(const ServerNetwork&) = delete;
    ServerNetwork& operator=(const ServerNetwork&) = delete;

    /// Starts a server in this network.
    std::unique_ptr<PostgresServer> new_server() const;
    /// Returns the address of the server at a link.
    static std::string server_at(std::size_t link) { return network_of(link) + "1"; }
    /// Returns the address of the gateway at a link.
    static std::string gateway_at(std::size_t link) { return network_of(link) + "2"; }

    /// The link loses all packets until join(): no end is notified.
    void separate(std::size_t link) const;
    void join(std::size_t link) const;
    /// Waits until the host of the server has acknowledged what was sent to it from this thread's network.
    static void wait_until_received();
    /// Ends the server and starts it again, as if its host had lost its power: the new host does not know the connections.
    void lose_power(PostgresServer& server) const;

private:
    ServerNetwork(std::size_t links, int before, int gateways, int server)
        : links_(links), before_(before), gateways_(gateways), server_(server) {}

    static std::string network_of(std::size_t link) {
        return "10.77." + std::to_string(link) + ".";
    }
    /// Calls `work` with this thread in the network of the server.
    void at_server(const std::function<void()>& work) const;

    const std::size_t links_;
    // Files of networks.
    const int before_;
    const int gateways_;
    const int server_;
};

}  // namespace cubepi::cluster_tests
