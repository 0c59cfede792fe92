#include <bub/tape/tape_session.hpp>

#include <gtest/gtest.h>

#include <bub/tape/memory_tape_store.hpp>
#include <bub/tape/tape.hpp>
#include <bub/tape/tape_checkpointer.hpp>
#include <bub/tape/tape_test_support.hpp>
#include <cubepi/checkpoint/memory_checkpointer.hpp>
#include <cubepi/core/error.hpp>

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

TEST(TapeSession, IsNotedWithTheFirstRunAndOutlivesIt) {
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

TEST(TapeSession, WhereItWasCopiedFromStays) {
    JsonObject state;
    note_session(state, {"cli:plan", "/w", "/sessions.db"});
    note_session(state, {"cli:plan", "/elsewhere", ""});
    EXPECT_EQ(session_of(state), (TapeSession{"cli:plan", "/elsewhere", "/sessions.db"}));
    note_session(state, TapeSession());
    EXPECT_EQ(session_of(state)->id, "cli:plan") << "an empty sender has no name";
}

TEST(TapeSession, SideStateOfOthersIsNone) {
    EXPECT_EQ(session_of(JsonObject()), std::nullopt);
    JsonObject odd;
    odd["session"] = 7;
    EXPECT_EQ(session_of(odd), std::nullopt);
    odd["session"] = JsonObject{{"id", nullptr}};
    EXPECT_EQ(session_of(odd), std::nullopt);
}

TEST(RemoveTape, D47_DeletesTheTapeItsSidecarsAndItsOtherFiles) {
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

TEST(RemoveTape, D47_NotWhileATurnIsInProgress) {
    const TestDirectory directory;
    const auto store = std::make_shared<FileTapeStore>(directory.options());
    const auto others = std::make_shared<FileTapeStore>(directory.options());
    TurnTransactionOptions options;
    options.turn_id = "turn-1";
    const std::shared_ptr<TurnTransaction> fork = Tape(others, "w__s").fork(std::move(options));
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

/// A store that triggers an action during its first read.
class Meanwhile final : public cubepi::Checkpointer {
public:
    Meanwhile(std::shared_ptr<cubepi::Checkpointer> inner, std::function<void()> work)
        : inner_(std::move(inner)), work_(std::move(work)) {}
    Task<std::optional<cubepi::CheckpointData>> load(std::string thread) override {
        std::optional<cubepi::CheckpointData> data = co_await inner_->load(std::move(thread));
        if (const auto work = std::exchange(work_, nullptr)) work();
        co_return data;
    }
    Task<std::int64_t> append(std::string thread, cubepi::MessageList messages,
                              cubepi::AppendOptions options) override {
        return inner_->append(std::move(thread), std::move(messages), std::move(options));
    }
    Task<void> save_extra(std::string thread, JsonObject extra) override {
        return inner_->save_extra(std::move(thread), std::move(extra));
    }

private:
    std::shared_ptr<cubepi::Checkpointer> inner_;
    std::function<void()> work_;
};

TEST(ImportThread, D20_OfTwoProcessesThatCopyOneDoes) {
    const auto source = std::make_shared<cubepi::MemoryCheckpointer>();
    cubepi::MessageList messages;
    messages.push_back(cubepi::user_message("hi", "m1"));
    run(source->append("chat", messages, cubepi::AppendOptions()));
    const TestDirectory directory;
    const auto store = std::make_shared<FileTapeStore>(directory.options());
    // The copy of the other process is made between this one's check and its write.
    const auto others = std::make_shared<MemoryTapeStore>();
    EXPECT_EQ(run(import_thread(source, "chat", others, "w__s", "sessions.db")), 1u);
    std::string lines;
    for (const TapeEntry& entry : run(others->fetch("w__s", TapeQuery())))
        lines += tape_line(entry);
    const auto slow =
        std::make_shared<Meanwhile>(source, [&] { directory.write("w__s.jsonl", lines); });
    EXPECT_EQ(run(import_thread(slow, "chat", store, "w__s", "sessions.db")), 0u);
    TapeCheckpointer memory(store);
    EXPECT_EQ(run(memory.load("w__s"))->messages.size(), 2u) << "the anchor, and one copy";
}

TEST(ImportThread, CopiesAllInOneStepOrNothing) {
    const auto source = std::make_shared<cubepi::MemoryCheckpointer>();
    cubepi::MessageList messages;
    messages.push_back(cubepi::user_message("hi", "m1"));
    messages.push_back(cubepi::user_message("again", "m2"));
    run(source->append("chat", messages, cubepi::AppendOptions()));
    run(source->save_extra("chat", JsonObject{{"todo", "x"}}));
    const TestDirectory directory;
    const auto store = std::make_shared<FileTapeStore>(directory.options());
    EXPECT_EQ(run(import_thread(source, "chat", store, "w__s", "sessions.db")), 2u);
    TapeCheckpointer memory(store);
    EXPECT_EQ(run(memory.load("w__s"))->extra.at("todo"), Json("x"));
    const std::vector<TapeEntry> entries = run(store->fetch("w__s", TapeQuery()));
    ASSERT_FALSE(entries.empty());
    EXPECT_EQ(entry_name(entries.back()), "session.imported");
    EXPECT_EQ(entries.front().kind, "anchor");
    for (std::size_t i = 0; i < entries.size(); ++i)
        EXPECT_EQ(entries[i].id, static_cast<std::int64_t>(i + 1));
}

}  // namespace
}  // namespace bub
