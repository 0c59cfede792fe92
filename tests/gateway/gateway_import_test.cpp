// `cubepi gateway import` (D256): what a gateway with files has left continues in a database, once, however often the import is repeated.

#include <gtest/gtest.h>

#include <filesystem>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <cubepi/checkpoint/postgres_server_test.hpp>
#include <cubepi/core/run.hpp>

#include "echo_model.hpp"
#include "gateway/control_server.hpp"
#include "gateway_process.hpp"
#include "wait_until.hpp"

namespace cubepi::gateway_tests {
namespace {

class GatewayImport : public ::testing::Test {
protected:
    void use_files() const { home.configure(settings); }
    void use_database() const { home.configure(settings + "\ndatabase: \"" + database + "\""); }
    std::uint16_t start() {
        gateway.reset();
        gateway = std::make_unique<GatewayProcess>(home, model.flags());
        return gateway->wait_until_running();
    }
    /// Kills a gateway in the turn of this message.
    void kill_in_turn(const std::string& text) {
        const std::size_t before = model.count(text);
        const std::uint16_t port = start();
        std::future<HttpReply> lost;
        if (before == 0) lost = post_later(port, text, "s-" + text);
        (void)model.wait_for(text, before + 1);
        gateway->kill();
    }
    /// Leaves an answered message, an open question, a schedule, and a message that is held.
    void leave_work() {
        use_files();
        const std::uint16_t port = start();
        EXPECT_EQ(post(port, "done").text(), "re: done");
        EXPECT_EQ(post_later(port, "run echo hello", "asks").get().status, 200);
        const CommandResult added =
            run_command(home, {"schedule", "add", "--channel", "http", "--chat", "later", "--user",
                               "olga", "--every", "1d", "hello"});
        EXPECT_EQ(added.status, 0) << added.output;
        model.hold("held");
        for (int kills = 0; kills < 2; ++kills) kill_in_turn("held");
        gateway.reset();
    }
    /// Answers the question of leave_work().
    static HttpReply approve(std::uint16_t port) {
        return run(post_message(
            port, JsonObject{{"session", "asks"}, {"text", ",approve call_0"}, {"user", "olga"}},
            "approval"));
    }
    CommandResult import() const { return run_command(home, {"gateway", "import"}); }
    std::vector<std::string> query(const std::string& sql) const {
        return RawPostgres(database).query(sql);
    }
    std::vector<std::string> rows() const {
        return query(
            "SELECT (SELECT count(*) FROM bub_delivery_inbound) || ' ' || (SELECT count(*) FROM"
            " bub_delivery_outbound) || ' ' || (SELECT count(*) FROM bub_schedules)");
    }

    const std::string settings = "{http: {listen: \"127.0.0.1:0\", operators: [olga]}}";
    const GatewayHome home;
    const std::string database = new_database(home);
    EchoModel model;
    std::unique_ptr<GatewayProcess> gateway;
};

TEST_F(GatewayImport, D256_WorkOfFiles_ContinuesInDatabase) {
    leave_work();
    use_database();
    const CommandResult imported = import();
    EXPECT_EQ(imported.status, 0) << imported.output;
    EXPECT_NE(imported.output.find("1\tunfinished messages"), std::string::npos) << imported.output;
    EXPECT_NE(imported.output.find("1\tschedules"), std::string::npos) << imported.output;
    EXPECT_TRUE(std::filesystem::exists(home.path() / ".bub/deliveries/deliveries.jsonl"));
    // Without the database, no gateway continues the same work.
    use_files();
    GatewayProcess refused(home, model.flags());
    EXPECT_NE(refused.wait(), 0);
    EXPECT_NE(refused.output().find("were moved to"), std::string::npos) << refused.output();
    use_database();
    model.release();
    const std::uint16_t port = start();
    // A finished message is known by its id.
    EXPECT_EQ(post(port, "done").text(), "re: done");
    EXPECT_EQ(model.count("done"), 1u);
    // The question is open, and its answer continues the turn.
    EXPECT_EQ(approve(port).text(), "re: run echo hello");
    const JsonObject held = app::call_gateway(home.socket(), JsonObject{{"command", "held"}});
    ASSERT_EQ(held.at("messages").as_array().size(), 1u) << boost::json::serialize(held);
    const std::string id(held.at("messages").at(0).at("id").as_string());
    EXPECT_EQ(run_command(home, {"gateway", "release", id}).status, 0);
    EXPECT_EQ(post_later(port, "held", "s-held").get().text(), "re: held");
    const JsonObject schedules =
        app::call_gateway(home.socket(), JsonObject{{"command", "schedules"}});
    EXPECT_EQ(schedules.at("schedules").as_array().size(), 1u);
}

TEST_F(GatewayImport, D256_InterruptedImport_IsRepeated) {
    leave_work();
    use_database();
    (void)query("ALTER TABLE bub_schedules RENAME TO bub_hidden");
    const CommandResult failed = import();
    EXPECT_NE(failed.status, 0) << failed.output;
    (void)query("ALTER TABLE bub_hidden RENAME TO bub_schedules");
    const CommandResult imported = import();
    EXPECT_EQ(imported.status, 0) << imported.output;
    const std::vector<std::string> once = rows();
    // Without the mark, everything is done again.
    std::filesystem::remove(home.path() / ".bub/deliveries/moved");
    EXPECT_EQ(import().status, 0);
    EXPECT_EQ(rows(), once);
    const CommandResult again = import();
    EXPECT_EQ(again.status, 0);
    EXPECT_NE(again.output.find("before"), std::string::npos) << again.output;
}

TEST_F(GatewayImport, D256_ImportThatFailsHalfway_LeavesMessagesToDatabase) {
    leave_work();
    use_database();
    (void)query(
        "CREATE FUNCTION fail() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RAISE EXCEPTION"
        " ''no''; END'");
    (void)query(
        "CREATE TRIGGER fails BEFORE INSERT ON bub_schedules FOR EACH ROW EXECUTE FUNCTION fail()");
    EXPECT_NE(import().status, 0);
    const std::vector<std::string> copied = rows();
    // A gateway with files would answer the message that the database has.
    use_files();
    GatewayProcess refused(home, model.flags());
    EXPECT_NE(refused.wait(), 0);
    EXPECT_NE(refused.output().find("is not complete: repeat 'cubepi gateway import'"),
              std::string::npos)
        << refused.output();
    use_database();
    (void)query("DROP TRIGGER fails ON bub_schedules");
    EXPECT_EQ(import().status, 0);
    EXPECT_NE(import().output.find("before"), std::string::npos);
    EXPECT_NE(rows(), copied) << "the schedule was missing";
    EXPECT_EQ(query("SELECT (SELECT count(*) FROM bub_delivery_inbound WHERE finished_at IS NULL)"
                    " || ' ' || (SELECT count(*) FROM bub_schedules)"),
              std::vector<std::string>{"1 1"});
}

TEST_F(GatewayImport, D256_KilledImport_IsRepeated) {
    leave_work();
    use_database();
    for (const char* table : {"bub_entries", "bub_delivery_inbound", "bub_schedules"}) {
        RawPostgres lock(database);
        (void)lock.query("BEGIN");
        (void)lock.query("LOCK TABLE " + std::string(table) + " IN EXCLUSIVE MODE");
        GatewayProcess importing(home, {}, {}, "gateway import");
        wait_until([&] {
            return query(
                       "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()"
                       " AND wait_event_type = 'Lock'")
                       .front() != "0";
        });
        importing.kill();
        // The server may still store the write that waits.
        (void)lock.query("COMMIT");
    }
    use_files();
    GatewayProcess refused(home, model.flags());
    EXPECT_NE(refused.wait(), 0);
    EXPECT_NE(refused.output().find("repeat 'cubepi gateway import'"), std::string::npos)
        << refused.output();
    use_database();
    const CommandResult imported = import();
    EXPECT_EQ(imported.status, 0) << imported.output;
    EXPECT_EQ(query("SELECT (SELECT count(*) FROM bub_delivery_inbound WHERE finished_at IS NULL)"
                    " || ' ' || (SELECT count(*) FROM bub_schedules)"),
              std::vector<std::string>{"1 1"});
    model.release();
    const std::uint16_t port = start();
    EXPECT_EQ(approve(port).text(), "re: run echo hello");
    EXPECT_EQ(post(port, "done").text(), "re: done");
    EXPECT_EQ(model.count("done"), 1u);
    EXPECT_EQ(post(port, "next").text(), "re: next");
    EXPECT_NE(model.wait_for("next").find("re: done"), std::string::npos) << "the history";
}

TEST_F(GatewayImport, D267_CancelledSchedule_IsNotImportedAgain) {
    use_files();
    (void)start();
    for (const char* text : {"one", "two"}) {
        const CommandResult added =
            run_command(home, {"schedule", "add", "--channel", "http", "--chat", "later", "--user",
                               "olga", "--every", "1d", text});
        EXPECT_EQ(added.status, 0) << added.output;
    }
    gateway.reset();
    use_database();
    // The second one fails.
    (void)query(
        "CREATE FUNCTION fail() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN IF (SELECT count(*) FROM"
        " bub_schedules) > 0 THEN RAISE EXCEPTION ''no''; END IF; RETURN NEW; END'");
    (void)query(
        "CREATE TRIGGER fails BEFORE INSERT ON bub_schedules FOR EACH ROW EXECUTE FUNCTION fail()");
    EXPECT_NE(import().status, 0);
    const std::vector<std::string> copied = query("SELECT id FROM bub_schedules");
    ASSERT_EQ(copied.size(), 1u);
    gateway = std::make_unique<GatewayProcess>(home, model.flags());
    // The operator is told in a log of JSON records, too.
    EXPECT_EQ(gateway->wait_for("delivery.import_unfinished").at("level"), "warning");
    (void)gateway->wait_until_running();
    EXPECT_EQ(run_command(home, {"schedule", "cancel", copied[0]}).status, 0);
    gateway.reset();
    (void)query("DROP TRIGGER fails ON bub_schedules");
    for (int imports = 0; imports < 2; ++imports) {
        if (imports > 0) std::filesystem::remove(home.path() / ".bub/deliveries/moved");
        EXPECT_EQ(import().status, 0);
        const std::vector<std::string> all = query("SELECT id FROM bub_schedules");
        ASSERT_EQ(all.size(), 1u);
        EXPECT_NE(all, copied);
    }
}

TEST_F(GatewayImport, D256_FilesInUse_AreNotImported) {
    use_files();
    (void)start();
    use_database();
    const CommandResult refused = import();
    EXPECT_NE(refused.status, 0);
    EXPECT_NE(refused.output.find("another process serves these channels"), std::string::npos)
        << refused.output;
    EXPECT_FALSE(std::filesystem::exists(home.path() / ".bub/deliveries/moved"));
    gateway.reset();
    use_files();
    const CommandResult nowhere = import();
    EXPECT_NE(nowhere.status, 0);
    EXPECT_NE(nowhere.output.find("there is no database to import to"), std::string::npos)
        << nowhere.output;
}

}  // namespace
}  // namespace cubepi::gateway_tests
