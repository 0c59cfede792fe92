#include <bub/tape/file_tape_store.hpp>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <pwd.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <functional>
#include <limits>
#include <memory>
#include <stop_token>
#include <thread>

#include <bub/tape/file/descriptor.hpp>
#include <bub/tape/file/tape_directory.hpp>
#include <bub/tape/tape.hpp>
#include <bub/tape/tape_test_support.hpp>
#include <cubepi/core/cancellation.hpp>
#include <cubepi/core/error.hpp>
#include <cubepi/core/outcome.hpp>
#include <cubepi/core/task_scope.hpp>
#include <cubepi/testing/memory_log.hpp>

namespace bub {
namespace {

std::string line(std::int64_t id, const std::string& text) {
    TapeEntry entry = message_entry("user", text);
    entry.id = id;
    return tape_line(entry);
}

std::string texts(const Tape& tape) {
    std::string found;
    for (const TapeEntry& entry : run(tape.query(TapeQuery()))) {
        const Json* text = entry.payload.if_contains("content");
        found += std::to_string(entry.id) + ":";
        found += text ? std::string_view(text->as_string()) : entry_name(entry);
        found += ' ';
    }
    return found;
}

/// Creates the state after a crash that followed the commit file and `written` bytes of it on the tape.
void crash_in_commit(const TestDirectory& directory, const std::string& block, std::size_t written,
                     const std::string& turn = {}) {
    const std::string before = directory.read("w__s.jsonl");
    directory.write("w__s.jsonl.commit", "{\"offset\": " + std::to_string(before.size()) +
                                             ", \"size\": " + std::to_string(block.size()) +
                                             ", \"turn\": \"" + turn +
                                             "\", \"replaces\": false}\n" + block);
    directory.write("w__s.jsonl", before + block.substr(0, written));
}

}  // namespace

TEST(FileTapeStore, B9_TornLastLine_HarmsNothing) {
    for (std::size_t cut = 1; cut <= line(2, "two").size(); cut += cut < 3 ? 1 : 4) {
        const TestDirectory directory;
        const std::string whole = line(1, "one") + line(2, "two");
        directory.write("w__s.jsonl", whole.substr(0, whole.size() - cut));
        const Tape tape = tape_in(directory);
        const bool stored = cut == 1;  // only its line feed is missing
        EXPECT_EQ(texts(tape), stored ? "1:one 2:two " : "1:one ") << cut;
        say(tape, "next");
        const std::string wanted = stored ? "1:one 2:two 3:next " : "1:one 2:next ";
        EXPECT_EQ(texts(tape), wanted) << cut;
        EXPECT_EQ(texts(tape_in(directory)), wanted) << cut;
        EXPECT_EQ(run(tape.info()).entries, stored ? 3 : 2) << cut;
    }
}

TEST(FileTapeStore, D208_NewerReadableFiles_AreUsed) {
    const TestDirectory directory;
    directory.write("version.json", R"({"version": 9, "readable_from": 1})");
    say(tape_in(directory), "shared");
    EXPECT_EQ(texts(tape_in(directory)), "1:shared ");
    EXPECT_EQ(directory.read("version.json"), R"({"version": 9, "readable_from": 1})");
}

TEST(FileTapeStore, D208_NewerFiles_AreRefusedWithTheRemedy) {
    for (const char* text :
         {R"({"version": 9, "readable_from": 8})", R"({"version": 9})", "[]", "{", "",
          R"({"version": 9, "readable_from": -1})", R"({"version": 1e99, "readable_from": 1})"}) {
        const TestDirectory directory;
        directory.write("w__s.jsonl", line(1, "one"));
        directory.write("version.json", text);
        const auto store = std::make_shared<FileTapeStore>(directory.options());
        for (const bool lists : {false, true}) {
            try {
                if (lists) {
                    (void)run(store->all_tapes());
                } else {
                    say(Tape(store, "w__s"), "next");
                }
                ADD_FAILURE() << text;
            } catch (const cubepi::CheckpointerError& error) {
                EXPECT_EQ(error.code(), cubepi::ErrorCode::schema_mismatch) << error.what();
                EXPECT_NE(std::string(error.what()).find("program"), std::string::npos);
            }
        }
        EXPECT_EQ(directory.read("w__s.jsonl"), line(1, "one"));
    }
}

TEST(FileTapeStore, B29_Recovery_IsLogged) {
    const TestDirectory directory;
    const cubepi::testing::MemoryLog log;
    FileTapeOptions options = directory.options();
    options.log = log.logger();
    directory.write("w__s.jsonl", line(1, "one") + "{\"torn");
    const Tape tape(std::make_shared<FileTapeStore>(std::move(options)), "w__s");
    say(tape, "next");
    const std::string bytes = std::to_string(line(1, "one").size() + 6);
    EXPECT_EQ(log.text(), "<4>tape.torn_line tape=w__s bytes=" + bytes + "\n");
}

TEST(FileTapeStore, B9_EntriesOfOneAppend_AreAllOrNone) {
    const std::string block = line(2, "two") + line(3, "three");
    for (std::size_t written = 0; written <= block.size(); written += 5) {
        const TestDirectory directory;
        directory.write("w__s.jsonl", line(1, "one"));
        directory.write("w__s.jsonl.lock", "");
        crash_in_commit(directory, block, written);
        EXPECT_EQ(texts(tape_in(directory)), "1:one 2:two 3:three ") << written;
        EXPECT_FALSE(directory.has("w__s.jsonl.commit"));
        EXPECT_EQ(directory.read("w__s.jsonl"), line(1, "one") + block);
    }
}

TEST(FileTapeStore, B9_CompletedCommit_IsNotRepeated) {
    const TestDirectory directory;
    directory.write("w__s.jsonl", line(1, "one"));
    const std::string block = line(2, "two") + line(3, "three");
    crash_in_commit(directory, block, block.size());
    // A program that does not know commit files has appended.
    directory.add("w__s.jsonl", line(4, "four"));
    const Tape tape = tape_in(directory);
    say(tape, "five");
    EXPECT_EQ(texts(tape), "1:one 2:two 3:three 4:four 5:five ");
}

TEST(FileTapeStore, B9_Commit_FollowsEntriesOfAnotherWriter) {
    const TestDirectory directory;
    directory.write("w__s.jsonl", line(1, "one"));
    crash_in_commit(directory, line(2, "two") + line(3, "three"), 0);
    directory.add("w__s.jsonl", line(2, "of Bub"));
    EXPECT_EQ(texts(tape_in(directory)), "1:one 2:of Bub 3:two 4:three ");
}

TEST(FileTapeStore, B9_InvalidCommitFile_IsRemoved) {
    const TestDirectory directory;
    directory.write("w__s.jsonl", line(1, "one"));
    directory.write("w__s.jsonl.commit", "{\"offset\": 1}");
    EXPECT_EQ(texts(tape_in(directory)), "1:one ");
    EXPECT_FALSE(directory.has("w__s.jsonl.commit"));
}

TEST(FileTapeStore, MissingHome_UsesDirectoryOfTheUsersAccount) {
    const char* set = std::getenv("HOME");
    const std::string before = set ? set : "";
    ::setenv("HOME", "", 1);
    const std::filesystem::path account = home_directory();
    ::setenv("HOME", "/somewhere", 1);
    EXPECT_EQ(home_directory(), "/somewhere");
    ::setenv("HOME", before.c_str(), 1);
    const struct passwd* user = ::getpwuid(::getuid());
    EXPECT_EQ(account, user ? user->pw_dir : "/");
}

TEST(FileTapeStore, B9_UnwritableRestart_ChangesNothing) {
    const TestDirectory directory;
    directory.write("w__s.jsonl", line(1, "one"));
    std::filesystem::create_directory(directory.path() / "w__s.jsonl.new");
    EXPECT_THROW(run(tape_in(directory).restart()), cubepi::Error);
    EXPECT_FALSE(directory.has("w__s.jsonl.commit")) << "or the tape is emptied later";
    std::filesystem::remove(directory.path() / "w__s.jsonl.new");
    EXPECT_EQ(texts(tape_in(directory)), "1:one ");
}

TEST(FileTapeStore, B9_ExhaustedIds_PreventStoring) {
    const TestDirectory directory;
    directory.write("w__s.jsonl",
                    line(std::numeric_limits<std::int64_t>::max() - 1, "last but one"));
    const Tape tape = tape_in(directory);
    say(tape, "last");
    const std::string whole = directory.read("w__s.jsonl");
    EXPECT_THROW(say(tape, "too many"), cubepi::Error);
    EXPECT_EQ(directory.read("w__s.jsonl"), whole);
}

TEST(FileTapeStore, D47_RemovedTape_LeavesThoseOfOtherSessions) {
    const TestDirectory directory;
    for (const char* name : {"w.jsonl", "w__s.jsonl", "w__s__side.jsonl", "w__t.jsonl"})
        directory.write(name, line(1, name));
    FileTapeStore store(directory.options());
    run(store.remove_tape("w"));
    EXPECT_EQ(run(store.all_tapes()), (std::vector<std::string>{"w__s", "w__s__side", "w__t"}));
    run(store.remove_tape("w__s"));
    EXPECT_EQ(run(store.all_tapes()), std::vector<std::string>{"w__t"});
}

TEST(FileTapeStore, B9_EntriesForcedToDisk_ReadTheSame) {
    const TestDirectory directory;
    FileTapeOptions options = directory.options();
    options.sync = TapeSync::append;
    const Tape tape(std::make_shared<FileTapeStore>(options), "w__s");
    say(tape, "one");
    run(tape.restart());
    say(tape, "two");
    EXPECT_EQ(texts(tape_in(directory)), "1:session/start 2:handoff 3:two ");
}

TEST(FileTapeStore, B9_Writers_TakeTurns) {
    const TestDirectory directory;
    constexpr int each = 40;
    std::vector<std::thread> threads;
    for (int writer = 0; writer < 3; ++writer) {
        threads.emplace_back([&directory, writer] {
            // A separate store, as in another process.
            const Tape tape = tape_in(directory);
            for (int i = 0; i < each; ++i) {
                std::vector<TapeEntry> two;
                two.push_back(message_entry("user", std::to_string(writer)));
                two.push_back(message_entry("assistant", std::to_string(writer)));
                run(tape.append(std::move(two)));
            }
        });
    }
    for (std::thread& thread : threads) thread.join();
    const std::vector<TapeEntry> entries = run(tape_in(directory).query(TapeQuery()));
    ASSERT_EQ(entries.size(), 3u * 2u * each);
    for (std::size_t i = 0; i < entries.size(); ++i) {
        EXPECT_EQ(entries[i].id, static_cast<std::int64_t>(i + 1));
        if (i % 2 == 1) {
            EXPECT_EQ(entries[i].payload.at("content"), entries[i - 1].payload.at("content"));
        }
    }
}

TEST(FileTapeStore, LockHeldTooLong_IsAnError) {
    const TestDirectory directory;
    say(tape_in(directory), "one");
    const detail::Descriptor held =
        detail::Descriptor::open(directory.path() / "w__s.jsonl.lock", O_RDWR);
    ASSERT_TRUE(detail::try_lock(held));
    FileTapeOptions options = directory.options();
    options.lock_timeout = std::chrono::milliseconds(1);
    const cubepi::testing::MemoryLog log;
    options.log = log.logger();
    const Tape tape(std::make_shared<FileTapeStore>(std::move(options)), "w__s");
    EXPECT_THROW(say(tape, "two"), cubepi::CheckpointerLockTimeoutError);
    EXPECT_EQ(log.text(), "<4>store.busy store=tape tape=w__s waited_ms=1\n");
}

TEST(FileTapeStore, NamesThatAreNotFileNames_AreRefused) {
    const TestDirectory directory;
    const auto store = std::make_shared<FileTapeStore>(directory.options());
    for (const char* name : {"", ".hidden", "../up", "a/b"}) {
        EXPECT_THROW(run(store->fetch(name, TapeQuery())), cubepi::Error) << name;
        EXPECT_THROW(run(store->reset(name)), cubepi::Error) << name;
    }
}

/// Returns the message of the call's exception; empty if it does not throw.
std::string refusal_of(const std::function<void()>& call) {
    try {
        call();
    } catch (const cubepi::Error& error) {
        EXPECT_EQ(error.code(), cubepi::ErrorCode::storage);
        return error.what();
    }
    return {};
}

TEST(FileTapeStore, IrregularFile_IsRefusedByPathWithoutWaiting) {
    for (const char* name : {"w__s.jsonl", "w__s.jsonl.lock", "w__s.jsonl.commit",
                             "w__s.jsonl.index", "w__s.jsonl.state"}) {
        for (const bool directory_instead : {false, true}) {
            const TestDirectory directory;
            const Tape tape = tape_in(directory);
            if (std::string_view(name) != "w__s.jsonl") say(tape, "one");
            const std::filesystem::path path = directory.path() / name;
            std::filesystem::remove(path);
            if (directory_instead) {
                std::filesystem::create_directory(path);
            } else {
                ASSERT_EQ(mkfifo(path.c_str(), 0600), 0);
            }
            const std::string told = refusal_of([&] {
                (void)texts(tape);
                (void)run(tape.info());
                (void)run(FileTapeStore(directory.options()).read_state("w__s"));
            });
            EXPECT_NE(told.find("cannot open " + path.string()), std::string::npos) << told;
            EXPECT_NE(told.find(directory_instead ? "it is a directory" : "it is a pipe"),
                      std::string::npos)
                << told;
        }
    }
}

TEST(FileTapeStore, PipeNamedLikeATape_IsNotListed) {
    const TestDirectory directory;
    say(tape_in(directory), "one");
    ASSERT_EQ(mkfifo((directory.path() / "w__pipe.jsonl").c_str(), 0600), 0);
    const auto store = std::make_shared<FileTapeStore>(directory.options());
    EXPECT_EQ(run(store->list_tapes()), std::vector<std::string>{"w__s"});
    EXPECT_EQ(run(store->newest_tapes()).size(), 1u);
    EXPECT_NE(refusal_of([&] { say(Tape(store, "w__pipe"), "two"); }), "");
}

TEST(FileTapeStore, Reading_CreatesNoFiles) {
    const TestDirectory directory;
    const auto store = std::make_shared<FileTapeStore>(directory.path() / "none");
    EXPECT_TRUE(run(store->fetch("w__s", TapeQuery())).empty());
    EXPECT_EQ(run(store->info("w__s")).entries, 0);
    EXPECT_TRUE(run(store->list_tapes()).empty());
    run(store->reset("w__s"));
    EXPECT_FALSE(directory.has("none"));
}

TEST(FileTapeStore, Tapes_AreListedNewestFirst) {
    const TestDirectory directory;
    const auto store = std::make_shared<FileTapeStore>(directory.options());
    say(Tape(store, "w__a"), "x");
    say(Tape(store, "w__b"), "y");
    say(Tape(store, "w__b__sidecar__spill"), "y");
    timespec times[2] = {{1'000'000'000, 0}, {1'000'000'000, 0}};
    ASSERT_EQ(utimensat(AT_FDCWD, (directory.path() / "w__a.jsonl").c_str(), times, 0), 0);
    const std::vector<ListedTape> files = run(store->newest_tapes());
    ASSERT_EQ(files.size(), 2u);
    EXPECT_EQ(files[0].name, "w__b");
    EXPECT_EQ(run(store->all_tapes()).size(), 3u);
}

TEST(LineReaders, LineReaders_AgreeAtEveryBlockBoundary) {
    const TestDirectory directory;
    std::string text;
    std::vector<std::string> wanted;
    std::size_t size = 1;
    for (int i = 0; i < 300; ++i) {
        size = size * 7 % 4001;
        wanted.push_back(std::string(i % 50 == 49 ? size * 200 : size, 'x'));
        text += wanted.back() + "\n";
    }
    wanted.push_back("last");
    text += "last";
    directory.write("lines", text);
    const detail::Descriptor file = detail::Descriptor::open(directory.path() / "lines", O_RDONLY);
    std::vector<std::string> forward;
    std::vector<std::string> backward;
    std::vector<std::uint64_t> offsets;
    detail::FileLine line;
    for (detail::LineReader lines(file, 0, text.size()); lines.next(line);) {
        forward.emplace_back(line.text);
        offsets.push_back(line.offset);
        EXPECT_EQ(line.end, line.offset + line.text.size() + (line.ended ? 1 : 0));
    }
    EXPECT_EQ(forward, wanted);
    for (detail::BackwardLineReader lines(file, 0, text.size()); lines.next(line);) {
        backward.emplace_back(line.text);
        EXPECT_EQ(line.offset, offsets[wanted.size() - backward.size()]);
        EXPECT_EQ(line.end, line.offset + line.text.size() + (line.ended ? 1 : 0));
    }
    std::reverse(backward.begin(), backward.end());
    EXPECT_EQ(backward, wanted);
}

/// A tape that is longer than the part read to find its end, with one anchor at its start and one in the middle.
class LongTape : public ::testing::Test {
protected:
    LongTape() {
        std::string text = tape_line(numbered(anchor_entry("start")));
        for (int i = 0; i < 3'000; ++i) {
            if (i == 1'000) text += tape_line(numbered(anchor_entry("middle")));
            text += tape_line(numbered(message_entry("user", std::to_string(i) + filler_)));
            if (i == 2'000) {
                JsonObject data;
                data["run_id"] = "r1";
                text += tape_line(numbered(event_entry("cubepi.run", std::move(data))));
            }
        }
        directory_.write("w__s.jsonl", text);
        size_ = text.size();
    }
    TapeEntry numbered(TapeEntry entry) {
        entry.id = ++id_;
        return entry;
    }
    /// Returns the number of bytes of the tape that the index has to read to be up to date.
    std::uint64_t not_indexed() const {
        const auto tape = detail::Descriptor::open(directory_.path() / "w__s.jsonl", O_RDONLY);
        const auto known =
            detail::TapeIndexFile::stored(directory_.path() / "w__s.jsonl.index", tape);
        return tape.size() - (known ? known->mark.covered : 0);
    }

    const std::string filler_ = std::string(1'000, '.');
    TestDirectory directory_;
    std::int64_t id_ = 0;
    std::size_t size_ = 0;
};

TEST_F(LongTape, LongTape_IsIndexedOnceAndReadIncrementally) {
    ASSERT_GT(size_, std::size_t{3} << 20U);
    EXPECT_EQ(not_indexed(), size_);
    EXPECT_EQ(run(tape_in(directory_).info()).entries, 3'003);
    EXPECT_EQ(not_indexed(), 0u);
    const Tape tape = tape_in(directory_);
    say(tape, "more");
    EXPECT_LT(not_indexed(), 1'000u);
    const TapeInfo info = run(tape.info());
    EXPECT_EQ(info.entries, 3'004);
    EXPECT_EQ(info.anchors, 2);
    EXPECT_EQ(info.last_anchor, "middle");
    EXPECT_EQ(info.entries_since_last_anchor, 2'002);
    const std::vector<TapeAnchor> anchors = run(tape.anchors(1));
    ASSERT_EQ(anchors.size(), 1u);
    EXPECT_EQ(anchors[0].name, "middle");
    EXPECT_TRUE(run(tape_in(directory_).store()->position("w__s")).messages == 3'001);
}

TEST_F(LongTape, AnchorsFarFromTheEnd_AreFound) {
    const Tape tape = tape_in(directory_);
    EXPECT_EQ(run(tape.query(TapeQuery().last_anchor().limit(1))).at(0).id, 1'003);
    EXPECT_EQ(run(tape.query(TapeQuery().after_anchor("start").limit(1))).at(0).id, 2);
    EXPECT_THROW(run(tape.query(TapeQuery().after_anchor("none"))), cubepi::Error);
    FileTapeStore store(directory_.options());
    EXPECT_EQ(run(store.find_run("w__s", "r1"))->id, 2'004);
    EXPECT_FALSE(run(store.find_run("w__s", "r2")));
    EXPECT_EQ(run(store.find_event("w__s", "cubepi.run"))->id, 2'004);
}

/// The newest entries are found in their lines before the index has them.
TEST_F(LongTape, ItemsAfterTheIndex_AreFound) {
    const Tape tape = tape_in(directory_);
    EXPECT_EQ(run(tape.info()).anchors, 2);
    std::string text = directory_.read("w__s.jsonl");
    text += R"({"id": 9001, "kind": "\u0065vent", "payload": {"name": "a\/b"}, "meta": {}})";
    text += "\n";
    text += R"({"id": 9002, "kind": "event", "payload": {"name": "\u0061bc"}, "meta": {}})";
    text += "\n" + line(9'003, "an anchor, an event, abc and r1") +
            R"({"id": 9004, "kind": "anchor", "payload": {"name": "n\u00e9w"}, "meta": {}})";
    const std::string index = directory_.read("w__s.jsonl.index");
    std::ofstream(directory_.path() / "w__s.jsonl", std::ios::app) << text.substr(size_);
    EXPECT_GT(not_indexed(), 0u);
    FileTapeStore store(directory_.options());
    EXPECT_EQ(run(store.find_event("w__s", "a/b"))->id, 9'001);
    EXPECT_EQ(run(store.find_event("w__s", "abc"))->id, 9'002);
    EXPECT_FALSE(run(store.find_event("w__s", "b")));
    EXPECT_EQ(run(store.find_run("w__s", "r1"))->id, 2'004);
    std::vector<std::string> names;
    for (const TapeEntry& entry : run(store.anchors("w__s", 9)))
        names.emplace_back(entry_name(entry));
    EXPECT_EQ(names, (std::vector<std::string>{"start", "middle", "n\u00e9w"}));
    EXPECT_TRUE(run(tape.query(TapeQuery().last_anchor())).empty());
    EXPECT_EQ(run(tape.query(TapeQuery().after_anchor("middle").newest_first().limit(1))).at(0).id,
              9'004);
    EXPECT_EQ(directory_.read("w__s.jsonl.index"), index);
}

TEST_F(LongTape, Append_NeedsNoIndex) {
    const Tape tape = tape_in(directory_);
    EXPECT_EQ(run(tape.append(message_entry("user", "x"))).last_id, id_ + 1);
    EXPECT_FALSE(directory_.has("w__s.jsonl.index"));
    TapeQuery tail = TapeQuery().newest_first().limit(2);
    EXPECT_EQ(run(tape.query(std::move(tail))).size(), 2u);
    EXPECT_FALSE(directory_.has("w__s.jsonl.index"));
}

TEST_F(LongTape, IndexOfAnotherFile_IsIgnored) {
    EXPECT_EQ(run(tape_in(directory_).info()).entries, 3'003);
    directory_.write("w__s.jsonl", line(1, "one"));
    EXPECT_EQ(run(tape_in(directory_).info()).entries, 1);
    std::string broken = directory_.read("w__s.jsonl.index");
    broken[100] = static_cast<char>(broken[100] ^ 1);
    directory_.write("w__s.jsonl.index", broken);
    EXPECT_EQ(run(tape_in(directory_).info()).entries, 1);
    directory_.write("w__s.jsonl.index", "short");
    EXPECT_EQ(run(tape_in(directory_).info()).entries, 1);
}

TEST(FileTapeStore, CancelledReadOrEdit_LeavesNoCallBehind) {
    const TestDirectory directory;
    const Tape tape = tape_in(directory);
    for (int i = 0; i < 50; ++i) say(tape, std::to_string(i));
    FileTapeOptions options = directory.options();
    options.workers = std::make_shared<cubepi::WorkerPool>(1);
    FileTapeStore store(options);
    for (const bool edits : {false, true}) {
        std::stop_source stop;
        std::atomic<bool> is_inside = false;
        std::atomic<int> calls = 0;
        const auto called = [&] {
            is_inside = true;
            ++calls;
            // The caller leaves while the worker is here.
            stop.request_stop();
            for (int i = 0; i < 1'000; ++i) std::this_thread::yield();
            is_inside = false;
        };
        const auto reading = [](FileTapeStore& from, std::function<void()> call,
                                bool edit) -> Task<> {
            if (edit) {
                std::function<Json(JsonObject&)> change = [call](JsonObject&) {
                    call();
                    return Json();
                };
                (void)co_await from.edit_state("w__s", std::move(change));
            } else {
                std::function<bool(const TapeEntry&)> visit = [call](const TapeEntry&) {
                    call();
                    return true;
                };
                co_await from.visit("w__s", TapeQuery(), std::move(visit));
            }
        };
        const auto cancelled = [&]() -> Task<> {
            Task<> task = reading(store, called, edits);
            Task<> stoppable = cubepi::cancel_on(stop.get_token(), std::move(task));
            (void)co_await cubepi::outcome_of(std::move(stoppable));
        };
        run(cancelled());
        EXPECT_FALSE(is_inside) << edits;
        const int before = calls;
        EXPECT_GE(before, 1) << edits;
        while (options.workers->stats().running > 0) std::this_thread::yield();
        EXPECT_EQ(calls, before) << edits;
    }
}

TEST(FileTapeStore, B9_TapeWhoseFirstTurnWasCut_IsListed) {
    const TestDirectory directory;
    {
        const auto dead = std::make_shared<FileTapeStore>(directory.options());
        TurnTransactionOptions options;
        options.turn_id = "turn-1";
        const auto fork = Tape(dead, "w__s").fork(std::move(options));
        run(Tape(dead, "w__s").in(fork).append(message_entry("user", "hi")));
    }
    ASSERT_FALSE(directory.has("w__s.jsonl"));
    const auto store = std::make_shared<FileTapeStore>(directory.options());
    EXPECT_EQ(run(store->list_tapes()), std::vector<std::string>{"w__s"});
    ASSERT_EQ(run(store->newest_tapes()).size(), 1u);
    EXPECT_EQ(run(store->position("w__s")).messages, 1);
    EXPECT_EQ(run(store->newest_tapes()).front().name, "w__s");
}

}  // namespace bub
