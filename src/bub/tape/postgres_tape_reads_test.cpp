// The reads that the store of one turn remembers, and those that it makes again (D269).

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include <bub/tape/postgres_tape_schema.hpp>
#include <bub/tape/postgres_tape_store.hpp>
#include <bub/tape/tape_checkpointer.hpp>
#include <bub/tape/turn_lease.hpp>
#include <bub/tape/turn_reads.hpp>
#include <bub/tape/turn_transaction.hpp>
#include <cubepi/agent/claim_owner.hpp>
#include <cubepi/checkpoint/postgres_server_test.hpp>
#include <cubepi/core/error.hpp>
#include <cubepi/core/run.hpp>
#include <cubepi/testing/manual_clock.hpp>

namespace bub {
namespace {

using cubepi::PostgresServer;
using cubepi::RawPostgres;
using cubepi::run;

const std::string tape = "a__one";

std::vector<TapeEntry> message(std::string text) {
    std::vector<TapeEntry> entries;
    entries.push_back(message_entry("user", std::move(text)));
    return entries;
}

std::vector<TapeEntry> event(const std::string& name) {
    std::vector<TapeEntry> entries;
    entries.push_back(event_entry(name, JsonObject()));
    return entries;
}

/// The tapes of a turn under a lease, and those of another process without one.
class TurnTapesInPostgres : public ::testing::Test {
protected:
    TurnTapesInPostgres()
        : server(PostgresServer::shared()),
          database(server.create_database(postgres_tape_tables())) {
        options.connection = server.connection(database, "options=-clog_statement=all");
        cubepi::Runtime runtime;
        runtime.clock = clock;
        options.runtime = std::make_shared<const cubepi::Runtime>(std::move(runtime));
        query("CREATE TABLE bub_delivery_sessions (key TEXT, owner BIGINT, fence BIGINT)");
        query("CREATE TABLE bub_delivery_gateways (number BIGINT, lease_until TIMESTAMPTZ)");
        query("INSERT INTO bub_delivery_sessions VALUES ('s', 5, 1)");
        query("INSERT INTO bub_delivery_gateways VALUES (5, now() + interval '1 hour')");
        store = std::make_shared<PostgresTapeStore>(options);
        other = std::make_shared<PostgresTapeStore>(options);
        leased = store->leased(TurnLease{"s", 1});
    }
    std::vector<std::string> query(const std::string& sql) const {
        return RawPostgres(server.connection(database)).query(sql);
    }
    /// The number of statements that read a tape.
    std::size_t reads_in(const std::function<void()>& work) const {
        std::size_t count = 0;
        for (const auto& transaction : cubepi::transactions_in(server.log_of(work)))
            for (const std::string& statement : transaction)
                count +=
                    statement.starts_with("SELECT ") && statement.find("bub_") != std::string::npos;
        return count;
    }
    void append(const std::shared_ptr<TapeStore>& to, std::vector<TapeEntry> entries) const {
        (void)run(to->append(tape, std::move(entries), TapeAppend()));
    }
    static void edit(const std::shared_ptr<TapeStore>& of, const std::string& key) {
        (void)run(of->edit_state(tape, [key](JsonObject& state) {
            state[key] = true;
            return Json();
        }));
    }
    bool finds(const std::string& name) const {
        return run(leased->find_event(tape, name)).has_value();
    }
    JsonObject recent() const { return run(dynamic_cast<TurnReads&>(*leased).recent_state(tape)); }
    std::shared_ptr<TurnTransaction> turn() const {
        TurnTransactionOptions how;
        how.turn_id = "t1";
        return std::make_shared<TurnTransaction>(leased, tape, std::move(how));
    }

    PostgresServer& server;
    std::string database;
    std::shared_ptr<cubepi::testing::ManualClock> clock =
        std::make_shared<cubepi::testing::ManualClock>();
    cubepi::PostgresOptions options;
    std::shared_ptr<PostgresTapeStore> store;
    std::shared_ptr<PostgresTapeStore> other;
    std::shared_ptr<TapeStore> leased;
};

TEST_F(TurnTapesInPostgres, D269_RepeatedLookups_AreReadOnce) {
    append(other, message("hello"));
    append(other, event("known"));
    EXPECT_TRUE(finds("known"));
    EXPECT_FALSE(finds("unknown"));
    const std::size_t reads = reads_in([&] {
        EXPECT_TRUE(finds("known"));
        EXPECT_FALSE(finds("unknown"));
        EXPECT_EQ(run(leased->position(tape)).messages, 1);
        EXPECT_TRUE(run(leased->anchors(tape, 1)).empty());
        EXPECT_TRUE(recent().empty());
    });
    EXPECT_EQ(reads, 0U);
}

TEST_F(TurnTapesInPostgres, D269_ExpectedLookups_AreReadWithTheFirst) {
    append(other, event("one"));
    append(other, message("hello"));
    dynamic_cast<TurnReads&>(*leased).expect(
        {TapeLookup{TapeKey::event, "one"}, TapeLookup{TapeKey::message, "m1"},
         TapeLookup{TapeKey::run, "r1"}},
        {"a__two"});
    EXPECT_TRUE(finds("one"));
    EXPECT_EQ(reads_in([&] {
                  EXPECT_FALSE(run(leased->find_message_entry(tape, "m1")));
                  EXPECT_FALSE(run(leased->find_run(tape, "r1")));
                  EXPECT_EQ(run(leased->position("a__two")).last_id, 0);
              }),
              0U);
}

/// An answer that another process has stored while the turn runs.
TEST_F(TurnTapesInPostgres, D269_StateOfAnotherProcess_IsReadAtOnce) {
    edit(leased, "mine");
    edit(other, "answered");
    EXPECT_FALSE(recent().contains("answered"));
    EXPECT_TRUE(run(leased->read_state(tape)).contains("answered"));
    EXPECT_TRUE(recent().contains("answered")) << "a read is remembered";
}

TEST_F(TurnTapesInPostgres, D269_StateBeforeFirstWrite_IsOfTheLookup) {
    EXPECT_FALSE(finds("any"));
    edit(other, "first");
    EXPECT_EQ(reads_in([&] { EXPECT_TRUE(run(leased->read_state(tape)).empty()); }), 0U);
    clock->advance(std::chrono::seconds(6));
    EXPECT_TRUE(run(leased->read_state(tape)).contains("first")) << "not older than five seconds";
    edit(leased, "mine");
    edit(other, "second");
    EXPECT_TRUE(run(leased->read_state(tape)).contains("second"));
}

TEST_F(TurnTapesInPostgres, D269_OldRow_IsReadAgain) {
    EXPECT_EQ(run(leased->position(tape)).messages, 0);
    append(other, message("hello"));
    edit(other, "late");
    EXPECT_EQ(run(leased->position(tape)).messages, 0);
    clock->advance(std::chrono::seconds(6));
    EXPECT_EQ(run(leased->position(tape)).messages, 1);
    EXPECT_TRUE(recent().contains("late"));
}

TEST_F(TurnTapesInPostgres, D269_AppendByAnotherProcess_MakesOursStale) {
    const TapePosition before = run(leased->position(tape));
    append(other, message("of an operator"));
    TapeAppend how = TapeAppend().expected_position(before.messages);
    EXPECT_THROW(run(leased->append(tape, message("ours"), std::move(how))),
                 cubepi::StaleAppendError);
    EXPECT_EQ(run(leased->position(tape)).messages, 1) << "after a failure the row is read again";
    EXPECT_EQ(run(other->position(tape)).messages, 1);
}

/// The operator has appended between the load of the conversation and the claim.
TEST_F(TurnTapesInPostgres, D269_AppendBeforeTheClaim_MakesTheRunStale) {
    append(other, message("hello"));
    const std::shared_ptr<TurnTransaction> fork = turn();
    TapeCheckpointer memory(fork);
    const std::int64_t position = run(memory.load(tape))->position;
    append(other, message("of an operator"));
    const cubepi::ClaimOwner owner = cubepi::current_process_owner();
    run(memory.claim_run(tape, "r1", owner, cubepi::ClaimKind::new_run));
    cubepi::MessageList messages;
    messages.push_back(cubepi::user_message("next", "m1"));
    cubepi::AppendOptions how = cubepi::AppendOptions().expected_position(position);
    EXPECT_THROW(run(memory.append(tape, std::move(messages), std::move(how))),
                 cubepi::StaleAppendError);
    run(fork->discard());
}

/// The operator has appended before the load, but the store remembers the end of the tape from before.
TEST_F(TurnTapesInPostgres, D269_LoadAfterAppendOfAnother_IsCurrent) {
    append(other, message("hello"));
    EXPECT_EQ(run(leased->position(tape)).messages, 1);
    append(other, message("of an operator"));
    const std::shared_ptr<TurnTransaction> fork = turn();
    TapeCheckpointer memory(fork);
    const std::optional<cubepi::CheckpointData> data = run(memory.load(tape));
    EXPECT_EQ(data->messages.size(), 2U);
    EXPECT_EQ(data->position, 2);
    const cubepi::ClaimOwner owner = cubepi::current_process_owner();
    run(memory.claim_run(tape, "r1", owner, cubepi::ClaimKind::new_run));
    cubepi::MessageList messages;
    messages.push_back(cubepi::user_message("next", "m1"));
    cubepi::AppendOptions how = cubepi::AppendOptions().expected_position(data->position);
    EXPECT_EQ(run(memory.append(tape, std::move(messages), std::move(how))), 3);
    run(fork->discard());
}

/// The journal of a turn of the same lease has ended without a merge, after the first look-up.
TEST_F(TurnTapesInPostgres, D269_TurnClosedLater_IsFound) {
    EXPECT_FALSE(finds("first"));
    std::shared_ptr<TurnTransaction> ended = turn();
    (void)run(ended->append(tape, event("first"), TapeAppend()));
    ended.reset();
    EXPECT_TRUE(finds("first"));
    EXPECT_FALSE(finds("second"));
    ended = turn();
    (void)run(ended->append(tape, event("second"), TapeAppend()));
    ended.reset();
    run(turn()->open());
    EXPECT_TRUE(finds("second")) << "closed by the next journal";
}

/// The turn has written, and its journal has ended without a merge: the next look-up is not the one with which the turn begins.
TEST_F(TurnTapesInPostgres, D269_LookupAfterClosing_IsNotTheFirst) {
    EXPECT_FALSE(finds("closed"));
    edit(leased, "mine");
    std::shared_ptr<TurnTransaction> ended = turn();
    (void)run(ended->append(tape, event("closed"), TapeAppend()));
    ended.reset();
    EXPECT_TRUE(finds("closed"));
    edit(other, "answered");
    EXPECT_TRUE(run(leased->read_state(tape)).contains("answered"));
}

TEST_F(TurnTapesInPostgres, D269_EntryOfAnother_IsFoundAfterAWrite) {
    EXPECT_FALSE(finds("late"));
    append(other, event("late"));
    EXPECT_FALSE(finds("late"));
    edit(leased, "any");
    EXPECT_TRUE(finds("late")) << "the write has read another end of the tape";
}

TEST_F(TurnTapesInPostgres, D269_ResetByAnother_IsSeenAfterAWrite) {
    append(other, event("known"));
    EXPECT_TRUE(finds("known"));
    run(other->reset(tape));
    edit(leased, "any");
    EXPECT_FALSE(finds("known"));
    EXPECT_EQ(run(leased->position(tape)).last_id, 0);
}

TEST_F(TurnTapesInPostgres, D269_OwnWrites_AreReadWithoutTheServer) {
    EXPECT_FALSE(finds("mine"));
    append(leased, event("mine"));
    append(leased, message("hello"));
    edit(leased, "edited");
    EXPECT_EQ(reads_in([&] {
                  EXPECT_EQ(run(leased->position(tape)).messages, 1);
                  EXPECT_TRUE(recent().contains("edited"));
              }),
              0U);
    EXPECT_TRUE(finds("mine"));
}

TEST_F(TurnTapesInPostgres, D269_LostLease_StoresNothing) {
    EXPECT_FALSE(finds("late"));
    const TapePosition before = run(leased->position(tape));
    query("UPDATE bub_delivery_sessions SET fence = 2");
    append(other, event("late"));
    EXPECT_THROW(edit(leased, "lost"), SessionTakenError);
    TapeAppend how = TapeAppend().expected_position(before.messages);
    EXPECT_THROW(run(leased->append(tape, message("lost"), std::move(how))), SessionTakenError);
    EXPECT_TRUE(finds("late")) << "after a failure the tape is read again";
    EXPECT_EQ(run(other->position(tape)).messages, 0);
    EXPECT_TRUE(run(other->read_state(tape)).empty());
}

/// A claim that another process has superseded: the fork may learn it late, the merge does not.
TEST_F(TurnTapesInPostgres, D269_SupersededClaim_IsRefusedByTheMerge) {
    const std::shared_ptr<TurnTransaction> fork = turn();
    TapeCheckpointer memory(fork);
    const cubepi::ClaimOwner owner = cubepi::current_process_owner();
    run(memory.claim_run(tape, "r1", owner, cubepi::ClaimKind::new_run));
    (void)run(other->edit_state(tape, [](JsonObject& state) {
        state.erase("claims");
        return Json();
    }));
    const auto append_next = [&](const std::string& id) {
        cubepi::MessageList messages;
        messages.push_back(cubepi::user_message("next", id).with_run_id("r1"));
        cubepi::AppendOptions how = cubepi::AppendOptions().claim("r1", owner.owner_id);
        (void)run(memory.append(tape, std::move(messages), std::move(how)));
    };
    append_next("m1");
    clock->advance(std::chrono::seconds(6));
    EXPECT_THROW(append_next("m2"), cubepi::StaleAppendError);
    EXPECT_THROW(run(fork->merge()), cubepi::StaleAppendError);
    EXPECT_FALSE(run(other->find_message_entry(tape, "m1")));
}

/// The turn of an earlier lease is closed before the first look-up, which finds what it had done.
TEST_F(TurnTapesInPostgres, D269_DeadTurn_IsFoundByTheFirstLookup) {
    const std::shared_ptr<TurnTransaction> dead = turn();
    (void)run(dead->append(tape, event("before the end"), TapeAppend()));
    query("UPDATE bub_delivery_sessions SET fence = 2");
    leased = other->leased(TurnLease{"s", 2});
    EXPECT_TRUE(finds("before the end"));
    EXPECT_GT(run(leased->position(tape)).last_id, 0);
}

}  // namespace
}  // namespace bub
