// Links and sessions of the web console: once, for a time, and not too many.

#include "gateway/console_sessions.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <memory>
#include <optional>
#include <sstream>
#include <string>
#include <vector>

#include <sys/stat.h>

#include <cubepi/core/error.hpp>
#include <cubepi/core/run.hpp>
#include <cubepi/core/scoped_test_directory.hpp>
#include <cubepi/testing/manual_clock.hpp>

namespace cubepi::app {
namespace {

struct Consoles {
    explicit Consoles(const std::filesystem::path& file = {})
        : sessions(std::make_shared<const Runtime>(Runtime().with_clock(clock)), file) {}

    std::shared_ptr<testing::ManualClock> clock = std::make_shared<testing::ManualClock>();
    ConsoleSessions sessions;

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

/// A file of logins, and processes that use it one after the other.
class StoredLogins : public ::testing::Test {
protected:
    static std::string contents(const std::filesystem::path& path) {
        std::ostringstream text;
        text << std::ifstream(path).rdbuf();
        return text.str();
    }
    void write(const std::string& text) const { std::ofstream(file) << text; }

    const ScopedTestDirectory directory;
    const std::filesystem::path file = directory.path() / "gateway.logins";
};

TEST_F(StoredLogins, D252_Restart_ContinuesLoginsAndTheirEnds) {
    Consoles first(file);
    const std::string olga = first.log_in();
    const std::string otto = first.log_in();
    const std::string ended = first.log_in();
    const ConsoleSession before = first.sessions.find(olga).value();
    const std::string link = first.sessions.make_link(GatewayRole::operator_, "late");
    first.sessions.log_out(otto);
    EXPECT_TRUE(first.sessions.end(first.sessions.find(ended)->id));
    run(first.sessions.save());
    struct stat status = {};
    ASSERT_EQ(::stat(file.c_str(), &status), 0);
    EXPECT_EQ(status.st_mode & 0777U, 0600U);
    for (const std::string& secret : {olga, otto, ended, link, before.csrf_token})
        EXPECT_EQ(contents(file).find(secret), std::string::npos);

    Consoles second(file);
    run(second.sessions.load());
    const std::optional<ConsoleSession> after = second.sessions.find(olga);
    ASSERT_TRUE(after);
    EXPECT_EQ(after->id, before.id);
    EXPECT_EQ(after->name, "olga");
    EXPECT_EQ(after->role, GatewayRole::operator_);
    EXPECT_EQ(after->csrf_token, before.csrf_token) << "a page that is open continues";
    EXPECT_FALSE(second.sessions.find(otto));
    EXPECT_FALSE(second.sessions.find(ended));
    EXPECT_FALSE(second.sessions.log_in(link)) << "links end with the process";
    EXPECT_EQ(second.sessions.logins().size(), 1u);
    // A login that is ended after the restart does not come back either.
    second.sessions.end_all();
    run(second.sessions.save());
    Consoles third(file);
    run(third.sessions.load());
    EXPECT_FALSE(third.sessions.find(olga));
}

TEST_F(StoredLogins, D252_TimesOfLogins_PassWhileNothingRuns) {
    Consoles first(file);
    const std::string secret = first.log_in();
    run(first.sessions.save());
    const auto restarted_after = [&](std::chrono::nanoseconds passed) {
        auto next = std::make_unique<Consoles>(file);
        next->clock->set_wall(
            first.clock->wall() +
            std::chrono::duration_cast<std::chrono::system_clock::duration>(passed));
        run(next->sessions.load());
        return next;
    };
    const auto minute = std::chrono::minutes(1);
    const auto used = restarted_after(ConsoleSessions::idle_lifetime - minute);
    EXPECT_TRUE(used->sessions.find(secret));
    // The use is a change, which a later process reads.
    run(used->sessions.save());
    EXPECT_TRUE(restarted_after(ConsoleSessions::idle_lifetime + minute)->sessions.find(secret));
    EXPECT_FALSE(restarted_after(2 * ConsoleSessions::idle_lifetime)->sessions.find(secret));
    EXPECT_FALSE(
        restarted_after(ConsoleSessions::longest_lifetime + minute)->sessions.find(secret));
    // A clock that was set back makes no login longer.
    const auto back = restarted_after(-std::chrono::hours(24 * 300));
    EXPECT_TRUE(back->sessions.find(secret));
    back->clock->advance(ConsoleSessions::idle_lifetime);
    EXPECT_FALSE(back->sessions.find(secret));
}

TEST_F(StoredLogins, D252_DamagedFiles_LogEveryBrowserOut) {
    Consoles first(file);
    const std::string secret = first.log_in();
    run(first.sessions.save());
    const std::string good = contents(file);
    const auto replaced = [&good](std::string_view what, std::string_view by) {
        std::string text = good;
        return text.replace(text.find(what), what.size(), by);
    };
    const std::vector<std::string> damaged = {
        "{",
        "[]",
        "{}",
        good.substr(0, good.size() / 2),
        replaced("\"version\":1", "\"version\":2"),
        replaced("operator", "root"),
        replaced("\"key\":\"", "\"key\":\"0"),
        std::string(std::size_t{2} << 20U, ' '),
    };
    for (const std::string& text : damaged) {
        write(text);
        Consoles next(file);
        EXPECT_THROW(run(next.sessions.load()), Error) << text.substr(0, 100);
        EXPECT_FALSE(next.sessions.find(secret));
        EXPECT_EQ(next.log_in().size(), 64u);
        run(next.sessions.save());
    }
    write(good);
    Consoles whole(file);
    run(whole.sessions.load());
    EXPECT_TRUE(whole.sessions.find(secret));
}

TEST_F(StoredLogins, D252_FailedWrite_IsReportedAndRepeated) {
    Consoles console(file / "below" / "a" / "file");
    write("a file is not a directory");
    const std::string secret = console.log_in();
    EXPECT_THROW(run(console.sessions.save()), Error);
    EXPECT_THROW(run(console.sessions.save()), Error) << "the change is not forgotten";
    EXPECT_TRUE(console.sessions.find(secret));
}

TEST(ConsoleSessions, D251_Streams_AreLimitedAndEndWithTheLogin) {
    Consoles console;
    const std::string secret = console.log_in();
    EXPECT_FALSE(console.sessions.open_stream("0"));
    std::vector<ConsoleStream> streams;
    for (std::size_t i = 0; i < ConsoleSessions::max_streams; ++i)
        streams.push_back(console.sessions.open_stream(secret).value());
    EXPECT_FALSE(console.sessions.open_stream(secret));
    EXPECT_TRUE(console.sessions.open_stream(console.log_in())) << "another login has its own";
    streams.pop_back();
    streams.push_back(console.sessions.open_stream(secret).value());
    const std::string id = console.sessions.find(secret)->id;
    for (const ConsoleStream& stream : streams) EXPECT_FALSE(stream.ended.stop_requested());
    EXPECT_TRUE(console.sessions.has(id));
    console.sessions.log_out(secret);
    EXPECT_FALSE(console.sessions.has(id));
    for (const ConsoleStream& stream : streams) EXPECT_TRUE(stream.ended.stop_requested());

    const std::string late = console.log_in();
    const ConsoleStream expired = console.sessions.open_stream(late).value();
    const std::string of_late = console.sessions.find(late)->id;
    console.clock->advance(ConsoleSessions::longest_lifetime);
    EXPECT_FALSE(console.sessions.has(of_late));
    EXPECT_TRUE(expired.ended.stop_requested());
}

}  // namespace
}  // namespace cubepi::app
