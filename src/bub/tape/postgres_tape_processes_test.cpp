// Processes that share tapes and are killed in a turn. The children are this program with `--child`.
#include <bub/tape/postgres_tape_store.hpp>

#include <atomic>
#include <iostream>
#include <memory>
#include <string>
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
using cubepi::PostgresProxy;
using cubepi::PostgresServer;
using cubepi::RawPostgres;
using cubepi::run;

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

class PostgresTapeProcesses : public ::testing::Test {
protected:
    PostgresTapeProcesses() : database(PostgresServer::shared().create_empty_database()) {
        cubepi::PostgresOptions options;
        options.connection = connection();
        run(apply_postgres_tape_schema(options));
    }
    std::string connection() const { return PostgresServer::shared().connection(database); }

    std::string database;
};

TEST_F(PostgresTapeProcesses, B9_AProcessThatIsKilledAtAnyStatementOfATurnLosesNothingShown) {
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
        child.tell(tape);
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

/// Repeats a step that found no server: it has not been stored.
template <class F>
void until_connected(F step) {
    for (;;) {
        try {
            step();
            return;
        } catch (const cubepi::CheckpointerError& error) {
            if (error.code() != cubepi::ErrorCode::connect) throw;
        }
    }
}

TEST_F(PostgresTapeProcesses, B9_AServerThatIsKilledAtAnyStatementOfATurnLosesNothing) {
    PostgresServer own;
    const std::string name = own.create_empty_database();
    cubepi::PostgresOptions options;
    options.connection = own.connection(name);
    run(apply_postgres_tape_schema(options));
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
