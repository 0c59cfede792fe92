#include <memory>
#include <string>

#include <gtest/gtest.h>

#include <cubepi/checkpoint/server_checks_test.hpp>
#include <cubepi/checkpoint/store_check_test.hpp>

// Checks of databases on servers; a part of the binaries of both.

namespace cubepi {

namespace {

class ServerCheck : public ::testing::Test {
protected:
    std::shared_ptr<SqlCheckpointer> store() const {
        SqlOptions options;
        options.connection = database->connection();
        return ServerDatabase::open(options);
    }
    StoreReport check() const { return database->check(); }
    void query(const std::string& sql) const { (void)database->query(sql); }

    std::unique_ptr<ServerDatabase> database = ServerDatabase::create();
};

TEST_F(ServerCheck, D209_SoundDatabase_IsReportedWithItsNumbers) {
    write_sound_threads(*store());
    const StoreReport report = check();
    EXPECT_EQ(damage_in(report) + repairs_in(report) + notes_in(report), "");
    EXPECT_EQ(numbers_in(report), "threads 3; messages 7; claimed runs 1; pending requests 1; ");
    EXPECT_EQ(report.store().find("hunter2"), std::string::npos);
}

TEST_F(ServerCheck, D209_UnmatchedCallsAndResults_AreRepairs) {
    write_unmatched_threads(*store());
    const StoreReport report = check();
    EXPECT_TRUE(report.is_sound());
    EXPECT_EQ(sorted_lines(repairs_in(report)), unmatched_repairs);
}

TEST_F(ServerCheck, D209_MissingAndUnreadableRows_AreDamage) {
    const auto opened = store();
    write_sound_threads(*opened);
    run(opened->append("long", list_of_messages({user("1"), user("2", "", "m2"), user("3")}),
                       AppendOptions()));
    database->damage_messages("thread_id = 'sound' AND seq = 2");
    query("DELETE FROM cubepi_messages WHERE thread_id = 'long' AND seq = 2");
    query("UPDATE cubepi_native_pending SET request_json = '[1'");
    query(
        "UPDATE cubepi_runs SET completed_at = now(), completion_seq = 1"
        " WHERE thread_id = 'asks'");
    const std::string damage = damage_in(check());
    EXPECT_NE(damage.find("cubepi_messages.seq=2"), std::string::npos) << damage;
    EXPECT_NE(damage.find("thread 'long': 1 of the positions 1 to 3 have no message\n"),
              std::string::npos)
        << damage;
    EXPECT_NE(damage.find("thread 'long': 1 rows of cubepi_native_message_ids have no message\n"),
              std::string::npos)
        << damage;
    EXPECT_NE(damage.find("thread 'asks': row cubepi_native_pending.id="), std::string::npos);
    EXPECT_NE(damage.find("thread 'asks': cubepi_native_pending: a request of a completed run"),
              std::string::npos)
        << damage;
}

/// Only MySQL cannot refuse them: its partitioned tables have no foreign keys.
TEST_F(ServerCheck, D209_MessagesWithoutThread_AreDamage) {
    run(store()->append("t", one(user("x")), AppendOptions()));
    query("DELETE FROM cubepi_threads WHERE thread_id = 't'");
    EXPECT_EQ(damage_in(check()), database->name() == "mysql"
                                      ? "thread 't': 1 messages without a row in cubepi_threads\n"
                                      : "");
}

TEST_F(ServerCheck, D209_ExpiredLease_NamesItsOwner) {
    write_sound_threads(*store());
    query("UPDATE cubepi_native_claims SET lease_until = 5");
    const StoreReport report = check();
    EXPECT_TRUE(report.is_sound());
    EXPECT_EQ(notes_in(report).find(
                  "thread 'busy': run 'r' belongs to pid 7 on elsewhere, whose lease ended "),
              0U)
        << notes_in(report);
}

TEST_F(ServerCheck, D209_ForkWithoutOtherRuns_IsSound) {
    const auto opened = store();
    for (const char* run_id : {"r1", "r2"}) {
        run(opened->claim_run("t", run_id, owner_elsewhere(), ClaimKind::new_run));
        if (std::string(run_id) == "r1") {
            run(opened->append("t", one(user("aside", "other")), AppendOptions()));
        }
        run(opened->append("t", one(user("x", run_id)), AppendOptions()));
        run(opened->complete_run("t", run_id, "me"));
    }
    run(opened->fork("t", "fork", "r2", {}));
    const StoreReport report = check();
    EXPECT_EQ(damage_in(report), "");
    EXPECT_EQ(numbers_in(report).find("threads 2; messages 5; "), 0U) << numbers_in(report);
}

TEST_F(ServerCheck, D209_DatabaseOfCubepi_IsSoundOnceMigrated) {
    database = ServerDatabase::create(false);
    EXPECT_EQ(damage_in(check()), "tables: there are none\n");
    database->run_file(database->name() + ".sql");
    EXPECT_EQ(damage_in(check()), "tables: they are older than this program\n");
    (void)database->apply_schema();
    EXPECT_EQ(damage_in(check()), "");
    query("UPDATE cubepi_native_schema SET version = 9");
    EXPECT_NE(damage_in(check()).find("of version 9"), std::string::npos);
}

}  // namespace

}  // namespace cubepi
