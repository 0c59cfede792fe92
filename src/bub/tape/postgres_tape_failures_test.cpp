// Tests of PostgreSQL tapes: merges that fail, locks that are held for long, and tapes that are reset while they are read.
#include <bub/tape/postgres_tape_store.hpp>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include <bub/tape/postgres_tape_schema.hpp>
#include <bub/tape/turn_transaction.hpp>
#include <cubepi/checkpoint/postgres_server_test.hpp>
#include <cubepi/checkpoint/server_proxy_test.hpp>
#include <cubepi/core/error.hpp>
#include <cubepi/core/run.hpp>

namespace bub {
namespace {

using cubepi::PostgresOptions;
using cubepi::PostgresProxy;
using cubepi::PostgresServer;
using cubepi::RawPostgres;
using cubepi::run;

class PostgresTapeFailures : public ::testing::Test {
protected:
    PostgresTapeFailures()
        : server(PostgresServer::shared()), database(server.create_empty_database()) {
        options.connection = server.connection(database);
        run(apply_postgres_tape_schema(options));
    }
    std::vector<std::string> query(const std::string& sql) const {
        return RawPostgres(server.connection(database)).query(sql);
    }

    PostgresServer& server;
    std::string database;
    PostgresOptions options;
};

std::vector<TapeEntry> many(std::size_t count, const std::string& text) {
    std::vector<TapeEntry> entries;
    for (std::size_t i = 0; i < count; ++i) entries.push_back(message_entry("user", text));
    return entries;
}

TurnTransactionOptions turn(std::string id) {
    TurnTransactionOptions options;
    options.turn_id = std::move(id);
    return options;
}

std::size_t count_of(const std::vector<TapeEntry>& entries, std::string_view text) {
    std::size_t count = 0;
    for (const TapeEntry& entry : entries) {
        const Json* content = entry.payload.if_contains("content");
        if (content && content->as_string() == text) ++count;
    }
    return count;
}

/// From now on no entry can be stored, while journals can.
constexpr const char* reject_entries =
    "ALTER TABLE bub_entries ADD CONSTRAINT nothing CHECK (false) NOT VALID";
constexpr const char* take_entries = "ALTER TABLE bub_entries DROP CONSTRAINT nothing";

TEST_F(PostgresTapeFailures, B9_ATurnWhoseMergeHasFailedIsClosedByItsOwnProcess) {
    const auto store = std::make_shared<PostgresTapeStore>(options);
    {
        TurnTransaction fork(store, "a__one", turn("t1"));
        run(fork.append("a__one", many(1, "hello"), TapeAppend()));
        EXPECT_TRUE(run(store->has_open_turn("a__one")));
        query(reject_entries);
        EXPECT_THROW(run(fork.merge()), cubepi::Error);
        EXPECT_TRUE(run(store->has_open_turn("a__one"))) << "it can be merged again";
        query(take_entries);
    }
    TurnTransaction next(store, "a__one", turn("t2"));
    run(next.append("a__one", many(1, "next"), TapeAppend()));
    run(next.merge());
    const std::vector<TapeEntry> entries = run(store->fetch("a__one", TapeQuery()));
    EXPECT_EQ(count_of(entries, "hello"), 1U);
    EXPECT_EQ(count_of(entries, "next"), 1U);
    EXPECT_FALSE(run(store->has_open_turn("a__one")));
    run(store->remove_tape("a__one"));
    EXPECT_EQ(run(store->position("a__one")).last_id, 0);
}

TEST_F(PostgresTapeFailures, B9_AMergeThatHasFailedIsRepeated) {
    const auto store = std::make_shared<PostgresTapeStore>(options);
    TurnTransaction fork(store, "a__one", turn("t1"));
    run(fork.append("a__one", many(1, "hello"), TapeAppend()));
    query(reject_entries);
    EXPECT_THROW(run(fork.merge()), cubepi::Error);
    query(take_entries);
    fork.add_text("more");
    run(fork.flush());
    run(fork.merge(TurnStatus::cancelled));
    const std::vector<TapeEntry> entries = run(store->fetch("a__one", TapeQuery()));
    EXPECT_EQ(count_of(entries, "hello"), 1U);
    EXPECT_EQ(count_of(entries, "more"), 1U);
    EXPECT_EQ(query("SELECT count(*) FROM bub_turns"), std::vector<std::string>{"0"});
}

TEST_F(PostgresTapeFailures, ADiscardedTurnIsNotClosed) {
    const auto store = std::make_shared<PostgresTapeStore>(options);
    TurnTransaction fork(store, "a__one", turn("t1"));
    run(fork.append("a__one", many(1, "hello"), TapeAppend()));
    run(fork.discard());
    EXPECT_EQ(query("SELECT count(*) FROM bub_turns"), std::vector<std::string>{"0"});
    EXPECT_EQ(run(store->position("a__one")).last_id, 0);
}

TEST_F(PostgresTapeFailures, D50_ALateEditPrecedesTheNextOne) {
    PostgresTapeStore store(options);
    const auto set = [](std::string name) {
        return [name](JsonObject& state) { state[name] = static_cast<std::int64_t>(state.size()); };
    };
    store.edit_state_later("a__one", set("late"));
    const auto fail = [](JsonObject&) -> Json {
        throw cubepi::Error(cubepi::ErrorCode::invalid_state, "no");
    };
    EXPECT_THROW(run(store.edit_state("a__one", fail)), cubepi::Error);
    const auto edit = [&](JsonObject& state) {
        set("next")(state);
        return Json();
    };
    run(store.edit_state("a__one", edit));
    EXPECT_EQ(run(store.read_state("a__one")).at("late"), 0);
    EXPECT_EQ(run(store.read_state("a__one")).at("next"), 1);
    run(store.edit_state("a__one", edit));
    EXPECT_EQ(run(store.read_state("a__one")).at("late"), 0) << "once";
}

TEST_F(PostgresTapeFailures, ANameIsHeldForLongerThanACallMayTake) {
    PostgresOptions brief = options;
    brief.query_timeout = std::chrono::milliseconds(1000);
    PostgresTapeStore store(brief);
    PostgresOptions hasty = options;
    hasty.lock_timeout = std::chrono::milliseconds(20);
    PostgresTapeStore other(hasty);
    std::shared_ptr<const void> held = run(store.hold("sessions"));
    RawPostgres watcher(server.connection(database));
    const std::string limit = watcher.query("SELECT clock_timestamp() + interval '1500 ms'").at(0);
    while (watcher.query("SELECT clock_timestamp() < '" + limit + "'") ==
           std::vector<std::string>{"t"}) {
    }
    EXPECT_THROW(run(other.hold("sessions")), cubepi::CheckpointerLockTimeoutError);
    held.reset();
    EXPECT_TRUE(run(store.hold("sessions")));
}

TEST_F(PostgresTapeFailures, ATapeThatIsResetWhileItIsReadIsReadAgain) {
    PostgresTapeStore direct(options);
    run(direct.append("a__one", many(2500, "old"), TapeAppend()));
    PostgresProxy proxy(server.socket_directory());
    PostgresOptions slow = options;
    slow.connection = proxy.connection(database);
    PostgresTapeStore store(slow);
    run(store.position("a__one"));
    std::atomic<bool> was_reset = false;
    // After BEGIN, two reads and COMMIT of the first page.
    proxy.before_statement(
        5,
        [&] {
            PostgresTapeStore other(options);
            run(other.append("a__one", many(1500, "new"), TapeAppend().reset()));
            was_reset = true;
        },
        false);
    const std::vector<TapeEntry> entries = run(store.fetch("a__one", TapeQuery()));
    EXPECT_TRUE(was_reset);
    EXPECT_EQ(count_of(entries, "new"), 1500U);
    EXPECT_EQ(count_of(entries, "old"), 0U) << "no mixture";
}

TEST_F(PostgresTapeFailures, AVisitOfATapeThatIsResetFails) {
    PostgresTapeStore store(options);
    run(store.append("a__one", many(2500, "old"), TapeAppend()));
    std::size_t seen = 0;
    const auto visit = [&](const TapeEntry&) {
        if (++seen == 10) {
            std::thread([&] {
                PostgresTapeStore other(options);
                run(other.append("a__one", many(1500, "new"), TapeAppend().reset()));
            }).join();
        }
        return true;
    };
    EXPECT_THROW(run(store.visit("a__one", TapeQuery(), visit)), cubepi::CheckpointerError);
    EXPECT_EQ(seen, 1000U) << "nothing of the new tape";
}

TEST_F(PostgresTapeFailures, AReadShowsTheTapeAsOfItsFirstPage) {
    PostgresTapeStore store(options);
    run(store.append("a__one", many(1500, "old"), TapeAppend()));
    std::size_t seen = 0;
    const auto visit = [&](const TapeEntry&) {
        if (++seen == 10) {
            std::thread([&] {
                PostgresTapeStore other(options);
                run(other.append("a__one", many(10, "new"), TapeAppend()));
            }).join();
        }
        return true;
    };
    run(store.visit("a__one", TapeQuery(), visit));
    EXPECT_EQ(seen, 1500U);
}

TEST_F(PostgresTapeFailures, WritersTakeTurnsWhateverTheDefaultIsolationIs) {
    query("ALTER DATABASE \"" + database + "\" SET default_transaction_isolation = 'serializable'");
    EXPECT_EQ(query("SHOW transaction_isolation"), std::vector<std::string>{"serializable"});
    std::atomic<int> failures = 0;
    std::vector<std::thread> threads;
    for (int i = 0; i < 6; ++i) {
        threads.emplace_back([&] {
            PostgresTapeStore store(options);
            for (int n = 0; n < 15; ++n) {
                try {
                    run(store.edit_state("a__one", [](JsonObject& state) {
                        Json& count = state["count"];
                        count = count.is_int64() ? count.get_int64() + 1 : 1;
                        return Json();
                    }));
                } catch (const std::exception&) {
                    ++failures;
                }
            }
        });
    }
    for (std::thread& thread : threads) thread.join();
    EXPECT_EQ(failures, 0);
    PostgresTapeStore store(options);
    EXPECT_EQ(run(store.read_state("a__one")).at("count"), 90);
}

}  // namespace
}  // namespace bub
