#include <cubepi/checkpoint/server_proxy_test.hpp>

#include <algorithm>
#include <array>
#include <cstring>
#include <filesystem>
#include <stdexcept>
#include <utility>
#include <vector>

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

namespace cubepi {

namespace {

sockaddr_un address_of(const std::string& path) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    if (path.size() >= sizeof address.sun_path) throw std::runtime_error("path too long");
    std::memcpy(address.sun_path, path.c_str(), path.size() + 1);
    return address;
}

int new_socket() { return ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0); }

}  // namespace

ServerProxy::ServerProxy(Protocol protocol, std::string server)
    : protocol_(protocol),
      server_(std::move(server)),
      listener_(new_socket()),
      wake_(eventfd(0, EFD_CLOEXEC)) {
    std::string name = (std::filesystem::temp_directory_path() / "cubepi-proxy-XXXXXX").string();
    if (!mkdtemp(name.data())) throw std::runtime_error("mkdtemp failed");
    directory_ = name;
    const sockaddr_un address = address_of(socket());
    if (bind(listener_, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0 ||
        listen(listener_, 64) != 0)
        throw std::runtime_error("the proxy cannot listen");
    thread_ = std::thread([this] { run(); });
}

ServerProxy::~ServerProxy() {
    {
        const std::lock_guard lock(mutex_);
        stopped_ = true;
    }
    eventfd_write(wake_, 1);
    thread_.join();
    close(listener_);
    close(wake_);
    std::error_code ignored;
    std::filesystem::remove_all(directory_, ignored);
}

std::string ServerProxy::socket() const {
    return directory_ + (protocol_ == Protocol::postgres ? "/.s.PGSQL.5432" : "/socket");
}

void ServerProxy::cut_after(Direction direction, std::size_t bytes) {
    const std::lock_guard lock(mutex_);
    const auto index = static_cast<std::size_t>(direction);
    cuts_[index] = true;
    left_[index] = bytes;
}

void ServerProxy::before_statement(int number, std::function<void()> hook, bool cut) {
    const std::lock_guard lock(mutex_);
    statements_ = number;
    hook_ = std::move(hook);
    hook_cuts_ = cut;
}

void ServerProxy::freeze() {
    const std::lock_guard lock(mutex_);
    freeze_ = true;
    eventfd_write(wake_, 1);
}

void ServerProxy::delay() {
    const std::lock_guard lock(mutex_);
    delay_ = true;
    eventfd_write(wake_, 1);
}

void ServerProxy::deliver() {
    const std::lock_guard lock(mutex_);
    deliver_ = true;
    eventfd_write(wake_, 1);
}

void ServerProxy::hold() {
    const std::lock_guard lock(mutex_);
    hold_ = true;
    eventfd_write(wake_, 1);
}

void ServerProxy::release(bool cut) {
    const std::lock_guard lock(mutex_);
    hold_ = false;
    cut_all_ = cut;
    eventfd_write(wake_, 1);
}

std::size_t ServerProxy::take_count(Direction direction) {
    const std::lock_guard lock(mutex_);
    return std::exchange(counts_[static_cast<std::size_t>(direction)], 0);
}

void ServerProxy::accept_one() {
    Pair pair;
    pair.client = accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
    pair.server = new_socket();
    const sockaddr_un address = address_of(server_);
    if (connect(pair.server, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
        close(pair.client);
        close(pair.server);
        return;
    }
    pairs_.push_back(std::move(pair));
}

std::size_t ServerProxy::header_size(const Pair& pair) const {
    return protocol_ == Protocol::postgres && pair.started ? 5 : 4;
}

void ServerProxy::begin_message(Pair& pair) const {
    const auto byte = [&pair](std::size_t at) {
        return static_cast<std::size_t>(static_cast<unsigned char>(pair.header[at]));
    };
    if (protocol_ == Protocol::mysql) {
        pair.body = byte(0) | byte(1) << 8U | byte(2) << 16U;
        pair.executes = byte(3) == 0;  // the first packet of a command
        return;
    }
    const std::size_t at = pair.started ? 1 : 0;
    pair.body = (byte(at) << 24U | byte(at + 1) << 16U | byte(at + 2) << 8U | byte(at + 3)) - 4;
    pair.executes = pair.started && pair.header[0] == 'E';
}

std::size_t ServerProxy::find_statement(Pair& pair, const char* data, std::size_t size) {
    std::size_t at = 0;
    while (at < size) {
        if (pair.body > 0) {
            const std::size_t taken = std::min(pair.body, size - at);
            pair.body -= taken;
            at += taken;
            continue;
        }
        pair.header += data[at++];
        const std::size_t header = header_size(pair);
        if (pair.header.size() < header) continue;
        begin_message(pair);
        pair.started = true;
        pair.header.clear();
        if (pair.executes && statements_ > 0 && --statements_ == 0)
            return at - std::min<std::size_t>(at, header);
    }
    return size;
}

bool ServerProxy::pass(Pair& pair, Direction direction, const char* data, std::size_t size) {
    std::function<void()> hook;
    std::size_t allowed = size;
    bool cut = false;
    {
        const std::lock_guard lock(mutex_);
        const auto index = static_cast<std::size_t>(direction);
        if (direction == Direction::to_server) {
            const int before = statements_;
            const std::size_t found = find_statement(pair, data, size);
            if (before > 0 && statements_ == 0) {
                hook = std::move(hook_);
                cut = hook_cuts_;
                if (cut) allowed = found;
            }
        }
        if (cuts_[index]) {
            if (allowed >= left_[index]) {
                allowed = left_[index];
                cuts_[index] = false;
                cut = true;
            } else {
                left_[index] -= allowed;
            }
        }
        counts_[index] += allowed;
    }
    if (hook && !cut) hook();
    const int to = direction == Direction::to_server ? pair.server : pair.client;
    while (allowed > 0) {
        const ssize_t sent = send(to, data, allowed, MSG_NOSIGNAL);
        if (sent <= 0) return false;
        data += sent;
        allowed -= static_cast<std::size_t>(sent);
    }
    if (hook && cut) hook();
    return !cut;
}

bool ServerProxy::forward(Pair& pair, Direction direction) {
    std::array<char, 65536> buffer{};
    const int from = direction == Direction::to_server ? pair.client : pair.server;
    const ssize_t count = recv(from, buffer.data(), buffer.size(), 0);
    return count > 0 && pass(pair, direction, buffer.data(), static_cast<std::size_t>(count));
}

bool ServerProxy::obey() {
    const std::lock_guard lock(mutex_);
    eventfd_t ignored = 0;
    eventfd_read(wake_, &ignored);
    if (std::exchange(freeze_, false))
        for (Pair& pair : pairs_) pair.frozen = true;
    if (std::exchange(delay_, false))
        for (Pair& pair : pairs_) pair.delayed = true;
    if (std::exchange(deliver_, false))
        for (Pair& pair : pairs_) pair.delayed = false;
    if (std::exchange(cut_all_, false)) close_all();
    return !stopped_;
}

void ServerProxy::close_all() {
    for (const Pair& pair : pairs_) {
        close(pair.client);
        close(pair.server);
    }
    pairs_.clear();
}

void ServerProxy::run() {
    bool is_held = false;
    for (;;) {
        std::vector<pollfd> waits{{listener_, POLLIN, 0}, {wake_, POLLIN, 0}};
        for (const Pair& pair : pairs_) {
            const short events = pair.frozen ? 0 : POLLIN;
            waits.push_back({pair.delayed ? -1 : pair.client, events, 0});
            waits.push_back({pair.delayed ? -1 : pair.server, events, 0});
        }
        // Only for wake_.
        if (is_held) waits[0].fd = -1;
        poll(waits.data(), is_held ? 2 : waits.size(), -1);
        if (waits[1].revents != 0) {
            if (!obey()) break;
            const std::lock_guard lock(mutex_);
            is_held = hold_;
            continue;
        }
        std::size_t next = 2;
        for (auto pair = pairs_.begin(); pair != pairs_.end();) {
            const bool from_client = waits[next].revents != 0;
            const bool from_server = waits[next + 1].revents != 0;
            next += 2;
            const bool open = (!from_client || forward(*pair, Direction::to_server)) &&
                              (!from_server || forward(*pair, Direction::to_client));
            if (!open) {
                close(pair->client);
                close(pair->server);
            }
            pair = open ? std::next(pair) : pairs_.erase(pair);
        }
        if (waits[0].revents != 0) accept_one();
    }
    close_all();
}

}  // namespace cubepi
