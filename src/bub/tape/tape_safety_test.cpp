// A full disk, links in the directory, and the modes of files: what a tape directory must withstand from outside.

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <functional>
#include <string>
#include <vector>

#include <bub/tape/file/descriptor.hpp>
#include <bub/tape/file/tape_directory.hpp>
#include <bub/tape/file_tape_store.hpp>
#include <bub/tape/tape.hpp>
#include <bub/tape/tape_test_support.hpp>
#include <cubepi/core/error.hpp>

namespace bub {
namespace {

namespace fs = std::filesystem;

std::size_t messages(const Tape& tape) {
    return static_cast<std::size_t>(run(tape.store()->position(tape.name())).messages);
}

std::string texts(const Tape& tape) {
    std::string found;
    for (const TapeEntry& entry : run(tape.query(TapeQuery()))) {
        if (entry.kind == "message")
            found += std::string(entry.payload.at("content").as_string()) + " ";
    }
    return found;
}

/// A directory as a killed process has left it: with a turn that is not closed.
void leave_open_turn(const TestDirectory& directory) {
    const TestDirectory living;
    const Tape tape = tape_in(living);
    say(tape, "before");
    const auto fork = tape.fork(turn("t1"));
    run(tape.in(fork).append(message_entry("user", "unclosed")));
    run(fork->flush());
    fs::copy(living.path(), directory.path(), fs::copy_options::recursive);
}

unsigned mode_of(const fs::path& path) {
    struct stat info = {};
    EXPECT_EQ(::lstat(path.c_str(), &info), 0) << path;
    return info.st_mode & 0777U;
}

void expect_refused_link(const std::function<void()>& use, const char* about) {
    try {
        use();
        ADD_FAILURE() << about << ": the link was followed";
    } catch (const cubepi::Error& error) {
        EXPECT_NE(std::string(error.what()).find("a symbolic link"), std::string::npos)
            << about << ": " << error.what();
        EXPECT_NE(std::string(error.what()).find("move it away"), std::string::npos)
            << about << ": " << error.what();
    }
}

}  // namespace

TEST(FullDisk, UnclosableTurn_IsToleratedByReaders) {
    const TestDirectory directory;
    leave_open_turn(directory);
    {
        const FullDisk full;
        const Tape tape = tape_in(directory);
        const auto store = std::make_shared<FileTapeStore>(directory.options());
        EXPECT_EQ(run(store->newest_tapes()).size(), 1U);
        EXPECT_EQ(messages(tape), 1U);
        EXPECT_EQ(texts(tape), "before ");
        EXPECT_EQ(run(store->info("w__s")).entries, 1);
        EXPECT_FALSE(run(store->find_event("w__s", "none")).has_value());
        EXPECT_TRUE(directory.has("w__s.jsonl.turns/t1.journal"));
        try {
            say(tape, "more");
            ADD_FAILURE() << "the disk is full";
        } catch (const cubepi::Error& error) {
            EXPECT_EQ(error.code(), cubepi::ErrorCode::storage_full) << error.what();
        }
        try {
            run(tape.fork(turn("t2"))->open());
            ADD_FAILURE() << "a turn would not know the one before it";
        } catch (const cubepi::Error& error) {
            EXPECT_EQ(error.code(), cubepi::ErrorCode::storage_full) << error.what();
        }
    }
    EXPECT_EQ(texts(tape_in(directory)), "before unclosed ") << "closed when there is space";
}

// The same store, as a chat has it, closes the turn when it is read again.
TEST(FullDisk, SpaceFreedAgain_LetsStoreCloseTheTurn) {
    const TestDirectory directory;
    leave_open_turn(directory);
    const Tape tape = tape_in(directory);
    {
        const FullDisk full;
        EXPECT_EQ(texts(tape), "before ");
    }
    EXPECT_EQ(texts(tape), "before unclosed ");
}

TEST(FullDisk, HalfCommit_ShowsTheTapeBeforeIt) {
    const TestDirectory directory;
    say(tape_in(directory), "before");
    const std::string before = directory.read("w__s.jsonl");
    const std::string block = before + before;
    // Killed when a part of the block was on the tape.
    directory.write("w__s.jsonl.commit", R"({"offset": )" + std::to_string(before.size()) +
                                             R"(, "size": )" + std::to_string(block.size()) +
                                             R"(, "turn": "", "replaces": false})" + "\n" + block);
    directory.add("w__s.jsonl", block.substr(0, 20));
    {
        const FullDisk full;
        EXPECT_EQ(texts(tape_in(directory)), "before ");
        EXPECT_TRUE(directory.has("w__s.jsonl.commit"));
    }
    EXPECT_EQ(texts(tape_in(directory)), "before before before ");
    EXPECT_FALSE(directory.has("w__s.jsonl.commit"));
}

TEST(FullDisk, Tape_CanBeDeletedWithoutWriting) {
    const TestDirectory directory;
    leave_open_turn(directory);
    directory.write("w__s.jsonl.commit",
                    R"({"offset": 0, "size": 9, "turn": "", "replaces": false})"
                    "\n012345678");
    {
        const FullDisk full;
        const auto store = std::make_shared<FileTapeStore>(directory.options());
        run(store->remove_tape("w__s"));
    }
    EXPECT_EQ(directory.count("."), 0U);
}

// A long tape has more index records than are stored in memory before they are written.
TEST(FullDisk, LongTapeWithoutIndexFile_CanBeSearched) {
    const TestDirectory directory;
    std::string text;
    for (std::int64_t i = 1; i <= 6000; ++i) {
        TapeEntry entry = event_entry("e" + std::to_string(i), {});
        entry.id = i;
        text += tape_line(entry);
    }
    directory.write("w__s.jsonl", text);
    const FullDisk full;
    const auto store = std::make_shared<FileTapeStore>(directory.options());
    EXPECT_TRUE(run(store->find_event("w__s", "e1")).has_value());
    EXPECT_EQ(run(store->info("w__s")).entries, 6000);
}

TEST(TapeFiles, Links_AreRefused) {
    const TestDirectory outside;
    const std::string secret = "secret\n";
    outside.write("secret", secret);
    for (const char* suffix :
         {".jsonl", ".jsonl.lock", ".jsonl.commit", ".jsonl.state", ".jsonl.open"}) {
        const TestDirectory directory;
        if (std::string_view(suffix) != ".jsonl") say(tape_in(directory), "hi");
        fs::remove(directory.path() / ("w__s" + std::string(suffix)));
        fs::create_symlink(outside.path() / "secret",
                           directory.path() / ("w__s" + std::string(suffix)));
        const auto store = std::make_shared<FileTapeStore>(directory.options());
        const auto use = [&] {
            say(Tape(store, "w__s"), "more");
            (void)run(store->read_state("w__s"));
            (void)run(store->open_tape("w__s"));
        };
        expect_refused_link(use, suffix);
        EXPECT_EQ(outside.read("secret"), secret) << suffix;
    }
    const TestDirectory directory;
    fs::create_symlink(outside.path() / "secret", directory.path() / "w__s.jsonl");
    EXPECT_TRUE(run(tape_in(directory).store()->all_tapes()).empty()) << "a link is not a tape";
}

TEST(TapeFiles, LinkedDirectories_AreRefused) {
    const TestDirectory outside;
    const TestDirectory directory;
    fs::create_directory_symlink(outside.path(), directory.path() / "media");
    fs::create_directory_symlink(outside.path(), directory.path() / "w__s.jsonl.turns");
    const auto store = std::make_shared<FileTapeStore>(directory.options());
    const std::string image(1000, 'x');
    expect_refused_link([&] { (void)run(store->put_media(image)); }, "media");
    const Tape tape(store, "w__s");
    const auto fork = tape.fork(turn("t1"));
    expect_refused_link([&] { run(tape.in(fork).append(message_entry("user", "hi"))); }, "turns");
    EXPECT_EQ(outside.count("."), 0U);
}

TEST(TapeFiles, LinkedTapeDirectory_IsTheUsersChoice) {
    const TestDirectory elsewhere;
    const TestDirectory directory;
    const fs::path link = directory.path() / "tapes";
    fs::create_directory_symlink(elsewhere.path(), link);
    FileTapeOptions options = directory.options();
    options.directory = link;
    say(Tape(std::make_shared<FileTapeStore>(options), "w__s"), "hi");
    EXPECT_TRUE(elsewhere.has("w__s.jsonl"));
}

TEST(TapeFiles, TapeFiles_AreUnreadableByOtherUsers) {
    const TestDirectory directory;
    FileTapeOptions options = directory.options();
    options.directory = directory.path() / "home" / "tapes";
    const auto store = std::make_shared<FileTapeStore>(options);
    const mode_t before = ::umask(0);
    say(Tape(store, "w__s"), "hi");
    (void)run(store->put_media(std::string(1000, 'x')));
    (void)run(store->open_tape("w__s"));
    ::umask(before);
    for (const fs::directory_entry& file : fs::recursive_directory_iterator(directory.path()))
        EXPECT_EQ(mode_of(file.path()), file.is_directory() ? 0700U : 0600U) << file.path();
}

}  // namespace bub
