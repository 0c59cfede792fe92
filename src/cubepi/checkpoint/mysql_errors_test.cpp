#include <atomic>
#include <chrono>
#include <condition_variable>
#include <csignal>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <gtest/gtest.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <cubepi/checkpoint/mysql_checkpointer.hpp>
#include <cubepi/checkpoint/mysql_schema.hpp>
#include <cubepi/checkpoint/mysql_server_test.hpp>
#include <cubepi/checkpoint/server_checks_test.hpp>
#include <cubepi/checkpoint/server_proxy_test.hpp>
#include <cubepi/checkpoint/store_fixtures_test.hpp>
#include <cubepi/core/outcome.hpp>
#include <cubepi/core/support/posix_file.hpp>
#include <cubepi/core/task_scope.hpp>

// The errors of this server: code, reason and next step; and servers that fail. server_store_test.cpp has those of both.

namespace cubepi {

namespace {

void create_user(const std::string& database, const std::string& name, const std::string& rights) {
    RawMySQL raw(database);
    raw.query("CREATE OR REPLACE USER " + name + "@localhost IDENTIFIED BY 'right'");
    raw.query("GRANT " + rights + " ON " + database + ".* TO " + name + "@localhost");
}

class MySQLDatabase final : public ServerDatabase {
public:
    explicit MySQLDatabase(bool with_tables)
        : database_(with_tables ? server_.create_database() : server_.create_empty_database()) {}

    std::string name() const override { return "mysql"; }
    std::string connection() const override { return server_.connection(database_); }
    std::string proxy_connection() const override { return proxy_.connection(database_); }
    ServerProxy& proxy() override { return proxy_; }
    std::vector<std::string> query(const std::string& sql) override {
        return RawMySQL(database_).query(sql);
    }
    void clear() override {
        for (const char* table :
             {"cubepi_messages", "cubepi_runs", "cubepi_hitl_answers", "cubepi_native_claims",
              "cubepi_native_message_ids", "cubepi_native_writes", "cubepi_native_exact",
              "cubepi_native_pending", "cubepi_native_changed_pending", "cubepi_native_answers",
              "cubepi_native_started", "cubepi_native_used_answers"})
            query(std::string("DELETE FROM ") + table);
        query("UPDATE cubepi_threads SET parent_thread_id = NULL");
        query("DELETE FROM cubepi_threads");
    }
    std::shared_ptr<void> lock_thread() override {
        auto other = std::make_shared<RawMySQL>(database_);
        other->query(
            "START TRANSACTION; SELECT 1 FROM cubepi_threads WHERE thread_id = 't' FOR UPDATE");
        return std::shared_ptr<void>(nullptr, [other](void*) { other->query("ROLLBACK"); });
    }
    std::string lock_code() const override { return "errno=1205"; }
    void end_connections() override {
        const std::vector<std::string> ids = query(
            "SELECT id FROM information_schema.processlist WHERE db = DATABASE()"
            " AND id <> connection_id()");
        ASSERT_FALSE(ids.empty());
        for (const std::string& id : ids) query("KILL CONNECTION " + id);
    }
    void damage_messages(const std::string& condition) override {
        query("UPDATE cubepi_messages SET payload = X'c1' WHERE " + condition);
    }
    void refuse_messages() override {
        query(
            "CREATE TRIGGER full BEFORE INSERT ON cubepi_messages FOR EACH ROW"
            " SIGNAL SQLSTATE 'HY000' SET MYSQL_ERRNO = 1114, MESSAGE_TEXT = 'The table is full'");
    }
    std::string writer_connection() override {
        create_user(database_, "writer", "SELECT, INSERT, UPDATE, DELETE");
        return server_.connection(database_, "writer:right");
    }
    void run_file(const std::string& name) override {
        server_.load(database_, (databases / name).string());
    }
    std::string shape() override {
        std::string all;
        for (const char* sql :
             {"SELECT table_name, column_name, column_type, is_nullable, column_default,"
              " collation_name, extra FROM information_schema.columns WHERE table_schema ="
              " DATABASE() AND table_name NOT LIKE 'cubepi_native%' ORDER BY 1, 2",
              "SELECT table_name, index_name, seq_in_index, column_name FROM"
              " information_schema.statistics WHERE table_schema = DATABASE() AND index_name NOT"
              " LIKE 'cubepi_native%' AND table_name NOT LIKE 'cubepi_native%'"
              " ORDER BY 1, 2, 3",
              "SELECT table_name, partition_name, partition_method FROM"
              " information_schema.partitions WHERE table_schema = DATABASE()"
              " AND table_name NOT LIKE 'cubepi_native%' ORDER BY 1, 2"}) {
            for (const std::string& value : query(sql)) all += value + "\n";
        }
        return all;
    }
    void make_older(int version) override {
        if (version < 5) query("DROP TABLE cubepi_hitl_answers");
        if (version < 4) {
            query("DROP TABLE cubepi_runs");
            query("DROP INDEX ix_cubepi_messages_thread_run ON cubepi_messages");
            query("ALTER TABLE cubepi_messages DROP COLUMN run_id");
        }
        if (version < 3) query("ALTER TABLE cubepi_threads DROP COLUMN run_id");
        if (version < 2) query("ALTER TABLE cubepi_threads DROP COLUMN pending_request");
    }
    std::string bytes(const std::string& hex) const override { return "X'" + hex + "'"; }
    std::string hex_of(const std::string& column) const override { return "hex(" + column + ")"; }
    SqlSchemaStatus apply_schema() override { return run(apply_mysql_schema(options())); }
    SqlSchemaStatus schema_status() override { return run(mysql_schema_status(options())); }
    StoreReport check() override { return run(check_mysql(options())); }
    std::string schema_sql(const SqlSchemaStatus& from) override { return mysql_schema_sql(from); }
    std::string script_arguments() const override { return server_.socket() + " " + database_; }

private:
    MySQLOptions options() const {
        MySQLOptions options;
        options.connection = connection();
        return options;
    }

    MySQLServer& server_ = MySQLServer::shared();
    std::string database_;
    MySQLProxy proxy_ = MySQLProxy(server_.socket());
};

class MySQLErrors : public ::testing::Test {
protected:
    MySQLErrors() : server(MySQLServer::shared()), database(server.create_database()) {
        options.connection = server.connection(database);
    }

    std::vector<std::string> query(const std::string& sql) const {
        return RawMySQL(database).query(sql);
    }
    CheckpointerError error_of_append() {
        MySQLCheckpointer store(options);
        return checked(store.append("t", one(user("hello")), AppendOptions()));
    }
    /// One message with an id.
    static Task<std::int64_t> append(MySQLCheckpointer& store, const std::string& thread_id) {
        return store.append(thread_id, one(user("hello", "r", "id")),
                            AppendOptions().expected_position(0));
    }
    MySQLServer& server;
    std::string database;
    MySQLOptions options;
};

TEST_F(MySQLErrors, InvalidConnectionString_IsNotRepeatedInError) {
    for (const char* text :
         {"mysql:/user:hunter2@host/db", "host=x password=hunter2", "mysql://u:hunter2@host",
          "mysql://u:hunter2@host:99999/db", "mysql://u:hunter2%zz@host/db",
          "mysql://u:hunter2@host/db?ssl-mode=x", "mysql://u:hunter2@host/db?password=hunter2",
          "mysql://u:1/hunter2@host/db", "mysql://u:a/hunter2@host/db"}) {
        try {
            const MySQLCheckpointer store{std::string(text)};
            ADD_FAILURE() << text;
        } catch (const CheckpointerError& error) {
            expect(error, ErrorCode::invalid_argument, "mysql://USER:PASSWORD@HOST");
            EXPECT_EQ(std::string(error.what()).find("hunter2"), std::string::npos);
        }
    }
}

TEST_F(MySQLErrors, VerifyCaWithoutCertificates_IsRejected) {
    try {
        const MySQLCheckpointer store{std::string("mysql://u:hunter2@host/db?ssl-mode=verify-ca")};
        FAIL() << "the client library would accept any certificate";
    } catch (const CheckpointerError& error) {
        expect(error, ErrorCode::invalid_argument, "add ssl-ca=FILE");
    }
    const MySQLCheckpointer store{
        std::string("mysql://u:hunter2@host/db?ssl-mode=verify-ca&ssl-ca=ca.pem")};
}

TEST_F(MySQLErrors, WrongHost_IsReportedWithAdvice) {
    options.connection = "mysql://u:hunter2@no-such-host.invalid/x";
    expect(error_of_append(), ErrorCode::dns, "check the host");
    options.connection = "mysql://u:hunter2@localhost/x?socket=/no/such/socket";
    expect(error_of_append(), ErrorCode::connect, "check host and port");
    options.connection = "mysql://u:hunter2@127.0.0.1:1/x";
    expect(error_of_append(), ErrorCode::connect, "127.0.0.1:1");
}

/// Returns the values of these options of the socket of this process that is connected to a port of this host; empty: there is none.
std::vector<int> options_to(std::uint16_t port) {
    for (int file = 0; file < 1'024; ++file) {
        sockaddr_in peer = {};
        socklen_t size = sizeof peer;
        if (getpeername(file, reinterpret_cast<sockaddr*>(&peer), &size) != 0 ||
            peer.sin_family != AF_INET || peer.sin_port != htons(port))
            continue;
        std::vector<int> values;
        using Option = std::pair<int, int>;
        for (const auto& [level, option] :
             {Option(SOL_SOCKET, SO_KEEPALIVE), Option(IPPROTO_TCP, TCP_KEEPIDLE),
              Option(IPPROTO_TCP, TCP_KEEPINTVL), Option(IPPROTO_TCP, TCP_USER_TIMEOUT)}) {
            size = sizeof(int);
            (void)getsockopt(file, level, option, &values.emplace_back(), &size);
        }
        return values;
    }
    return {};
}

TEST_F(MySQLErrors, D298_SocketOptions_LimitSilence) {
    detail::UniqueFd listener(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_in address = {};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    auto* const place = reinterpret_cast<sockaddr*>(&address);
    socklen_t size = sizeof address;
    ASSERT_EQ(bind(listener.get(), place, size), 0);
    ASSERT_EQ(listen(listener.get(), 1), 0);
    ASSERT_EQ(getsockname(listener.get(), place, &size), 0);
    const std::uint16_t port = ntohs(address.sin_port);
    options.connection = "mysql://u@127.0.0.1:" + std::to_string(port) + "/x";
    std::thread appending([this] { (void)error_of_append(); });
    // This server sends no greeting.
    detail::UniqueFd accepted(accept(listener.get(), nullptr, nullptr));
    const std::vector<int> expected{1, 5, 5, 10'000};
    for (int polls = 0; polls < 1'000 && options_to(port) != expected; ++polls)
        std::this_thread::sleep_for(std::chrono::milliseconds(10));
    EXPECT_EQ(options_to(port), expected);
    listener = detail::UniqueFd();
    accepted = detail::UniqueFd();
    appending.join();
}

TEST_F(MySQLErrors, WrongDatabaseOrPassword_IsReportedWithAdvice) {
    options.connection = server.connection("missing");
    expect(error_of_append(), ErrorCode::not_found, "CREATE DATABASE");
    create_user(database, "secret", "SELECT");
    options.connection = server.connection(database, "secret:hunter2");
    expect(error_of_append(), ErrorCode::auth, "MYSQL_PWD");
}

TEST_F(MySQLErrors, UserWithoutRights_IsDenied) {
    create_user(database, "guest", "SELECT");
    options.connection = server.connection(database, "guest:right");
    expect(error_of_append(), ErrorCode::permission_denied, "grant");
}

TEST_F(MySQLErrors, ManyWriters_WaitForEachOther) {
    options.max_connections = 8;
    MySQLCheckpointer store(options);
    std::vector<Task<Outcome<std::int64_t>>> tasks;
    for (int i = 0; i < 40; ++i)
        tasks.push_back(outcome_of_append(store, i % 2 == 0 ? "one" : std::to_string(i)));
    for (const auto& outcome : run(when_all(std::move(tasks)))) EXPECT_TRUE(outcome.ok());
    EXPECT_EQ(run(store.load("one"))->position, 20);
}

TEST_F(MySQLErrors, ServerRestartedAfterKill_HasCommittedData) {
    MySQLServer own;
    const auto use_own = [&](const std::string& name) {
        MySQLOptions other;
        other.connection = own.connection(name);
        return other;
    };
    run(apply_mysql_schema(use_own("ready")));
    MySQLOptions other = use_own("ready");
    other.connect_timeout = std::chrono::milliseconds(200);
    MySQLCheckpointer store(other);
    run(store.append("t", one(user("hello")), AppendOptions()));
    own.stop(SIGKILL);
    // The connection of the pool is lost, so the call waits for a server that restarts; this one does not.
    expect(checked(store.append("t", one(user("lost")), AppendOptions())), ErrorCode::connect,
           "check host and port");
    own.start();
    EXPECT_EQ(run(store.load("t"))->messages.size(), 1U);
    run(store.append("t", one(user("again")), AppendOptions().expected_position(1)));
}

TEST_F(MySQLErrors, IdsTheServerCannotStore_AreRefused) {
    MySQLCheckpointer store(options);
    Task<std::int64_t> too_long =
        store.append(std::string(256, 'x'), one(user("x")), AppendOptions());
    expect(checked(std::move(too_long)), ErrorCode::invalid_argument, "255");
    Task<std::int64_t> invalid = store.append("a\xff", one(user("x")), AppendOptions());
    expect(checked(std::move(invalid)), ErrorCode::invalid_argument, "UTF-8");
    run(store.append("a'\\\"; DROP TABLE $1 {any $2} \xf0\x9f\x98\x80", one(user("x")),
                     AppendOptions()));
    EXPECT_EQ(run(store.list_threads()).at(0).thread_id,
              "a'\\\"; DROP TABLE $1 {any $2} \xf0\x9f\x98\x80");
}

TEST_F(MySQLErrors, Deadlock_IsRepeated) {
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

TEST_F(MySQLErrors, ReadOnlyServer_IsNamed) {
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

TEST_F(MySQLErrors, FullDisk_StoresAppendWhollyOrNot) {
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
    const std::exception_ptr refusal = fill_disk(store, stored);
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

TEST_F(MySQLKilled, ServerKilledAtAnyPacket_KeepsAppendsWhole) {
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

TEST_F(MySQLKilled, ServerKilledInWritingStatement_KeepsAppendsWhole) {
    for (const std::string table : {"cubepi_native_writes", "cubepi_threads", "cubepi_messages",
                                    "cubepi_native_message_ids"}) {
        RawMySQL raw("ready", server);
        // The statement waits for a lock of the test, until the server is killed.
        raw.query("CREATE TRIGGER hold BEFORE INSERT ON " + table +
                  " FOR EACH ROW SET @held = GET_LOCK('hold', 600)");
        // The store of the previous table holds it until the server has seen the end of its connection.
        ASSERT_EQ(raw.query("SELECT GET_LOCK('hold', 600)").front(), "1");
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

std::unique_ptr<ServerDatabase> ServerDatabase::create(bool with_tables) {
    return std::make_unique<MySQLDatabase>(with_tables);
}

std::shared_ptr<SqlCheckpointer> ServerDatabase::open(const SqlOptions& options) {
    return std::make_shared<MySQLCheckpointer>(MySQLOptions{options});
}

}  // namespace cubepi
