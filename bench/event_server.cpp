#include "event_server.hpp"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <ctime>
#include <memory>
#include <stdexcept>
#include <unordered_map>

namespace cubepi::bench {

std::int64_t now_ns() noexcept {
    timespec time{};
    clock_gettime(CLOCK_MONOTONIC, &time);
    return static_cast<std::int64_t>(time.tv_sec) * 1'000'000'000 + time.tv_nsec;
}

namespace {

constexpr std::string_view head =
    "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n";

struct Client {
    int fd = -1;
    bool asked = false;
    int sent = 0;
    std::int64_t next_ns = 0;
    std::string out = {};
};

/// The server's loop; never returns.
class Server {
public:
    Server(int listener, EventForm form, int events, std::int64_t period_us)
        : listener_(listener),
          form_(std::move(form)),
          events_(events),
          period_ns_(period_us * 1000),
          epoll_(epoll_create1(0)) {
        watch(listener_, EPOLLIN);
    }

    [[noreturn]] void run() {
        for (;;) {
            epoll_event ready[256];
            const int count = epoll_wait(epoll_, ready, 256, period_ns_ > 0 ? 1 : -1);
            for (int i = 0; i < count; ++i) serve(ready[i].data.fd);
            if (period_ns_ > 0) tick();
        }
    }

private:
    void watch(int fd, std::uint32_t events) {
        epoll_event wanted{};
        wanted.events = events;
        wanted.data.fd = fd;
        if (epoll_ctl(epoll_, EPOLL_CTL_ADD, fd, &wanted) != 0)
            epoll_ctl(epoll_, EPOLL_CTL_MOD, fd, &wanted);
    }

    void serve(int fd) {
        if (fd == listener_) return accept_all();
        Client& client = clients_.at(fd);
        if (!client.asked) return read_request(client);
        flush(client);
    }

    void accept_all() {
        for (;;) {
            const int fd = accept4(listener_, nullptr, nullptr, SOCK_NONBLOCK);
            if (fd < 0) return;
            const int on = 1;
            setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
            clients_[fd].fd = fd;
            watch(fd, EPOLLIN);
        }
    }

    void read_request(Client& client) {
        char bytes[65536];
        const ssize_t got = read(client.fd, bytes, sizeof bytes);
        if (got <= 0) return drop(client);
        // The requests are small and arrive in one read.
        client.asked = true;
        client.out = std::string(head) + form_.opening;
        client.next_ns = now_ns() + (static_cast<std::int64_t>(clients_.size()) * 7919'000) %
                                        (period_ns_ > 0 ? period_ns_ : 1);
        watch(client.fd, EPOLLOUT);
        flush(client);
    }

    void add_event(Client& client) {
        char time[24];
        std::snprintf(time, sizeof time, "%020lld", static_cast<long long>(now_ns()));
        client.out += form_.before;
        client.out += time;
        client.out += form_.after;
        if (++client.sent == events_) client.out += form_.closing;
    }

    void flush(Client& client) {
        for (;;) {
            while (period_ns_ == 0 && client.out.size() < 32768 && client.sent < events_)
                add_event(client);
            if (client.out.empty()) break;
            const ssize_t put = send(client.fd, client.out.data(), client.out.size(), MSG_NOSIGNAL);
            if (put < 0) return errno == EAGAIN ? void() : drop(client);
            client.out.erase(0, static_cast<std::size_t>(put));
        }
        if (client.sent == events_) return drop(client);
        if (period_ns_ > 0) watch(client.fd, 0);
    }

    void tick() {
        const std::int64_t now = now_ns();
        std::vector<int> due;
        for (auto& [fd, client] : clients_) {
            if (client.asked && client.next_ns <= now) due.push_back(fd);
        }
        for (const int fd : due) {
            Client& client = clients_.at(fd);
            client.next_ns += period_ns_;
            add_event(client);
            flush(client);
        }
    }

    void drop(Client& client) {
        const int fd = client.fd;
        clients_.erase(fd);
        close(fd);
    }

    int listener_;
    EventForm form_;
    int events_;
    std::int64_t period_ns_;
    int epoll_;
    std::unordered_map<int, Client> clients_;
};

}  // namespace

EventServer::EventServer(EventForm form, int events, std::int64_t period_us) {
    const int listener = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    auto* const bound = reinterpret_cast<sockaddr*>(&address);
    if (bind(listener, bound, sizeof address) != 0 || listen(listener, 4096) != 0)
        throw std::runtime_error("the event server cannot listen");
    socklen_t size = sizeof address;
    getsockname(listener, bound, &size);
    port_ = ntohs(address.sin_port);
    const pid_t parent = getpid();
    process_ = fork();
    if (process_ == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        prctl(PR_SET_NAME, "event_server");  // for profilers
        if (getppid() != parent) _exit(0);
        Server(listener, std::move(form), events, period_us).run();
    }
    close(listener);
}

EventServer::~EventServer() {
    kill(process_, SIGKILL);
    waitpid(process_, nullptr, 0);
}

}  // namespace cubepi::bench
