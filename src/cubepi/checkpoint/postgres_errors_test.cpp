#include <chrono>
#include <csignal>
#include <cstdlib>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include <cubepi/checkpoint/postgres_checkpointer.hpp>
#include <cubepi/checkpoint/postgres_schema.hpp>
#include <cubepi/checkpoint/postgres_server_test.hpp>
#include <cubepi/checkpoint/server_checks_test.hpp>
#include <cubepi/checkpoint/server_proxy_test.hpp>
#include <cubepi/checkpoint/store_fixtures_test.hpp>
#include <cubepi/core/cancellation.hpp>
#include <cubepi/core/outcome.hpp>
#include <cubepi/core/task_scope.hpp>
#include <cubepi/testing/memory_log.hpp>

// The errors of this server: code, reason and next step; and, over a proxy, connections that break. server_store_test.cpp has
// those of both servers.

namespace cubepi {

namespace {

/// A user without rights, and the connection string for it.
std::string other_user(const std::string& database, const std::string& name) {
    PostgresServer& server = PostgresServer::shared();
    RawPostgres(server.connection(database))
        .query("DO $$ BEGIN CREATE ROLE " + name +
               " LOGIN; EXCEPTION WHEN duplicate_object THEN NULL; END $$");
    return "host=" + server.socket_directory() + " dbname=" + database + " user=" + name;
}

class PostgresDatabase final : public ServerDatabase {
public:
    explicit PostgresDatabase(bool with_tables)
        : database_(with_tables ? server_.create_database() : server_.create_empty_database()) {}

    std::string name() const override { return "postgres"; }
    std::string connection() const override { return server_.connection(database_); }
    std::string proxy_connection() const override { return proxy_.connection(database_); }
    ServerProxy& proxy() override { return proxy_; }
    std::vector<std::string> query(const std::string& sql) override {
        return RawPostgres(connection()).query(sql);
    }
    void clear() override { query("DELETE FROM cubepi_threads"); }
    std::shared_ptr<void> lock_thread() override {
        auto other = std::make_shared<RawPostgres>(connection());
        other->query("SELECT pg_advisory_lock(hashtext('t'))");
        return std::shared_ptr<void>(
            nullptr, [other](void*) { other->query("SELECT pg_advisory_unlock_all()"); });
    }
    std::string lock_code() const override { return "sqlstate=55P03"; }
    void end_connections() override {
        query(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
            " WHERE application_name = 'cubepi'");
    }
    void damage_messages(const std::string& condition) override {
        query("UPDATE cubepi_messages SET payload = '\\xc1' WHERE " + condition);
    }
    void refuse_messages() override {
        query(
            "CREATE FUNCTION full_disk() RETURNS trigger LANGUAGE plpgsql AS"
            " $$ BEGIN RAISE EXCEPTION 'No space left on device' USING ERRCODE = '53100'; END $$");
        query(
            "CREATE TRIGGER full_disk BEFORE INSERT ON cubepi_messages FOR EACH ROW"
            " EXECUTE FUNCTION full_disk()");
    }
    std::string writer_connection() override {
        const std::string writer = other_user(database_, "writer");
        query("GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA public TO writer");
        return writer;
    }
    void run_file(const std::string& name) override {
        const std::string command = "psql -q -v ON_ERROR_STOP=1 -U cubepi -h " +
                                    server_.socket_directory() + " -d " + database_ + " -f " +
                                    (databases / name).string() + " > /dev/null";
        ASSERT_EQ(std::system(command.c_str()), 0);
    }
    std::string shape() override {
        std::string all;
        for (const char* sql :
             {"SELECT table_name, column_name, data_type, is_nullable, column_default"
              " FROM information_schema.columns WHERE table_schema = 'public'"
              " AND table_name NOT LIKE 'cubepi_native%' ORDER BY 1, 2",
              "SELECT indexdef FROM pg_indexes WHERE schemaname = 'public'"
              " AND indexname NOT LIKE 'cubepi_native%' ORDER BY 1",
              "SELECT conrelid::regclass::text, pg_get_constraintdef(oid) FROM pg_constraint"
              " WHERE connamespace = 'public'::regnamespace AND contype <> 't'"
              " AND conrelid::regclass::text NOT LIKE 'cubepi_native%'"
              " AND conrelid::regclass::text NOT LIKE '%\\_p__' ORDER BY 1, 2"}) {
            for (const std::string& value : query(sql)) all += value + "\n";
        }
        return all;
    }
    void make_older(int version) override {
        if (version < 5) query("DROP TABLE cubepi_hitl_answers");
        if (version < 4) {
            query("DROP TABLE cubepi_runs");
            if (version < 3)
                query(
                    "ALTER TABLE cubepi_threads DROP COLUMN parent_thread_id, DROP COLUMN "
                    "forked_at_seq");
            query("ALTER TABLE cubepi_messages DROP COLUMN run_id");
        }
        if (version < 3) query("ALTER TABLE cubepi_threads DROP COLUMN run_id");
        if (version < 2) query("ALTER TABLE cubepi_threads DROP COLUMN pending_request");
    }
    std::string bytes(const std::string& hex) const override { return "'\\x" + hex + "'"; }
    std::string hex_of(const std::string& column) const override {
        return "encode(" + column + ", 'hex')";
    }
    SqlSchemaStatus apply_schema() override { return run(apply_postgres_schema(options())); }
    SqlSchemaStatus schema_status() override { return run(postgres_schema_status(options())); }
    StoreReport check() override { return run(check_postgres(options())); }
    std::string schema_sql(const SqlSchemaStatus& from) override {
        return postgres_schema_sql(from);
    }
    std::string script_arguments() const override {
        return server_.socket_directory() + " " + database_;
    }

private:
    PostgresOptions options() const {
        PostgresOptions options;
        options.connection = connection();
        return options;
    }

    PostgresServer& server_ = PostgresServer::shared();
    std::string database_;
    PostgresProxy proxy_ = PostgresProxy(server_.socket_directory());
};

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

    PostgresServer& server;
    std::string database;
    PostgresOptions options;
};

TEST_F(PostgresErrors, InvalidConnectionString_IsNotRepeatedInError) {
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
    for (const char* text :
         {"postgres://u:hunt/hunter2@127.0.0.1:1/db", "postgresql://u:12/hunter2@host/db",
          "postgres://u:hunter2/x", "postgres://u:x@hunter2@host/db"}) {
        const std::string connection = text;
        try {
            const PostgresCheckpointer store(connection);
            ADD_FAILURE() << connection;
        } catch (const CheckpointerError& error) {
            expect(error, ErrorCode::invalid_argument, "a '/' in a password as %2F");
            EXPECT_EQ(std::string(error.what()).find("hunt"), std::string::npos);
        }
    }
    EXPECT_NO_THROW(
        PostgresCheckpointer("postgres://u:hunt%2Fer@h1:1,h2:2/db?application_name=a@b"));
    EXPECT_NO_THROW(PostgresCheckpointer("host=@abstract user=u"));
}

TEST_F(PostgresErrors, WrongHost_IsReportedWithAdvice) {
    options.connection = "host=no-such-host.invalid dbname=x password=hunter2";
    expect(error_of_append(), ErrorCode::dns, "check the host");
    options.connection = "host=/no/such/directory dbname=x password=hunter2";
    expect(error_of_append(), ErrorCode::connect, "check host and port");
    options.connection = "host=127.0.0.1 port=1 dbname=x password=hunter2";
    expect(error_of_append(), ErrorCode::connect, "127.0.0.1:1");
}

TEST_F(PostgresErrors, LostServer_IsAwaitedOnlyAfterAConnection) {
    PostgresServer own;
    options.connection = own.connection(own.create_database());
    options.connect_timeout = std::chrono::seconds(2);
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

TEST_F(PostgresErrors, WrongDatabase_IsReportedWithAdvice) {
    options.connection = server.connection("missing");
    expect(error_of_append(), ErrorCode::not_found, "createdb");
}

TEST_F(PostgresErrors, WrongPassword_IsReportedWithoutThePassword) {
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

TEST_F(PostgresErrors, ConnectionStringIsEmpty_EnvironmentIsUsed) {
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

TEST_F(PostgresErrors, UserWithoutRights_IsDenied) {
    options.connection = other_user(database, "guest");
    expect(error_of_append(), ErrorCode::permission_denied, "grant");
    query("GRANT SELECT ON ALL TABLES IN SCHEMA public TO guest");
    expect(error_of_append(), ErrorCode::permission_denied, "grant");
}

TEST_F(PostgresErrors, D257_StatementRefusedWithClass08_IsNotRepeated) {
    query(
        "CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN"
        " RAISE EXCEPTION 'not supported' USING ERRCODE = '08P01'; END $$");
    query(
        "CREATE TRIGGER refuse BEFORE INSERT ON cubepi_messages"
        " FOR EACH ROW EXECUTE FUNCTION refuse()");
    const cubepi::testing::MemoryLog log;
    options.runtime = std::make_shared<const Runtime>(Runtime().with_log(log.logger()));
    expect(error_of_append(), ErrorCode::storage, "see the log of the server");
    EXPECT_EQ(log.text(),
              "<3>store.failed store=postgres error=server sqlstate=08P01 repeated=false\n");
}

TEST_F(PostgresErrors, ReadOnlyServer_RefusesOnlyWrites) {
    query("ALTER DATABASE " + database + " SET default_transaction_read_only = on");
    expect(error_of_append(), ErrorCode::permission_denied, "target_session_attrs=read-write");
    PostgresCheckpointer store(options);
    EXPECT_FALSE(run(store.load("t"))) << "it can be read";
}

TEST_F(PostgresErrors, ManyCalls_WaitForOneConnection) {
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

TEST_F(PostgresErrors, CancelledAppend_StoresNothingAndFreesItsConnection) {
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
        (void)co_await group.join_failure();
        EXPECT_TRUE(group.take().front().cancelled());
    };
    run(both());
    other.query("SELECT pg_advisory_unlock_all()");
    EXPECT_FALSE(run(store.load("t")));
    run(store.append("t", one(user("hello")), AppendOptions()));
}

TEST_F(PostgresErrors, IdsThatPostgresCannotStore_AreRefused) {
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

TEST_F(PostgresErrors, TableThatDisappears_IsASchemaMismatch) {
    PostgresCheckpointer store(options);
    run(store.open());
    query("DROP TABLE cubepi_native_message_ids");
    Task<std::int64_t> append = store.append("t", one(user("x", "r", "id")), AppendOptions());
    expect(checked(std::move(append)), ErrorCode::schema_mismatch, "apply_postgres_schema");
}

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

TEST_F(PostgresFaults, ServerCrashAtAnyStatement_KeepsAppendsWhole) {
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

TEST_F(PostgresFaults, Deadlock_IsRepeated) {
    options.connection = proxy.connection(database, "options=-cdeadlock_timeout=10ms");
    options.lock_timeout = std::chrono::minutes(5);
    options.query_timeout = std::chrono::minutes(5);
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

TEST_F(PostgresFaults, IdleConnectionWithoutNetwork_IsReplaced) {
    options.check_after = std::chrono::milliseconds(0);
    options.connect_timeout = std::chrono::seconds(1);
    PostgresCheckpointer store(options);
    run(append(store, "t"));
    proxy.freeze();
    EXPECT_EQ(run(store.load("t"))->messages.size(), 1U);
}

TEST_F(PostgresFaults, FullDisk_StoresAnAppendWhollyOrNot) {
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
    const std::exception_ptr refusal = fill_disk(store, stored);
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

}  // namespace

std::unique_ptr<ServerDatabase> ServerDatabase::create(bool with_tables) {
    return std::make_unique<PostgresDatabase>(with_tables);
}

std::shared_ptr<SqlCheckpointer> ServerDatabase::open(const SqlOptions& options) {
    return std::make_shared<PostgresCheckpointer>(PostgresOptions{options});
}

}  // namespace cubepi
