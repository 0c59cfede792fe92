// The store in PostgreSQL, and gateways that share it: a limit holds for all of them together, and a message counts once.

#include <bub/limits/postgres_usage_store.hpp>

#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <bub/limits/usage_store_suite_test.hpp>
#include <cubepi/checkpoint/postgres_server_test.hpp>
#include <cubepi/core/error.hpp>

namespace bub {
namespace {

using cubepi::PostgresServer;
using cubepi::RawPostgres;
using cubepi::run;
using namespace usage_tests;

class PostgresUsageStoreTest : public ::testing::Test {
protected:
    PostgresUsageStoreTest() { options.database.connection = server.connection(database); }
    std::shared_ptr<PostgresUsageStore> open() const {
        return std::make_shared<PostgresUsageStore>(options);
    }

    PostgresServer& server = PostgresServer::shared();
    const std::string database = server.create_database(postgres_usage_tables());
    PostgresUsageStoreOptions options;
};

TEST_F(PostgresUsageStoreTest, D255_Cases_Hold) { run_cases(open()); }

TEST_F(PostgresUsageStoreTest, D255_OtherAccount_CountsAlone) {
    const auto store = open();
    EXPECT_FALSE(run(store->admit(turn("user:a", limit_of(1), {"1"}))));
    options.account = "other";
    EXPECT_FALSE(run(open()->admit(turn("user:a", limit_of(1), {"1"}))));
    EXPECT_EQ(used(*store, "user:a"), (UsageAmounts{1, 0, 0}));
}

TEST_F(PostgresUsageStoreTest, D255_MissingTables_NameTheCommand) {
    options.database.connection = server.connection(server.create_empty_database());
    EXPECT_FALSE(run(postgres_usage_tables().status(options.database)));
    try {
        run(open()->open());
        FAIL();
    } catch (const cubepi::Error& error) {
        EXPECT_EQ(error.code(), cubepi::ErrorCode::schema_mismatch);
        EXPECT_NE(std::string(error.what()).find("cubepi db migrate --tapes"), std::string::npos)
            << error.what();
    }
}

TEST_F(PostgresUsageStoreTest, D255_SeveralGateways_ShareOneLimit) {
    static constexpr std::int64_t most = 25;
    std::atomic<int> admitted = 0;
    std::vector<std::thread> threads;
    for (int gateway = 0; gateway < 4; ++gateway) {
        threads.emplace_back([this, gateway, &admitted] {
            const auto store = open();
            for (int i = 0; i < 20; ++i) {
                // Counters are locked in one order, whatever their order in the call.
                UsageAdmission one = turn("user:a", limit_of(most),
                                          {std::to_string(gateway) + "-" + std::to_string(i)});
                one.counters.insert(gateway % 2 ? one.counters.begin() : one.counters.end(),
                                    {"total", limit_of(1'000)});
                if (!run(store->admit(std::move(one)))) ++admitted;
                run(store->add(day, {{"user:a", {0, 3, 2}}, {"total", {0, 3, 2}}}));
            }
        });
    }
    for (std::thread& one : threads) one.join();
    EXPECT_EQ(admitted, most);
    EXPECT_EQ(used(*open(), "user:a"), (UsageAmounts{most, 240, 160}));
    EXPECT_EQ(used(*open(), "total"), (UsageAmounts{most, 240, 160}));
}

TEST_F(PostgresUsageStoreTest, D255_SameMessageAtSeveral_CountsOnce) {
    std::vector<std::thread> threads;
    for (int gateway = 0; gateway < 4; ++gateway) {
        threads.emplace_back([this] {
            const auto store = open();
            for (int i = 0; i < 20; ++i)
                EXPECT_FALSE(run(store->admit(turn("user:a", limit_of(20), {std::to_string(i)}))));
        });
    }
    for (std::thread& one : threads) one.join();
    EXPECT_EQ(used(*open(), "user:a"), (UsageAmounts{20, 0, 0}));
}

TEST_F(PostgresUsageStoreTest, D255_LostConnection_CountsOnce) {
    const auto store = open();
    run(store->add(day, {{"user:a", {0, 1, 1}}}));
    for (int i = 0; i < 5; ++i) {
        (void)RawPostgres(server.connection(database))
            .query(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname ="
                " current_database() AND pid <> pg_backend_pid()");
        run(store->add(day, {{"user:a", {0, 1, 1}}}));
    }
    EXPECT_EQ(used(*store, "user:a"), (UsageAmounts{0, 6, 6}));
}

}  // namespace
}  // namespace bub
