#include <bub/tape/fork/turn_journal.hpp>

#include <atomic>
#include <chrono>
#include <filesystem>
#include <functional>
#include <future>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <gtest/gtest.h>

#include <bub/tape/file/tape_directory.hpp>
#include <bub/tape/memory_tape_store.hpp>
#include <bub/tape/tape_test_support.hpp>
#include <bub/tape/turn_transaction.hpp>
#include <cubepi/core/error.hpp>
#include <cubepi/core/offload.hpp>
#include <cubepi/core/runtime.hpp>
#include <cubepi/core/task_scope.hpp>

namespace bub {
namespace {

/// Its first write waits until the test releases it, as if a server did not answer.
class SlowJournal final : public TurnJournal {
public:
    void write(std::string_view lines) override {
        if (writes++ == 0) {
            started.set_value();
            released.get_future().wait();
            if (fails) throw cubepi::Error(cubepi::ErrorCode::storage, "the server is gone");
        }
        EXPECT_FALSE(is_removed) << "nothing is written to a journal that was removed";
        text += lines;
    }
    void remove() noexcept override { is_removed = true; }

    std::promise<void> started;
    std::promise<void> released;
    bool fails = false;
    int writes = 0;
    std::string text;
    bool is_removed = false;
};

std::vector<TapeEntry> one(std::string text) {
    std::vector<TapeEntry> entries;
    entries.push_back(message_entry("user", std::move(text)));
    return entries;
}

class JournalBuffers : public ::testing::Test {
protected:
    std::shared_ptr<SlowJournal> slow = std::make_shared<SlowJournal>();
    detail::JournalBuffer buffer;
    detail::JournalBuffer::Open open = [this] { return slow; };
};

TEST_F(JournalBuffers, UnresponsiveServer_LetsBufferTakeText) {
    buffer.add_partial_text("one");
    std::thread writer([&] { buffer.drain(open); });
    slow->started.get_future().wait();
    EXPECT_FALSE(buffer.empty()) << "the write may fail";
    EXPECT_TRUE(buffer.is_writing());
    EXPECT_EQ(buffer.journal(), slow);
    buffer.add_partial_text("two");
    buffer.drain_or_leave(open);
    buffer.add_partial_text("three");
    slow->released.set_value();
    writer.join();
    EXPECT_EQ(slow->text, "{\"text\": \"one\"}\n{\"text\": \"twothree\"}\n")
        << "the writer has written what was left to it";
    EXPECT_TRUE(buffer.empty());
}

TEST_F(JournalBuffers, UnwrittenLines_PrecedeTheNextOnes) {
    slow->fails = true;
    const detail::JournalBuffer::Lines first = buffer.add(one("first"), false);
    std::thread writer([&] { EXPECT_THROW(buffer.drain(open), cubepi::Error); });
    slow->started.get_future().wait();
    EXPECT_FALSE(buffer.take_back(first)) << "they are being written";
    buffer.add_partial_text("second");
    slow->released.set_value();
    writer.join();
    buffer.drain(open);
    const detail::JournaledTurn turn = detail::read_journal(slow->text);
    ASSERT_EQ(turn.entries.size(), 1U);
    EXPECT_EQ(turn.partial_text, "second");
    EXPECT_LT(slow->text.find("first"), slow->text.find("second"));
    EXPECT_FALSE(buffer.take_back(first)) << "they are written";
}

TEST_F(JournalBuffers, UnwrittenLines_CanBeTakenBack) {
    slow->fails = true;
    slow->released.set_value();
    const detail::JournalBuffer::Lines first = buffer.add(one("first"), false);
    EXPECT_THROW(buffer.drain(open), cubepi::Error);
    EXPECT_TRUE(buffer.take_back(first));
    EXPECT_TRUE(buffer.empty());
    buffer.add(one("second"), false);
    buffer.drain(open);
    EXPECT_EQ(detail::read_journal(slow->text).entries.size(), 1U);
}

/// Tapes in memory with a journal.
class JournaledStore final : public MemoryTapeStore, public TurnJournalStore {
public:
    explicit JournaledStore(std::shared_ptr<TurnJournal> journal) : journal_(std::move(journal)) {}
    std::shared_ptr<TurnJournal> open_journal(const std::string& /*tape*/,
                                              const std::string& /*turn_id*/) override {
        return journal_;
    }

private:
    std::shared_ptr<TurnJournal> journal_;
};

Task<void> take_turn(cubepi::TaskScope& scope, std::shared_ptr<SlowJournal> slow) {
    TurnTransactionOptions options;
    options.turn_id = "t1";
    options.runtime = cubepi::Runtime::standard();
    TurnTransaction fork(std::make_shared<JournaledStore>(slow), "a__one", options);
    std::vector<TapeEntry> entries = one("hello");
    Task<TapePosition> append = fork.append("a__one", std::move(entries), TapeAppend());
    scope.spawn(std::move(append));
    auto wait = [slow] { slow->started.get_future().wait(); };
    co_await cubepi::offload(*options.runtime->workers, std::move(wait));
    fork.add_text("text on the loop");
    scope.spawn(fork.merge(TurnStatus::cancelled));
    fork.add_text(" continues");
    slow->released.set_value();
    co_await scope.join();
}

TEST(TurnJournals, B9_UnresponsiveServer_DoesNotStopTheLoop) {
    const auto slow = std::make_shared<SlowJournal>();
    run(cubepi::with_task_scope(
        [slow](cubepi::TaskScope& scope) { return take_turn(scope, slow); }));
    EXPECT_TRUE(slow->is_removed) << "after the write that was in progress";
    EXPECT_NE(slow->text.find("hello"), std::string::npos);
}

using detail::Descriptor;
using detail::TurnJournalFile;

/// A journal whose file is locked, as by a process that looks whether it is that of a dead one.
struct LockedJournal {
    explicit LockedJournal(std::chrono::milliseconds lock_timeout)
        : journal(turns, path, "t1", cubepi::Runtime::standard()->clock, lock_timeout,
                  std::make_shared<std::atomic<bool>>(true)) {
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

TEST(TurnJournalFiles, B9_FileRemovedBeforeLocking_IsCreatedAgain) {
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

TEST(TurnJournalFiles, B9_FileThatStaysLocked_IsNotWritten) {
    LockedJournal locked(std::chrono::milliseconds(1));
    EXPECT_THROW(locked.journal.write("one\n"), cubepi::CheckpointerLockTimeoutError);
    EXPECT_THROW(locked.journal.write("two\n"), cubepi::CheckpointerLockTimeoutError);
    EXPECT_EQ(detail::read_file(locked.path), "");
    locked.held = Descriptor();
    locked.journal.write("three\n");
    const std::string text = detail::read_file(locked.path).value_or("");
    EXPECT_TRUE(text.ends_with("\nthree\n")) << text;
}

/// Leaves this process a few free descriptors.
class FewDescriptors {
public:
    explicit FewDescriptors(rlim_t count) {
        (void)::getrlimit(RLIMIT_NOFILE, &before_);
        const int lowest = ::dup(0);
        ::close(lowest);
        const rlimit few{static_cast<rlim_t>(lowest) + count, before_.rlim_max};
        (void)::setrlimit(RLIMIT_NOFILE, &few);
    }
    ~FewDescriptors() { (void)::setrlimit(RLIMIT_NOFILE, &before_); }
    FewDescriptors(const FewDescriptors&) = delete;
    FewDescriptors& operator=(const FewDescriptors&) = delete;

private:
    rlimit before_ = {};
};

TEST(TurnJournalFiles, B9_D90_FewDescriptors_NoTurnIsOverlooked) {
    const TestDirectory place;
    FileTapeOptions options;
    options.directory = place.path();
    detail::TapeDirectory directory(options);
    directory.open_journal("w__s", "t1")->write(tape_line(one("hello").front()));
    std::shared_ptr<TurnJournal> next;
    int failures = 0;
    for (rlim_t free = 0; !next && free < 100; ++free) {
        const FewDescriptors few(free);
        try {
            next = directory.open_journal("w__s", "t2");
        } catch (const cubepi::CheckpointerError& error) {
            EXPECT_EQ(error.code(), cubepi::ErrorCode::storage) << error.what();
            ++failures;
        }
    }
    ASSERT_TRUE(next);
    EXPECT_GE(failures, 2) << "the lock and the directory of journals need a descriptor";
    std::vector<std::string> texts;
    directory.visit("w__s", TapeQuery(), [&texts](const TapeEntry& entry) {
        if (entry.kind == entry_kind::message)
            texts.push_back(std::string(entry.payload.at("content").as_string()));
        return true;
    });
    EXPECT_EQ(texts, std::vector<std::string>{"hello"});
}

TEST(TurnJournalFiles, D90_FewDescriptors_TapeInUseIsNotRemoved) {
    const TestDirectory place;
    FileTapeOptions options;
    options.directory = place.path();
    detail::TapeDirectory directory(options);
    const std::shared_ptr<TurnJournal> turn = directory.open_journal("w__s", "t1");
    turn->write(tape_line(one("hello").front()));
    for (rlim_t free = 0; free < 20; ++free) {
        const FewDescriptors few(free);
        EXPECT_THROW(directory.remove("w__s"), cubepi::CheckpointerError) << free;
    }
    EXPECT_THROW(directory.remove("w__s"), cubepi::CheckpointerLockTimeoutError);
}

}  // namespace
}  // namespace bub
