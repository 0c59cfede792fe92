#include <csignal>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include <cubepi/checkpoint/postgres_checkpointer.hpp>
#include <cubepi/checkpoint/postgres_server_test.hpp>
#include <cubepi/checkpoint/server_checks_test.hpp>
#include <cubepi/testing/memory_log.hpp>
#include <cubepi/testing/store_conformance.hpp>

// The store through a PgBouncer that assigns another session of the server to each transaction (D257).

namespace cubepi {

namespace {

class PooledStore : public ::testing::Test {
protected:
    PooledStore() : database(server.create_database()), pooler(server) {
        options.connection = pooler.connection(database);
        options.runtime = std::make_shared<const Runtime>(Runtime().with_log(log.logger()));
    }

    std::vector<std::string> query(const std::string& sql) const {
        return RawPostgres(server.connection(database)).query(sql);
    }
    static void append(PostgresCheckpointer& store, const std::string& id) {
        run(store.append("t", one(user("hello", "r", id)), AppendOptions()));
    }

    PostgresServer& server = PostgresServer::shared();
    const std::string database;
    PgBouncer pooler;
    PostgresOptions options;
    const cubepi::testing::MemoryLog log;
};

TEST_F(PooledStore, D257_Store_Conforms) {
    testing::StoreUnderTest subject;
    subject.make = [&] {
        query("DELETE FROM cubepi_threads");
        query("DELETE FROM cubepi_native_pending");
        return std::make_shared<PostgresCheckpointer>(options);
    };
    for (const testing::StoreFailure& failure : testing::check_store(subject))
        ADD_FAILURE() << failure.check << ": " << failure.text;
    EXPECT_EQ(log.text(), "") << "no statement was prepared that another session lacks";
}

TEST_F(PooledStore, D257_Settings_AreThoseOfTransactions) {
    options.lock_timeout = std::chrono::milliseconds(1);
    PostgresCheckpointer store(options);
    append(store, "1");
    {
        RawPostgres other(server.connection(database));
        other.query("BEGIN");
        other.query("SELECT pg_advisory_xact_lock(hashtext('t'))");
        EXPECT_THROW(append(store, "2"), CheckpointerLockTimeoutError);
    }
    // The sessions, which other programs share, have none of them.
    RawPostgres shared(options.connection);
    for (int session = 0; session < 5; ++session)
        EXPECT_EQ(shared.query("SELECT current_setting('lock_timeout'), current_setting('jit'),"
                               " current_setting('cubepi_native.writer', true) = '1'"),
                  (std::vector<std::string>{"0", "on", "f"}));
}

TEST_F(PooledStore, D257_PoolerEnds_NextCallWaitsForIt) {
    PostgresCheckpointer store(options);
    append(store, "1");
    for (const int signal : {SIGTERM, SIGKILL}) {
        pooler.stop(signal);
        pooler.start();
        append(store, std::to_string(signal));
    }
    server.stop(SIGKILL);
    server.start();
    append(store, "last");
    EXPECT_EQ(run(store.load("t"))->messages.size(), 4U);
}

}  // namespace

}  // namespace cubepi
