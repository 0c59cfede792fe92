#include <gtest/gtest.h>

#include <bub/tape/file_tape_store.hpp>
#include <bub/tape/memory_tape_store.hpp>
#include <bub/tape/tape.hpp>
#include <bub/tape/tape_test_support.hpp>
#include <cubepi/core/error.hpp>

namespace bub {
namespace {

Tape with_notes(std::shared_ptr<TapeStore> store) {
    return Tape(std::move(store), "w__s", {"notes"});
}

void note(const Tape& tape, const char* text) { run(tape.append(message_entry("user", text))); }

std::vector<std::string> names_in(const Tape& tape, std::string_view kind) {
    std::vector<std::string> names;
    for (const TapeEntry& entry : run(tape.query(TapeQuery()))) {
        if (entry.kind == kind) names.emplace_back(entry_name(entry));
    }
    return names;
}

std::size_t size_of(const Tape& tape) { return run(tape.query(TapeQuery())).size(); }

const JsonObject data_of(const Tape& tape, std::string_view event) {
    for (const TapeEntry& entry : run(tape.query(TapeQuery().newest_first()))) {
        if (entry.kind == "event" && entry_name(entry) == event)
            return entry.payload.at("data").as_object();
    }
    return {};
}

}  // namespace

TEST(Sidecars, AreSeparateTapesNextToTheirOwner) {
    const auto store = std::make_shared<MemoryTapeStore>();
    const Tape tape = with_notes(store);
    note(tape.sidecar("notes"), "remember");
    EXPECT_EQ(tape.sidecar("notes").name(), "w__s__sidecar__notes");
    EXPECT_EQ(size_of(tape), 0u);
    EXPECT_TRUE(run(store->list_tapes()).empty()) << "no tape of a conversation";
    EXPECT_THROW((void)tape.sidecar("others"), cubepi::Error);
}

TEST(Sidecars, AreNotPartOfATurn) {
    const auto store = std::make_shared<MemoryTapeStore>();
    const Tape tape = with_notes(store);
    const auto fork = tape.fork();
    note(tape.in(fork), "for nothing");
    note(tape.in(fork).sidecar("notes"), "stored at once");
    EXPECT_EQ(size_of(tape.sidecar("notes")), 1u);
    run(fork->discard());
    EXPECT_EQ(size_of(tape.sidecar("notes")), 1u);
    EXPECT_EQ(size_of(tape), 0u);
}

TEST(Sidecars, FollowTheTapeWhenItIsArchivedAndEmptied) {
    const TestDirectory directory;
    const Tape tape = with_notes(std::make_shared<FileTapeStore>(directory.options()));
    run(tape.bootstrap());
    note(tape.sidecar("notes"), "old");
    TapeReset how;
    how.archive_directory = (directory.path() / "archive").string();
    const std::string archived = run(tape.reset(how));
    EXPECT_TRUE(std::filesystem::exists(archived));
    EXPECT_EQ(directory.count("archive"), 2u);
    EXPECT_EQ(size_of(tape.sidecar("notes")), 0u);
    const std::vector<std::string> events = {"handoff", "sidecar.archive", "sidecar.reset"};
    EXPECT_EQ(names_in(tape, "event"), events);
    const JsonObject data = data_of(tape, "sidecar.archive");
    EXPECT_EQ(data.at("sidecar"), Json("notes"));
    EXPECT_EQ(data.at("status"), Json("ok"));
    EXPECT_EQ(data.at("reason"), Json("tape.reset"));
    EXPECT_TRUE(std::filesystem::exists(std::string(data.at("archive").as_string())));
    EXPECT_EQ(run(tape.context()).size(), 1u) << "events of sidecars stay out of the context";
}

TEST(Sidecars, ThatCannotBeArchivedAreNotEmptied) {
    const TestDirectory directory;
    const Tape tape = with_notes(std::make_shared<FileTapeStore>(directory.options()));
    note(tape.sidecar("notes"), "precious");
    directory.write("archive", "a file in the directory's place");
    TapeReset how;
    how.archive_directory = (directory.path() / "archive").string();
    (void)run(tape.reset(how));
    EXPECT_EQ(size_of(tape.sidecar("notes")), 1u);
    EXPECT_EQ(data_of(tape, "sidecar.archive").at("status"), Json("error"));
    EXPECT_EQ(names_in(tape, "event"), (std::vector<std::string>{"handoff", "sidecar.archive"}));
}

TEST(Sidecars, ArchivesOfOneSecondKeepTheirOwnFilesAndEmptyTapesLeaveNone) {
    const TestDirectory directory;
    const Tape tape = with_notes(std::make_shared<FileTapeStore>(directory.options()));
    const std::string archive = (directory.path() / "archive").string();
    note(tape, "one");
    const std::string first = run(tape.archive(archive));
    const std::string second = run(tape.archive(archive));
    const std::string third = run(tape.archive(archive));
    EXPECT_NE(first, second);
    EXPECT_NE(second, third);
    EXPECT_EQ(directory.count("archive"), 3u);
    EXPECT_EQ(run(tape.sidecar("notes").archive(archive)), "");
    EXPECT_EQ(directory.count("archive"), 3u);
}

TEST(TurnTransaction, WhatComesBehindIsSeenAfterTheMerge) {
    const TestDirectory directory;
    const Tape tape = with_notes(std::make_shared<FileTapeStore>(directory.options()));
    TurnTransactionOptions options;
    options.turn_id = "t1";
    const auto fork = tape.fork(std::move(options));
    note(tape.in(fork), "one");
    std::vector<TapeEntry> child;
    child.push_back(message_entry("user", "three"));
    run(fork->append_behind(std::move(child)));
    note(tape.in(fork), "two");
    EXPECT_EQ(size_of(tape.in(fork)), 2u);
    const TestDirectory killed;
    std::filesystem::copy(directory.path(), killed.path(),
                          std::filesystem::copy_options::recursive);
    run(fork->merge());
    for (const TestDirectory* where : {&directory, &killed}) {
        const Tape after(std::make_shared<FileTapeStore>(where->options()), "w__s");
        const std::vector<TapeEntry> entries = run(after.query(TapeQuery()));
        ASSERT_EQ(entries.size(), 4u);
        EXPECT_EQ(entries[1].payload.at("content"), Json("two"));
        EXPECT_EQ(entries[2].payload.at("content"), Json("three"));
        EXPECT_EQ(entry_name(entries[3]), "turn");
    }
}

TEST(TurnTransaction, ASearchInsideReadsBothPartsInOrderAndStopsAtItsLimit) {
    const auto store = std::make_shared<MemoryTapeStore>();
    const Tape tape(store, "w__s");
    for (const char* text : {"a", "b", "c"}) note(tape, text);
    const auto fork = tape.fork();
    for (const char* text : {"d", "e"}) note(tape.in(fork), text);
    const auto seen = [&](TapeQuery query) {
        std::string text;
        std::function<bool(const TapeEntry&)> look = [&text](const TapeEntry& entry) {
            text += entry.payload.at("content").as_string();
            return true;
        };
        run(fork->visit("w__s", std::move(query), std::move(look)));
        return text;
    };
    EXPECT_EQ(seen(TapeQuery()), "abcde");
    EXPECT_EQ(seen(TapeQuery().newest_first()), "edcba");
    EXPECT_EQ(seen(TapeQuery().newest_first().limit(3)), "edc");
    EXPECT_EQ(seen(TapeQuery().limit(4)), "abcd");
    EXPECT_EQ(seen(TapeQuery().text("B")), "b");
}

}  // namespace bub
