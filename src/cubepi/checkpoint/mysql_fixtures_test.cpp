// The database that Python CubePi wrote: it loads with equal content, and can be written on.
#include <cubepi/checkpoint/mysql_checkpointer.hpp>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include <cubepi/checkpoint/message_row_reader_test.hpp>
#include <cubepi/checkpoint/mysql_schema.hpp>
#include <cubepi/checkpoint/mysql_server_test.hpp>
#include <cubepi/checkpoint/store_fixtures_test.hpp>
#include <cubepi/schema/python_json.hpp>

namespace cubepi {
namespace {

const char* const rows_of_cubepi =
    "SELECT thread_id, seq, role, metadata, hex(payload), run_id, created_at"
    " FROM cubepi_messages WHERE NOT run_id <=> 'run-of-ours' ORDER BY thread_id, seq";

class MySQLFixture : public ::testing::Test {
protected:
    void SetUp() override {
        MySQLServer& server = MySQLServer::shared();
        database = server.create_empty_database();
        server.load(database, (databases / "mysql.sql").string());
        options.connection = server.connection(database);
        const MySQLSchemaStatus before = run(apply_mysql_schema(options));
        EXPECT_EQ(before.version, 5);
        EXPECT_FALSE(before.native_version);
        wanted = parse_lenient(read_file(databases / "mysql.json")).at("threads").as_object();
    }

    std::vector<std::string> query(const std::string& sql) const {
        return RawMySQL(database).query(sql);
    }

    std::string database;
    MySQLOptions options;
    JsonObject wanted;
};

TEST_F(MySQLFixture, D71_loads_with_equal_content) {
    MySQLCheckpointer store(options);
    EXPECT_GE(wanted.size(), 15U);
    for (const auto& [key, value] : wanted) {
        const std::string thread_id = key;
        expect_thread(store, thread_id, value.as_object());
        expect_approvers(store, thread_id, value.as_object());
        expect_runs(store, thread_id, value.as_object());
    }
}

TEST_F(MySQLFixture, D71_the_fast_reader_of_rows_agrees_with_the_plain_one) {
    const std::vector<std::string> values =
        query("SELECT hex(payload), metadata FROM cubepi_messages ORDER BY thread_id, seq");
    EXPECT_GT(values.size(), 100U);
    detail::expect_same_rows(values);
}

TEST_F(MySQLFixture, D65_the_inbox_lists_the_requests_that_cubepi_stored) {
    MySQLCheckpointer store(options);
    std::vector<std::string> threads;
    for (const InboxEntry& entry : run(store.list_requests(InboxQuery())).entries) {
        EXPECT_TRUE(entry.request) << entry.damage;
        threads.push_back(entry.thread_id);
    }
    std::sort(threads.begin(), threads.end());
    EXPECT_EQ(threads, (std::vector<std::string>{"approve", "ask", "batch"}));
}

TEST_F(MySQLFixture, D21_can_be_written_on_and_no_row_of_cubepi_changes) {
    const std::vector<std::string> before = query(rows_of_cubepi);
    const char* const extras = "SELECT thread_id, extra FROM cubepi_threads ORDER BY thread_id";
    const std::vector<std::string> extras_before = query(extras);
    MySQLCheckpointer store(options);
    for (const auto& [key, value] : wanted) {
        const std::string thread_id = key;
        const CheckpointData data = run(store.load(thread_id)).value_or(CheckpointData());
        AppendOptions append =
            AppendOptions().expected_position(data.position).extra(JsonObject(data.extra));
        run(store.claim_run(thread_id, "run-of-ours", ClaimOwner(), ClaimKind::new_run));
        run(store.append(thread_id, one(user("written on", "run-of-ours", "id")),
                         std::move(append)));
        run(store.mark_run_complete(thread_id, "run-of-ours"));
        EXPECT_EQ(run(store.load(thread_id))->messages.size(), data.messages.size() + 1);
        EXPECT_TRUE(run(store.find_message(thread_id, "id")));
    }
    EXPECT_EQ(query(rows_of_cubepi), before);
    EXPECT_EQ(query(extras), extras_before);
}

TEST_F(MySQLFixture, D71_our_rows_have_the_form_of_cubepis) {
    MySQLCheckpointer store(options);
    const CheckpointData data = *run(store.load("conversation"));
    run(store.append("copy", data.messages, AppendOptions()));
    const std::string columns =
        "SELECT seq, role, metadata, hex(payload), run_id FROM cubepi_messages WHERE thread_id = ";
    EXPECT_EQ(query(columns + "'copy' ORDER BY seq"),
              query(columns + "'conversation' ORDER BY seq"));
}

}  // namespace
}  // namespace cubepi
