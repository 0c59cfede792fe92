#include "server_host.hpp"

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <sstream>
#include <stdexcept>
#include <thread>
#include <vector>

#include <fcntl.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/statvfs.h>
#include <unistd.h>

namespace cubepi::cluster_tests {

namespace {

/// So much of it is in memory as is used.
constexpr const char* whole_size = "size=4g,mode=755";

/// The file systems that this process mounts are not those of others, and end with it.
bool has_own_mounts() {
    static const bool has_them = ::unshare(CLONE_NEWNS) == 0 &&
                                 ::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0;
    return has_them;
}

/// Returns a file of the network of this thread.
int own_network() { return ::open("/proc/thread-self/ns/net", O_RDONLY | O_CLOEXEC); }

void enter(int network) {
    if (::setns(network, CLONE_NEWNET) != 0)
        throw std::runtime_error("a network could not be entered");
}

/// Runs a command of `ip` in the network of this thread.
void ip(const std::string& command) {
    if (std::system(("ip " + command).c_str()) != 0)
        throw std::runtime_error("ip " + command + " has failed");
}

void start(PostgresServer& server) { server.start({"-c", "listen_addresses=*"}); }

/// Returns the sizes of what the connections in the network of this thread have sent, without what was acknowledged, in hexadecimal digits.
std::vector<std::string> unacknowledged() {
    std::ifstream file("/proc/thread-self/net/tcp");
    std::vector<std::string> all;
    std::string line;
    std::getline(file, line);
    while (std::getline(file, line)) {
        std::istringstream words(line);
        std::string number;
        std::string from;
        std::string to;
        std::string state;
        std::string queues;
        words >> number >> from >> to >> state >> queues;
        const bool has_ended = state == "06";  // TIME_WAIT
        if (!has_ended) all.push_back(queues.substr(0, queues.find(':')));
    }
    return all;
}

void pause() { std::this_thread::sleep_for(std::chrono::milliseconds(20)); }

std::string link_name(const std::string& end, std::size_t link) {
    return end + std::to_string(link);
}

}  // namespace

std::unique_ptr<SmallDisk> SmallDisk::mount() {
    std::string path = (std::filesystem::temp_directory_path() / "cubepi-disk-XXXXXX").string();
    if (!mkdtemp(path.data())) throw std::runtime_error("no temporary directory");
    if (has_own_mounts() &&
        ::mount("none", path.c_str(), "tmpfs", MS_NOSUID | MS_NODEV, whole_size) == 0)
        return std::unique_ptr<SmallDisk>(new SmallDisk(std::move(path)));
    std::filesystem::remove(path);
    std::cout << "this process may not mount a small disk: rows are refused instead\n";
    return nullptr;
}

SmallDisk::~SmallDisk() {
    (void)::umount2(path_.c_str(), MNT_DETACH);
    std::error_code ignored;
    std::filesystem::remove(path_, ignored);
}

std::unique_ptr<PostgresServer> SmallDisk::new_server() const {
    return std::make_unique<PostgresServer>(path_);
}

void SmallDisk::fill() const {
    constexpr unsigned long flags = MS_REMOUNT | MS_NOSUID | MS_NODEV;
    // Between two calls more may be used.
    for (int attempts = 0; attempts < 1'000; ++attempts) {
        struct statvfs now{};
        if (::statvfs(path_.c_str(), &now) != 0) break;
        const std::string size =
            "size=" + std::to_string((now.f_blocks - now.f_bfree) * now.f_frsize);
        if (::mount(nullptr, path_.c_str(), nullptr, flags, size.c_str()) == 0) return;
    }
    throw std::runtime_error("the small disk was not filled");
}

void SmallDisk::free() const {
    constexpr unsigned long flags = MS_REMOUNT | MS_NOSUID | MS_NODEV;
    if (::mount(nullptr, path_.c_str(), nullptr, flags, whole_size) != 0)
        throw std::runtime_error("the small disk was not freed");
}

std::unique_ptr<ServerNetwork> ServerNetwork::make(std::size_t links) {
    const int before = own_network();
    if (::unshare(CLONE_NEWNET) != 0) {
        ::close(before);
        std::cout << "this process may not make networks: none loses packets\n";
        return nullptr;
    }
    const int gateways = own_network();
    if (::unshare(CLONE_NEWNET) != 0) throw std::runtime_error("there is no second network");
    std::unique_ptr<ServerNetwork> network(
        new ServerNetwork(links, before, gateways, own_network()));
    enter(gateways);
    ip("link set lo up");
    const std::string server =
        "/proc/" + std::to_string(::getpid()) + "/fd/" + std::to_string(network->server_);
    for (std::size_t link = 0; link < links; ++link) {
        const std::string gateway = link_name("gateway", link);
        const std::string peer = link_name("server", link);
        ip("link add " + gateway + " type veth peer name " + peer + " netns " + server);
        ip("address add " + gateway_at(link) + "/24 dev " + gateway);
        ip("link set " + gateway + " up");
        network->at_server([&] { ip("address add " + server_at(link) + "/24 dev " + peer); });
        network->join(link);
    }
    return network;
}

ServerNetwork::~ServerNetwork() {
    (void)::setns(before_, CLONE_NEWNET);
    for (const int file : {before_, gateways_, server_}) ::close(file);
}

void ServerNetwork::at_server(const std::function<void()>& work) const {
    enter(server_);
    try {
        work();
    } catch (...) {
        enter(gateways_);
        throw;
    }
    enter(gateways_);
}

std::unique_ptr<PostgresServer> ServerNetwork::new_server() const {
    std::unique_ptr<PostgresServer> server;
    at_server([&server] {
        server = std::make_unique<PostgresServer>();
        server->stop(SIGINT);
        std::ofstream(server->file("data/pg_hba.conf"), std::ios::app)
            << "host all all 10.77.0.0/16 trust\n";
        // Of lose_power(): the ends of connections are not repeated for long.
        std::ofstream("/proc/sys/net/ipv4/tcp_orphan_retries") << 1;
        std::ofstream("/proc/sys/net/ipv4/tcp_fin_timeout") << 1;
        start(*server);
    });
    return server;
}

void ServerNetwork::wait_until_received() {
    const auto is_waiting = [](const std::string& size) {
        return size.find_first_not_of('0') != std::string::npos;
    };
    for (;; pause()) {
        const std::vector<std::string> sizes = unacknowledged();
        if (std::none_of(sizes.begin(), sizes.end(), is_waiting)) return;
    }
}

void ServerNetwork::lose_power(PostgresServer& server) const {
    for (std::size_t link = 0; link < links_; ++link) separate(link);
    at_server([&server] {
        server.stop(SIGKILL);
        // It repeats the ends of its connections for a while.
        while (!unacknowledged().empty()) pause();
        start(server);
    });
    for (std::size_t link = 0; link < links_; ++link) join(link);
}

void ServerNetwork::separate(std::size_t link) const {
    at_server([link] { ip("link set " + link_name("server", link) + " down"); });
}

void ServerNetwork::join(std::size_t link) const {
    at_server([link] { ip("link set " + link_name("server", link) + " up"); });
}

}  // namespace cubepi::cluster_tests
