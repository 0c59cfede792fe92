// The errors that callers receive: code, reason and next step.
#include <cubepi/checkpoint/postgres_checkpointer.hpp>

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include <cubepi/checkpoint/postgres_schema.hpp>
#include <cubepi/checkpoint/postgres_server_test.hpp>
#include <cubepi/core/cancellation.hpp>
#include <cubepi/core/task_scope.hpp>
#include <cubepi/testing/memory_log.hpp>

namespace cubepi {
namespace {

class PostgresErrors : public ::testing::Test {
protected:
    PostgresErrors() : server(PostgresServer::shared()), database(server.create_database()) {
        options.connection = server.connection(database);
    }

    std::vector<std::string> query(const std::string& sql) {
        return RawPostgres(server.connection(database)).query(sql);
    }
    CheckpointerError error_of_append() {
        PostgresCheckpointer store(options);
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
    /// A user without rights, and the connection string for it.
    std::string other_user(const std::string& name) {
        query("DO $$ BEGIN CREATE ROLE " + name +
              " LOGIN; EXCEPTION WHEN duplicate_object THEN"
              " NULL; END $$");
        return "host=" + server.socket_directory() + " dbname=" + database + " user=" + name;
    }

    PostgresServer& server;
    std::string database;
    PostgresOptions options;
};

TEST_F(PostgresErrors, a_connection_string_that_cannot_be_parsed_is_not_repeated) {
    for (const char* text : {"postgres:/user:hunter2@host/db", "host hunter2", "password=hunter2 x",
                             "postgres://u:hunter2@host:port:5/%zz"}) {
        try {
            const PostgresCheckpointer store{std::string(text)};
            // libpq reads some of these as the name of a host.
        } catch (const CheckpointerError& error) {
            expect(error, ErrorCode::invalid_argument, "postgres://USER@HOST");
            EXPECT_EQ(std::string(error.what()).find("hunter2"), std::string::npos);
        }
    }
    EXPECT_THROW(PostgresCheckpointer("service=x"), CheckpointerError);
}

TEST_F(PostgresErrors, a_wrong_host) {
    options.connection = "host=no-such-host.invalid dbname=x password=hunter2";
    expect(error_of_append(), ErrorCode::dns, "check the host");
    options.connection = "host=/no/such/directory dbname=x password=hunter2";
    expect(error_of_append(), ErrorCode::connect, "check host and port");
    options.connection = "host=127.0.0.1 port=1 dbname=x password=hunter2";
    expect(error_of_append(), ErrorCode::connect, "127.0.0.1:1");
}

TEST_F(PostgresErrors, a_server_that_is_gone_is_awaited_only_if_it_was_there) {
    PostgresServer own;
    options.connection = own.connection(own.create_database());
    options.connect_timeout = std::chrono::milliseconds(200);
    const cubepi::testing::MemoryLog log;
    options.runtime = std::make_shared<const Runtime>(Runtime().with_log(log.logger()));
    PostgresCheckpointer store(options);
    run(store.append("t", one(user("hello")), AppendOptions()));
    own.stop(SIGINT);
    const std::string failed = "store=postgres error=connect sqlstate=\"\" ";
    // A new connection is refused.
    expect(error_of_append(), ErrorCode::connect, "check host and port");
    EXPECT_EQ(log.text(), "<3>store.failed " + failed + "repeated=false\n");
    // A connection of the pool was lost, so the server may be restarting.
    expect(checked(store.append("t", one(user("hello")), AppendOptions())), ErrorCode::connect,
           "check host and port");
    EXPECT_NE(log.text().find("<4>store.failed " + failed + "repeated=true\n"), std::string::npos)
        << log.text();
    own.start();
    run(store.append("t", one(user("again")), AppendOptions().expected_position(1)));
}

TEST_F(PostgresErrors, a_wrong_database) {
    options.connection = server.connection("missing");
    expect(error_of_append(), ErrorCode::not_found, "createdb");
}

TEST_F(PostgresErrors, a_wrong_password) {
    query(
        "DO $$ BEGIN CREATE ROLE secret LOGIN PASSWORD 'right'; EXCEPTION WHEN duplicate_object"
        " THEN NULL; END $$");
    options.connection = "host=" + server.socket_directory() + " dbname=" + database +
                         " user=secret password=hunter2";
    expect(error_of_append(), ErrorCode::auth, "PGPASSWORD");
    // An error that repeats the password in another way.
    options.connection =
        "host=" + server.socket_directory() + " dbname=hunter2 user=secret password=hunter2";
    expect(error_of_append(), ErrorCode::auth, "***");
}

TEST_F(PostgresErrors, the_environment_is_used) {
    setenv("PGHOST", server.socket_directory().c_str(), 1);
    setenv("PGDATABASE", database.c_str(), 1);
    setenv("PGUSER", "cubepi", 1);
    {
        PostgresCheckpointer store{std::string()};
        run(store.append("t", one(user("hello")), AppendOptions()));
    }
    for (const char* name : {"PGHOST", "PGDATABASE", "PGUSER"}) unsetenv(name);
    EXPECT_EQ(query("SELECT count(*) FROM cubepi_messages").front(), "1");
}

TEST_F(PostgresErrors, a_user_without_rights) {
    options.connection = other_user("guest");
    expect(error_of_append(), ErrorCode::permission_denied, "grant");
    query("GRANT SELECT ON ALL TABLES IN SCHEMA public TO guest");
    expect(error_of_append(), ErrorCode::permission_denied, "grant");
}

TEST_F(PostgresErrors, these_rights_suffice) {
    options.connection = other_user("writer");
    query("GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA public TO writer");
    PostgresCheckpointer store(options);
    run(store.append("t", one(user("hello", "r", "id")), AppendOptions()));
    run(store.claim_run("t", "r", ClaimOwner(), ClaimKind::new_run));
    HitlRequest request;
    request.question_id = "q";
    run(store.save_pending_request("t", "r", request));
    EXPECT_EQ(run(store.list_requests(InboxQuery())).entries.size(), 1U);
    run(store.mark_run_complete("t", "r"));
    run(store.delete_thread("t"));
}

TEST_F(PostgresErrors, a_server_that_is_read_only) {
    query("ALTER DATABASE " + database + " SET default_transaction_read_only = on");
    expect(error_of_append(), ErrorCode::permission_denied, "target_session_attrs=read-write");
    PostgresCheckpointer store(options);
    EXPECT_FALSE(run(store.load("t"))) << "it can be read";
}

TEST_F(PostgresErrors, a_lock_that_another_transaction_holds) {
    RawPostgres other(server.connection(database));
    other.query("SELECT pg_advisory_lock(hashtext('t'))");
    options.lock_timeout = std::chrono::milliseconds(20);
    const cubepi::testing::MemoryLog log;
    options.runtime = std::make_shared<const Runtime>(Runtime().with_log(log.logger()));
    PostgresCheckpointer store(options);
    Task<std::int64_t> append = store.append("t", one(user("hello")), AppendOptions());
    const auto error = error_of<CheckpointerLockTimeoutError>(std::move(append));
    expect(error, ErrorCode::storage_locked, "lock_timeout");
    EXPECT_EQ(error.thread_id(), "t");
    EXPECT_EQ(log.text(),
              "<4>store.busy store=postgres error=server sqlstate=55P03 repeated=false\n");
    run(store.append("u", one(user("hello")), AppendOptions()));
    other.query("SELECT pg_advisory_unlock_all()");
    run(store.append("t", one(user("hello")), AppendOptions()));
}

Task<Outcome<std::int64_t>> outcome_of_append(PostgresCheckpointer& store, std::string thread_id) {
    MessageList list = one(user("hello"));
    Task<std::int64_t> append =
        store.append(std::move(thread_id), std::move(list), AppendOptions());
    co_return co_await outcome_of(std::move(append));
}

TEST_F(PostgresErrors, a_pool_that_is_exhausted) {
    RawPostgres other(server.connection(database));
    other.query("SELECT pg_advisory_lock(hashtext('t'))");
    options.max_connections = 1;
    options.acquire_timeout = std::chrono::milliseconds(20);
    options.lock_timeout = std::chrono::milliseconds(1000);
    PostgresCheckpointer store(options);
    run(store.open());
    std::vector<Task<Outcome<std::int64_t>>> tasks;
    tasks.push_back(outcome_of_append(store, "t"));
    tasks.push_back(outcome_of_append(store, "u"));
    std::vector<Outcome<std::int64_t>> outcomes = run(when_all(std::move(tasks)));
    const auto second = [&]() -> Task<std::int64_t> {
        outcomes[1].rethrow();
        co_return 0;
    };
    expect(checked(second()), ErrorCode::timeout, "max_connections");
    EXPECT_FALSE(outcomes[0].ok()) << "the lock was never released";
    other.query("SELECT pg_advisory_unlock_all()");
    run(store.append("u", one(user("hello")), AppendOptions()));
}

TEST_F(PostgresErrors, many_calls_wait_for_one_connection) {
    options.max_connections = 1;
    PostgresCheckpointer store(options);
    std::vector<Task<Outcome<std::int64_t>>> tasks;
    for (int i = 0; i < 20; ++i) tasks.push_back(outcome_of_append(store, std::to_string(i)));
    for (const auto& outcome : run(when_all(std::move(tasks)))) EXPECT_TRUE(outcome.ok());
    EXPECT_EQ(query("SELECT count(*) FROM pg_stat_activity WHERE application_name = 'cubepi'"
                    " AND datname = current_database()")
                  .front(),
              "1");
}

TEST_F(PostgresErrors, a_cancelled_append_stores_nothing_and_frees_its_connection) {
    RawPostgres other(server.connection(database));
    other.query("SELECT pg_advisory_lock(hashtext('t'))");
    options.max_connections = 1;
    PostgresCheckpointer store(options);
    run(store.open());
    std::stop_source source;
    const auto both = [&]() -> Task<> {
        Task<std::int64_t> append = store.append("t", one(user("hello")), AppendOptions());
        Task<std::int64_t> stoppable = cancel_on(source.get_token(), std::move(append));
        const Executor executor = co_await this_executor;
        TaskGroup<std::int64_t> group(executor, ScopePolicy::collect);
        group.spawn(std::move(stoppable));
        source.request_stop();
        (void)co_await group.settle();
        EXPECT_TRUE(group.take().front().cancelled());
    };
    run(both());
    other.query("SELECT pg_advisory_unlock_all()");
    EXPECT_FALSE(run(store.load("t")));
    run(store.append("t", one(user("hello")), AppendOptions()));
}

TEST_F(PostgresErrors, ids_that_postgresql_cannot_store_are_refused) {
    PostgresCheckpointer store(options);
    Task<std::int64_t> nul = store.append(std::string("a\0b", 3), one(user("x")), AppendOptions());
    expect(checked(std::move(nul)), ErrorCode::invalid_argument, "U+0000");
    Task<std::int64_t> invalid = store.append("a\xff", one(user("x")), AppendOptions());
    expect(checked(std::move(invalid)), ErrorCode::invalid_argument, "UTF-8");
    std::string longest;
    // Random enough not to be compressed.
    for (unsigned i = 0, x = 1; i < 9000; ++i, x = x * 1103515245U + 12345U)
        longest += static_cast<char>('a' + (x >> 16U) % 26);
    Task<std::int64_t> too_long = store.append(longest, one(user("x")), AppendOptions());
    expect(checked(std::move(too_long)), ErrorCode::invalid_argument, "2700");
}

TEST_F(PostgresErrors, an_unreadable_row_is_named) {
    PostgresCheckpointer store(options);
    run(store.append("t", one(user("hello")), AppendOptions()));
    run(store.append("t", one(user("again")), AppendOptions()));
    query("UPDATE cubepi_messages SET payload = '\\xa5' WHERE seq = 2");
    const auto error = error_of<CheckpointCorruptionError>(store.load("t"));
    EXPECT_EQ(error.row_ref(), "cubepi_messages.seq=2");
    EXPECT_EQ(error.backend(), "postgres");
    EXPECT_EQ(error.thread_id(), "t");
    expect_one_line(error);
}

TEST_F(PostgresErrors, a_table_that_disappears) {
    PostgresCheckpointer store(options);
    run(store.open());
    query("DROP TABLE cubepi_native_message_ids");
    Task<std::int64_t> append = store.append("t", one(user("x", "r", "id")), AppendOptions());
    expect(checked(std::move(append)), ErrorCode::schema_mismatch, "apply_postgres_schema");
}

}  // namespace
}  // namespace cubepi
