#include <bub/tape/postgres_tape_store.hpp>

#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include <bub/tape/copy_tape.hpp>
#include <bub/tape/postgres_tape_schema.hpp>
#include <bub/tape/tape_checkpointer.hpp>
#include <bub/tape/tape_store_conformance.hpp>
#include <bub/tape/tape_test_support.hpp>
#include <bub/tape/turn_transaction.hpp>
#include <cubepi/agent/claim_owner.hpp>
#include <cubepi/checkpoint/postgres_server_test.hpp>
#include <cubepi/checkpoint/server_proxy_test.hpp>
#include <cubepi/checkpoint/store_check_test.hpp>
#include <cubepi/core/error.hpp>
#include <cubepi/core/run.hpp>
#include <cubepi/testing/store_conformance.hpp>

namespace bub {
namespace {

using cubepi::PostgresOptions;
using cubepi::PostgresProxy;
using cubepi::PostgresServer;
using cubepi::RawPostgres;

class PostgresTapes : public ::testing::Test {
protected:
    PostgresTapes()
        : server(PostgresServer::shared()),
          database(server.create_database(postgres_tape_tables())) {
        options.connection = server.connection(database);
    }
    std::vector<std::string> query(const std::string& sql) const {
        return RawPostgres(server.connection(database)).query(sql);
    }
    void clear() const {
        query("DELETE FROM bub_tapes");
        query("DELETE FROM bub_media");
        query("DELETE FROM bub_open");
    }
    /// The server ends a session a moment after its client has.
    void wait_for_the_end_of_sessions() const {
        RawPostgres watcher(server.connection(database));
        const std::string others =
            "SELECT count(*) FROM pg_locks JOIN pg_database AS d ON d.oid = database"
            " WHERE locktype = 'advisory' AND datname = current_database()";
        while (watcher.query(others) != std::vector<std::string>{"0"}) {
        }
    }

    PostgresServer& server;
    std::string database;
    PostgresOptions options;
};

std::vector<TapeEntry> one(std::string text) {
    std::vector<TapeEntry> entries;
    entries.push_back(message_entry("user", std::move(text)));
    return entries;
}

void expect_correct(const TapeStoreUnderTest& store) {
    for (const TapeStoreFailure& failure : check_tape_store(store))
        ADD_FAILURE() << failure.check << ": " << failure.text;
}

TEST_F(PostgresTapes, Store_PassesTheSuite) {
    TapeStoreUnderTest store;
    store.make = [&] {
        clear();
        return std::make_shared<PostgresTapeStore>(options);
    };
    store.reopen = [&](std::shared_ptr<TapeStore> open) {
        open.reset();
        wait_for_the_end_of_sessions();
        return std::make_shared<PostgresTapeStore>(options);
    };
    store.share = [&](TapeStore&) { return std::make_shared<PostgresTapeStore>(options); };
    expect_correct(store);
}

TEST_F(PostgresTapes, Store_PassesTheSuiteOfAgentStores) {
    cubepi::testing::StoreUnderTest store;
    store.make = [&] {
        clear();
        return std::make_shared<TapeCheckpointer>(std::make_shared<PostgresTapeStore>(options));
    };
    for (const auto& failure : cubepi::testing::check_store(store))
        ADD_FAILURE() << failure.check << ": " << failure.text;
}

TEST_F(PostgresTapes, B9_AppendWithCutConnection_IsStoredOnce) {
    PostgresProxy proxy(server.socket_directory());
    PostgresOptions cut = options;
    cut.connection = proxy.connection(database);
    PostgresTapeStore store(cut);
    run(store.open());
    (void)proxy.take_count(PostgresProxy::Direction::to_server);
    (void)proxy.take_count(PostgresProxy::Direction::to_client);
    run(store.append("a__measured", one("hello"), TapeAppend()));
    int tapes = 1;
    for (const auto direction :
         {PostgresProxy::Direction::to_server, PostgresProxy::Direction::to_client}) {
        const std::size_t bytes = proxy.take_count(direction);
        ASSERT_GT(bytes, 200U);
        for (std::size_t at = 0; at <= bytes; at += 11) {
            proxy.cut_after(direction, at);
            const std::string tape = "a__" + std::to_string(tapes++);
            const TapePosition end = run(store.append(tape, one("hello"), TapeAppend()));
            EXPECT_EQ(end.last_id, 1);
        }
        // The last cut may not have been reached.
        run(store.position("a__1"));
        (void)proxy.take_count(PostgresProxy::Direction::to_client);
        run(store.append("b__" + std::to_string(tapes++), one("hello"), TapeAppend()));
    }
    EXPECT_EQ(query("SELECT count(*), count(DISTINCT tape), min(id), max(id) FROM bub_entries"),
              (std::vector<std::string>{std::to_string(tapes), std::to_string(tapes), "1", "1"}));
}

TEST_F(PostgresTapes, B9_WritersOfOneTape_TakeTurns) {
    constexpr int writers = 8;
    constexpr int each = 20;
    std::atomic<int> failures = 0;
    std::vector<std::thread> threads;
    for (int i = 0; i < writers; ++i) {
        threads.emplace_back([&] {
            PostgresTapeStore store(options);
            for (int n = 0; n < each; ++n) {
                try {
                    run(store.append("a__one", one("x"), TapeAppend()));
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
    EXPECT_EQ(run(store.position("a__one")).last_id, writers * each);
    EXPECT_EQ(run(store.position("a__one")).messages, writers * each);
    EXPECT_EQ(run(store.read_state("a__one")).at("count"), writers * each);
    EXPECT_EQ(run(store.info("a__one")).entries, writers * each);
}

TEST_F(PostgresTapes, D20_ProcessesWithTheSameEnd_AppendOnce) {
    PostgresTapeStore first(options);
    PostgresTapeStore second(options);
    run(first.append("a__one", one("x"), TapeAppend().expected_position(0)));
    EXPECT_THROW(run(second.append("a__one", one("y"), TapeAppend().expected_position(0))),
                 cubepi::StaleAppendError);
    EXPECT_EQ(run(second.position("a__one")).last_id, 1);
}

TEST_F(PostgresTapes, Visit_CrossesPagesInBothOrders) {
    PostgresTapeStore store(options);
    std::vector<TapeEntry> entries;
    for (int i = 0; i < 2500; ++i) entries.push_back(message_entry("user", std::to_string(i)));
    entries[1200] = anchor_entry("middle");
    run(store.append("a__one", std::move(entries), TapeAppend()));
    for (const bool newest_first : {false, true}) {
        std::vector<std::int64_t> ids;
        run(store.visit("a__one", TapeQuery().newest_first(newest_first),
                        [&ids](const TapeEntry& entry) {
                            ids.push_back(entry.id);
                            return ids.size() < 2200;
                        }));
        ASSERT_EQ(ids.size(), 2200U);
        EXPECT_EQ(ids.front(), newest_first ? 2500 : 1);
        EXPECT_EQ(ids.back(), newest_first ? 301 : 2200);
    }
    EXPECT_EQ(run(store.fetch("a__one", TapeQuery().last_anchor())).size(), 1299U);
    EXPECT_EQ(run(store.fetch("a__one", TapeQuery().last_anchor().with_anchor().limit(2))).at(0).id,
              1201);
}

TEST_F(PostgresTapes, B17_Search_FoldsTheCaseOfAnyScript) {
    PostgresTapeStore store(options);
    run(store.append("a__one", one("Die Straße nach Größenwahn"), TapeAppend()));
    run(store.append("a__one", one("else"), TapeAppend()));
    EXPECT_EQ(run(store.fetch("a__one", TapeQuery().text("STRASSE"))).size(), 1U);
}

TEST_F(PostgresTapes, TextThatDatabaseCannotHold_IsStored) {
    PostgresTapeStore store(options);
    const std::string text("a\0b \xff \xf0\x9f\x98\x80", 11);
    std::vector<TapeEntry> entries = one(text);
    entries.push_back(event_entry(std::string("na\0me", 5), JsonObject()));
    entries.push_back(anchor_entry(std::string(10'000, 'n')));
    run(store.append("a__one", std::move(entries), TapeAppend()));
    EXPECT_EQ(run(store.fetch("a__one", TapeQuery())).size(), 3U);
    EXPECT_TRUE(run(store.find_event("a__one", std::string("na\0me", 5))));
    EXPECT_EQ(run(store.fetch("a__one", TapeQuery().after_anchor(std::string(10'000, 'n')))).size(),
              0U);
}

TEST_F(PostgresTapes, TapeOpenInAnotherProcess_IsNotRemoved) {
    PostgresTapeStore store(options);
    run(store.append("a__one", one("x"), TapeAppend()));
    auto other = std::make_unique<PostgresTapeStore>(options);
    const std::shared_ptr<const void> open = run(other->open_tape("a__one"));
    EXPECT_THROW(run(store.remove_tape("a__one")), cubepi::CheckpointerLockTimeoutError);
    EXPECT_EQ(run(store.position("a__one")).last_id, 1);
    // A mark of a process that has ended counts for nothing.
    query("UPDATE bub_open SET owner = 7");
    run(store.remove_tape("a__one"));
    EXPECT_EQ(run(store.position("a__one")).last_id, 0);
    EXPECT_EQ(query("SELECT count(*) FROM bub_open"), std::vector<std::string>{"0"});
}

TEST_F(PostgresTapes, HeldName_IsRefusedToOtherCallers) {
    PostgresTapeStore store(options);
    PostgresOptions hasty = options;
    hasty.lock_timeout = std::chrono::milliseconds(20);
    PostgresTapeStore other(hasty);
    std::shared_ptr<const void> held = run(store.hold("sessions"));
    EXPECT_THROW(run(other.hold("sessions")), cubepi::CheckpointerLockTimeoutError);
    EXPECT_TRUE(run(other.hold("something else")));
    held.reset();
    EXPECT_TRUE(run(store.hold("sessions")));
}

TEST_F(PostgresTapes, B9_TurnClosedByAnotherProcess_IsNotMerged) {
    const auto store = std::make_shared<PostgresTapeStore>(options);
    TurnTransactionOptions turn;
    turn.turn_id = "t1";
    TurnTransaction fork(store, "a__one", turn);
    run(fork.append("a__one", one("x"), TapeAppend()));
    // The server has lost the session that shows that this process is alive.
    query("UPDATE bub_turns SET owner = 7");
    PostgresTapeStore other(options);
    EXPECT_EQ(run(other.position("a__one")).messages, 1);
    EXPECT_THROW(run(fork.append("a__one", one("y"), TapeAppend())), cubepi::StaleAppendError);
    EXPECT_THROW(run(fork.merge()), cubepi::StaleAppendError);
    EXPECT_EQ(run(other.position("a__one")).messages, 1) << "the entry is on the tape once";
    EXPECT_TRUE(run(other.find_event("a__one", "turn.refused")));
    EXPECT_EQ(query("SELECT count(*) FROM bub_turns"), std::vector<std::string>{"0"});
}

TEST_F(PostgresTapes, D233_TurnThatDiedLater_IsClosed) {
    PostgresTapeStore other(options);
    EXPECT_EQ(run(other.position("a__one")).messages, 0);
    const auto store = std::make_shared<PostgresTapeStore>(options);
    TurnTransactionOptions turn;
    turn.turn_id = "t1";
    TurnTransaction fork(store, "a__one", turn);
    run(fork.append("a__one", one("x"), TapeAppend()));
    EXPECT_EQ(run(other.position("a__one")).messages, 0);
    query("UPDATE bub_turns SET owner = 7");
    EXPECT_EQ(run(other.position("a__one")).messages, 1);
    EXPECT_THROW(run(fork.merge()), cubepi::StaleAppendError);
}

TEST_F(PostgresTapes, D50_TurnWhoseClaimIsAlive_IsNotClosed) {
    const auto store = std::make_shared<PostgresTapeStore>(options);
    TurnTransactionOptions turn;
    turn.turn_id = "t1";
    const auto fork = std::make_shared<TurnTransaction>(store, "a__one", turn);
    TapeCheckpointer memory(fork);
    run(memory.claim_run("a__one", "r1", cubepi::current_process_owner(),
                         cubepi::ClaimKind::new_run));
    run(fork->append("a__one", one("x"), TapeAppend()));
    query("UPDATE bub_turns SET owner = 7");
    PostgresTapeStore other(options);
    EXPECT_TRUE(run(other.has_open_turn("a__one")));
    EXPECT_EQ(run(other.position("a__one")).messages, 0);
    // A process of another host that did not renew its claim.
    run(other.edit_state("a__one", [](JsonObject& state) {
        for (Json& claim : state.at("claims").as_array()) claim.as_object()["lease_until"] = 1.0;
        return Json();
    }));
    EXPECT_FALSE(run(other.has_open_turn("a__one")));
    EXPECT_EQ(run(other.position("a__one")).messages, 1);
}

TEST_F(PostgresTapes, Tape_IsCopiedFromFilesAndBack) {
    const TestDirectory directory;
    const TestDirectory second;
    const auto files = std::make_shared<FileTapeStore>(directory.options());
    const auto copy = std::make_shared<FileTapeStore>(second.options());
    const auto store = std::make_shared<PostgresTapeStore>(options);
    std::vector<TapeEntry> entries = one("Größe \x01");
    entries.push_back(anchor_entry("middle"));
    run(files->append("a__one", std::move(entries), TapeAppend()));
    run(files->edit_state("a__one", [](JsonObject& state) {
        state["session"] = "cli:plan";
        return Json();
    }));
    const std::string image = run(files->put_media(std::string("a\0b", 3)));
    run(files->append("a__one", one(image), TapeAppend()));
    EXPECT_EQ(run(copy_tape(files, store, "a__one")).entries, 3U);
    EXPECT_EQ(run(copy_tape(files, store, "a__one")).entries, 0U);
    run(store->append("a__one", one("on the server"), TapeAppend()));
    EXPECT_EQ(run(copy_tape(store, copy, "a__one")).entries, 4U);
    EXPECT_EQ(run(copy_tape(store, files, "a__one")).entries, 1U);
    EXPECT_EQ(directory.read("a__one.jsonl"), second.read("a__one.jsonl"));
    EXPECT_EQ(run(store->info("a__one")).last_anchor, "middle");
    EXPECT_EQ(run(copy->get_media(image)), std::string("a\0b", 3));
    EXPECT_EQ(run(copy->read_state("a__one")).at("session"), "cli:plan");
}

TEST_F(PostgresTapes, FirstVersion_IsMigrated) {
    PostgresTapeStore store(options);
    run(store.append("a__one", one("x"), TapeAppend()));
    query("DROP TABLE bub_open, bub_turn_lines, bub_turns, bub_owners");
    query("ALTER TABLE bub_tapes DROP COLUMN bytes");
    query("UPDATE bub_schema SET version = 1 WHERE version = 2");
    query("DELETE FROM bub_schema WHERE version = 3");
    try {
        run(PostgresTapeStore(options).open());
        FAIL();
    } catch (const cubepi::CheckpointerError& error) {
        EXPECT_EQ(error.code(), cubepi::ErrorCode::schema_mismatch);
        EXPECT_NE(std::string(error.what()).find("cubepi db migrate --tapes"), std::string::npos)
            << error.what();
    }
    EXPECT_EQ(run(postgres_tape_tables().apply(options))->version, 1);
    PostgresTapeStore again(options);
    EXPECT_EQ(run(again.position("a__one")).last_id, 1);
    EXPECT_GT(run(again.newest_tapes()).at(0).bytes, 20U);
}

/// The plans of all statements, with 20,000 entries on 200 tapes.
TEST_F(PostgresTapes, EveryStatement_UsesAnIndex) {
    query(
        "INSERT INTO bub_tapes (tape, last_id) SELECT 'a__' || i, 100 FROM"
        " generate_series(1, 20000) AS i");
    query(
        "INSERT INTO bub_entries (tape, id, kind, name_key, run_key, line) SELECT"
        " 'a__' || (i % 200 + 1), i / 200 + 1, CASE i % 3 WHEN 0 THEN 'anchor' WHEN 1 THEN 'event'"
        " ELSE 'message' END, 'n' || (i % 7), 'r' || i, '{}' FROM generate_series(0, 19999) AS i");
    query("INSERT INTO bub_message_ids SELECT tape, 'm' || id, id FROM bub_entries");
    query("ANALYZE");
    PostgresOptions logged = options;
    logged.connection +=
        " options='-csession_preload_libraries=auto_explain -cauto_explain.log_min_duration=0'";
    const std::string log = server.log_of([&] {
        PostgresTapeStore store(logged);
        run(store.append("a__1", one("x"), TapeAppend()));
        run(store.fetch("a__1", TapeQuery()));
        run(store.fetch("a__1", TapeQuery().last_anchor().kinds({"message"})));
        run(store.position("a__1"));
        run(store.anchors("a__1", 5));
        run(store.find_event("a__1", "x"));
        run(store.find_run("a__1", "x"));
        run(store.find_message_entry("a__1", "x"));
        run(store.list_requests(cubepi::QuestionQuery()));
        run(store.put_media("bytes"));
        run(store.get_media("0"));
    });
    EXPECT_NE(log.find("Index"), std::string::npos) << "auto_explain has logged nothing";
    for (const char* const table : {"tapes", "entries", "message_ids", "media"})
        EXPECT_EQ(log.find(std::string("Seq Scan on bub_") + table), std::string::npos) << log;
}

/// The plans that the server prefers, with 20,000 tapes.
TEST_F(PostgresTapes, D268_NewestTapes_AreReadWithTheIndex) {
    query(
        "INSERT INTO bub_tapes (tape, last_id, updated_at) SELECT 'a__' || i, 1,"
        " now() - i * interval '1 second' FROM generate_series(1, 20000) AS i");
    query("ANALYZE");
    PostgresOptions logged = options;
    logged.connection +=
        " options='-csession_preload_libraries=auto_explain -cauto_explain.log_min_duration=0'";
    const std::string log = server.log_of([&] {
        PostgresTapeStore store(logged);
        std::vector<ListedTape> page = run(store.newest_tapes_after(std::nullopt, 3));
        ASSERT_EQ(page.size(), 3U);
        EXPECT_EQ(page.back().name, "a__3");
        page = run(store.newest_tapes_after(page.back(), 3));
        ASSERT_EQ(page.size(), 3U);
        EXPECT_EQ(page.front().name, "a__4");
    });
    const std::string by_index = "Index Scan Backward using bub_ix_tapes_updated";
    const std::size_t first = log.find(by_index);
    ASSERT_NE(first, std::string::npos) << log;
    const std::size_t second = log.find(by_index, first + 1);
    ASSERT_NE(second, std::string::npos) << log;
    EXPECT_EQ(log.find(by_index, second + 1), std::string::npos) << log;
    EXPECT_EQ(log.find("Seq Scan on bub_tapes"), std::string::npos) << log;
}

/// The newest tapes of one directory, older than 20,000 of others.
TEST_F(PostgresTapes, TapesWithPrefix_AreReadWithTheKey) {
    query(
        "INSERT INTO bub_tapes (tape, last_id, updated_at) SELECT"
        " CASE WHEN i % 10000 = 0 THEN 'b__' ELSE 'a__' END || i, 1,"
        " now() - i * interval '1 second' FROM generate_series(1, 20000) AS i");
    query("ANALYZE");
    PostgresOptions logged = options;
    logged.connection +=
        " options='-csession_preload_libraries=auto_explain -cauto_explain.log_min_duration=0'";
    const std::string log = server.log_of([&] {
        PostgresTapeStore store(logged);
        std::vector<ListedTape> page = run(store.newest_tapes_after(std::nullopt, 1, "b__"));
        ASSERT_EQ(page.size(), 1U);
        EXPECT_EQ(page.back().name, "b__10000");
        page = run(store.newest_tapes_after(page.back(), 3, "b__"));
        ASSERT_EQ(page.size(), 1U);
        EXPECT_EQ(page.back().name, "b__20000");
    });
    EXPECT_NE(log.find("bub_tapes_pkey"), std::string::npos) << log;
    EXPECT_EQ(log.find("bub_ix_tapes_updated"), std::string::npos) << log;
    EXPECT_EQ(log.find("Seq Scan on bub_tapes"), std::string::npos) << log;
}

TEST_F(PostgresTapes, TablesOfNewerVersion_AreRefused) {
    query("DELETE FROM bub_schema WHERE version = 2");
    query("UPDATE bub_schema SET version = 7");
    for (const bool apply : {false, true}) {
        try {
            if (apply) {
                run(postgres_tape_tables().apply(options));
            } else {
                run(PostgresTapeStore(options).open());
            }
            FAIL();
        } catch (const cubepi::CheckpointerError& error) {
            EXPECT_EQ(error.code(), cubepi::ErrorCode::schema_mismatch);
            EXPECT_NE(std::string(error.what()).find("version 7"), std::string::npos);
        }
    }
}

TEST_F(PostgresTapes, D209_Check_FindsWhatRowsDisagreeAbout) {
    const auto store = std::make_shared<PostgresTapeStore>(options);
    {
        TapeCheckpointer threads(store);
        cubepi::write_sound_threads(threads);
        for (const char* text : {"one", "two", "three"})
            run(store->append("a__one", one(text), TapeAppend()));
    }
    const cubepi::StoreReport sound = run(check_postgres_tapes(options));
    EXPECT_EQ(damage_in(sound) + repairs_in(sound) + notes_in(sound), "");
    EXPECT_NE(numbers_in(sound).find("tapes 4; "), std::string::npos) << numbers_in(sound);
    query("DELETE FROM bub_entries WHERE tape = 'a__one' AND id = 2");
    query("UPDATE bub_entries SET line = '{' WHERE tape = 'sound' AND id = 1");
    query("UPDATE bub_tapes SET has_requests = false WHERE tape = 'asks'");
    query("UPDATE bub_tapes SET state = '[' WHERE tape = 'busy'");
    const std::string damage = damage_in(run(check_postgres_tapes(options)));
    for (const char* text :
         {"tape 'a__one', row id 3: entry 2 is missing", "tape 'sound', row id 1: the line is not",
          "tape 'asks': it has a pending request that no inbox lists",
          "tape 'busy': the column state of tape 'busy' in bub_tapes is not a JSON object"}) {
        EXPECT_NE(damage.find(text), std::string::npos) << text << " in:\n" << damage;
    }
}

TEST_F(PostgresTapes, D209_CheckOfOtherTables_NamesTheNextCommand) {
    PostgresOptions empty = options;
    empty.connection = server.connection(server.create_empty_database());
    const cubepi::StoreReport report = run(check_postgres_tapes(empty));
    ASSERT_EQ(report.findings().size(), 1U);
    EXPECT_EQ(report.findings()[0].what, "there are none");
    EXPECT_TRUE(
        report.findings()[0].remedy.starts_with("create them with 'cubepi db init --tapes'"));
    query("DELETE FROM bub_schema WHERE version = 2");
    query("UPDATE bub_schema SET version = 1");
    EXPECT_EQ(damage_in(run(check_postgres_tapes(options))),
              "tables bub_*: they are of version 1 and not 3\n");
}

TEST_F(PostgresTapes, D209_TurnOfDeadOwner_IsARepair) {
    const auto store = std::make_shared<PostgresTapeStore>(options);
    const Tape tape(store, "a__one");
    TurnTransactionOptions turn;
    turn.turn_id = "t1";
    const auto fork = tape.fork(turn);
    run(tape.in(fork).append(message_entry("user", "in progress")));
    run(fork->flush());
    EXPECT_EQ(repairs_in(run(check_postgres_tapes(options))), "");
    query("UPDATE bub_turns SET owner = 1");
    EXPECT_EQ(repairs_in(run(check_postgres_tapes(options))),
              "tape 'a__one': the process of a turn has ended without closing it\n");
}

TEST_F(PostgresTapes, D208_NewerReadableVersion_IsShared) {
    query("INSERT INTO bub_schema VALUES (7)");
    run(PostgresTapeStore(options).append("a__one", one("x"), TapeAppend()));
    EXPECT_EQ(run(postgres_tape_tables().apply(options)), (cubepi::FormatVersion{7, 2}));
    EXPECT_EQ(query("SELECT version FROM bub_schema ORDER BY version"),
              (std::vector<std::string>{"2", "3", "7"}));
    query("DELETE FROM bub_schema WHERE version = 2");
    run(PostgresTapeStore(options).open());
    query("UPDATE bub_schema SET version = 4 WHERE version = 3");
    try {
        run(PostgresTapeStore(options).open());
        FAIL();
    } catch (const cubepi::CheckpointerError& error) {
        EXPECT_NE(std::string(error.what()).find("knows version 4"), std::string::npos)
            << error.what();
    }
}

TEST_F(PostgresTapes, D259_PartOfTheSessions_IsRefusedAlone) {
    const auto problem_of = [this](std::optional<std::string> division) {
        try {
            run(PostgresTapeStore(options, std::move(division)).open());
        } catch (const cubepi::CheckpointerError& error) {
            EXPECT_EQ(error.code(), cubepi::ErrorCode::schema_mismatch);
            return std::string(error.what());
        }
        return std::string();
    };
    const std::string record = "a of a: 0000-7fff; b: 8000-ffff";
    // There are tables of tapes only.
    EXPECT_EQ(problem_of(""), "");
    EXPECT_NE(problem_of(record).find("has no record"), std::string::npos);
    query("CREATE TABLE bub_delivery_division (id INTEGER, record TEXT)");
    EXPECT_EQ(problem_of(""), "");
    query("INSERT INTO bub_delivery_division VALUES (1, '" + record + "')");
    EXPECT_EQ(problem_of(record), "");
    EXPECT_EQ(problem_of(std::nullopt), "");
    EXPECT_NE(problem_of("").find("has a part of the sessions only"), std::string::npos);
    query("UPDATE bub_delivery_division SET record = 'being divided as ' || record");
    for (const std::string& expected : {std::string(), record})
        EXPECT_NE(problem_of(expected).find("is being divided as"), std::string::npos);
    EXPECT_EQ(problem_of(std::nullopt), "");
}

TEST_F(PostgresTapes, MissingTables_AreReportedWithTheirRemedy) {
    PostgresOptions empty = options;
    empty.connection = server.connection(server.create_empty_database());
    EXPECT_FALSE(run(postgres_tape_tables().status(empty)));
    try {
        run(PostgresTapeStore(empty).open());
        FAIL();
    } catch (const cubepi::CheckpointerError& error) {
        EXPECT_EQ(error.code(), cubepi::ErrorCode::schema_mismatch);
        EXPECT_NE(std::string(error.what()).find("cubepi db init --tapes"), std::string::npos)
            << error.what();
    }
    RawPostgres(empty.connection).query(postgres_tape_tables().sql());
    run(PostgresTapeStore(empty).open());
}

}  // namespace
}  // namespace bub
