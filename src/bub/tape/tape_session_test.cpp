#include <bub/tape/tape_session.hpp>

#include <gtest/gtest.h>

#include <bub/tape/memory_tape_store.hpp>
#include <bub/tape/tape.hpp>
#include <bub/tape/tape_checkpointer.hpp>
#include <bub/tape/tape_test_support.hpp>
#include <cubepi/core/error.hpp>

// The tapes of sessions with their sidecars: how they are noted, archived and removed.

namespace bub {
namespace {

TapeCheckpointer memory_of(const std::shared_ptr<TapeStore>& store, std::string session) {
    TapeCheckpointerOptions options;
    options.session.id = std::move(session);
    options.session.workspace = "/srv/project";
    return TapeCheckpointer(store, std::move(options));
}

cubepi::ClaimOwner owner(std::string id) {
    cubepi::ClaimOwner owner;
    owner.owner_id = std::move(id);
    return owner;
}

std::optional<TapeSession> noted_in(FileTapeStore& store, const std::string& tape) {
    return session_of(run(store.read_state(tape)));
}

TEST(TapeSession, FirstRun_NotesTheSessionPermanently) {
    const TestDirectory directory;
    const auto store = std::make_shared<FileTapeStore>(directory.options());
    TapeCheckpointer memory = memory_of(store, "cli:plan");
    EXPECT_EQ(noted_in(*store, "w__s"), std::nullopt) << "looking notes nothing";
    run(memory.claim_run("w__s", "r1", owner("a"), cubepi::ClaimKind::new_run));
    run(memory.mark_run_complete("w__s", "r1"));
    const std::optional<TapeSession> session = noted_in(*store, "w__s");
    ASSERT_TRUE(session);
    EXPECT_EQ(session->id, "cli:plan");
    EXPECT_EQ(session->workspace, "/srv/project");
    EXPECT_EQ(session->copied_from, "");
}

TEST(TapeSession, CopySource_IsRetained) {
    JsonObject state;
    note_session(state, {"cli:plan", "/w", "/sessions.db"});
    note_session(state, {"cli:plan", "/elsewhere", ""});
    EXPECT_EQ(session_of(state), (TapeSession{"cli:plan", "/elsewhere", "/sessions.db"}));
    note_session(state, TapeSession());
    EXPECT_EQ(session_of(state)->id, "cli:plan") << "an empty sender has no name";
}

TEST(TapeSession, SideStateOfOthers_HasNoSession) {
    EXPECT_EQ(session_of(JsonObject()), std::nullopt);
    JsonObject odd;
    odd["session"] = 7;
    EXPECT_EQ(session_of(odd), std::nullopt);
    odd["session"] = JsonObject{{"id", nullptr}};
    EXPECT_EQ(session_of(odd), std::nullopt);
}

TEST(RemoveTape, D47_Removal_DeletesTapeSidecarsAndOtherFiles) {
    const TestDirectory directory;
    const auto store = std::make_shared<FileTapeStore>(directory.options());
    for (const char* name : {"w__s", "w__s__sidecar__spill", "w__other"})
        run(Tape(store, name).bootstrap());
    TapeCheckpointer memory = memory_of(store, "cli:s");
    run(memory.claim_run("w__s", "r1", owner("a"), cubepi::ClaimKind::new_run));
    run(store->info("w__s"));
    run(store->remove_tape("w__s"));
    EXPECT_EQ(run(store->all_tapes()), std::vector<std::string>{"w__other"});
    for (const auto& file : std::filesystem::directory_iterator(directory.path()))
        EXPECT_TRUE(file.path().filename().string().starts_with("w__other")) << file.path();
    run(store->remove_tape("w__s"));
    EXPECT_FALSE(directory.has("w__s.jsonl.lock"));
    run(Tape(store, "w__s").bootstrap());
    EXPECT_EQ(run(store->info("w__s")).entries, 2) << "the same store continues with a new tape";
}

TEST(RemoveTape, D47_TapeWithRunningTurn_IsNotRemoved) {
    const TestDirectory directory;
    const auto store = std::make_shared<FileTapeStore>(directory.options());
    const auto others = std::make_shared<FileTapeStore>(directory.options());
    const std::shared_ptr<TurnTransaction> fork = Tape(others, "w__s").fork(turn("turn-1"));
    run(Tape(others, "w__s").in(fork).append(message_entry("user", "hi")));
    try {
        run(store->remove_tape("w__s"));
        FAIL() << "it was removed";
    } catch (const cubepi::Error& error) {
        EXPECT_EQ(error.code(), cubepi::ErrorCode::storage_locked) << error.what();
    }
    run(fork->merge());
    EXPECT_EQ(run(store->info("w__s")).entries, 2);
    run(store->remove_tape("w__s"));
    EXPECT_EQ(run(store->info("w__s")).entries, 0);
}

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

TEST(Sidecars, Sidecars_AreSeparateTapesNextToTheirOwner) {
    const auto store = std::make_shared<MemoryTapeStore>();
    const Tape tape = with_notes(store);
    note(tape.sidecar("notes"), "remember");
    EXPECT_EQ(tape.sidecar("notes").name(), "w__s__sidecar__notes");
    EXPECT_EQ(size_of(tape), 0u);
    EXPECT_TRUE(run(store->list_tapes()).empty()) << "no tape of a conversation";
    EXPECT_THROW((void)tape.sidecar("others"), cubepi::Error);
}

TEST(Sidecars, Sidecars_AreNotPartOfATurn) {
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

TEST(Sidecars, ArchivedAndEmptiedTape_TakesItsSidecarsAlong) {
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

TEST(Sidecars, UnarchivableSidecars_AreNotEmptied) {
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

TEST(Sidecars, ArchivesOfOneSecond_KeepTheirOwnFiles) {
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

}  // namespace
}  // namespace bub
