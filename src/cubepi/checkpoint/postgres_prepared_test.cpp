// Prepared statements, and sessions that lose them.
#include <cubepi/checkpoint/postgres_checkpointer.hpp>

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include <cubepi/checkpoint/postgres_server_test.hpp>
#include <cubepi/testing/memory_log.hpp>

namespace cubepi {
namespace {

class PostgresPrepared : public ::testing::Test {
protected:
    PostgresPrepared() : server(PostgresServer::shared()), database(server.create_database()) {
        // The log names the statement that is executed.
        options.connection = server.connection(database, "options=-clog_statement=all");
        options.runtime = std::make_shared<const Runtime>(Runtime().with_log(log.logger()));
        options.max_connections = 1;
    }

    std::vector<std::string> query(const std::string& sql) {
        return RawPostgres(server.connection(database)).query(sql);
    }
    static void append(PostgresCheckpointer& store) {
        run(store.append("t", one(user("hello", "r", "id")), AppendOptions()));
    }
    /// How many statements that are prepared were executed.
    std::size_t prepared_in(const std::function<void()>& work) {
        const std::string text = server.log_of(work);
        std::size_t count = 0;
        for (std::size_t at = text.find("execute cubepi_"); at != std::string::npos;
             at = text.find("execute cubepi_", at + 1))
            ++count;
        return count;
    }
    /// The session loses its prepared statements during each append, as if a pooler assigned another one.
    void lose_statements() {
        query(
            "CREATE FUNCTION lose() RETURNS trigger LANGUAGE plpgsql AS"
            " $$ BEGIN DEALLOCATE ALL; RETURN NULL; END $$");
        query(
            "CREATE TRIGGER lose AFTER INSERT ON cubepi_messages FOR EACH ROW EXECUTE FUNCTION"
            " lose()");
    }

    PostgresServer& server;
    std::string database;
    PostgresOptions options;
    const cubepi::testing::MemoryLog log;
};

TEST_F(PostgresPrepared, a_statement_is_prepared_at_its_second_use) {
    PostgresCheckpointer store(options);
    EXPECT_EQ(prepared_in([&] { run(store.load("t")); }), 0U);
    EXPECT_EQ(prepared_in([&] { run(store.load("t")); }), 3U);
    EXPECT_EQ(prepared_in([&] { run(store.load("u")); }), 3U);
}

TEST_F(PostgresPrepared, nothing_is_prepared_without_the_option) {
    options.prepare_statements = false;
    PostgresCheckpointer store(options);
    lose_statements();
    EXPECT_EQ(prepared_in([&] {
                  for (int i = 0; i < 3; ++i) append(store);
              }),
              0U);
    EXPECT_EQ(log.text(), "");
}

TEST_F(PostgresPrepared, a_message_list_uses_a_statement_that_is_being_prepared) {
    PostgresCheckpointer store(options);
    MessageList list;
    for (int i = 0; i < 4; ++i) list.push_back(user("hello", "r", std::to_string(i)));
    run(store.append("t", std::move(list), AppendOptions()));
    append(store);
    EXPECT_EQ(run(store.load("t"))->messages.size(), 5U);
}

TEST_F(PostgresPrepared, a_failure_while_statements_are_prepared_is_the_error_of_the_call) {
    PostgresCheckpointer store(options);
    append(store);
    for (int i = 0; i < 2; ++i) {
        AppendOptions stale = AppendOptions().expected_position(7);
        EXPECT_THROW(run(store.append("t", one(user("x")), std::move(stale))), StaleAppendError);
    }
    query("ALTER TABLE cubepi_messages ADD CONSTRAINT none CHECK (seq < 2)");
    for (int i = 0; i < 2; ++i) {
        Task<std::int64_t> refused = store.append("t", one(user("x")), AppendOptions());
        EXPECT_EQ(error_of<CheckpointerError>(std::move(refused)).code(), ErrorCode::storage);
    }
    query("ALTER TABLE cubepi_messages DROP CONSTRAINT none");
    append(store);
    EXPECT_EQ(run(store.load("t"))->position, 2);
}

TEST_F(PostgresPrepared, a_call_whose_statements_are_lost_is_repeated) {
    PostgresCheckpointer store(options);
    for (int i = 0; i < 3; ++i) append(store);
    EXPECT_EQ(log.text(), "");
    lose_statements();
    const std::string repeated =
        "<4>store.failed store=postgres error=server sqlstate=26000 repeated=true\n";
    append(store);
    EXPECT_EQ(log.text(), repeated);
    append(store);
    EXPECT_EQ(log.text(), repeated + repeated);
    EXPECT_EQ(query("SELECT count(*), max(seq) FROM cubepi_messages"),
              (std::vector<std::string>{"5", "5"}))
        << "each is stored once";
    // The session is not this one's alone, so it prepares nothing any longer.
    EXPECT_EQ(prepared_in([&] {
                  for (int i = 0; i < 3; ++i) append(store);
              }),
              0U);
    EXPECT_EQ(log.text(), repeated + repeated);
}

TEST_F(PostgresPrepared, a_table_that_is_altered_is_prepared_for_again) {
    PostgresCheckpointer store(options);
    append(store);
    for (int i = 0; i < 3; ++i) EXPECT_TRUE(run(store.load("t")));
    query("ALTER TABLE cubepi_native_exact ALTER COLUMN json TYPE VARCHAR");
    EXPECT_TRUE(run(store.load("t")));
    EXPECT_EQ(log.text(),
              "<4>store.failed store=postgres error=server sqlstate=0A000 repeated=true\n");
    EXPECT_EQ(prepared_in([&] { EXPECT_TRUE(run(store.load("t"))); }), 3U);
}

}  // namespace
}  // namespace cubepi
