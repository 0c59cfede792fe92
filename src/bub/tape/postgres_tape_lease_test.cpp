#include <bub/tape/postgres_tape_store.hpp>

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include <bub/tape/postgres_tape_schema.hpp>
#include <bub/tape/tape_checkpointer.hpp>
#include <bub/tape/turn_lease.hpp>
#include <bub/tape/turn_transaction.hpp>
#include <cubepi/agent/claim_owner.hpp>
#include <cubepi/checkpoint/postgres_server_test.hpp>
#include <cubepi/checkpoint/server_proxy_test.hpp>
#include <cubepi/core/error.hpp>
#include <cubepi/core/run.hpp>
#include <cubepi/testing/manual_clock.hpp>

// Tapes that are written under the lease of a turn (D227).

namespace bub {
namespace {

using cubepi::PostgresServer;
using cubepi::RawPostgres;
using cubepi::run;
using Texts = std::vector<std::string>;

std::vector<TapeEntry> one(std::string text) {
    std::vector<TapeEntry> entries;
    entries.push_back(message_entry("user", std::move(text)));
    return entries;
}

/// A session whose fence is 1, of a gateway that is alive, and a store of each of two processes.
class LeasedTapes : public ::testing::Test {
protected:
    LeasedTapes()
        : server(PostgresServer::shared()),
          database(server.create_database(postgres_tape_tables())) {
        options.connection = server.connection(database);
        // The columns of the tables of deliveries that a lease needs.
        query("CREATE TABLE bub_delivery_sessions (key TEXT, owner BIGINT, fence BIGINT)");
        query("CREATE TABLE bub_delivery_gateways (number BIGINT, lease_until TIMESTAMPTZ)");
        query("INSERT INTO bub_delivery_sessions VALUES ('s', 5, 1), ('other', 5, 1)");
        query("INSERT INTO bub_delivery_gateways VALUES (5, now() + interval '1 hour')");
        store = std::make_shared<PostgresTapeStore>(options);
        other = std::make_shared<PostgresTapeStore>(options);
    }
    Texts query(const std::string& sql) const {
        return RawPostgres(server.connection(database)).query(sql);
    }
    void take_session() const {
        query("UPDATE bub_delivery_sessions SET fence = fence + 1 WHERE key = 's'");
    }
    static std::shared_ptr<TapeStore> leased(const std::shared_ptr<PostgresTapeStore>& from,
                                             std::int64_t fence, const std::string& session = "s") {
        return from->leased(TurnLease{session, fence});
    }
    static std::shared_ptr<TurnTransaction> turn(std::shared_ptr<TapeStore> tapes) {
        TurnTransactionOptions how;
        how.turn_id = "t1";
        return std::make_shared<TurnTransaction>(std::move(tapes), "a__one", std::move(how));
    }
    /// A process that is alive claims the run.
    static void claim(const std::shared_ptr<TapeStore>& tapes, const std::string& process) {
        cubepi::ClaimOwner owner = cubepi::current_process_owner();
        owner.owner_id = process;
        TapeCheckpointer memory(tapes);
        run(memory.claim_run("a__one", "r1", owner, cubepi::ClaimKind::continue_run));
    }
    std::int64_t messages() const { return run(other->position("a__one")).messages; }

    PostgresServer& server;
    std::string database;
    cubepi::PostgresOptions options;
    std::shared_ptr<PostgresTapeStore> store;
    std::shared_ptr<PostgresTapeStore> other;
};

TEST_F(LeasedTapes, D227_WritesAfterTheLease_StoreNothing) {
    const auto tapes = leased(store, 1);
    run(tapes->append("a__one", one("x"), TapeAppend()));
    const auto fork = turn(tapes);
    take_session();
    EXPECT_THROW(run(tapes->append("a__one", one("y"), TapeAppend())), SessionTakenError);
    EXPECT_THROW(run(tapes->edit_state("a__one",
                                       [](JsonObject& state) {
                                           state["a"] = 1;
                                           return Json();
                                       })),
                 SessionTakenError);
    EXPECT_THROW(run(fork->append("a__one", one("z"), TapeAppend())), SessionTakenError)
        << "the first line of a journal";
    EXPECT_EQ(messages(), 1);
    EXPECT_FALSE(run(other->read_state("a__one")).contains("a"));
    EXPECT_EQ(query("SELECT count(*) FROM bub_turns"), Texts{"0"});
}

TEST_F(LeasedTapes, D227_LeaseThatEndsBeforeCommit_StoresNothing) {
    const auto tapes = leased(store, 1);
    TapeAppend how = TapeAppend().guard([this](const JsonObject&) { take_session(); });
    EXPECT_THROW(run(tapes->append("a__one", one("x"), std::move(how))), SessionTakenError);
    EXPECT_EQ(messages(), 0);
    EXPECT_EQ(run(leased(store, 2)->append("a__one", one("x"), TapeAppend())).messages, 1);
}

/// Records each version of the row of a tape: a transaction that writes the tape makes one (D270).
constexpr const char* count_writes =
    "CREATE TABLE writes (id TEXT); CREATE FUNCTION note_write() RETURNS trigger LANGUAGE plpgsql"
    " AS $$ BEGIN INSERT INTO writes VALUES (NEW.write_id); RETURN NEW; END $$; CREATE TRIGGER"
    " note_write AFTER INSERT OR UPDATE ON bub_tapes FOR EACH ROW EXECUTE FUNCTION note_write()";

/// A turn asks for a shorter interval, as for a file.
TEST_F(LeasedTapes, D272_ShownText_IsWrittenTwiceASecond) {
    const auto clock = std::make_shared<cubepi::testing::ManualClock>();
    TurnTransactionOptions how;
    how.turn_id = "t1";
    how.runtime = std::make_shared<const cubepi::Runtime>(cubepi::Runtime().with_clock(clock));
    how.flush_interval = std::chrono::milliseconds(50);
    const auto fork = std::make_shared<TurnTransaction>(leased(store, 1), "a__one", std::move(how));
    const auto play = [&]() -> Task<void> {
        co_await fork->open();
        co_await fork->append("a__one", one("hello"), TapeAppend());
        for (const char* text : {"a", "b", "c"}) {
            fork->add_text(text);
            clock->advance(std::chrono::milliseconds(150));
            for (int i = 0; i < 3; ++i) co_await cubepi::yield_now();
        }
        clock->advance(std::chrono::milliseconds(50));
        for (int i = 0; i < 3; ++i) co_await cubepi::yield_now();
    };
    run(play());
    const std::string text = "SELECT lines FROM bub_turn_lines WHERE lines LIKE '%\"text\": %'";
    while (query(text).empty()) std::this_thread::yield();
    EXPECT_EQ(query(text), Texts{"{\"text\": \"abc\"}\n"});
}

TEST_F(LeasedTapes, D272_PlainTurn_WritesThreeTimes) {
    query(count_writes);
    TurnTransactionOptions how;
    how.turn_id = "t1";
    how.flush_interval = std::chrono::hours(1);
    const auto fork = std::make_shared<TurnTransaction>(leased(store, 1), "a__one", std::move(how));
    run(fork->open());
    TapeCheckpointer memory(fork);
    const cubepi::ClaimOwner owner = cubepi::current_process_owner();
    run(memory.claim_run("a__one", "r1", owner, cubepi::ClaimKind::new_run));
    run(fork->append("a__one", one("hello"), TapeAppend()));
    cubepi::AssistantMessage answer;
    answer.content.emplace_back(cubepi::TextContent{"re: hello"});
    cubepi::MessageList messages_of_run;
    messages_of_run.push_back(cubepi::Message(std::move(answer)).with_run_id("r1"));
    run(memory.append("a__one", std::move(messages_of_run), cubepi::AppendOptions()));
    run(memory.complete_run("a__one", "r1", owner.owner_id));
    EXPECT_EQ(query("SELECT count(*) FROM writes"), Texts{"2"}) << "the claim and the message";
    run(fork->merge());
    EXPECT_EQ(query("SELECT count(*) FROM writes"), Texts{"3"})
        << "the turn with its answer, and its claim";
    EXPECT_EQ(messages(), 2);
    EXPECT_TRUE(run(other->find_run("a__one", "r1")));
    EXPECT_EQ(query("SELECT state FROM bub_tapes"), Texts{"{}"});
    EXPECT_EQ(query("SELECT count(*) FROM bub_turns"), Texts{"0"});
}

TEST_F(LeasedTapes, D272_RefusedAppend_EditsNothing) {
    const auto tapes = leased(store, 1);
    const auto both = std::dynamic_pointer_cast<AppendsWithState>(tapes);
    ASSERT_TRUE(both);
    const auto edit = [](JsonObject& state) { state["a"] = 1; };
    TapeAppend stale = TapeAppend().expected_position(7);
    EXPECT_THROW(run(both->append_and_edit("a__one", one("x"), std::move(stale), edit)),
                 cubepi::StaleAppendError);
    take_session();
    EXPECT_THROW(run(both->append_and_edit("a__one", one("x"), TapeAppend(), edit)),
                 SessionTakenError);
    EXPECT_FALSE(run(other->read_state("a__one")).contains("a"));
    EXPECT_EQ(messages(), 0);
    const auto next = std::dynamic_pointer_cast<AppendsWithState>(leased(other, 2));
    run(next->append_and_edit("a__one", one("x"), TapeAppend(), edit));
    EXPECT_TRUE(run(other->read_state("a__one")).contains("a"));
    EXPECT_EQ(messages(), 1);
}

TEST_F(LeasedTapes, D227_SessionWithoutRow_CannotBeWritten) {
    EXPECT_THROW(run(leased(store, 0, "unknown")->append("a__one", one("x"), TapeAppend())),
                 SessionTakenError);
}

TEST_F(LeasedTapes, D227_FrozenTurn_IsClosedByTheNextLease) {
    const auto fork = turn(leased(store, 1));
    claim(fork, "first");
    run(fork->append("a__one", one("x"), TapeAppend()));
    EXPECT_EQ(messages(), 0) << "it is in progress";
    take_session();
    const auto next = leased(other, 2);
    EXPECT_EQ(run(next->position("a__one")).messages, 1);
    claim(next, "second");
    EXPECT_THROW(run(fork->append("a__one", one("y"), TapeAppend())), SessionTakenError);
    EXPECT_THROW(run(fork->merge()), SessionTakenError);
    EXPECT_EQ(messages(), 1);
    EXPECT_FALSE(run(other->find_event("a__one", "turn.refused")));
}

TEST_F(LeasedTapes, D227_EndedTurnThatIsMergedFirst_ClosesItself) {
    auto fork = turn(leased(store, 1));
    run(fork->append("a__one", one("x"), TapeAppend()));
    take_session();
    EXPECT_THROW(run(fork->merge()), SessionTakenError);
    fork.reset();
    const auto next = leased(other, 2);
    EXPECT_EQ(run(next->position("a__one")).messages, 1) << "by whichever process";
    EXPECT_EQ(query("SELECT count(*) FROM bub_turns"), Texts{"0"});
}

TEST_F(LeasedTapes, D227_ClaimOfEarlierLease_IsSuperseded) {
    const auto first = leased(store, 1);
    claim(first, "first");
    EXPECT_THROW(claim(other, "second"), cubepi::RunAlreadyClaimedError);
    EXPECT_THROW(claim(leased(other, 1, "other"), "second"), cubepi::RunAlreadyClaimedError)
        << "of another session";
    take_session();
    claim(leased(other, 2), "second");
    EXPECT_THROW(claim(first, "first"), SessionTakenError);
}

TEST_F(LeasedTapes, D227_ClaimWithoutLease_IsRespected) {
    claim(store, "first");
    EXPECT_THROW(claim(leased(other, 1), "second"), cubepi::RunAlreadyClaimedError);
    take_session();
    EXPECT_THROW(claim(leased(other, 2), "second"), cubepi::RunAlreadyClaimedError);
}

TEST_F(LeasedTapes, D227_LapsedTurnWithoutLease_IsClosed) {
    const auto fork = turn(store);
    claim(fork, "first");
    run(fork->append("a__one", one("x"), TapeAppend()));
    EXPECT_EQ(run(leased(other, 1)->position("a__one")).messages, 0);
    // The process was frozen for longer than the lease of its run.
    run(other->edit_state("a__one", [](JsonObject& state) {
        for (Json& one : state.at("claims").as_array()) one.as_object()["lease_until"] = 1.0;
        return Json();
    }));
    EXPECT_EQ(messages(), 0) << "readers do not close it";
    EXPECT_EQ(run(leased(other, 1)->position("a__one")).messages, 1);
    EXPECT_THROW(run(fork->merge()), cubepi::StaleAppendError);
}

TEST_F(LeasedTapes, D227_FullDisk_BeginsNoTurn) {
    auto fork = turn(leased(store, 1));
    run(fork->append("a__one", one("hello"), TapeAppend()));
    query(
        "CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'No"
        " space left on device' USING ERRCODE = 'disk_full'; END $$");
    query(
        "CREATE TRIGGER refuse BEFORE INSERT ON bub_entries FOR EACH ROW EXECUTE FUNCTION"
        " refuse()");
    EXPECT_THROW(run(fork->merge()), cubepi::Error);
    fork.reset();
    // The same gateway tries the message again.
    const auto next = leased(store, 1);
    EXPECT_EQ(run(next->position("a__one")).messages, 0) << "readers see what is there";
    try {
        run(turn(next)->open());
        ADD_FAILURE() << "a turn would not know the one before it";
    } catch (const cubepi::Error& error) {
        EXPECT_EQ(error.code(), cubepi::ErrorCode::storage_full) << error.what();
    }
    query("DROP TRIGGER refuse ON bub_entries");
    const auto again = turn(leased(store, 1));
    run(again->open());
    EXPECT_EQ(run(again->position("a__one")).messages, 1);
}

TEST_F(LeasedTapes, D270_WriteByAnother_IsSeenByTheNext) {
    const auto tapes = leased(store, 1);
    const auto edit = [](const std::shared_ptr<TapeStore>& of, const std::string& key) {
        std::size_t found = 0;
        run(of->edit_state("a__one", [&](JsonObject& state) {
            found = state.size();
            state[key] = true;
            return Json();
        }));
        return found;
    };
    EXPECT_EQ(edit(tapes, "first"), 0U);
    EXPECT_EQ(edit(other, "second"), 1U);
    EXPECT_EQ(edit(tapes, "third"), 2U);
    run(other->append("a__one", one("x"), TapeAppend()));
    run(tapes->append("a__one", one("y"), TapeAppend()));
    EXPECT_EQ(messages(), 2);
    EXPECT_THROW(run(tapes->append("a__one", one("z"), TapeAppend().expected_position(1))),
                 cubepi::StaleAppendError);
    run(other->remove_tape("a__one"));
    EXPECT_EQ(edit(tapes, "fourth"), 0U);
    EXPECT_EQ(messages(), 0);
}

TEST_F(LeasedTapes, D270_TurnClosedByAnother_IsNotMerged) {
    const auto tapes = leased(store, 1);
    const auto fork = turn(tapes);
    run(fork->append("a__one", one("x"), TapeAppend()));
    query("UPDATE bub_delivery_gateways SET lease_until = now() - interval '1 second'");
    EXPECT_EQ(messages(), 1);
    // The row of the tape is known as it is after that.
    EXPECT_TRUE(run(tapes->read_state("a__one")).empty());
    EXPECT_THROW(run(fork->append("a__one", one("y"), TapeAppend())),
                 cubepi::CheckpointerLockTimeoutError);
    EXPECT_TRUE(run(tapes->read_state("a__one")).empty());
    EXPECT_THROW(run(fork->merge()), cubepi::CheckpointerLockTimeoutError);
    EXPECT_EQ(messages(), 1);
}

TEST_F(LeasedTapes, D270_LockedTape_IsReported) {
    options.lock_timeout = std::chrono::milliseconds(50);
    const auto tapes = leased(std::make_shared<PostgresTapeStore>(options), 1);
    run(tapes->append("a__one", one("x"), TapeAppend()));
    RawPostgres writer(server.connection(database));
    writer.query("BEGIN; SELECT pg_advisory_xact_lock(hashtext('a__one'))");
    EXPECT_THROW(run(tapes->append("a__one", one("y"), TapeAppend())),
                 cubepi::CheckpointerLockTimeoutError);
    writer.query("ROLLBACK");
    run(tapes->append("a__one", one("z"), TapeAppend()));
    EXPECT_EQ(messages(), 2);
}

TEST_F(LeasedTapes, D270_CallWithCutConnection_IsStoredOnce) {
    using Direction = cubepi::PostgresProxy::Direction;
    cubepi::PostgresProxy proxy(server.socket_directory());
    options.connection = proxy.connection(database);
    const auto tapes = leased(std::make_shared<PostgresTapeStore>(options), 1);
    std::int64_t stored = 0;
    const auto append = [&] {
        run(tapes->append("a__one", one("message " + std::to_string(stored)), TapeAppend()));
        ++stored;
    };
    append();
    append();
    (void)proxy.take_count(Direction::to_server);
    (void)proxy.take_count(Direction::to_client);
    append();
    for (const Direction direction : {Direction::to_server, Direction::to_client}) {
        const std::size_t bytes = proxy.take_count(direction);
        ASSERT_GT(bytes, 200U);
        for (std::size_t at = 0; at <= bytes; at += 17) {
            proxy.cut_after(direction, at);
            append();
        }
        // The last cut may not have been reached.
        append();
        (void)proxy.take_count(Direction::to_client);
        append();
    }
    EXPECT_EQ(messages(), stored);
}

TEST_F(LeasedTapes, D270_WriteThatArrivesLate_IsNotStored) {
    cubepi::PostgresProxy proxy(server.socket_directory());
    options.connection = proxy.connection(database, "application_name=late");
    options.query_timeout = std::chrono::milliseconds(1000);
    auto tapes = leased(std::make_shared<PostgresTapeStore>(options), 1);
    run(tapes->append("a__one", one("x"), TapeAppend()));
    int decisions = 0;
    TapeAppend how = TapeAppend().guard([&](const JsonObject&) {
        if (++decisions > 1)
            throw cubepi::StaleAppendError(cubepi::ErrorCode::stale_append, "not held any more");
        proxy.delay();
    });
    EXPECT_THROW(run(tapes->append("a__one", one("y"), std::move(how))), cubepi::StaleAppendError);
    EXPECT_EQ(decisions, 2);
    proxy.deliver();
    tapes.reset();
    const auto sessions = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'late'";
    while (query(sessions) != Texts{"0"}) std::this_thread::yield();
    EXPECT_EQ(messages(), 1);
}

TEST_F(LeasedTapes, D270_WriteAfterEmptyAppend_IsStoredOnce) {
    cubepi::PostgresProxy proxy(server.socket_directory());
    options.connection = proxy.connection(database);
    const auto tapes = leased(std::make_shared<PostgresTapeStore>(options), 1);
    run(tapes->append("a__one", one("x"), TapeAppend()));
    run(tapes->append("a__one", {}, TapeAppend()));
    proxy.cut_after(cubepi::PostgresProxy::Direction::to_server, 0);
    run(tapes->append("a__one", one("y"), TapeAppend()));
    EXPECT_EQ(messages(), 2);
}

TEST_F(LeasedTapes, D227_TurnOfLiveGateway_IsNotClosed) {
    const auto fork = turn(leased(store, 1));
    run(fork->append("a__one", one("x"), TapeAppend()));
    EXPECT_EQ(messages(), 0);
    query("UPDATE bub_delivery_gateways SET lease_until = now() - interval '1 second'");
    EXPECT_EQ(messages(), 1);
    // It was only slow: its turn is tried again.
    EXPECT_THROW(run(fork->append("a__one", one("y"), TapeAppend())),
                 cubepi::CheckpointerLockTimeoutError);
    EXPECT_THROW(run(fork->merge()), cubepi::CheckpointerLockTimeoutError);
    EXPECT_EQ(messages(), 1);
}

}  // namespace
}  // namespace bub
