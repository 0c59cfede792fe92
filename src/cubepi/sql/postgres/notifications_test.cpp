// Notifications of a database that does not answer.

#include <cubepi/sql/postgres_notifications.hpp>

#include <gtest/gtest.h>

#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <cubepi/core/support/posix_file.hpp>

namespace cubepi {
namespace {

/// A port whose packets are dropped: the queue of its connections is full.
class SilentPort {
public:
    SilentPort() : listener_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
        sockaddr_in address = {};
        address.sin_family = AF_INET;
        address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        auto* const place = reinterpret_cast<sockaddr*>(&address);
        socklen_t size = sizeof address;
        EXPECT_EQ(::bind(listener_.get(), place, size), 0);
        EXPECT_EQ(::listen(listener_.get(), 0), 0);
        EXPECT_EQ(::getsockname(listener_.get(), place, &size), 0);
        port_ = ntohs(address.sin_port);
        for (int i = 0; i < 4; ++i) {
            clients_.emplace_back(::socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
            (void)::connect(clients_.back().get(), place, size);
        }
    }
    int port() const noexcept { return port_; }

private:
    const detail::UniqueFd listener_;
    std::vector<detail::UniqueFd> clients_;
    int port_ = 0;
};

TEST(PostgresNotifications, SilentHost_DoesNotDelayTheEnd) {
    const SilentPort silent;
    PostgresOptions options;
    options.connection = "host=127.0.0.1 dbname=x user=x port=" + std::to_string(silent.port());
    PostgresNotifications notifications(std::move(options), "x", [](const std::string&) {});
    // Each one wakes the thread, which waits for the connection.
    for (int i = 0; i < 1'000; ++i) {
        notifications.notify("x");
        std::this_thread::yield();
    }
}

TEST(PostgresNotifications, WithoutConnection_FewWait) {
    const SilentPort silent;
    PostgresOptions options;
    options.connection = "host=127.0.0.1 dbname=x user=x port=" + std::to_string(silent.port());
    PostgresNotifications notifications(std::move(options), "x", [](const std::string&) {});
    for (int i = 0; i < 1'500; ++i) notifications.notify("end_" + std::to_string(i));
    EXPECT_EQ(notifications.pending(), 1'000u);
}

}  // namespace
}  // namespace cubepi
