#include "balancer.hpp"

#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <fstream>
#include <stdexcept>

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

namespace cubepi::cluster_tests {

namespace {

constexpr const char* program = "/usr/sbin/haproxy";

[[noreturn]] void fail(const std::string& what) { throw std::runtime_error(what); }

template <class Address>
const sockaddr* as_sockaddr(const Address& address) {
    return reinterpret_cast<const sockaddr*>(&address);
}

/// Returns a socket that listens at a free port, and that a program inherits.
int listening_socket(std::uint16_t& port) {
    const int socket = ::socket(AF_INET, SOCK_STREAM, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    const bool listens = ::bind(socket, as_sockaddr(address), size) == 0 &&
                         ::listen(socket, SOMAXCONN) == 0 &&
                         ::getsockname(socket, reinterpret_cast<sockaddr*>(&address), &size) == 0;
    if (!listens) fail("no port for the balancer");
    port = ntohs(address.sin_port);
    return socket;
}

/// Sends commands to the balancer. Returns nothing while it does not listen.
bool command(const std::string& path, const std::string& text, std::string& answer) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    if (path.size() >= sizeof address.sun_path) fail("the path of the balancer is too long");
    std::memcpy(address.sun_path, path.c_str(), path.size());
    const int socket = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    const bool is_sent =
        ::connect(socket, as_sockaddr(address), sizeof address) == 0 &&
        ::send(socket, text.data(), text.size(), MSG_NOSIGNAL) == static_cast<ssize_t>(text.size());
    std::array<char, 1024> buffer{};
    for (ssize_t count = 1; is_sent && count > 0;) {
        count = ::read(socket, buffer.data(), buffer.size());
        if (count > 0) answer.append(buffer.data(), static_cast<std::size_t>(count));
    }
    ::close(socket);
    return is_sent;
}

std::string name_of(std::size_t index) { return "gateways/" + std::to_string(index); }

}  // namespace

Balancer::Balancer(const PostgresServer& server, std::size_t gateways)
    : control_(server.file("balancer")) {
    if (::access(program, X_OK) != 0) fail("HAProxy is not installed; run tools/setup all");
    const int listener = listening_socket(port_);
    const std::string file = server.file("haproxy.cfg");
    std::ofstream text(file);
    text << "global\n stats socket " << control_
         << " level admin\ndefaults\n mode http\n retries 3\n option redispatch 1\n"
            " timeout connect 5s\n timeout client 1h\n timeout server 1h\n"
            "frontend clients\n bind fd@"
         << listener
         << "\n default_backend gateways\nbackend gateways\n balance leastconn\n"
            " default-server check inter 100ms fall 1 rise 1 disabled\n";
    for (std::size_t index = 0; index < gateways; ++index)
        text << " server " << index << " 127.0.0.1:1\n";
    text.close();
    const int null = ::open("/dev/null", O_WRONLY | O_CLOEXEC);
    pid_ = server.spawn({program, "-db", "-f", file}, null);
    ::close(null);
    ::close(listener);
    for (std::string answer; !command(control_, "show version\n", answer); ::usleep(20'000))
        if (::waitpid(pid_, nullptr, WNOHANG) != 0) fail("the balancer did not start");
}

Balancer::~Balancer() {
    ::kill(pid_, SIGKILL);
    while (::waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) {
    }
}

void Balancer::serve(std::size_t index, std::uint16_t port) const {
    std::string answer;
    const std::string name = name_of(index);
    const bool is_sent =
        command(control_,
                "set server " + name + " addr 127.0.0.1 port " + std::to_string(port) +
                    "; set server " + name + " state ready\n",
                answer);
    if (!is_sent || answer.find("No such") != std::string::npos)
        fail("the balancer does not know the gateway: " + answer);
}

}  // namespace cubepi::cluster_tests
