#include <bub/tape/tape_store.hpp>

#include <chrono>
#include <map>

#include <gtest/gtest.h>

#include <bub/tape/file_tape_store.hpp>
#include <bub/tape/memory_tape_store.hpp>
#include <bub/tape/tape_checkpointer.hpp>
#include <bub/tape/tape_store_conformance.hpp>
#include <bub/tape/tape_store_support.hpp>
#include <bub/tape/tape_test_support.hpp>
#include <bub/tape/turn_transaction.hpp>
#include <cubepi/core/error.hpp>
#include <cubepi/testing/store_conformance.hpp>

namespace bub {
namespace {

/// A store with only the functions that every store must implement.
class SmallestStore : public TapeStore {
public:
    Task<std::vector<std::string>> all_tapes() override {
        std::vector<std::string> names;
        for (const auto& [name, tape] : tapes_) {
            if (!tape.entries.empty()) names.push_back(name);
        }
        co_return names;
    }
    Task<std::vector<TapeEntry>> fetch(std::string tape, TapeQuery query) override {
        co_return evaluate_query(tapes_[tape].entries, query);
    }
    Task<TapePosition> append(std::string tape, std::vector<TapeEntry> entries,
                              TapeAppend options) override {
        Stored& stored = tapes_[tape];
        TapeBefore before;
        before.end = stored.end;
        before.state = stored.state;
        for (const TapeEntry& entry : stored.entries)
            before.has_anchor = before.has_anchor || entry.kind == entry_kind::anchor;
        const auto now = std::chrono::system_clock::now();
        stored.end = prepare_append(tape, before, entries, options, now);
        if (options.reset()) stored.entries.clear();
        for (TapeEntry& entry : entries) stored.entries.push_back(std::move(entry));
        co_return stored.end;
    }
    Task<TapePosition> position(std::string tape) override { co_return tapes_[tape].end; }
    Task<Json> edit_state(std::string tape, std::function<Json(JsonObject&)> edit) override {
        JsonObject state = tapes_[tape].state;
        Json result = edit(state);
        tapes_[tape].state = std::move(state);
        co_return result;
    }
    Task<JsonObject> read_state(std::string tape) override { co_return tapes_[tape].state; }
    Task<cubepi::QuestionPage> list_requests(cubepi::QuestionQuery query) override {
        InboxBuilder inbox(std::move(query));
        for (const auto& [name, tape] : tapes_) inbox.add(name, tape.state);
        co_return inbox.page();
    }

private:
    struct Stored {
        std::vector<TapeEntry> entries = {};
        TapePosition end = {};
        JsonObject state = {};
    };
    std::map<std::string, Stored> tapes_;
};

/// Ignores the expected position of an append.
class CarelessStore final : public SmallestStore {
public:
    Task<TapePosition> append(std::string tape, std::vector<TapeEntry> entries,
                              TapeAppend options) override {
        if (options.expected_position()) options = TapeAppend();
        return SmallestStore::append(std::move(tape), std::move(entries), std::move(options));
    }
};

void expect_correct(const TapeStoreUnderTest& store) {
    for (const TapeStoreFailure& failure : check_tape_store(store))
        ADD_FAILURE() << failure.check << ": " << failure.text;
}

}  // namespace

TEST(TapeStores, MemoryStore_PassesTheSuite) {
    TapeStoreUnderTest store;
    store.make = [] { return std::make_shared<MemoryTapeStore>(); };
    expect_correct(store);
}

TEST(TapeStores, FileStore_PassesTheSuite) {
    std::unique_ptr<TestDirectory> directory;
    TapeStoreUnderTest store;
    store.make = [&] {
        directory = std::make_unique<TestDirectory>();
        return std::make_shared<FileTapeStore>(directory->options());
    };
    store.reopen = [&](std::shared_ptr<TapeStore> open) {
        open.reset();
        return std::make_shared<FileTapeStore>(directory->options());
    };
    store.share = [&](TapeStore&) { return std::make_shared<FileTapeStore>(directory->options()); };
    expect_correct(store);
}

TEST(TapeStores, Fork_PassesTheSuite) {
    TapeStoreUnderTest store;
    store.make = [] {
        return std::make_shared<TurnTransaction>(std::make_shared<MemoryTapeStore>(),
                                                 "another__tape");
    };
    expect_correct(store);
}

TEST(TapeStores, SevenFunctions_MakeAStoreForAgents) {
    TapeStoreUnderTest store;
    store.make = [] { return std::make_shared<SmallestStore>(); };
    expect_correct(store);
    cubepi::testing::StoreUnderTest agents;
    agents.make = [] {
        return std::make_shared<TapeCheckpointer>(std::make_shared<SmallestStore>());
    };
    for (const auto& failure : cubepi::testing::check_store(agents))
        ADD_FAILURE() << failure.check << ": " << failure.text;
}

TEST(TapeStores, StoreIgnoringExpectedPosition_IsReportedBySuite) {
    TapeStoreUnderTest store;
    store.make = [] { return std::make_shared<CarelessStore>(); };
    bool reported = false;
    for (const TapeStoreFailure& failure : check_tape_store(store))
        reported = reported || failure.check == "expected_position";
    EXPECT_TRUE(reported);
}

}  // namespace bub
