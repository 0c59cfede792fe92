// Tapes through a PgBouncer that assigns another session of the server to each transaction (D257).

#include <chrono>
#include <csignal>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <sys/wait.h>
#include <unistd.h>

#include <gtest/gtest.h>

#include <bub/tape/postgres_tape_schema.hpp>
#include <bub/tape/postgres_tape_store.hpp>
#include <bub/tape/tape_checkpointer.hpp>
#include <bub/tape/tape_store_conformance.hpp>
#include <bub/tape/tape_test_support.hpp>
#include <bub/tape/turn_transaction.hpp>
#include <cubepi/checkpoint/postgres_server_test.hpp>
#include <cubepi/core/error.hpp>
#include <cubepi/core/run.hpp>
#include <cubepi/core/runtime.hpp>
#include <cubepi/testing/memory_log.hpp>
#include <cubepi/testing/store_conformance.hpp>

namespace bub {
namespace {

using cubepi::PgBouncer;
using cubepi::PostgresServer;
using cubepi::RawPostgres;
using Texts = std::vector<std::string>;

class PooledTapes : public ::testing::Test {
protected:
    PooledTapes() : database(server.create_empty_database()), pooler(server) {
        options.connection = pooler.connection(database);
        run(postgres_tape_tables().apply(options));
    }
    std::shared_ptr<PostgresTapeStore> open() const {
        return std::make_shared<PostgresTapeStore>(options);
    }
    Texts query(const std::string& sql) const {
        return RawPostgres(server.connection(database)).query(sql);
    }
    void clear() const {
        query("DELETE FROM bub_tapes");
        query("DELETE FROM bub_media");
        query("DELETE FROM bub_open");
    }
    static std::vector<TapeEntry> one(std::string text) {
        std::vector<TapeEntry> entries;
        entries.push_back(message_entry("user", std::move(text)));
        return entries;
    }
    static std::shared_ptr<TurnTransaction> turn(std::shared_ptr<TapeStore> tapes) {
        TurnTransactionOptions how;
        how.turn_id = "t1";
        return std::make_shared<TurnTransaction>(std::move(tapes), "a__one", std::move(how));
    }
    /// After it the store has the thread that renews its row, and nothing else refers to the store.
    static void run_turn(const std::shared_ptr<TapeStore>& store) {
        const auto fork = turn(store);
        run(fork->append("a__one", one("x"), TapeAppend()));
        run(fork->flush());
        run(fork->merge());
    }

    PostgresServer& server = PostgresServer::shared();
    const std::string database;
    PgBouncer pooler;
    cubepi::PostgresOptions options;
};

TEST_F(PooledTapes, D257_Store_PassesTheSuite) {
    TapeStoreUnderTest store;
    store.make = [&] {
        clear();
        return open();
    };
    store.reopen = [&](std::shared_ptr<TapeStore> before) {
        before.reset();
        // Its last calls may still run.
        while (query("SELECT count(*) FROM bub_owners") != Texts{"0"}) usleep(20'000);
        return open();
    };
    store.share = [&](TapeStore&) { return open(); };
    for (const TapeStoreFailure& failure : check_tape_store(store))
        ADD_FAILURE() << failure.check << ": " << failure.text;
    // A store that ends leaves no lock and no row, after its last calls.
    const auto left =
        "SELECT (SELECT count(*) FROM pg_locks WHERE locktype = 'advisory')"
        " + (SELECT count(*) FROM bub_owners)";
    while (query(left) != Texts{"0"}) usleep(20'000);
}

TEST_F(PooledTapes, D257_Store_PassesTheSuiteOfAgentStores) {
    cubepi::testing::StoreUnderTest store;
    store.make = [&] {
        clear();
        return std::make_shared<TapeCheckpointer>(open());
    };
    for (const auto& failure : cubepi::testing::check_store(store))
        ADD_FAILURE() << failure.check << ": " << failure.text;
}

TEST_F(PooledTapes, D257_ProcessWithoutHeartbeat_LosesItsTurn) {
    const auto store = open();
    const auto other = open();
    const auto fork = turn(store);
    run(fork->append("a__one", one("x"), TapeAppend()));
    run(fork->flush());
    EXPECT_TRUE(run(other->has_open_turn("a__one"))) << "its process is alive";
    // As if it were frozen; it renews its row meanwhile.
    do {
        query("UPDATE bub_owners SET alive_until = clock_timestamp()");
    } while (run(other->has_open_turn("a__one")));
    EXPECT_EQ(run(other->position("a__one")).messages, 1);
    EXPECT_THROW(run(fork->merge()), cubepi::StaleAppendError);
    EXPECT_EQ(run(other->position("a__one")).messages, 1);
}

TEST_F(PooledTapes, D257_Heartbeat_SurvivesRestarts) {
    const auto store = open();
    const auto fork = turn(store);
    run(fork->append("a__one", one("x"), TapeAppend()));
    run(fork->flush());
    const std::string renewed = "SELECT alive_until > '";
    for (const bool is_server : {false, true}) {
        if (is_server) {
            server.stop(SIGKILL);
            server.start();
        } else {
            pooler.stop(SIGKILL);
            pooler.start();
        }
        const std::string before = query("SELECT alive_until FROM bub_owners").at(0);
        while (query(renewed + before + "' FROM bub_owners") != Texts{"t"}) usleep(20'000);
    }
    EXPECT_TRUE(run(open()->has_open_turn("a__one")));
    run(fork->merge());
    EXPECT_EQ(run(store->position("a__one")).messages, 1);
}

TEST_F(PooledTapes, D257_ForkedChild_CanDestroyTheStore) {
    auto store = open();
    run_turn(store);
    const pid_t child = fork();
    if (child == 0) {
        alarm(60);
        store.reset();
        _exit(0);
    }
    int status = -1;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0);
    EXPECT_EQ(query("SELECT count(*) FROM bub_owners"), Texts{"1"}) << "the parent's";
}

TEST_F(PooledTapes, D257_EndOfStore_DoesNotWaitForPooler) {
    const cubepi::testing::MemoryLog log;
    options.runtime =
        std::make_shared<const cubepi::Runtime>(cubepi::Runtime().with_log(log.logger()));
    options.connect_timeout = std::chrono::hours(1);
    auto store = open();
    run_turn(store);
    pooler.stop(SIGKILL);
    while (!log.contains("error=connect sqlstate=\"\" repeated=true")) usleep(20'000);
    store.reset();
}

TEST_F(PooledTapes, D257_MarkOfStalledOwner_IsNotForgotten) {
    const auto store = open();
    const auto mark = run(store->open_tape("a__one"));
    query("UPDATE bub_owners SET alive_until = clock_timestamp() - interval '1 hour'");
    const auto other = run(open()->open_tape("a__one"));
    EXPECT_EQ(query("SELECT count(*) FROM bub_open"), Texts{"2"});
    query("UPDATE bub_open SET owner = owner - 1");
    const auto last = run(open()->open_tape("a__one"));
    EXPECT_EQ(query("SELECT count(*) FROM bub_open"), Texts{"1"}) << "owners that nothing shows";
}

TEST_F(PooledTapes, D257_HeldName_IsAwaitedForTheLockTimeout) {
    options.lock_timeout = std::chrono::milliseconds(1);
    const auto first = run(open()->hold("name"));
    EXPECT_THROW(run(open()->hold("name")), cubepi::CheckpointerLockTimeoutError);
}

TEST_F(PooledTapes, D257_TapeOpenInAnotherProcess_IsNotRemoved) {
    const auto store = open();
    run(store->append("a__one", one("x"), TapeAppend()));
    const auto mark = run(open()->open_tape("a__one"));
    EXPECT_THROW(run(store->remove_tape("a__one")), cubepi::CheckpointerLockTimeoutError);
}

}  // namespace
}  // namespace bub
