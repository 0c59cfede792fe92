// Connections that break, and servers that fail: the store over a proxy.
#include <cubepi/checkpoint/mysql_checkpointer.hpp>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <csignal>
#include <memory>
#include <mutex>
#include <optional>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include <cubepi/checkpoint/mysql_schema.hpp>
#include <cubepi/checkpoint/mysql_server_test.hpp>
#include <cubepi/checkpoint/server_proxy_test.hpp>
#include <cubepi/core/outcome.hpp>
#include <cubepi/core/task_scope.hpp>
#include <cubepi/testing/store_conformance.hpp>

namespace cubepi {
namespace {

using Direction = ServerProxy::Direction;

class MySQLFaults : public ::testing::Test {
protected:
    MySQLFaults()
        : server(MySQLServer::shared()),
          database(server.create_database()),
          proxy(server.socket()) {
        options.connection = proxy.connection(database);
    }

    std::vector<std::string> query(const std::string& sql) const {
        return RawMySQL(database).query(sql);
    }
    void clear() const {
        for (const char* table :
             {"cubepi_messages", "cubepi_runs", "cubepi_hitl_answers", "cubepi_native_claims",
              "cubepi_native_message_ids", "cubepi_native_writes", "cubepi_native_exact",
              "cubepi_native_pending", "cubepi_native_changed_pending", "cubepi_native_answers",
              "cubepi_native_started", "cubepi_native_used_answers"})
            query(std::string("DELETE FROM ") + table);
        query("UPDATE cubepi_threads SET parent_thread_id = NULL");
        query("DELETE FROM cubepi_threads");
    }
    /// One message with an id.
    static Task<std::int64_t> append(MySQLCheckpointer& store, const std::string& thread_id) {
        return store.append(thread_id, one(user("hello", "r", "id")),
                            AppendOptions().expected_position(0));
    }

    MySQLServer& server;
    std::string database;
    MySQLProxy proxy;
    MySQLOptions options;
};

TEST_F(MySQLFaults, conforms_over_a_proxy) {
    testing::StoreUnderTest subject;
    subject.make = [&] {
        clear();
        return std::make_shared<MySQLCheckpointer>(options);
    };
    for (const testing::StoreFailure& failure : testing::check_store(subject)) {
        ADD_FAILURE() << failure.check << ": " << failure.text;
    }
}

TEST_F(MySQLFaults, D20_an_append_is_stored_once_wherever_the_connection_is_cut) {
    MySQLCheckpointer store(options);
    run(store.open());
    (void)proxy.take_count(Direction::to_server);
    (void)proxy.take_count(Direction::to_client);
    run(append(store, "t"));
    int threads = 1;
    for (const Direction direction : {Direction::to_server, Direction::to_client}) {
        const std::size_t bytes = proxy.take_count(direction);
        ASSERT_GT(bytes, 200U);
        for (std::size_t cut = 0; cut <= bytes; cut += 3) {
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
}

TEST_F(MySQLFaults, a_read_is_repeated_when_the_connection_is_cut) {
    MySQLCheckpointer store(options);
    run(append(store, "t"));
    for (const std::size_t cut : {0U, 1U, 100U, 300U}) {
        proxy.cut_after(Direction::to_client, cut);
        EXPECT_EQ(run(store.load("t"))->messages.size(), 1U);
    }
}

TEST_F(MySQLFaults, a_server_that_does_not_answer_is_a_timeout) {
    options.query_timeout = std::chrono::milliseconds(50);
    MySQLCheckpointer store(options);
    run(store.open());
    proxy.freeze();
    const CheckpointerError error = error_of<CheckpointerError>(store.load("t"));
    EXPECT_EQ(error.code(), ErrorCode::timeout) << error.what();
    expect_one_line(error);
    EXPECT_FALSE(run(store.load("t"))) << "a new connection is used";
}

TEST_F(MySQLFaults, a_deadlock_is_repeated) {
    options.lock_timeout = std::chrono::minutes(5);
    options.query_timeout = std::chrono::minutes(5);
    MySQLCheckpointer store(options);
    run(append(store, "t"));
    const auto deadlocks = [&] {
        return query("SHOW GLOBAL STATUS LIKE 'Innodb_deadlocks'").at(1);
    };
    const std::string before = deadlocks();
    // The server ends the transaction that has changed less, which is that of the store.
    RawMySQL other(database);
    other.query(
        "START TRANSACTION; INSERT INTO cubepi_threads (thread_id, extra) VALUES ('a', '{}'),"
        " ('b', '{}'), ('c', '{}'), ('d', '{}'), ('e', '{}'), ('f', '{}'), ('g', '{}'),"
        " ('h', '{}');"
        " SELECT 1 FROM cubepi_threads WHERE thread_id = 't' FOR UPDATE");
    std::exception_ptr failure;
    std::atomic<bool> ended = false;
    std::thread second([&] {
        try {
            // Not information_schema.innodb_trx: the server keeps its answer while it is read
            // more often than ten times a second.
            const std::string waits = "SHOW GLOBAL STATUS LIKE 'Innodb_row_lock_current_waits'";
            while (query(waits).at(1) == "0" && !ended) {
            }
            other.query(
                "UPDATE cubepi_native_writes SET write_id = 'x' WHERE thread_id = 't';"
                " ROLLBACK");
        } catch (...) {
            failure = std::current_exception();
        }
    });
    AppendOptions next = AppendOptions().expected_position(1);
    const Outcome<std::int64_t> outcome =
        run(outcome_of(store.append("t", one(user("again")), std::move(next))));
    ended = true;
    second.join();
    outcome.rethrow();
    if (failure) std::rethrow_exception(failure);
    EXPECT_EQ(run(store.load("t"))->position, 2);
    EXPECT_NE(deadlocks(), before);
}

TEST_F(MySQLFaults, a_server_that_is_read_only) {
    query("CREATE OR REPLACE USER plain@localhost");
    query("GRANT SELECT, INSERT, UPDATE, DELETE ON " + database + ".* TO plain@localhost");
    MySQLOptions plain;
    plain.connection = server.connection(database, "plain");
    query("SET GLOBAL read_only = ON");
    MySQLCheckpointer store(plain);
    const CheckpointerError error = error_of<CheckpointerError>(append(store, "t"));
    EXPECT_EQ(error.code(), ErrorCode::permission_denied) << error.what();
    EXPECT_NE(std::string(error.what()).find("connect to the primary"), std::string::npos);
    EXPECT_FALSE(run(store.load("t"))) << "it can be read";
    query("SET GLOBAL read_only = OFF");
    run(append(store, "t"));
}

TEST_F(MySQLFaults, a_pool_that_is_exhausted) {
    MySQLCheckpointer ready(options);
    run(append(ready, "t"));
    RawMySQL other(database);
    other.query("START TRANSACTION; SELECT 1 FROM cubepi_threads WHERE thread_id = 't' FOR UPDATE");
    options.max_connections = 1;
    options.acquire_timeout = std::chrono::milliseconds(20);
    options.lock_timeout = std::chrono::milliseconds(1000);
    MySQLCheckpointer store(options);
    run(store.open());
    std::vector<Task<Outcome<std::int64_t>>> tasks;
    for (const char* thread_id : {"t", "u"})
        tasks.push_back(outcome_of(store.append(thread_id, one(user("hello")), AppendOptions())));
    const std::vector<Outcome<std::int64_t>> outcomes = run(when_all(std::move(tasks)));
    EXPECT_FALSE(outcomes[0].ok()) << "the lock was never released";
    try {
        outcomes[1].rethrow();
        FAIL();
    } catch (const CheckpointerError& error) {
        EXPECT_EQ(error.code(), ErrorCode::timeout) << error.what();
        EXPECT_NE(std::string(error.what()).find("max_connections"), std::string::npos);
    }
    other.query("ROLLBACK");
    run(store.append("u", one(user("hello")), AppendOptions()));
}

/// A text that does not compress.
std::string noise(std::size_t size, unsigned seed) {
    std::mt19937 random(seed);
    std::string text(size, ' ');
    for (char& c : text) c = static_cast<char>('!' + random() % 90);
    return text;
}

TEST_F(MySQLFaults, a_full_disk_stores_an_append_or_not) {
    MySQLServer own;
    MySQLOptions other;
    other.connection = own.connection("ready");
    run(apply_mysql_schema(other));
    own.stop(SIGTERM);
    constexpr std::size_t megabyte = 1U << 20U;
    own.start(24 * megabyte);
    other.query_timeout = std::chrono::milliseconds(2000);
    MySQLCheckpointer store(other);
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
    bool is_unknown = false;
    try {
        std::rethrow_exception(refusal);
    } catch (const CheckpointerError& error) {
        expect_one_line(error);
        is_unknown = std::string(error.what()).find("unknown") != std::string::npos;
    }
    // InnoDB ends the server at some of these errors.
    own.stop(SIGKILL);
    own.start();
    const std::int64_t found = run(store.load("t"))->position;
    EXPECT_TRUE(found == stored || (is_unknown && found == stored + 1))
        << "an append is stored or not";
    AppendOptions next = AppendOptions().expected_position(found);
    run(store.append("t", one(user("after")), std::move(next)));
}

TEST_F(MySQLFaults, the_error_of_a_full_disk_names_the_next_step) {
    query(
        "CREATE TRIGGER full BEFORE INSERT ON cubepi_messages FOR EACH ROW"
        " SIGNAL SQLSTATE 'HY000' SET MYSQL_ERRNO = 1114, MESSAGE_TEXT = 'The table is full'");
    MySQLCheckpointer store(options);
    const CheckpointerError error = error_of<CheckpointerError>(append(store, "t"));
    EXPECT_EQ(error.code(), ErrorCode::storage_full) << error.what();
    EXPECT_NE(std::string(error.what()).find("free space"), std::string::npos) << error.what();
    EXPECT_FALSE(run(store.load("t")));
}

/// A server of its own that is killed during an append. The thread of the test starts it again, because it ends with the
/// thread that has started it.
class MySQLKilled : public ::testing::Test {
protected:
    MySQLKilled() {
        options.connection = server.connection("ready");
        run(apply_mysql_schema(options));
        // A loaded machine needs seconds to start the server.
        options.connect_timeout = std::chrono::minutes(1);
    }

    /// Kills the server; any thread may call it. The thread of the test starts it again.
    void kill_server() {
        server.stop(SIGKILL);
        const std::lock_guard lock(mutex);
        was_killed = true;
        changed.notify_all();
    }
    /// Appends on another thread, and starts the server again if it is killed meanwhile.
    void append_once(MySQLCheckpointer& store, const std::string& thread_id) {
        std::exception_ptr failure;
        bool ended = false;
        was_killed = false;
        std::thread client([&] {
            const Outcome<std::int64_t> outcome = run(outcome_of(
                store.append(thread_id, one(user("hello", "r", "id")), AppendOptions())));
            const std::lock_guard lock(mutex);
            failure = outcome.failure();
            ended = true;
            changed.notify_all();
        });
        {
            std::unique_lock lock(mutex);
            changed.wait(lock, [&] { return was_killed || ended; });
        }
        if (was_killed) server.start();
        client.join();
        if (failure) std::rethrow_exception(failure);
    }
    static void expect_stored_once(MySQLCheckpointer& store, const std::string& thread_id) {
        const std::optional<CheckpointData> data = run(store.load(thread_id));
        ASSERT_TRUE(data) << thread_id;
        EXPECT_EQ(data->messages.size(), 1U) << thread_id;
    }

    MySQLServer server;
    MySQLOptions options;
    std::mutex mutex;
    std::condition_variable changed;
    bool was_killed = false;
};

TEST_F(MySQLKilled, a_server_that_is_killed_at_any_packet_of_an_append) {
    MySQLProxy breaking(server.socket());
    options.connection = breaking.connection("ready");
    MySQLCheckpointer store(options);
    int packet = 1;
    for (;; ++packet) {
        ASSERT_LT(packet, 20);
        run(store.open());
        breaking.before_statement(packet, [&] { kill_server(); });
        const std::string thread_id = "t" + std::to_string(packet);
        append_once(store, thread_id);
        breaking.before_statement(0, {});
        expect_stored_once(store, thread_id);
        if (!was_killed) break;
    }
    EXPECT_GT(packet, 2) << "one packet reads, and one writes";
}

TEST_F(MySQLKilled, a_server_that_is_killed_in_any_statement_of_an_append_that_writes) {
    for (const std::string table : {"cubepi_native_writes", "cubepi_threads", "cubepi_messages",
                                    "cubepi_native_message_ids"}) {
        RawMySQL raw("ready", server);
        // The statement waits for a lock of the test, until the server is killed.
        raw.query("CREATE TRIGGER hold BEFORE INSERT ON " + table +
                  " FOR EACH ROW SET @held = GET_LOCK('hold', 600)");
        raw.query("SELECT GET_LOCK('hold', 0)");
        std::thread killer([&] {
            const std::string waits =
                "SELECT count(*) FROM information_schema.processlist WHERE state = 'User lock'";
            while (RawMySQL("ready", server).query(waits).front() == "0") {
            }
            kill_server();
        });
        MySQLCheckpointer store(options);
        append_once(store, table);
        killer.join();
        expect_stored_once(store, table);
        EXPECT_TRUE(was_killed);
        RawMySQL("ready", server).query("DROP TRIGGER hold");
    }
}

}  // namespace
}  // namespace cubepi
