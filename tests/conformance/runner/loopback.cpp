#include "loopback.hpp"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <charconv>
#include <cstdio>
#include <mutex>
#include <stdexcept>
#include <thread>
#include <utility>

namespace conformance {

namespace {

/// A connected or listening socket.
class Socket {
public:
    explicit Socket(int fd) : fd_(fd) {
        if (fd_ < 0) throw std::runtime_error("loopback server: no socket");
    }
    ~Socket() { close(fd_); }
    Socket(const Socket&) = delete;
    Socket& operator=(const Socket&) = delete;
    int fd() const noexcept { return fd_; }

private:
    int fd_;
};

bool wait_for_input(int fd, int milliseconds) {
    pollfd waiting{fd, POLLIN, 0};
    return poll(&waiting, 1, milliseconds) > 0;
}

bool send_all(int fd, std::string_view bytes) {
    while (!bytes.empty()) {
        const ssize_t sent = send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL);
        if (sent <= 0) return false;
        bytes.remove_prefix(static_cast<std::size_t>(sent));
    }
    return true;
}

std::string lower(std::string text) {
    for (char& c : text) {
        if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
    }
    return text;
}

HttpAsked parse_head(std::string_view head) {
    HttpAsked asked;
    std::size_t line_end = head.find("\r\n");
    const std::string_view first = head.substr(0, line_end);
    const std::size_t space = first.find(' ');
    asked.method = first.substr(0, space);
    asked.path = first.substr(space + 1, first.rfind(' ') - space - 1);
    while (line_end != std::string_view::npos) {
        head.remove_prefix(line_end + 2);
        line_end = head.find("\r\n");
        const std::string_view line = head.substr(0, line_end);
        const std::size_t colon = line.find(':');
        if (colon == std::string_view::npos) continue;
        const std::size_t value = line.find_first_not_of(' ', colon + 1);
        asked.headers[lower(std::string(line.substr(0, colon)))] =
            value == std::string_view::npos ? "" : line.substr(value);
    }
    return asked;
}

std::string head_of(const HttpAnswer& answer) {
    std::string head =
        "HTTP/1.1 " + std::to_string(answer.status) + " Answer\r\nConnection: close\r\n";
    for (const auto& [name, value] : answer.headers) head += name + ": " + value + "\r\n";
    if (answer.stride != 0) {
        head += "Transfer-Encoding: chunked\r\n";
    } else {
        head += "Content-Length: " + std::to_string(answer.body.size() + (answer.cut ? 1000 : 0)) +
                "\r\n";
    }
    return head + "\r\n";
}

std::string chunk(std::string_view bytes) {
    char size[24];
    std::snprintf(size, sizeof size, "%zx\r\n", bytes.size());
    return size + std::string(bytes) + "\r\n";
}

void send_body(int fd, const HttpAnswer& answer) {
    std::string_view rest = answer.body;
    const std::size_t pause_at = answer.pause_after_bytes;
    std::size_t done = 0;
    while (!rest.empty()) {
        std::size_t size = answer.stride != 0 ? std::min(answer.stride, rest.size()) : rest.size();
        if (pause_at > done) size = std::min(size, pause_at - done);
        const std::string_view piece = rest.substr(0, size);
        if (!send_all(fd, answer.stride != 0 ? chunk(piece) : std::string(piece))) return;
        rest.remove_prefix(size);
        done += size;
        // A client that closes the connection ends the pause.
        if (done == pause_at) (void)wait_for_input(fd, answer.pause_ms);
    }
    if (answer.stride != 0 && !answer.cut) (void)send_all(fd, "0\r\n\r\n");
}

}  // namespace

struct Loopback::State {
    explicit State(std::vector<HttpAnswer> given)
        : answers(std::move(given)), listener(open_socket()) {}

    static int open_socket() { return socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0); }

    void listen_on_loopback() {
        sockaddr_in address{};
        address.sin_family = AF_INET;
        address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        socklen_t size = sizeof address;
        auto* generic = reinterpret_cast<sockaddr*>(&address);
        if (bind(listener.fd(), generic, size) != 0 || listen(listener.fd(), 16) != 0 ||
            getsockname(listener.fd(), generic, &size) != 0) {
            throw std::runtime_error("loopback server: no port");
        }
        port = ntohs(address.sin_port);
    }

    void serve() {
        while (!stopping) {
            if (!wait_for_input(listener.fd(), 20)) continue;
            const Socket connection(accept4(listener.fd(), nullptr, nullptr, SOCK_CLOEXEC));
            const int on = 1;
            (void)setsockopt(connection.fd(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
            serve_one(connection.fd());
        }
    }

    void serve_one(int fd) {
        std::string input;
        const auto read_more = [&] {
            char buffer[65536];
            while (!stopping) {
                if (!wait_for_input(fd, 20)) continue;
                const ssize_t count = recv(fd, buffer, sizeof buffer, 0);
                if (count <= 0) return false;
                input.append(buffer, static_cast<std::size_t>(count));
                return true;
            }
            return false;
        };
        std::size_t end = std::string::npos;
        while ((end = input.find("\r\n\r\n")) == std::string::npos) {
            if (!read_more()) return;
        }
        HttpAsked one = parse_head(std::string_view(input).substr(0, end));
        const std::string length = one.headers["content-length"];
        std::size_t size = 0;
        (void)std::from_chars(length.data(), length.data() + length.size(), size);
        while (input.size() < end + 4 + size) {
            if (!read_more()) return;
        }
        one.body = input.substr(end + 4, size);
        HttpAnswer answer;
        {
            const std::lock_guard lock(mutex);
            answer = answers[std::min(asked.size(), answers.size() - 1)];
            asked.push_back(std::move(one));
        }
        if (send_all(fd, head_of(answer))) send_body(fd, answer);
        (void)shutdown(fd, SHUT_WR);
    }

    std::vector<HttpAnswer> answers;
    Socket listener;
    std::uint16_t port = 0;
    mutable std::mutex mutex;
    std::vector<HttpAsked> asked;
    std::atomic<bool> stopping{false};
    std::thread thread;
};

Loopback::Loopback(std::vector<HttpAnswer> answers)
    : state_(std::make_unique<State>(std::move(answers))) {
    state_->listen_on_loopback();
    state_->thread = std::thread([state = state_.get()] { state->serve(); });
}

Loopback::~Loopback() {
    state_->stopping = true;
    state_->thread.join();
}

std::uint16_t Loopback::port() const noexcept { return state_->port; }

std::vector<HttpAsked> Loopback::asked() const {
    const std::lock_guard lock(state_->mutex);
    return state_->asked;
}

}  // namespace conformance
