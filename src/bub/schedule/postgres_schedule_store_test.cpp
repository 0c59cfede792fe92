// The store in PostgreSQL, and gateways that share it: a firing is one message.

#include <bub/schedule/postgres_schedule_store.hpp>

#include <gtest/gtest.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <bub/channel/channel_test_support.hpp>
#include <bub/channel/postgres_delivery_log.hpp>
#include <bub/channel/postgres_delivery_schema.hpp>
#include <bub/schedule/schedule_channel.hpp>
#include <bub/schedule/schedule_store_suite_test.hpp>
#include <cubepi/checkpoint/postgres_server_test.hpp>
#include <cubepi/core/error.hpp>
#include <cubepi/core/run.hpp>

namespace bub::channel_tests {
namespace {

using cubepi::PostgresServer;
using cubepi::RawPostgres;
using cubepi::run;

class PostgresScheduleStoreTest : public ::testing::Test {
protected:
    PostgresScheduleStoreTest() { options.database.connection = server.connection(database); }
    std::shared_ptr<PostgresScheduleStore> open() const {
        return std::make_shared<PostgresScheduleStore>(options);
    }

    PostgresServer& server = PostgresServer::shared();
    const std::string database = server.create_database(postgres_schedule_tables());
    PostgresScheduleStoreOptions options;
};

TEST_F(PostgresScheduleStoreTest, Cases_Hold) { schedule_tests::run_cases(open()); }

TEST_F(PostgresScheduleStoreTest, OtherAccount_SeesNothing) {
    const auto store = open();
    EXPECT_TRUE(run(store->add(schedule_tests::schedule("one", 60))));
    options.account = "other";
    EXPECT_TRUE(run(open()->list("")).empty());
    EXPECT_FALSE(run(open()->remove("one")));
    EXPECT_TRUE(run(open()->due({})).schedules.empty());
    EXPECT_EQ(run(store->due({})).schedules.size(), 1u);
}

TEST_F(PostgresScheduleStoreTest, D267_RemovedSchedule_IsNotAdoptedAgain) {
    const auto store = open();
    const auto one = [](std::int64_t next) { return schedule_tests::schedule("one", next); };
    EXPECT_TRUE(run(store->adopt(one(60))));
    EXPECT_FALSE(run(store->adopt(one(60))));
    EXPECT_TRUE(run(store->remove("one")));
    EXPECT_FALSE(run(store->adopt(one(60))));
    EXPECT_TRUE(run(store->adopt(one(120)))) << "it has fired in the files since";
    options.account = "other";
    EXPECT_TRUE(run(open()->adopt(one(60))));
}

TEST_F(PostgresScheduleStoreTest, MissingTables_NameTheCommand) {
    options.database.connection = server.connection(server.create_empty_database());
    EXPECT_FALSE(run(postgres_schedule_tables().status(options.database)));
    try {
        run(open()->open());
        FAIL();
    } catch (const cubepi::Error& error) {
        EXPECT_EQ(error.code(), cubepi::ErrorCode::schema_mismatch);
        EXPECT_NE(std::string(error.what()).find("cubepi db migrate --tapes"), std::string::npos)
            << error.what();
    }
}

TEST_F(PostgresScheduleStoreTest, D249_ManyDue_ArePages) {
    const auto store = open();
    for (const char* id : {"a", "z"})
        EXPECT_TRUE(run(store->add(schedule_tests::schedule(id, 60))));
    Schedule finished = schedule_tests::schedule("finished", 60);
    finished.last = 60;
    finished.next.reset();
    EXPECT_TRUE(run(store->add(finished)));
    (void)RawPostgres(server.connection(database))
        .query(
            "INSERT INTO bub_schedules SELECT account, 'b' || n, session, configured, next_at,"
            " last_at, has_problem, replace(schedule, '\"id\":\"a\"', '\"id\":\"b' || n || '\"') "
            "FROM"
            " bub_schedules, generate_series(1, 1000) AS n WHERE id = 'a'");
    const DueSchedules first = run(store->due({}));
    ASSERT_EQ(first.schedules.size(), 1'000u);
    EXPECT_EQ(first.schedules[0].id, "finished");
    EXPECT_EQ(first.schedules[1].id, "a");
    ASSERT_TRUE(first.more);
    EXPECT_EQ(first.more->id, first.schedules.back().id);
    const DueSchedules rest = run(store->due(*first.more));
    ASSERT_EQ(rest.schedules.size(), 3u);
    EXPECT_EQ(rest.schedules.back().id, "z");
    EXPECT_FALSE(rest.more);
}

/// A gateway of several that share a database, with a clock of its own.
struct SharedGateway {
    SharedGateway(const PostgresScheduleStoreOptions& database, PostgresDeliveryLogOptions log)
        : store(std::make_shared<PostgresScheduleStore>(database)) {
        gateway.options.deliveries = std::make_shared<PostgresDeliveryLog>(std::move(log));
        Plugin source;
        source.name = "source";
        source.provide_channels = [this](ProvideChannelsCall& call) {
            ScheduleChannelOptions options;
            options.store = store;
            options.runtime = std::make_shared<const cubepi::Runtime>(
                cubepi::Runtime().with_clock(gateway.clock));
            auto made = std::make_shared<ScheduleChannel>(std::move(options), call.handler);
            made->connect(*gateway.manager);
            return std::vector<std::shared_ptr<Channel>>{std::move(made)};
        };
        gateway.framework->add(std::move(source));
        gateway.furnish();
    }

    const std::shared_ptr<PostgresScheduleStore> store;
    Gateway gateway;
};

TEST_F(PostgresScheduleStoreTest, D249_SeveralGateways_FireOnce) {
    PostgresDeliveryLogOptions log;
    log.database = options.database;
    log.lease = std::chrono::hours(1);
    run(postgres_delivery_tables().apply(log.database));
    const auto store = open();
    const std::int64_t now = run(store->now());
    constexpr int schedules = 20;
    for (int i = 0; i < schedules; ++i) {
        const std::string number = std::to_string(i);
        Schedule one = schedule_tests::schedule("s" + number, now - 5, "chat:" + number);
        one.times.interval = 86'400;
        one.origin = JsonObject{{"channel", "chat"}, {"chat_id", number}};
        EXPECT_TRUE(run(store->add(one)));
    }
    std::vector<std::unique_ptr<SharedGateway>> gateways;
    for (int i = 0; i < 3; ++i) gateways.push_back(std::make_unique<SharedGateway>(options, log));
    std::atomic<std::size_t> ended = 0;
    std::vector<std::thread> threads;
    for (const auto& one : gateways) {
        threads.emplace_back([&ended, &one] {
            one->gateway.run([&ended, &one](Gateway& running) -> Task<> {
                for (bool waits = true; waits;) {
                    co_await running.clock->sleep_for(std::chrono::seconds(1));
                    DuePlace all;
                    const DueSchedules due = co_await one->store->due(std::move(all));
                    waits = !due.schedules.empty();
                }
                co_await running.manager->idle();
                ++ended;
                // Each one stays to take what others have received for its sessions.
                while (ended < 3) co_await running.clock->sleep_for(std::chrono::seconds(1));
                co_await running.manager->idle();
            });
        });
    }
    for (std::thread& one : threads) one.join();
    std::size_t turns = 0;
    for (const auto& one : gateways) turns += one->gateway.begun.size();
    EXPECT_EQ(turns, std::size_t{schedules});
    EXPECT_EQ(
        RawPostgres(server.connection(database)).query("SELECT count(*) FROM bub_delivery_inbound"),
        std::vector<std::string>{std::to_string(schedules)});
}

}  // namespace
}  // namespace bub::channel_tests
