// Conversations that are kept.

#include <gtest/gtest.h>

#include <filesystem>
#include <string>

#include <sqlite3.h>

#include "terminal.hpp"

namespace cubepi::terminal_tests {
namespace {

TEST(Sessions, AreKeptContinuedListedAndDeleted) {
    const Home home;
    EXPECT_EQ(run_piped(home, {"sessions", "list"}).status, 0);
    EXPECT_FALSE(std::filesystem::exists(home.database())) << "looking made a database";
    EXPECT_EQ(run_piped(home, {"run", "--offline", "--session", "plan", "first"}).status, 0);
    EXPECT_EQ(run_piped(home, {"run", "--offline", "--session", "other", "else"}).status, 0);
    EXPECT_EQ(run_piped(home, {"run", "--offline", "--session", "plan", "second"}).status, 0);
    EXPECT_EQ(run_piped(home, {"run", "--offline", "--continue", "third"}).status, 0);
    const std::string listed = run_piped(home, {"sessions", "list"}).out;
    EXPECT_TRUE(listed.starts_with("plan\t")) << listed;
    EXPECT_NE(listed.find("6 messages"), std::string::npos) << listed;
    EXPECT_NE(listed.find("other\t"), std::string::npos) << listed;
    EXPECT_EQ(run_piped(home, {"sessions", "delete", "nobody"}).status, 2);
    EXPECT_EQ(run_piped(home, {"sessions", "delete", "plan"}).status, 0);
    EXPECT_EQ(run_piped(home, {"sessions", "list"}).out.find("plan"), std::string::npos);
}

TEST(Sessions, NothingToContinueIsSaid) {
    const Home home;
    const Piped run = run_piped(home, {"run", "--offline", "--continue", "x"});
    EXPECT_NE(run.status, 0);
    EXPECT_NE(run.err.find("cubepi chat --session NAME"), std::string::npos) << run.err;
}

TEST(Sessions, ALockedDatabaseIsStatusFourAndLosesNothing) {
    const Home home;
    ASSERT_EQ(run_piped(home, {"run", "--offline", "--session", "plan", "first"}).status, 0);
    sqlite3* other = nullptr;
    ASSERT_EQ(sqlite3_open(home.database().c_str(), &other), SQLITE_OK);
    ASSERT_EQ(sqlite3_exec(other, "BEGIN EXCLUSIVE", nullptr, nullptr, nullptr), SQLITE_OK);
    const Piped run = run_piped(home, {"run", "--offline", "--session", "plan", "second"});
    sqlite3_close(other);
    EXPECT_EQ(run.status, 4) << run.err;
    EXPECT_NE(run.err.find("another process holds"), std::string::npos) << run.err;
    EXPECT_NE(run_piped(home, {"sessions", "list"}).out.find("2 messages"), std::string::npos);
}

TEST(Sessions, ADiskThatTakesNoMoreIsStatusFourAndLosesNothing) {
    const Home home;
    ASSERT_EQ(run_piped(home, {"run", "--offline", "--session", "plan", "first"}).status, 0);
    const auto size = std::filesystem::file_size(home.database());
    const std::string prompt(size, 'x');
    const Piped run =
        run_with_file_limit(home, {"run", "--offline", "--session", "plan", prompt}, size);
    EXPECT_EQ(run.status, 4) << run.err;
    EXPECT_NE(run.err.find("nothing was stored"), std::string::npos) << run.err;
    EXPECT_EQ(run.err.find("xxxx"), std::string::npos) << "the prompt is in the error";
    // What there was is still there, and it goes on.
    EXPECT_NE(read_file(home.database()).find("\"first\""), std::string::npos);
    EXPECT_EQ(run_piped(home, {"run", "--offline", "--session", "plan", "again"}).status, 0);
}

TEST(Sessions, ADatabaseThatIsNoneIsStatusFour) {
    const Home home;
    write_file(home.database(), std::string(5000, 'x'));
    const Piped run = run_piped(home, {"run", "--offline", "--session", "plan", "x"});
    EXPECT_EQ(run.status, 4) << run.err;
    EXPECT_EQ(read_file(home.database()), std::string(5000, 'x')) << "it is not ours to repair";
}

TEST(Sessions, AFolderThatCannotBeMadeIsStatusFour) {
    Home home;
    write_file(home.root() / "a-file", "x");
    home.set("XDG_DATA_HOME", (home.root() / "a-file/below").string());
    const Piped run = run_piped(home, {"run", "--offline", "--session", "plan", "x"});
    EXPECT_EQ(run.status, 4) << run.err;
    EXPECT_NE(run.err.find("cannot make the folder"), std::string::npos) << run.err;
}

}  // namespace
}  // namespace cubepi::terminal_tests
