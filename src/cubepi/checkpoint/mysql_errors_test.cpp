// The errors that callers receive: code, reason and next step.
#include <cubepi/checkpoint/mysql_checkpointer.hpp>

#include <csignal>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include <cubepi/checkpoint/mysql_schema.hpp>
#include <cubepi/checkpoint/mysql_server_test.hpp>
#include <cubepi/core/task_scope.hpp>
#include <cubepi/testing/memory_log.hpp>

namespace cubepi {
namespace {

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
    template <class T>
    static CheckpointerError checked(Task<T> task) {
        const CheckpointerError error = error_of<CheckpointerError>(std::move(task));
        expect_one_line(error);
        EXPECT_EQ(std::string(error.what()).find("hunter2"), std::string::npos) << error.what();
        return error;
    }
    /// The error names the next step.
    static void expect(const CheckpointerError& error, ErrorCode code, const std::string& step) {
        EXPECT_EQ(to_string(error.code()), to_string(code)) << error.what();
        EXPECT_NE(std::string(error.what()).find(step), std::string::npos) << error.what();
    }
    void create_user(const std::string& name, const std::string& rights) const {
        query("CREATE OR REPLACE USER " + name + "@localhost IDENTIFIED BY 'right'");
        query("GRANT " + rights + " ON " + database + ".* TO " + name + "@localhost");
    }

    MySQLServer& server;
    std::string database;
    MySQLOptions options;
};

TEST_F(MySQLErrors, a_connection_string_that_cannot_be_parsed_is_not_repeated) {
    for (const char* text :
         {"mysql:/user:hunter2@host/db", "host=x password=hunter2", "mysql://u:hunter2@host",
          "mysql://u:hunter2@host:99999/db", "mysql://u:hunter2%zz@host/db",
          "mysql://u:hunter2@host/db?ssl-mode=x", "mysql://u:hunter2@host/db?password=hunter2"}) {
        try {
            const MySQLCheckpointer store{std::string(text)};
            ADD_FAILURE() << text;
        } catch (const CheckpointerError& error) {
            expect(error, ErrorCode::invalid_argument, "mysql://USER:PASSWORD@HOST");
            EXPECT_EQ(std::string(error.what()).find("hunter2"), std::string::npos);
        }
    }
}

TEST_F(MySQLErrors, verify_ca_without_certificates_to_check_with_is_rejected) {
    try {
        const MySQLCheckpointer store{std::string("mysql://u:hunter2@host/db?ssl-mode=verify-ca")};
        FAIL() << "the client library would accept any certificate";
    } catch (const CheckpointerError& error) {
        expect(error, ErrorCode::invalid_argument, "add ssl-ca=FILE");
    }
    const MySQLCheckpointer store{
        std::string("mysql://u:hunter2@host/db?ssl-mode=verify-ca&ssl-ca=ca.pem")};
}

TEST_F(MySQLErrors, a_wrong_host) {
    options.connection = "mysql://u:hunter2@no-such-host.invalid/x";
    expect(error_of_append(), ErrorCode::dns, "check the host");
    options.connection = "mysql://u:hunter2@localhost/x?socket=/no/such/socket";
    expect(error_of_append(), ErrorCode::connect, "check host and port");
    options.connection = "mysql://u:hunter2@127.0.0.1:1/x";
    expect(error_of_append(), ErrorCode::connect, "127.0.0.1:1");
}

TEST_F(MySQLErrors, a_wrong_database_or_password) {
    options.connection = server.connection("missing");
    expect(error_of_append(), ErrorCode::not_found, "CREATE DATABASE");
    create_user("secret", "SELECT");
    options.connection = server.connection(database, "secret:hunter2");
    expect(error_of_append(), ErrorCode::auth, "MYSQL_PWD");
}

TEST_F(MySQLErrors, a_user_without_rights) {
    create_user("guest", "SELECT");
    options.connection = server.connection(database, "guest:right");
    expect(error_of_append(), ErrorCode::permission_denied, "grant");
}

TEST_F(MySQLErrors, these_rights_suffice) {
    create_user("writer", "SELECT, INSERT, UPDATE, DELETE");
    options.connection = server.connection(database, "writer:right");
    MySQLCheckpointer store(options);
    run(store.append("t", one(user("hello", "r", "id")), AppendOptions()));
    run(store.claim_run("t", "r", ClaimOwner(), ClaimKind::new_run));
    HitlRequest request;
    request.question_id = "q";
    run(store.save_pending_request("t", "r", request));
    EXPECT_EQ(run(store.list_requests(InboxQuery())).entries.size(), 1U);
    run(store.mark_run_complete("t", "r"));
    run(store.delete_thread("t"));
    EXPECT_EQ(query("SELECT (SELECT count(*) FROM cubepi_messages) + (SELECT count(*) FROM"
                    " cubepi_native_writes) + (SELECT count(*) FROM cubepi_native_pending)")
                  .front(),
              "0");
}

TEST_F(MySQLErrors, a_lock_that_another_transaction_holds) {
    MySQLCheckpointer ready(options);
    run(ready.append("t", one(user("hello")), AppendOptions()));
    RawMySQL other(database);
    other.query("START TRANSACTION; SELECT 1 FROM cubepi_threads WHERE thread_id = 't' FOR UPDATE");
    options.lock_timeout = std::chrono::milliseconds(20);
    const cubepi::testing::MemoryLog log;
    options.runtime = std::make_shared<const Runtime>(Runtime().with_log(log.logger()));
    MySQLCheckpointer store(options);
    Task<std::int64_t> append = store.append("t", one(user("hello")), AppendOptions());
    const auto error = error_of<CheckpointerLockTimeoutError>(std::move(append));
    expect(error, ErrorCode::storage_locked, "lock_timeout");
    EXPECT_EQ(error.thread_id(), "t");
    EXPECT_EQ(log.text(), "<4>store.busy store=mysql error=server errno=1205 repeated=false\n");
    run(store.append("u", one(user("hello")), AppendOptions()));
    other.query("ROLLBACK");
    run(store.append("t", one(user("hello")), AppendOptions()));
}

Task<Outcome<std::int64_t>> outcome_of_append(MySQLCheckpointer& store, std::string thread_id) {
    MessageList list = one(user("hello"));
    Task<std::int64_t> append =
        store.append(std::move(thread_id), std::move(list), AppendOptions());
    co_return co_await outcome_of(std::move(append));
}

TEST_F(MySQLErrors, many_writers_of_one_thread_and_of_many_wait_for_each_other) {
    options.max_connections = 8;
    MySQLCheckpointer store(options);
    std::vector<Task<Outcome<std::int64_t>>> tasks;
    for (int i = 0; i < 40; ++i)
        tasks.push_back(outcome_of_append(store, i % 2 == 0 ? "one" : std::to_string(i)));
    for (const auto& outcome : run(when_all(std::move(tasks)))) EXPECT_TRUE(outcome.ok());
    EXPECT_EQ(run(store.load("one"))->position, 20);
}

TEST_F(MySQLErrors, a_connection_that_the_server_closed_is_replaced) {
    MySQLCheckpointer store(options);
    run(store.append("t", one(user("hello")), AppendOptions()));
    const std::vector<std::string> ids = query(
        "SELECT id FROM information_schema.processlist WHERE db = DATABASE()"
        " AND id <> connection_id()");
    ASSERT_FALSE(ids.empty());
    for (const std::string& id : ids) query("KILL CONNECTION " + id);
    EXPECT_EQ(run(store.load("t"))->messages.size(), 1U);
}

TEST_F(MySQLErrors, a_server_that_is_killed_and_started_again_has_what_was_committed) {
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

TEST_F(MySQLErrors, ids_that_the_server_cannot_store_are_refused) {
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

TEST_F(MySQLErrors, an_unreadable_row_is_named) {
    MySQLCheckpointer store(options);
    run(store.append("t", one(user("hello")), AppendOptions()));
    query("UPDATE cubepi_messages SET payload = X'a5' WHERE seq = 1");
    const auto error = error_of<CheckpointCorruptionError>(store.load("t"));
    EXPECT_EQ(error.row_ref(), "cubepi_messages.seq=1");
    EXPECT_EQ(error.backend(), "mysql");
}

}  // namespace
}  // namespace cubepi
