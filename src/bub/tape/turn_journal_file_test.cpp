#include <bub/tape/file/tape_directory.hpp>

#include <chrono>
#include <filesystem>
#include <string>
#include <thread>

#include <fcntl.h>
#include <unistd.h>

#include <gtest/gtest.h>

#include <bub/tape/tape_test_support.hpp>
#include <cubepi/core/error.hpp>
#include <cubepi/core/runtime.hpp>

namespace bub {
namespace {

using detail::Descriptor;
using detail::TurnJournalFile;

/// A journal whose file is locked, as by a process that looks whether it is that of a dead one.
struct LockedJournal {
    explicit LockedJournal(std::chrono::milliseconds lock_timeout)
        : journal(turns, path, "t1", cubepi::Runtime::standard()->clock, lock_timeout) {
        detail::make_private_directory(turns);
        held = Descriptor::open(path, O_RDWR | O_CREAT);
        EXPECT_TRUE(detail::try_lock(held));
    }

    TestDirectory directory;
    std::filesystem::path turns = directory.path() / "w__s.jsonl.turns";
    std::filesystem::path path = turns / "t1.journal";
    Descriptor held;
    TurnJournalFile journal;
};

TEST(TurnJournalFiles, B9_AFileThatAnotherProcessRemovedBeforeItWasLockedIsCreatedAgain) {
    LockedJournal locked(std::chrono::seconds(60));
    std::thread writer([&] { locked.journal.write("line\n"); });
    ::unlink(locked.path.c_str());
    ::rmdir(locked.turns.c_str());
    locked.held = Descriptor();
    writer.join();
    const std::string text = detail::read_file(locked.path).value_or("");
    EXPECT_NE(text.find(R"("turn": "t1")"), std::string::npos) << text;
    EXPECT_TRUE(text.ends_with("\nline\n")) << text;
}

TEST(TurnJournalFiles, B9_NothingIsWrittenToAFileThatStaysLocked) {
    LockedJournal locked(std::chrono::milliseconds(1));
    EXPECT_THROW(locked.journal.write("one\n"), cubepi::CheckpointerLockTimeoutError);
    EXPECT_THROW(locked.journal.write("two\n"), cubepi::CheckpointerLockTimeoutError);
    EXPECT_EQ(detail::read_file(locked.path), "");
    locked.held = Descriptor();
    locked.journal.write("three\n");
    const std::string text = detail::read_file(locked.path).value_or("");
    EXPECT_TRUE(text.ends_with("\nthree\n")) << text;
}

}  // namespace
}  // namespace bub
