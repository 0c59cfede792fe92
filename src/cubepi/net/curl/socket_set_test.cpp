#include <cubepi/net/curl/socket_set.hpp>

#include <array>

#include <gtest/gtest.h>

#include <boost/asio/io_context.hpp>

#include <sys/socket.h>
#include <unistd.h>

#include <curl/curl.h>

namespace cubepi::detail {
namespace {

/// A connected pair of sockets.
struct Ends {
    Ends() { EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, fds.data()), 0); }
    ~Ends() {
        for (const int fd : fds) ::close(fd);
    }
    void say() const { EXPECT_EQ(::write(fds[1], "x", 1), 1); }
    int ours() const { return fds[0]; }

    std::array<int, 2> fds{};
};

struct SocketSetTest : ::testing::Test {
    std::size_t ready() { return set.ready(found); }

    boost::asio::io_context context{1};
    SocketSet set{context.get_executor()};
    std::array<SocketSet::Ready, 16> found{};
    Ends ends;
};

TEST_F(SocketSetTest, TellsWhatIsReadyAsLongAsItIs) {
    set.watch(ends.ours(), CURL_POLL_IN);
    EXPECT_EQ(ready(), 0u);
    ends.say();
    for (int round = 0; round < 2; ++round) {
        ASSERT_EQ(ready(), 1u);
        EXPECT_EQ(found[0].fd, ends.ours());
        EXPECT_EQ(found[0].events, CURL_CSELECT_IN);
    }
    set.watch(ends.ours(), CURL_POLL_INOUT);
    ASSERT_EQ(ready(), 1u);
    EXPECT_EQ(found[0].events, CURL_CSELECT_IN | CURL_CSELECT_OUT);
}

TEST_F(SocketSetTest, APeerThatHasGoneIsSomethingToRead) {
    set.watch(ends.ours(), CURL_POLL_IN);
    ::shutdown(ends.fds[1], SHUT_RDWR);
    ASSERT_EQ(ready(), 1u);
    EXPECT_EQ(found[0].events, CURL_CSELECT_IN);
}

TEST_F(SocketSetTest, AnotherSocketOfTheSameNumberIsNotTheOneThatWasReady) {
    set.watch(ends.ours(), CURL_POLL_IN);
    ends.say();
    ASSERT_EQ(ready(), 1u);
    EXPECT_TRUE(set.holds(found[0]));
    set.forget(ends.ours());
    EXPECT_FALSE(set.holds(found[0]));
    set.watch(ends.ours(), CURL_POLL_IN);
    EXPECT_FALSE(set.holds(found[0]));
}

TEST_F(SocketSetTest, SocketsThatDidNotFitComeNextTime) {
    std::array<Ends, 3> all;
    for (const Ends& one : all) {
        set.watch(one.ours(), CURL_POLL_IN);
        one.say();
    }
    std::array<SocketSet::Ready, 2> few{};
    std::array<int, 16> seen{};
    for (int round = 0; round < 2; ++round) {
        const std::size_t count = set.ready(few);
        EXPECT_EQ(count, 2u);
        for (std::size_t i = 0; i < count; ++i) {
            for (std::size_t n = 0; n < all.size(); ++n) seen[n] += few[i].fd == all[n].ours();
        }
    }
    for (std::size_t n = 0; n < all.size(); ++n) EXPECT_GT(seen[n], 0);
}

TEST_F(SocketSetTest, WakesTheContextAndDoesNotKeepItWhenItIsEmpty) {
    int woken = 0;
    set.watch(ends.ours(), CURL_POLL_IN);
    set.async_wait([&](boost::system::error_code) { ++woken; });
    ends.say();
    context.run();
    EXPECT_EQ(woken, 1);
    set.forget(ends.ours());
    Ends silent;
    set.watch(silent.ours(), CURL_POLL_IN);
    set.async_wait([&](boost::system::error_code) { ++woken; });
    set.forget(silent.ours());
    context.restart();
    context.run();  // ends
    EXPECT_EQ(woken, 2);
}

TEST_F(SocketSetTest, WhatCannotBeWatchedIsAnError) {
    EXPECT_THROW(set.watch(-1, CURL_POLL_IN), boost::system::system_error);
    EXPECT_TRUE(set.empty());
}

}  // namespace
}  // namespace cubepi::detail
