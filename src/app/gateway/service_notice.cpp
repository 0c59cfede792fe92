#include "service_notice.hpp"

#include <charconv>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <string_view>

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cubepi/core/support/posix_file.hpp>

namespace cubepi::app {

namespace {

std::string_view variable(const char* name) {
    const char* const value = std::getenv(name);
    return value ? std::string_view(value) : std::string_view();
}

std::optional<std::int64_t> number_in(const char* name) {
    const std::string_view text = variable(name);
    std::int64_t value = 0;
    const char* const end = text.data() + text.size();
    const auto [stop, failed] = std::from_chars(text.data(), end, value);
    if (failed != std::errc() || stop != end) return std::nullopt;
    return value;
}

}  // namespace

void notify_service_manager(const std::string& assignments) {
    const std::string_view path = variable("NOTIFY_SOCKET");
    sockaddr_un address = {};
    if (path.size() < 2 || path.size() >= sizeof address.sun_path) return;
    if (path.front() != '/' && path.front() != '@') return;
    address.sun_family = AF_UNIX;
    std::memcpy(address.sun_path, path.data(), path.size());
    if (path.front() == '@') address.sun_path[0] = '\0';  // an abstract socket
    const detail::UniqueFd socket(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0));
    if (socket.get() < 0) return;
    const auto size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + path.size());
    // systemd does not answer. A failure to send cannot be reported to it.
    (void)::sendto(socket.get(), assignments.data(), assignments.size(), MSG_NOSIGNAL,
                   reinterpret_cast<const sockaddr*>(&address), size);
}

std::optional<std::chrono::microseconds> watchdog_interval() {
    const std::optional<std::int64_t> limit = number_in("WATCHDOG_USEC");
    const std::optional<std::int64_t> process = number_in("WATCHDOG_PID");
    if (!limit || *limit <= 0 || (process && *process != ::getpid())) return std::nullopt;
    return std::chrono::microseconds(*limit / 2);
}

std::string reloading_notice() {
    timespec now = {};
    ::clock_gettime(CLOCK_MONOTONIC, &now);
    const std::int64_t microseconds = std::int64_t{now.tv_sec} * 1'000'000 + now.tv_nsec / 1000;
    return "RELOADING=1\nMONOTONIC_USEC=" + std::to_string(microseconds);
}

}  // namespace cubepi::app
