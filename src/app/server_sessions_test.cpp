// Sessions in a PostgreSQL database, through the commands of the program.
#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include <cubepi/checkpoint/postgres_server_test.hpp>
#include <cubepi/core/scoped_test_directory.hpp>

#include "config/tape_place.hpp"
#include "exit_code.hpp"
#include "program.hpp"

namespace cubepi::app {
namespace {

struct Ran {
    int status = -1;
    std::string out = {};
    std::string err = {};

    bool mentions(const std::string& text) const {
        return (out + err).find(text) != std::string::npos;
    }
};

/// Sets a variable for the test.
class Variable {
public:
    Variable(const char* name, const std::string& value) : name_(name) {
        const char* const before = std::getenv(name);
        had_ = before != nullptr;
        if (had_) before_ = before;
        setenv(name, value.c_str(), 1);
    }
    ~Variable() {
        if (had_) {
            setenv(name_, before_.c_str(), 1);
        } else {
            unsetenv(name_);
        }
    }
    Variable(const Variable&) = delete;
    Variable& operator=(const Variable&) = delete;

private:
    const char* name_;
    bool had_ = false;
    std::string before_;
};

class ServerSessions : public ::testing::Test {
protected:
    ServerSessions()
        : home_("BUB_HOME", file("bub")),
          config_("XDG_CONFIG_HOME", file("config")),
          data_("XDG_DATA_HOME", file("data")) {}
    ~ServerSessions() override { set_tape_database({}); }

    std::string file(const std::string& name) const { return (directory_.path() / name).string(); }

    static Ran command(std::vector<std::string> words) {
        words.insert(words.begin(), "cubepi");
        std::vector<char*> arguments;
        for (std::string& word : words) arguments.push_back(word.data());
        Ran ran;
        ::testing::internal::CaptureStdout();
        ::testing::internal::CaptureStderr();
        ran.status = run_program(static_cast<int>(arguments.size()), arguments.data());
        ran.out = ::testing::internal::GetCapturedStdout();
        ran.err = ::testing::internal::GetCapturedStderr();
        EXPECT_FALSE(ran.mentions("hidden-word")) << ran.out << ran.err;
        return ran;
    }
    /// The URL of a database; with a password that no output may contain.
    static std::string url_of(const std::string& database) {
        PostgresServer& server = PostgresServer::shared();
        const std::string connection = server.connection(database);
        const std::size_t at = connection.find("user=");
        std::string user = "postgres";
        if (at != std::string::npos)
            user = connection.substr(at + 5, connection.find(' ', at) - at - 5);
        std::string host;
        for (const char c : server.socket_directory()) host += c == '/' ? "%2F" : std::string(1, c);
        return "postgres://" + user + ":hidden-word@" + host + "/" + database;
    }
    static std::string new_url() {
        return url_of(PostgresServer::shared().create_empty_database());
    }
    void configure(const std::string& text) const {
        std::filesystem::create_directories(file("config/cubepi"));
        std::ofstream(file("config/cubepi/config.yaml")) << text;
        std::filesystem::permissions(
            file("config/cubepi/config.yaml"),
            std::filesystem::perms::owner_read | std::filesystem::perms::owner_write);
    }
    bool has_files() const { return std::filesystem::exists(file("bub/tapes")); }

    ScopedTestDirectory directory_;
    Variable home_;
    Variable config_;
    Variable data_;
};

TEST_F(ServerSessions, ASessionIsOnTheServerAndNotInFiles) {
    const std::string url = new_url();
    EXPECT_EQ(command({"db", "init", "--tapes", url}).status, exit_ok);
    for (int i = 0; i < 2; ++i) {
        const Ran ran = command({"run", "--offline", "--db", url, "--session", "plan", "hello"});
        EXPECT_EQ(ran.status, exit_ok) << ran.err;
    }
    EXPECT_FALSE(has_files());
    const Ran sessions = command({"sessions", "list", "--db", url});
    EXPECT_EQ(sessions.status, exit_ok);
    EXPECT_NE(sessions.out.find("plan\t"), std::string::npos) << sessions.out;
    EXPECT_NE(sessions.out.find("\t4 messages\t"), std::string::npos) << sessions.out;
    EXPECT_EQ(command({"sessions", "list"}).out, "");
    const Ran shown = command({"tape", "show", "--session", "plan", "--db", url});
    EXPECT_NE(shown.out.find("user: hello"), std::string::npos) << shown.out << shown.err;
    EXPECT_TRUE(command({"tape", "list", "--db", url}).mentions(" bytes\t"));
    EXPECT_EQ(command({"inbox", "--db", url}).status, exit_ok);
    EXPECT_EQ(command({"sessions", "delete", "plan", "--db", url}).status, exit_ok);
    EXPECT_EQ(command({"sessions", "list", "--db", url}).out, "");
}

TEST_F(ServerSessions, TheConfigurationNamesTheDatabase) {
    configure("database: " + new_url() + "\n");
    const Ran missing = command({"run", "--offline", "--session", "plan", "hello"});
    EXPECT_EQ(missing.status, exit_storage) << missing.err;
    EXPECT_TRUE(missing.mentions("cubepi db init --tapes")) << missing.err;
    EXPECT_TRUE(command({"doctor"}).mentions("cubepi db init"));
    EXPECT_EQ(command({"db", "init"}).status, exit_ok);
    EXPECT_EQ(command({"run", "--offline", "--session", "plan", "hello"}).status, exit_ok);
    const Ran doctor = command({"doctor"});
    EXPECT_TRUE(doctor.mentions("(config.yaml)")) << doctor.out;
    EXPECT_TRUE(doctor.mentions("1 session, 1 of this directory")) << doctor.out;
    EXPECT_FALSE(has_files());
    configure("database: mysql://me:hidden-word@localhost/x\n");
    const Ran wrong = command({"sessions", "list"});
    EXPECT_NE(wrong.status, exit_ok);
    EXPECT_TRUE(wrong.mentions("database must be the URL of a PostgreSQL database")) << wrong.err;
}

TEST_F(ServerSessions, AServerThatCannotBeUsedIsAnErrorWithTheNextStep) {
    const std::string url = new_url();
    const std::string gone = url.substr(0, url.rfind('/')) + "/no_such_database";
    const Ran ran = command({"run", "--offline", "--db", gone, "--session", "plan", "hello"});
    EXPECT_EQ(ran.status, exit_storage) << ran.err;
    EXPECT_TRUE(ran.mentions("no_such_database")) << ran.err;
    const Ran doctor = command({"doctor", "--db", gone});
    EXPECT_TRUE(doctor.mentions("no_such_database")) << doctor.out;
    EXPECT_TRUE(doctor.mentions("(--db)")) << doctor.out;
    EXPECT_EQ(command({"run", "--db", "mysql://me:hidden-word@localhost/x", "hello"}).status,
              exit_usage);
    EXPECT_EQ(command({"tape", "list", "--db", "hidden-word"}).status, exit_usage);
}

TEST_F(ServerSessions, DoctorTellsTheVersionOfTheTables) {
    const std::string database = PostgresServer::shared().create_empty_database();
    const std::string url = url_of(database);
    EXPECT_EQ(command({"db", "init", "--tapes", url}).status, exit_ok);
    RawPostgres server(PostgresServer::shared().connection(database));
    server.query("UPDATE bub_schema SET version = 1");
    EXPECT_TRUE(command({"doctor", "--db", url}).mentions("cubepi db migrate --tapes"));
    server.query("UPDATE bub_schema SET version = 70");
    EXPECT_TRUE(command({"doctor", "--db", url}).mentions("newer than this program knows"));
}

TEST_F(ServerSessions, TapesAreCopiedToTheServerAndBack) {
    const std::string url = new_url();
    EXPECT_EQ(command({"db", "init", "--tapes", url}).status, exit_ok);
    EXPECT_EQ(command({"run", "--offline", "--session", "plan", "hello"}).status, exit_ok);
    EXPECT_TRUE(has_files());
    const Ran copied = command({"tape", "copy", url, "--session", "plan"});
    EXPECT_EQ(copied.status, exit_ok) << copied.err;
    EXPECT_TRUE(copied.mentions(" entries\n")) << copied.out;
    EXPECT_TRUE(command({"tape", "copy", url, "--all"}).mentions("nothing new"));
    const Ran more = command({"run", "--offline", "--db", url, "--session", "plan", "and then?"});
    EXPECT_EQ(more.status, exit_ok) << more.err;
    const Ran longer = command({"tape", "copy", url, "--all"});
    EXPECT_EQ(longer.status, exit_storage);
    EXPECT_TRUE(longer.mentions("is longer")) << longer.err;
    EXPECT_TRUE(longer.mentions("--force")) << longer.err;
    EXPECT_EQ(command({"tape", "copy", "files", "--all", "--db", url}).status, exit_ok);
    const auto lines = [](std::vector<std::string> words) {
        for (const char* word : {"tape", "export", "--session", "plan"}) words.emplace_back(word);
        std::rotate(words.begin(), words.end() - 4, words.end());
        return command(std::move(words)).out;
    };
    EXPECT_EQ(lines({}), lines({"--db", url}));
    EXPECT_NE(lines({}).find("and then?"), std::string::npos);
    EXPECT_EQ(command({"tape", "copy", "files", "--all"}).status, exit_usage) << "the same place";
    EXPECT_EQ(command({"tape", "copy", url}).status, exit_usage) << "nothing named";
}

}  // namespace
}  // namespace cubepi::app
