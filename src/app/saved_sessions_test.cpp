#include "saved_sessions.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <latch>
#include <string>
#include <thread>
#include <vector>

#include <bub/tape/tape_checkpointer.hpp>
#include <bub/tape/tape_session.hpp>
#include <bub/tape/tape_test_support.hpp>
#include <cubepi/checkpoint/sqlite_checkpointer.hpp>
#include <cubepi/core/message.hpp>
#include <cubepi/core/run.hpp>
#include <cubepi/core/scoped_test_directory.hpp>

namespace cubepi::app {
namespace {

/// A session in the database of an older version, and directories in which it is continued.
class OldSession : public ::testing::Test {
protected:
    OldSession() {
        MessageList messages;
        messages.push_back(user_message("hi", "m1"));
        SQLiteCheckpointer store(database().string());
        run(store.append("notes", std::move(messages), AppendOptions()));
    }

    std::filesystem::path database() const { return root_ / "sessions.db"; }
    SavedSessions in_directory(const std::string& name) const {
        std::filesystem::create_directories(root_ / name);
        return SavedSessions(root_ / "tapes", database(), root_ / name);
    }
    /// How many messages the tape of that directory has, besides its anchor.
    static std::int64_t messages(SavedSessions& sessions) {
        bub::TapeCheckpointer memory(sessions.tapes());
        const auto data = run(memory.load(sessions.tape_of("notes")));
        if (!data) return 0;
        return std::count_if(data->messages.begin(), data->messages.end(),
                             [](const Message& message) { return message.id() == "m1"; });
    }

    ScopedTestDirectory temporary_;
    const std::filesystem::path& root_ = temporary_.path();
};

TEST_F(OldSession, D20_IsCopiedOnceIfManyDirectoriesContinueItAtTheSameTime) {
    constexpr int directories = 4;
    std::vector<SavedSessions> all;
    for (int i = 0; i < directories; ++i)
        all.push_back(in_directory("directory" + std::to_string(i)));
    std::vector<BroughtToTape> brought(directories);
    std::latch start(directories);
    {
        std::vector<std::jthread> threads;
        for (std::size_t i = 0; i < all.size(); ++i) {
            threads.emplace_back([&, i] {
                start.arrive_and_wait();
                brought[i] = run(all[i].bring_to_tape("notes"));
            });
        }
    }
    std::int64_t copies = 0;
    for (SavedSessions& one : all) copies += messages(one);
    EXPECT_EQ(copies, 1);
    EXPECT_EQ(std::count_if(brought.begin(), brought.end(),
                            [](const BroughtToTape& one) { return one.copied == 1; }),
              1);
    for (const BroughtToTape& one : brought) {
        const bool told = one.note.find("In this directory it starts empty") != std::string::npos;
        EXPECT_EQ(told, one.copied == 0) << one.note;
    }
}

TEST_F(OldSession, D75_ASessionWithAnUnclosedTurnIsDeletedOnAFullDisk) {
    {
        SavedSessions saved = in_directory("here");
        (void)run(saved.bring_to_tape("notes"));
        const std::filesystem::path turns =
            root_ / "tapes" / (saved.tape_of("notes") + ".jsonl.turns");
        std::filesystem::create_directory(turns);
        bub::TapeEntry entry = bub::message_entry("user", "unclosed");
        std::ofstream(turns / "t1.journal") << "{\"turn\": \"t1\"}\n" << bub::tape_line(entry);
    }
    std::filesystem::remove(database());
    const bub::FullDisk full;
    SavedSessions saved = in_directory("here");
    const std::vector<SavedSession> listed = run(saved.on_tapes_here());
    ASSERT_EQ(listed.size(), 1U);
    EXPECT_EQ(run(saved.tapes()->position(listed[0].tape)).messages, 1);
    const RemovedSession removed = run(saved.remove("notes"));
    EXPECT_EQ(removed.parts.size(), 1U);
    EXPECT_FALSE(removed.not_read);
    EXPECT_TRUE(run(saved.on_tapes_here()).empty());
}

TEST_F(OldSession, D20_IsNotCopiedAgainWhenAProcessDiedBehindTheCopy) {
    SavedSessions first = in_directory("first");
    EXPECT_EQ(run(first.bring_to_tape("notes")).copied, 1u);
    // It was killed before it recorded the source of the copy.
    const auto forget = [](JsonObject& state) {
        state.at("session").as_object().erase("copied_from");
        return Json();
    };
    (void)run(first.tapes()->edit_state(first.tape_of("notes"), forget));
    SavedSessions second = in_directory("second");
    const BroughtToTape brought = run(second.bring_to_tape("notes"));
    EXPECT_EQ(brought.copied, 0u);
    EXPECT_NE(brought.note.find((root_ / "first").string()), std::string::npos) << brought.note;
    EXPECT_EQ(messages(second), 0);
    EXPECT_EQ(run(first.bring_to_tape("notes")).copied, 0u);
    const JsonObject state = run(first.tapes()->read_state(first.tape_of("notes")));
    EXPECT_EQ(bub::session_of(state)->copied_from, database().string()) << "it is recorded now";
    EXPECT_EQ(messages(first), 1);
}

TEST(SessionName, IsMadeFromTheFirstWordsOfThePrompt) {
    EXPECT_EQ(session_name_from("What does this project do?"), "what-does-this-project-do");
    EXPECT_EQ(session_name_from("Don't  panic:\n\tfix src/a.cpp, then run all of the tests"),
              "dont-panic-fix-src-a-cpp");
    EXPECT_EQ(session_name_from("这个项目是做什么的？"), "这个项目是做什么的");
    EXPECT_EQ(session_name_from("Größe ändern"), "größe-ändern");
    EXPECT_EQ(session_name_from("$(touch x) \x1b[31m`y`"), "touch-x-31m-y");
    EXPECT_EQ(session_name_from("../../etc/passwd"), "etc-passwd");
    EXPECT_EQ(session_name_from("\xff\xfe \u202E ?!"), "chat");
    EXPECT_EQ(session_name_from(""), "chat");
    EXPECT_LE(session_name_from(std::string(500, 'x')).size(), 40u);
}

TEST_F(OldSession, ANewNameIsThatOfNoOtherSession) {
    SavedSessions here = in_directory("here");
    EXPECT_EQ(run(here.create("fix it")), "fix-it");
    EXPECT_EQ(run(here.create("Fix it!")), "fix-it-2");
    EXPECT_EQ(run(in_directory("other").create("fix it")), "fix-it") << "by directory";
    EXPECT_EQ(run(here.create("notes")), "notes-2") << "the database has one";
}

TEST_F(OldSession, ProcessesThatStartTogetherGetDifferentNames) {
    constexpr std::size_t chats = 6;
    std::vector<std::string> names(chats);
    std::latch start(chats);
    {
        std::vector<std::jthread> threads;
        for (std::size_t i = 0; i < chats; ++i) {
            threads.emplace_back([&, i] {
                SavedSessions sessions = in_directory("here");
                start.arrive_and_wait();
                names[i] = run(sessions.create("fix it"));
            });
        }
    }
    std::sort(names.begin(), names.end());
    EXPECT_EQ(std::unique(names.begin(), names.end()), names.end());
}

TEST_F(OldSession, APlaceThatCannotBeWrittenIsNamed) {
    EXPECT_EQ(in_directory("here").obstacle(), "");
    EXPECT_FALSE(std::filesystem::exists(root_ / "tapes"));
    const SavedSessions in_a_file(database() / "tapes", database(), root_);
    EXPECT_NE(in_a_file.obstacle().find(database().string()), std::string::npos);
}

TEST_F(OldSession, ANewSessionLeavesNoOtherFiles) {
    SavedSessions here = in_directory("here");
    EXPECT_EQ(run(here.bring_to_tape("another")).copied, 0u);
    EXPECT_FALSE(std::filesystem::exists(root_ / "tapes"));
}

}  // namespace
}  // namespace cubepi::app
