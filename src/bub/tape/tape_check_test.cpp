#include <bub/tape/tape_check.hpp>

#include <gtest/gtest.h>

#include <filesystem>
#include <map>
#include <memory>
#include <string>

#include <bub/tape/file_tape_store.hpp>
#include <bub/tape/tape.hpp>
#include <bub/tape/tape_checkpointer.hpp>
#include <bub/tape/tape_test_support.hpp>
#include <bub/tape/turn_transaction.hpp>
#include <cubepi/checkpoint/store_check_test.hpp>
#include <cubepi/core/error.hpp>

// Checks of directories of tapes.

namespace bub {

namespace {

using cubepi::damage_in;
using cubepi::notes_in;
using cubepi::numbers_in;
using cubepi::repairs_in;
using cubepi::StoreReport;

class TapeFileCheck : public testing::Test {
protected:
    std::shared_ptr<FileTapeStore> store() const {
        return std::make_shared<FileTapeStore>(directory.options());
    }
    StoreReport check() const { return check_tape_files(directory.path()); }
    /// Each file with its bytes.
    std::map<std::string, std::string> files() const {
        std::map<std::string, std::string> found;
        for (const auto& file : std::filesystem::recursive_directory_iterator(directory.path())) {
            const std::string name =
                std::filesystem::relative(file.path(), directory.path()).string();
            found[name] = file.is_regular_file() ? directory.read(name) : "";
        }
        return found;
    }
    void write_three() const {
        for (const char* text : {"one", "two", "three"}) say(tape_in(directory), text);
    }

    const TestDirectory directory;
};

TEST_F(TapeFileCheck, D209_SoundTapes_AreReportedWithTheirNumbers) {
    {
        TapeCheckpointer threads(store());
        cubepi::write_sound_threads(threads);
        write_three();
    }
    const std::map<std::string, std::string> before = files();
    const StoreReport report = check();
    EXPECT_EQ(damage_in(report) + repairs_in(report) + notes_in(report), "");
    EXPECT_EQ(numbers_in(report).find("tapes 4; entries "), 0U) << numbers_in(report);
    EXPECT_NE(numbers_in(report).find("messages 10; pending requests 1; claimed runs 1; "),
              std::string::npos)
        << numbers_in(report);
    EXPECT_EQ(files(), before) << "a check only reads";
}

TEST_F(TapeFileCheck, D209_UnmatchedCallsAndResults_AreRepairs) {
    TapeCheckpointer threads(store());
    cubepi::write_unmatched_threads(threads);
    const StoreReport report = check();
    EXPECT_TRUE(report.is_sound()) << damage_in(report);
    EXPECT_NE(repairs_in(report).find("tape 'cut': 1 call has no result, and no run"),
              std::string::npos)
        << repairs_in(report);
}

TEST_F(TapeFileCheck, D209_TornTail_IsARepair) {
    write_three();
    directory.add("w__s.jsonl", R"({"id": 4, "kind": "mess)");
    EXPECT_EQ(repairs_in(check()), "tape 'w__s', line 4: the line is not an entry\n");
    say(tape_in(directory), "four");
    const StoreReport report = check();
    EXPECT_EQ(notes_in(report), "tape 'w__s', line 4: the line is not an entry\n");
    EXPECT_EQ(damage_in(report) + repairs_in(report), "");
}

TEST_F(TapeFileCheck, D209_MissingAndRepeatedEntries_AreDamage) {
    write_three();
    const std::string whole = directory.read("w__s.jsonl");
    const std::size_t second = whole.find('\n') + 1;
    const std::size_t third = whole.find('\n', second) + 1;
    directory.write("w__s.jsonl", whole.substr(0, second) + whole.substr(third));
    EXPECT_EQ(damage_in(check()), "tape 'w__s', line 2: entry 2 is missing\n");
    directory.write("w__s.jsonl", whole.substr(0, second) + "not an entry\n" + whole.substr(third));
    EXPECT_EQ(damage_in(check()), "tape 'w__s', line 3: entry 2 is missing\n");
    directory.write("w__s.jsonl", whole + whole.substr(third));
    EXPECT_NE(damage_in(check()).find("line 4: the id 3 is not greater than the one before it, 3"),
              std::string::npos)
        << damage_in(check());
}

TEST_F(TapeFileCheck, D209_UnreadableMessage_IsDamage) {
    {
        TapeCheckpointer threads(store());
        cubepi::write_sound_threads(threads);
    }
    std::string text = directory.read("sound.jsonl");
    const std::string role = R"("messages": [{"role": "user")";
    ASSERT_NE(text.find(role), std::string::npos) << text;
    text.replace(text.find(role), role.size(), R"("messages": [{"role": 7)");
    directory.write("sound.jsonl", text);
    EXPECT_NE(damage_in(check()).find("1 of its messages cannot be read"), std::string::npos)
        << damage_in(check());
}

TEST_F(TapeFileCheck, D209_DamagedSideState_IsReported) {
    write_three();
    directory.write("w__s.jsonl.state", "{\"claims\": [");
    EXPECT_NE(damage_in(check()).find("the side state of tape 'w__s' cannot be read"),
              std::string::npos);
    directory.write("w__s.jsonl.state",
                    R"({"claims": [7, {"run_id": "r", "description": "pid 7 on elsewhere",)"
                    R"( "lease_until": 5}], "pending": [3, {"run_id": "r"}], "open_runs": 1})");
    const StoreReport report = check();
    EXPECT_NE(notes_in(report).find("run 'r' belongs to pid 7 on elsewhere"), std::string::npos)
        << notes_in(report);
}

TEST_F(TapeFileCheck, D209_RequestOutsideTheIndex_IsDamage) {
    TapeCheckpointer threads(store());
    cubepi::write_sound_threads(threads);
    EXPECT_EQ(run(threads.list_requests(cubepi::QuestionQuery())).entries.size(), 1U);
    std::string mark;
    for (const auto& [name, bytes] : files()) {
        if (name.starts_with("requests/") && name.ends_with("-asks")) mark = name;
    }
    ASSERT_TRUE(std::filesystem::remove(directory.path() / mark));
    EXPECT_NE(damage_in(check()).find("tape 'asks': a pending request is not in the index"),
              std::string::npos)
        << damage_in(check());
    std::filesystem::remove_all(directory.path() / "requests");
    EXPECT_EQ(run(threads.list_requests(cubepi::QuestionQuery())).entries.size(), 1U);
    EXPECT_EQ(damage_in(check()), "") << "as the remedy says";
    directory.write(mark.replace(mark.size() - 4, 4, "gone"), "");
    EXPECT_NE(repairs_in(check()).find("tape 'gone': the index of requests names one"),
              std::string::npos)
        << repairs_in(check());
}

TEST_F(TapeFileCheck, D209_UnclosedTurn_IsARepair) {
    write_three();
    {
        const Tape tape = tape_in(directory);
        const auto fork = tape.fork(turn("t1"));
        run(tape.in(fork).append(message_entry("user", "unclosed")));
        run(fork->flush());
    }
    const StoreReport report = check();
    EXPECT_EQ(repairs_in(report),
              "tape 'w__s': the process of turn 't1' has ended without closing it\n");
    EXPECT_NE(numbers_in(report).find("open turns 1; "), std::string::npos);
    EXPECT_TRUE(directory.has("w__s.jsonl.turns")) << "a check only reads";
}

TEST_F(TapeFileCheck, D209_TurnInProgress_IsNotDisturbed) {
    const Tape tape = tape_in(directory);
    const auto fork = tape.fork(turn("t1"));
    run(tape.in(fork).append(message_entry("user", "in progress")));
    run(fork->flush());
    const StoreReport report = check();
    EXPECT_EQ(repairs_in(report) + damage_in(report), "");
    EXPECT_NE(numbers_in(report).find("open turns 1; "), std::string::npos);
    run(fork->merge());
    EXPECT_EQ(run(store()->position("w__s")).last_id, 2);
}

TEST_F(TapeFileCheck, D209_IndexOfAnotherFile_IsReported) {
    // Long enough for an index on disk.
    for (int i = 0; i < 3; ++i) say(tape_in(directory), std::string(40'000, 'x'));
    (void)run(tape_in(directory).info());
    ASSERT_TRUE(directory.has("w__s.jsonl.index"));
    EXPECT_EQ(damage_in(check()) + repairs_in(check()), "");
    std::string index = directory.read("w__s.jsonl.index");
    index[60] = static_cast<char>(index[60] + 1);
    directory.write("w__s.jsonl.index", index);
    EXPECT_NE(repairs_in(check()).find("its index is of another file or version"),
              std::string::npos);
}

TEST_F(TapeFileCheck, D209_InterruptedAppend_IsARepair) {
    write_three();
    const std::string before = directory.read("w__s.jsonl");
    directory.write("w__s.jsonl.commit", "{\"offset\": " + std::to_string(before.size()) +
                                             ", \"size\": 3, \"turn\": \"\", \"replaces\": "
                                             "false}\nabc");
    directory.add("w__s.jsonl", "ab");
    EXPECT_EQ(repairs_in(check()), "tape 'w__s': an append of several entries was interrupted\n");
}

TEST_F(TapeFileCheck, D209_HostileNamesAndLinks_AreHarmless) {
    directory.write("evil\x1b[2J.jsonl", "\xff\n{}\n[1]\n");
    std::filesystem::create_symlink("/etc/passwd", directory.path() / "link.jsonl");
    std::filesystem::create_directory(directory.path() / "dir.jsonl");
    std::filesystem::create_symlink("/etc", directory.path() / "evil.jsonl.turns");
    const StoreReport report = check();
    EXPECT_EQ(numbers_in(report).find("tapes 1; "), 0U) << numbers_in(report);
    EXPECT_THROW(check_tape_files(directory.path() / "missing"), cubepi::Error);
}

}  // namespace

}  // namespace bub
