#include "db_check.hpp"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <memory>
#include <sstream>
#include <string>
#include <utility>

#include <gtest/gtest.h>

#include <bub/channel/file_delivery_log.hpp>
#include <bub/tape/file_tape_store.hpp>
#include <bub/tape/tape.hpp>
#include <cubepi/checkpoint/postgres_server_test.hpp>
#include <cubepi/checkpoint/sqlite_checkpointer.hpp>
#include <cubepi/core/error.hpp>
#include <cubepi/core/json.hpp>
#include <cubepi/core/message.hpp>
#include <cubepi/core/run.hpp>
#include <cubepi/core/scoped_test_directory.hpp>

#include "failure.hpp"
#include "program.hpp"

namespace cubepi::app {
namespace {

namespace fs = std::filesystem;

class DbCheck : public ::testing::Test {
protected:
    static std::string empty_database() {
        PostgresServer& server = PostgresServer::shared();
        std::string host;
        for (const char c : server.socket_directory()) host += c == '/' ? "%2F" : std::string(1, c);
        return "postgres://cubepi:hidden-word@" + host + "/" + server.create_empty_database();
    }
    int check(const std::string& target, bool json = false, bool tapes = false) {
        DatabaseArguments arguments;
        arguments.what = DatabaseArguments::What::check;
        arguments.target = target;
        arguments.json = json;
        arguments.tapes = tapes;
        std::ostringstream output;
        std::ostringstream errors;
        const int status = use_database(arguments, output, errors);
        out = output.str();
        err = errors.str();
        return status;
    }
    std::string error_of(const std::string& target, bool tapes = false) {
        try {
            check(target, false, tapes);
        } catch (const Error& error) {
            return error.what();
        }
        return "(none)";
    }
    fs::path path(const char* name) const { return directory_.path() / name; }
    /// A directory like $BUB_HOME, with a tape and a message.
    std::string make_home() const {
        bub::FileTapeOptions tapes;
        tapes.directory = path("home/tapes");
        const auto store = std::make_shared<bub::FileTapeStore>(std::move(tapes));
        run(bub::Tape(store, "w__s").append(bub::message_entry("user", "hello")));
        bub::FileDeliveryLogOptions options;
        options.directory = path("home/deliveries");
        bub::FileDeliveryLog log(std::move(options));
        bub::Envelope message = bub::Envelope("hello").on("chat", "1");
        message.inbound_id = "u1";
        (void)run(log.receive(std::move(message)));
        return path("home").string();
    }
    void add(const char* name, const std::string& text) const {
        std::ofstream(path(name), std::ios::binary | std::ios::app) << text;
    }

    ScopedTestDirectory directory_;
    std::string out;
    std::string err;
};

MessageList prompt(std::string text) {
    MessageList list;
    list.push_back(user_message(std::move(text)));
    return list;
}

TEST_F(DbCheck, D209_SQLiteFile_IsChecked) {
    const std::string file = path("threads.db").string();
    {
        SQLiteCheckpointer store(file);
        run(store.append("t", prompt("hello"), AppendOptions()));
    }
    EXPECT_EQ(check("sqlite:///" + file), exit_ok);
    EXPECT_NE(out.find("threads: 1, messages: 1"), std::string::npos) << out;
    EXPECT_EQ(err, "Sound.\n");
    EXPECT_EQ(check(file, true), exit_ok);
    const Json json = boost::json::parse(out);
    EXPECT_EQ(json.at("sound"), true);
    EXPECT_EQ(json.at("stores").at(0).at("counts").at("messages"), 1);
    EXPECT_EQ(json.at("stores").at(0).at("findings"), JsonArray());
}

TEST_F(DbCheck, D209_Directories_AreRecognizedByWhatTheyHold) {
    const std::string home = make_home();
    EXPECT_EQ(check(home), exit_ok);
    EXPECT_NE(out.find("tapes: 1, entries: 1"), std::string::npos) << out;
    EXPECT_NE(out.find("unfinished messages: 1"), std::string::npos) << out;
    EXPECT_EQ(check(home + "/tapes"), exit_ok);
    EXPECT_EQ(out.find("unfinished"), std::string::npos) << out;
    for (const char* name : {"/deliveries", "/deliveries/deliveries.jsonl"}) {
        EXPECT_EQ(check(home + name), exit_ok);
        EXPECT_NE(out.find("unfinished messages: 1"), std::string::npos) << out;
        EXPECT_EQ(out.find("tapes:"), std::string::npos) << out;
    }
    EXPECT_NE(error_of(home + "/tapes/w__s.jsonl").find("name the directory"), std::string::npos);
}

TEST_F(DbCheck, D209_RepairsAndDamage_DecideTheExitStatus) {
    const std::string home = make_home();
    add("home/tapes/w__s.jsonl", "{\"id\": 2, ");
    EXPECT_EQ(check(home), exit_ok);
    EXPECT_NE(err.find("The next use makes the repairs above"), std::string::npos) << err;
    add("home/tapes/w__s.jsonl",
        "\n{\"id\": 9, \"kind\": \"event\", \"payload\": {\"name\": \"x\"}}\n");
    EXPECT_EQ(check(home), exit_failed);
    EXPECT_NE(out.find("damage\ttape 'w__s', line 3: entries 2 to 8 are missing"),
              std::string::npos)
        << out;
    EXPECT_NE(err.find("Nothing was changed"), std::string::npos) << err;
    EXPECT_EQ(check(home, true), exit_failed);
    EXPECT_EQ(boost::json::parse(out).at("stores").at(0).at("damages"), 1);
}

TEST_F(DbCheck, D209_HostileNames_AreEscaped) {
    const std::string file = path("threads.db").string();
    {
        SQLiteCheckpointer store(file);
        AppendOptions options = AppendOptions();
        MessageList list = prompt("x");
        ToolResultMessage result;
        result.tool_call_id = "c";
        result.tool_name = "rm";
        list.push_back(Message(std::move(result)));
        run(store.append("evil\x1b[2J\nthread\xe2\x80\xae", std::move(list), std::move(options)));
    }
    EXPECT_EQ(check(file), exit_ok);
    EXPECT_EQ(out.find('\x1b'), std::string::npos) << out;
    EXPECT_EQ(out.find("\xe2\x80\xae"), std::string::npos) << out;
    EXPECT_EQ(check(file, true), exit_ok);
    EXPECT_EQ(out.find('\x1b'), std::string::npos) << out;
    EXPECT_EQ(std::count(out.begin(), out.end(), '\n'), 1) << out;
}

TEST_F(DbCheck, D209_OtherTargets_AreRefused) {
    EXPECT_NE(error_of("oracle://u:hidden-word@host/x").find("oracle"), std::string::npos);
    EXPECT_EQ(error_of("oracle://u:hidden-word@host/x").find("hidden-word"), std::string::npos);
    EXPECT_NE(error_of("mysql://host/x", true).find("--tapes needs"), std::string::npos);
    EXPECT_NE(error_of(path("missing.db").string()).find("does not exist"), std::string::npos);
    EXPECT_FALSE(fs::exists(path("missing.db")));
}

TEST_F(DbCheck, D209_Server_IsCheckedWithThreadsOrTapes) {
    const std::string url = empty_database();
    for (const bool tapes : {false, true}) {
        EXPECT_EQ(check(url, false, tapes), exit_failed);
        EXPECT_NE(out.find("there are none"), std::string::npos) << out;
        EXPECT_EQ(out.find("hidden-word"), std::string::npos) << out;
        DatabaseArguments init;
        init.what = DatabaseArguments::What::init;
        init.target = url;
        init.tapes = tapes;
        std::ostringstream ignored;
        EXPECT_EQ(use_database(init, ignored, ignored), exit_ok);
        EXPECT_EQ(check(url, false, tapes), exit_ok);
        EXPECT_NE(out.find(tapes ? "tapes: 0" : "threads: 0"), std::string::npos) << out;
        EXPECT_EQ(out.find("gateways: 0") != std::string::npos, tapes) << out;
    }
    EXPECT_EQ(check(url), exit_ok);
    for (const char* const part : {"threads: 0", "tapes: 0", "gateways: 0"})
        EXPECT_NE(out.find(part), std::string::npos) << part << "\n" << out;
}

TEST_F(DbCheck, D209_DamagedGatewayDatabase_IsFoundByItsUrl) {
    const std::string url = empty_database();
    DatabaseArguments init;
    init.what = DatabaseArguments::What::init;
    init.target = url;
    init.tapes = true;
    std::ostringstream ignored;
    EXPECT_EQ(use_database(init, ignored, ignored), exit_ok);
    EXPECT_EQ(check(url), exit_ok) << out;
    EXPECT_EQ(out.find("threads: 0"), std::string::npos) << out;
    RawPostgres(url).query("DROP TABLE bub_schema");
    EXPECT_EQ(check(url), exit_failed);
    EXPECT_NE(out.find("there are none"), std::string::npos) << out;
    EXPECT_NE(out.find("--tapes"), std::string::npos) << out;
}

}  // namespace
}  // namespace cubepi::app
