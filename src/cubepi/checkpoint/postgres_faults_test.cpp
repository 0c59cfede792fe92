// Connections that break: the store over a proxy.
#include <cubepi/checkpoint/postgres_checkpointer.hpp>

#include <memory>
#include <random>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include <cubepi/checkpoint/postgres_server_test.hpp>
#include <cubepi/checkpoint/server_proxy_test.hpp>
#include <cubepi/core/outcome.hpp>
#include <cubepi/testing/store_conformance.hpp>

namespace cubepi {
namespace {

using Direction = PostgresProxy::Direction;

class PostgresFaults : public ::testing::Test {
protected:
    PostgresFaults()
        : server(PostgresServer::shared()),
          database(server.create_database()),
          proxy(server.socket_directory()) {
        options.connection = proxy.connection(database);
    }

    std::vector<std::string> query(const std::string& sql) {
        return RawPostgres(server.connection(database)).query(sql);
    }
    /// One message with an id.
    static Task<std::int64_t> append(PostgresCheckpointer& store, const std::string& thread_id) {
        return store.append(thread_id, one(user("hello", "r", "id")),
                            AppendOptions().expected_position(0));
    }

    PostgresServer& server;
    std::string database;
    PostgresProxy proxy;
    PostgresOptions options;
};

/// The suite over the proxy.
TEST_F(PostgresFaults, conforms_over_a_proxy) {
    testing::StoreUnderTest subject;
    subject.make = [&] {
        query("DELETE FROM cubepi_threads");
        return std::make_shared<PostgresCheckpointer>(options);
    };
    for (const testing::StoreFailure& failure : testing::check_store(subject)) {
        ADD_FAILURE() << failure.check << ": " << failure.text;
    }
}

TEST_F(PostgresFaults, D20_an_append_is_stored_once_wherever_the_connection_is_cut) {
    constexpr std::size_t stride = 5;  // of some 1,700 bytes; coprime to the sizes of the messages
    PostgresCheckpointer store(options);
    run(store.open());
    (void)proxy.take_count(Direction::to_server);
    (void)proxy.take_count(Direction::to_client);
    run(append(store, "t"));
    int threads = 1;
    for (const Direction direction : {Direction::to_server, Direction::to_client}) {
        const std::size_t bytes = proxy.take_count(direction);
        ASSERT_GT(bytes, 400U);
        for (std::size_t cut = 0; cut <= bytes; cut += stride) {
            proxy.cut_after(direction, cut);
            run(append(store, "t" + std::to_string(threads++)));
        }
        // The last cut may not have been reached.
        run(store.load("t"));
        (void)proxy.take_count(Direction::to_client);
        run(append(store, "measured " + std::to_string(threads++)));
    }
    EXPECT_EQ(
        query("SELECT count(*), count(DISTINCT thread_id), min(seq), max(seq)"
              " FROM cubepi_messages"),
        (std::vector<std::string>{std::to_string(threads), std::to_string(threads), "1", "1"}));
    EXPECT_EQ(query("SELECT count(*) FROM cubepi_native_message_ids").front(),
              std::to_string(threads));
}

TEST_F(PostgresFaults, a_read_is_repeated_when_the_connection_is_cut) {
    PostgresCheckpointer store(options);
    run(append(store, "t"));
    for (const std::size_t cut : {0U, 1U, 100U, 300U}) {
        proxy.cut_after(Direction::to_client, cut);
        EXPECT_EQ(run(store.load("t"))->messages.size(), 1U);
    }
}

TEST_F(PostgresFaults, a_server_that_crashes_at_any_statement_of_an_append) {
    PostgresCheckpointer store(options);
    bool hit = true;
    int statement = 1;
    for (; hit; ++statement) {
        ASSERT_LT(statement, 40);
        const std::string thread_id = "t" + std::to_string(statement);
        run(store.open());
        hit = false;
        // The statements before it have reached the server, the others do not.
        proxy.before_statement(statement, [&] {
            hit = true;
            server.crash(database);
        });
        run(append(store, thread_id));
        proxy.before_statement(0, {});
        const std::optional<CheckpointData> data = run(store.load(thread_id));
        ASSERT_TRUE(data) << statement;
        EXPECT_EQ(data->messages.size(), 1U) << statement;
    }
    EXPECT_GT(statement, 9) << "from BEGIN to COMMIT";
}

TEST_F(PostgresFaults, a_deadlock_is_repeated) {
    options.connection = proxy.connection(database, "options=-cdeadlock_timeout=10ms");
    PostgresCheckpointer store(options);
    run(append(store, "t"));
    RawPostgres other(server.connection(database, "options=-cdeadlock_timeout=1min"));
    other.query("BEGIN");
    other.query("UPDATE cubepi_threads SET updated_at = now() WHERE thread_id = 't'");
    bool reached = false;
    // Before the first statement that writes.
    proxy.before_statement(
        5,
        [&] {
            reached = true;
            PQsendQuery(other.get(), "SELECT pg_advisory_xact_lock(hashtext('t')); COMMIT");
            PQflush(other.get());
        },
        false);
    AppendOptions next = AppendOptions().expected_position(1);
    EXPECT_EQ(run(store.append("t", one(user("again")), std::move(next))), 2);
    EXPECT_TRUE(reached);
    while (PGresult* const result = PQgetResult(other.get())) {
        EXPECT_NE(PQresultStatus(result), PGRES_FATAL_ERROR) << PQerrorMessage(other.get());
        PQclear(result);
    }
}

TEST_F(PostgresFaults, a_server_that_does_not_answer_is_a_timeout) {
    options.query_timeout = std::chrono::milliseconds(50);
    PostgresCheckpointer store(options);
    run(store.open());
    proxy.freeze();
    const CheckpointerError error = error_of<CheckpointerError>(store.load("t"));
    EXPECT_EQ(error.code(), ErrorCode::timeout) << error.what();
    expect_one_line(error);
    EXPECT_FALSE(run(store.load("t"))) << "a new connection is used";
}

TEST_F(PostgresFaults, a_connection_that_the_server_closed_is_replaced) {
    PostgresCheckpointer store(options);
    run(append(store, "t"));
    query(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
        " WHERE application_name = 'cubepi'");
    EXPECT_EQ(run(store.load("t"))->messages.size(), 1U);
}

TEST_F(PostgresFaults, an_idle_connection_that_lost_its_network_is_replaced) {
    options.check_after = std::chrono::milliseconds(0);
    options.connect_timeout = std::chrono::milliseconds(200);
    PostgresCheckpointer store(options);
    run(append(store, "t"));
    proxy.freeze();
    EXPECT_EQ(run(store.load("t"))->messages.size(), 1U);
}

/// A text that does not compress.
std::string noise(std::size_t size, unsigned seed) {
    std::mt19937 random(seed);
    std::string text(size, ' ');
    for (char& c : text) c = static_cast<char>('!' + random() % 90);
    return text;
}

TEST_F(PostgresFaults, a_full_disk_stores_an_append_or_not) {
    PostgresServer own;
    const std::string name = own.create_database();
    own.stop(SIGTERM);
    constexpr std::size_t megabyte = 1U << 20U;
    // Segments of the log have 16 MiB.
    own.start({}, 17 * megabyte);
    PostgresOptions other;
    other.connection = own.connection(name);
    PostgresCheckpointer store(other);
    run(append(store, "t"));
    std::int64_t stored = 1;
    std::exception_ptr refusal;
    for (unsigned i = 0; i < 40 && !refusal; ++i) {
        AppendOptions next = AppendOptions().expected_position(stored);
        const Outcome<std::int64_t> outcome =
            run(outcome_of(store.append("t", one(user(noise(megabyte, i))), std::move(next))));
        refusal = outcome.failure();
        if (!refusal) ++stored;
    }
    ASSERT_TRUE(refusal);
    try {
        std::rethrow_exception(refusal);
    } catch (const CheckpointerError& error) {
        // The server knows a full disk (below), but not this limit.
        EXPECT_EQ(error.code(), ErrorCode::storage) << error.what();
        EXPECT_NE(std::string(error.what()).find("File too large"), std::string::npos);
        expect_one_line(error);
    }
    EXPECT_EQ(run(store.load("t"))->position, stored) << "an append is stored or not";
    own.stop(SIGINT);
    own.start();
    EXPECT_EQ(run(store.load("t"))->position, stored);
    AppendOptions next = AppendOptions().expected_position(stored);
    run(store.append("t", one(user("after")), std::move(next)));
}

TEST_F(PostgresFaults, the_error_of_a_full_disk_names_the_next_step) {
    query(
        "CREATE FUNCTION full_disk() RETURNS trigger LANGUAGE plpgsql AS"
        " $$ BEGIN RAISE EXCEPTION 'No space left on device' USING ERRCODE = '53100'; END $$");
    query(
        "CREATE TRIGGER full_disk BEFORE INSERT ON cubepi_messages FOR EACH ROW"
        " EXECUTE FUNCTION full_disk()");
    PostgresCheckpointer store(options);
    const CheckpointerError error = error_of<CheckpointerError>(append(store, "t"));
    EXPECT_EQ(error.code(), ErrorCode::storage_full) << error.what();
    EXPECT_NE(std::string(error.what()).find("free space"), std::string::npos) << error.what();
    EXPECT_FALSE(run(store.load("t")));
}

}  // namespace
}  // namespace cubepi
