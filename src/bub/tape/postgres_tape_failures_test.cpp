// Tests of PostgreSQL tapes: merges that fail, locks that are held for long, tapes that are reset while they are read, and processes
// that share tapes and are killed in a turn. The children are this program with `--child`.
#include <bub/tape/postgres_tape_store.hpp>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <iostream>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include <bub/tape/postgres_tape_schema.hpp>
#include <bub/tape/tape_checkpointer.hpp>
#include <bub/tape/turn_transaction.hpp>
#include <cubepi/agent/claim_owner.hpp>
#include <cubepi/checkpoint/child_process_test.hpp>
#include <cubepi/checkpoint/postgres_server_test.hpp>
#include <cubepi/checkpoint/server_proxy_test.hpp>
#include <cubepi/core/error.hpp>
#include <cubepi/core/run.hpp>

namespace bub {
namespace {

using cubepi::Child;
using cubepi::PostgresOptions;
using cubepi::PostgresProxy;
using cubepi::PostgresServer;
using cubepi::RawPostgres;
using cubepi::run;

class PostgresTapeFailures : public ::testing::Test {
protected:
    PostgresTapeFailures()
        : server(PostgresServer::shared()),
          database(server.create_database(postgres_tape_tables())) {
        options.connection = server.connection(database);
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

TEST_F(PostgresTapeFailures, B9_UnmergedTurn_IsClosedByItsOwnProcess) {
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

TEST_F(PostgresTapeFailures, B9_FailedMerge_IsRepeated) {
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

TEST_F(PostgresTapeFailures, DiscardedTurn_IsNotClosed) {
    const auto store = std::make_shared<PostgresTapeStore>(options);
    TurnTransaction fork(store, "a__one", turn("t1"));
    run(fork.append("a__one", many(1, "hello"), TapeAppend()));
    run(fork.discard());
    EXPECT_EQ(query("SELECT count(*) FROM bub_turns"), std::vector<std::string>{"0"});
    EXPECT_EQ(run(store->position("a__one")).last_id, 0);
}

TEST_F(PostgresTapeFailures, D50_LateEdit_PrecedesTheNextOne) {
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

TEST_F(PostgresTapeFailures, HeldName_OutlastsTheTimeoutOfACall) {
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

TEST_F(PostgresTapeFailures, TapeResetDuringReading_IsReadAgain) {
    PostgresTapeStore direct(options);
    run(direct.append("a__one", many(2500, "old"), TapeAppend()));
    PostgresProxy proxy(server.socket_directory());
    PostgresOptions slow = options;
    slow.connection = proxy.connection(database);
    PostgresTapeStore store(slow);
    run(store.position("a__one"));
    std::atomic<bool> was_reset = false;
    // Before the second page; the first statement looks for turns of others.
    proxy.before_statement(
        3,
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

TEST_F(PostgresTapeFailures, VisitOfTapeBeingReset_Fails) {
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

TEST_F(PostgresTapeFailures, Read_ShowsTheTapeOfItsFirstPage) {
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

TEST_F(PostgresTapeFailures, Writers_TakeTurnsUnderAnyDefaultIsolation) {
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

void say(const std::string& line) { std::cout << line << std::endl; }

std::string read_line() {
    std::string line;
    std::getline(std::cin, line);
    return line;
}

std::shared_ptr<PostgresTapeStore> open_store(const std::string& connection) {
    cubepi::PostgresOptions options;
    options.connection = connection;
    return std::make_shared<PostgresTapeStore>(std::move(options));
}

void add(TurnTransaction& fork, TapeEntry entry) {
    std::vector<TapeEntry> one;
    one.push_back(std::move(entry));
    run(fork.append(fork.tape(), std::move(one), TapeAppend()));
}

/// A turn of the child: reports what its user has seen.
void take_turn(const std::string& connection) {
    const auto store = open_store(connection);
    run(store->open());
    say("ready");
    const std::string tape = read_line();
    TurnTransactionOptions options;
    options.turn_id = "t1";
    const auto fork = std::make_shared<TurnTransaction>(store, tape, std::move(options));
    TapeCheckpointer memory(fork);
    const cubepi::ClaimOwner owner = cubepi::current_process_owner();
    run(memory.claim_run(tape, "r1", owner, cubepi::ClaimKind::new_run));
    add(*fork, message_entry("user", "hello"));
    fork->add_text("half of it");
    run(fork->flush());
    say("shown");
    add(*fork, message_entry("assistant", "half of it and the rest"));
    run(fork->merge());
    say("merged");
}

std::string contents(PostgresTapeStore& store, const std::string& tape) {
    std::string texts;
    for (const TapeEntry& entry : run(store.fetch(tape, TapeQuery()))) {
        const Json* content = entry.payload.if_contains("content");
        texts += content ? std::string(content->as_string()) : std::string(entry_name(entry));
        texts += '|';
    }
    return texts;
}

class PostgresTapeProcesses : public PostgresTapeFailures {
protected:
    std::string connection() const { return server.connection(database); }
};

TEST_F(PostgresTapeProcesses, B9_ProcessKilledAtAnyStatement_LosesNothingShown) {
    PostgresProxy proxy(PostgresServer::shared().socket_directory());
    const std::string nothing;
    const std::string whole = "hello|half of it and the rest|turn|";
    bool merged = false;
    int closed = 0;
    for (int statement = 1; !merged; ++statement) {
        ASSERT_LT(statement, 80);
        const std::string tape = "a__" + std::to_string(statement);
        Child child("take_turn", proxy.connection(database));
        ASSERT_EQ(child.read_line(), "ready");
        proxy.before_statement(statement, [&] { child.kill_now(); });
        child.send_line(tape);
        const bool shown = child.read_line() == "shown";
        merged = shown && child.read_line() == "merged";
        child.kill_and_wait();
        proxy.before_statement(0, {});
        const auto store = open_store(connection());
        // The server notices the end of the session a moment later.
        while (run(store->has_open_turn(tape))) {
        }
        const std::string found = contents(*store, tape);
        if (merged) {
            EXPECT_EQ(found, whole);
        } else if (shown) {
            EXPECT_TRUE(found == "hello|half of it|turn|" || found == whole) << found;
        } else {
            EXPECT_TRUE(found == nothing || found == "hello|turn|" ||
                        found == "hello|half of it|turn|")
                << found;
        }
        if (found != nothing && !merged) ++closed;
        // Neither a lock nor a claim nor half of a turn is left.
        TapeCheckpointer memory(store);
        const cubepi::ClaimOwner owner = cubepi::current_process_owner();
        run(memory.claim_run(tape, "r2", owner, cubepi::ClaimKind::new_run));
        std::vector<TapeEntry> next;
        next.push_back(message_entry("user", "after"));
        run(store->append(tape, std::move(next), TapeAppend()));
        EXPECT_EQ(contents(*store, tape), found + "after|");
    }
    EXPECT_GT(closed, 10) << "most statements come after the first line of the journal";
}

/// Repeats a step that found no server, or lost it each time: it has not been stored.
template <class F>
void until_connected(F step) {
    for (;;) {
        try {
            step();
            return;
        } catch (const cubepi::CheckpointerError& error) {
            const bool is_away = error.code() == cubepi::ErrorCode::connect ||
                                 error.code() == cubepi::ErrorCode::disconnected;
            if (!is_away) throw;
        }
    }
}

TEST_F(PostgresTapeProcesses, B9_ServerKilledAtAnyStatement_LosesNothing) {
    PostgresServer own;
    const std::string name = own.create_empty_database();
    cubepi::PostgresOptions options;
    options.connection = own.connection(name);
    run(postgres_tape_tables().apply(options));
    PostgresProxy proxy(own.socket_directory());
    options.connection = proxy.connection(name);
    std::atomic<bool> hit = true;
    for (int statement = 1; hit; statement += 3) {
        ASSERT_LT(statement, 80);
        const std::string tape = "a__" + std::to_string(statement);
        const auto store = std::make_shared<PostgresTapeStore>(options);
        until_connected([&] { run(store->open()); });
        hit = false;
        proxy.before_statement(
            statement,
            [&] {
                hit = true;
                own.crash(name);
            },
            false);
        TurnTransactionOptions turn;
        turn.turn_id = "t1";
        const auto fork = std::make_shared<TurnTransaction>(store, tape, std::move(turn));
        until_connected([&] { add(*fork, message_entry("user", "hello")); });
        fork->add_text("half of it");
        until_connected([&] { run(fork->flush()); });
        until_connected([&] { add(*fork, message_entry("assistant", "half of it and the rest")); });
        until_connected([&] { run(fork->merge()); });
        proxy.before_statement(0, {});
        std::string found;
        until_connected([&] { found = contents(*store, tape); });
        EXPECT_EQ(found, "hello|half of it and the rest|turn|") << statement;
    }
}

}  // namespace

int run_tape_child(const std::string& mode, const std::string& connection) {
    if (mode != "take_turn") return 2;
    take_turn(connection);
    return 0;
}

}  // namespace bub

int main(int argc, char** argv) {
    if (argc == 4 && std::string(argv[1]) == "--child")
        return bub::run_tape_child(argv[2], argv[3]);
    ::testing::InitGoogleTest(&argc, argv);
    return RUN_ALL_TESTS();
}
