#include <bub/tape/postgres_tape_store.hpp>

#include <atomic>
#include <regex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include <bub/tape/postgres_tape_schema.hpp>
#include <bub/tape/tape_checkpointer.hpp>
#include <bub/tape/tape_store_conformance.hpp>
#include <cubepi/checkpoint/postgres_proxy_test.hpp>
#include <cubepi/checkpoint/postgres_server_test.hpp>
#include <cubepi/core/error.hpp>
#include <cubepi/core/run.hpp>
#include <cubepi/testing/store_conformance.hpp>

namespace bub {
namespace {

using cubepi::PostgresOptions;
using cubepi::PostgresProxy;
using cubepi::PostgresServer;
using cubepi::RawPostgres;
using cubepi::run;

class PostgresTapes : public ::testing::Test {
protected:
    PostgresTapes() : server(PostgresServer::shared()), database(server.create_empty_database()) {
        options.connection = server.connection(database);
        run(apply_postgres_tape_schema(options));
    }
    std::vector<std::string> query(const std::string& sql) const {
        return RawPostgres(server.connection(database)).query(sql);
    }
    void clear() const {
        query("DELETE FROM bub_tapes");
        query("DELETE FROM bub_media");
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

TEST_F(PostgresTapes, PassTheSuite) {
    TapeStoreUnderTest store;
    store.make = [&] {
        clear();
        return std::make_shared<PostgresTapeStore>(options);
    };
    store.reopen = [&](std::shared_ptr<TapeStore> open) {
        open.reset();
        return std::make_shared<PostgresTapeStore>(options);
    };
    expect_correct(store);
}

TEST_F(PostgresTapes, PassTheSuiteOfAgentsStores) {
    cubepi::testing::StoreUnderTest store;
    store.make = [&] {
        clear();
        return std::make_shared<TapeCheckpointer>(std::make_shared<PostgresTapeStore>(options));
    };
    for (const auto& failure : cubepi::testing::check_store(store))
        ADD_FAILURE() << failure.check << ": " << failure.text;
}

TEST_F(PostgresTapes, B9_AnAppendIsStoredOnceWhereverTheConnectionIsCut) {
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
        for (std::size_t at = 0; at <= bytes; at += 3) {
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

TEST_F(PostgresTapes, B9_WritersOfOneTapeTakeTurns) {
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

TEST_F(PostgresTapes, D20_OfTwoProcessesThatKnowTheSameEndOneAppends) {
    PostgresTapeStore first(options);
    PostgresTapeStore second(options);
    run(first.append("a__one", one("x"), TapeAppend().expected_position(0)));
    EXPECT_THROW(run(second.append("a__one", one("y"), TapeAppend().expected_position(0))),
                 cubepi::StaleAppendError);
    EXPECT_EQ(run(second.position("a__one")).last_id, 1);
}

TEST_F(PostgresTapes, VisitMoreEntriesThanAPageInBothOrders) {
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

TEST_F(PostgresTapes, B17_SearchFoldsTheCaseOfAnyScript) {
    PostgresTapeStore store(options);
    run(store.append("a__one", one("Die Straße nach Größenwahn"), TapeAppend()));
    run(store.append("a__one", one("else"), TapeAppend()));
    EXPECT_EQ(run(store.fetch("a__one", TapeQuery().text("STRASSE"))).size(), 1U);
}

TEST_F(PostgresTapes, TakeTextThatTheDatabaseCannotStoreAsSuch) {
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

/// The plans of all statements, with 20,000 entries on 200 tapes.
TEST_F(PostgresTapes, EveryStatementUsesAnIndex) {
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
        " options='-cenable_seqscan=off -csession_preload_libraries=auto_explain "
        "-cauto_explain.log_min_duration=0"
        "'";
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
        run(store.list_requests(cubepi::InboxQuery()));
        run(store.put_media("bytes"));
        run(store.get_media("0"));
    });
    EXPECT_NE(log.find("Index"), std::string::npos) << "auto_explain has logged nothing";
    const std::regex scan("Seq Scan on (bub_tapes|bub_entries|bub_message_ids|bub_media)");
    std::smatch found;
    EXPECT_FALSE(std::regex_search(log, found, scan)) << log;
}

TEST_F(PostgresTapes, RefuseTablesOfANewerVersion) {
    query("INSERT INTO bub_schema VALUES (7)");
    for (const bool apply : {false, true}) {
        try {
            if (apply) {
                run(apply_postgres_tape_schema(options));
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

TEST_F(PostgresTapes, SayHowMissingTablesAreCreated) {
    PostgresOptions empty = options;
    empty.connection = server.connection(server.create_empty_database());
    EXPECT_FALSE(run(postgres_tape_status(empty)));
    try {
        run(PostgresTapeStore(empty).open());
        FAIL();
    } catch (const cubepi::CheckpointerError& error) {
        EXPECT_EQ(error.code(), cubepi::ErrorCode::schema_mismatch);
        EXPECT_NE(std::string(error.what()).find("cubepi db init --tapes"), std::string::npos)
            << error.what();
    }
    RawPostgres(empty.connection).query(postgres_tape_sql());
    run(PostgresTapeStore(empty).open());
}

}  // namespace
}  // namespace bub
