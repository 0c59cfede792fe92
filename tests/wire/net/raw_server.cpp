#include "raw_server.hpp"

#include <cstdlib>
#include <stdexcept>

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

namespace cubepi::wire {
namespace {

int listen_on_loopback(std::uint16_t& port) {
    const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof(address);
    if (fd < 0 || ::bind(fd, reinterpret_cast<sockaddr*>(&address), size) != 0 ||
        ::listen(fd, 64) != 0 ||
        ::getsockname(fd, reinterpret_cast<sockaddr*>(&address), &size) != 0) {
        throw std::runtime_error("cannot listen on 127.0.0.1");
    }
    port = ntohs(address.sin_port);
    return fd;
}

}  // namespace

Connection::~Connection() { ::close(fd_); }

std::string Connection::read_some() {
    char bytes[16 * 1024];
    const ssize_t count = ::recv(fd_, bytes, sizeof(bytes), 0);
    return count > 0 ? std::string(bytes, static_cast<std::size_t>(count)) : std::string();
}

std::string Connection::read_head() {
    std::size_t end = 0;
    while ((end = buffer_.find("\r\n\r\n")) == std::string::npos) {
        const std::string more = read_some();
        if (more.empty()) return {};
        buffer_ += more;
    }
    std::string head = buffer_.substr(0, end + 4);
    buffer_.erase(0, end + 4);
    return head;
}

std::string Connection::read_request() {
    std::string request = read_head();
    const std::size_t at = request.find("Content-Length: ");
    if (at == std::string::npos) return request;
    const std::size_t size = std::strtoul(request.c_str() + at + 16, nullptr, 10);
    while (buffer_.size() < size) {
        const std::string more = read_some();
        if (more.empty()) return {};
        buffer_ += more;
    }
    request += buffer_.substr(0, size);
    buffer_.erase(0, size);
    return request;
}

bool Connection::send(std::string_view bytes) {
    while (!bytes.empty()) {
        const ssize_t count = ::send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
        if (count <= 0) return false;
        bytes.remove_prefix(static_cast<std::size_t>(count));
    }
    return true;
}

void Connection::wait_until_closed() {
    while (!read_some().empty()) {
    }
}

bool Connection::closed() {
    char byte = 0;
    const ssize_t count = ::recv(fd_, &byte, 1, MSG_DONTWAIT | MSG_PEEK);
    return count == 0 || (count < 0 && errno != EAGAIN && errno != EWOULDBLOCK);
}

void Connection::half_close() { ::shutdown(fd_, SHUT_WR); }

void Connection::interrupt() { ::shutdown(fd_, SHUT_RDWR); }

void Connection::reset() {
    const linger now{1, 0};
    ::setsockopt(fd_, SOL_SOCKET, SO_LINGER, &now, sizeof(now));
}

RawServer::RawServer(Handler handler) : handler_(std::move(handler)) {
    listener_ = listen_on_loopback(port_);
    acceptor_ = std::thread([this] { accept_all(); });
}

RawServer::~RawServer() {
    {
        const std::lock_guard lock(mutex_);
        stopping_ = true;
        ::shutdown(listener_, SHUT_RDWR);
        for (auto& connection : connections_) connection->interrupt();
    }
    acceptor_.join();
    for (auto& thread : threads_) thread.join();
    ::close(listener_);
}

std::string RawServer::url(const std::string& path) const {
    return "http://127.0.0.1:" + std::to_string(port_) + path;
}

void RawServer::wait_for_ended(int count) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return ended_ >= count; });
}

void RawServer::accept_all() {
    while (true) {
        const int fd = ::accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
        const std::lock_guard lock(mutex_);
        if (fd < 0 || stopping_) {
            if (fd >= 0) ::close(fd);
            return;
        }
        ++accepted_;
        auto connection = std::make_shared<Connection>(fd);
        connections_.push_back(connection);
        threads_.emplace_back([this, connection = std::move(connection)]() mutable {
            handler_(*connection);
            const std::lock_guard guard(mutex_);
            connections_.remove(connection);
            connection.reset();
            ++ended_;
            changed_.notify_all();
        });
    }
}

std::uint16_t closed_port() {
    std::uint16_t port = 0;
    ::close(listen_on_loopback(port));
    return port;
}

std::string ok(std::string_view body, std::string_view extra_headers) {
    return "HTTP/1.1 200 OK\r\nContent-Length: " + std::to_string(body.size()) + "\r\n" +
           std::string(extra_headers) + "\r\n" + std::string(body);
}

std::string chunk(std::string_view bytes) {
    char size[20];
    std::snprintf(size, sizeof(size), "%zx\r\n", bytes.size());
    return size + std::string(bytes) + "\r\n";
}

}  // namespace cubepi::wire
