// Links and sessions of the web console: once, for a time, and not too many.

#include "gateway/console_sessions.hpp"

#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <string>

#include <cubepi/testing/manual_clock.hpp>

namespace cubepi::app {
namespace {

struct Consoles {
    std::shared_ptr<testing::ManualClock> clock = std::make_shared<testing::ManualClock>();
    ConsoleSessions sessions{clock};

    std::string log_in() {
        return sessions.log_in(sessions.make_link(GatewayRole::operator_, "olga")).value();
    }
};

TEST(ConsoleSessions, D199_Link_LogsInOnce) {
    Consoles console;
    const std::string link = console.sessions.make_link(GatewayRole::viewer, "vera");
    EXPECT_FALSE(console.sessions.log_in(""));
    EXPECT_FALSE(console.sessions.log_in(link + "0"));
    const std::optional<std::string> secret = console.sessions.log_in(link);
    ASSERT_TRUE(secret);
    EXPECT_FALSE(console.sessions.log_in(link));
    const std::optional<ConsoleSession> session = console.sessions.find(*secret);
    ASSERT_TRUE(session);
    EXPECT_EQ(session->role, GatewayRole::viewer);
    EXPECT_EQ(session->name, "vera");
    EXPECT_EQ(session->csrf_token.size(), 64u);
    EXPECT_NE(session->csrf_token, *secret);
    EXPECT_FALSE(console.sessions.find(link)) << "a link is not a session";
    EXPECT_FALSE(console.sessions.find(session->csrf_token));
    console.sessions.log_out(*secret);
    EXPECT_FALSE(console.sessions.find(*secret));
}

TEST(ConsoleSessions, D199_Time_EndsLinksAndSessions) {
    Consoles console;
    const std::string late = console.sessions.make_link(GatewayRole::operator_, "olga");
    console.clock->advance(ConsoleSessions::link_lifetime);
    EXPECT_FALSE(console.sessions.log_in(late));

    const std::string unused = console.log_in();
    console.clock->advance(ConsoleSessions::idle_lifetime);
    EXPECT_FALSE(console.sessions.find(unused));

    const std::string used = console.log_in();
    const auto step = ConsoleSessions::idle_lifetime - std::chrono::hours(1);
    std::chrono::nanoseconds passed{0};
    for (; passed + step < ConsoleSessions::longest_lifetime; passed += step) {
        EXPECT_TRUE(console.sessions.find(used));
        console.clock->advance(step);
    }
    EXPECT_TRUE(console.sessions.find(used));
    console.clock->advance(ConsoleSessions::longest_lifetime - passed);
    EXPECT_FALSE(console.sessions.find(used)) << "also if it is used";
}

TEST(ConsoleSessions, D199_FurtherOnes_ReplaceThoseThatEndFirst) {
    Consoles console;
    const std::string first_link = console.sessions.make_link(GatewayRole::viewer, "");
    console.clock->advance(std::chrono::seconds(1));
    std::string last_link;
    for (std::size_t i = 0; i < ConsoleSessions::max_links; ++i)
        last_link = console.sessions.make_link(GatewayRole::viewer, "");
    EXPECT_FALSE(console.sessions.log_in(first_link));
    EXPECT_TRUE(console.sessions.log_in(last_link));

    const std::string first = console.log_in();
    console.clock->advance(std::chrono::seconds(1));
    std::string last;
    for (std::size_t i = 0; i < ConsoleSessions::max_sessions; ++i) last = console.log_in();
    EXPECT_FALSE(console.sessions.find(first));
    EXPECT_TRUE(console.sessions.find(last));
}

}  // namespace
}  // namespace cubepi::app
