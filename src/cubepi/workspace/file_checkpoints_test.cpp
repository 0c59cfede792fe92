#include <algorithm>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cubepi/agent/run_account.hpp>
#include <cubepi/core/error.hpp>
#include <cubepi/workspace/file_checkpoints.hpp>
#include <cubepi/workspace/files/checkpoint_journal.hpp>
#include <cubepi/workspace/local_workspace.hpp>
#include <cubepi/workspace/memory_tool.hpp>
#include <cubepi/workspace/standard_tools.hpp>
#include <cubepi/workspace/workspace_test.hpp>

namespace cubepi {

namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using Outcome = RestoredFile::Outcome;

namespace fs = std::filesystem;

class FileCheckpointsTest : public ::testing::Test {
protected:
    /// The same files in another process: no memory is shared.
    std::shared_ptr<FileCheckpoints> open() const {
        return std::make_shared<FileCheckpoints>(options);
    }
    /// Calls the tool in a run with this id.
    static Task<AgentToolResult> call(AgentTool tool, JsonObject arguments, std::string prompt) {
        RunInfo info;
        info.run_id = SharedString(prompt);
        auto account = std::make_shared<RunAccount>(std::move(info));
        ToolContext context(
            "call_1", tool.name, {}, Runtime::standard(), [](Json) -> Task<void> { co_return; }, {},
            std::move(account));
        MaybeTask<AgentToolResult> outcome = tool.execute(std::move(arguments), context);
        if (!outcome.is_pending()) co_return std::move(outcome).value();
        AgentToolResult result = co_await std::move(outcome).task();
        co_return result;
    }
    void write(const std::string& path, const std::string& content, const std::string& prompt) {
        FileToolOptions tools;
        tools.checkpoints = checkpoints;
        run(call(write_tool(workspace, tools), {{"path", path}, {"content", content}}, prompt));
    }
    std::vector<RestoredFile> undo(const std::string& prompt) {
        return checkpoints->undo(*workspace, {prompt});
    }
    std::size_t copies() const {
        std::error_code none;
        return static_cast<std::size_t>(
            std::distance(fs::directory_iterator(options.directory / "objects", none), {}));
    }
    static Outcome outcome_of(const std::vector<RestoredFile>& files) {
        EXPECT_EQ(files.size(), 1u);
        return files.empty() ? Outcome::failed : files.front().outcome;
    }

    ScopedTestDirectory directory;
    ScopedTestDirectory state;
    std::shared_ptr<Workspace> workspace = std::make_shared<LocalWorkspace>(directory.path());
    FileCheckpointOptions options = FileCheckpointOptions().in(state.path() / "session");
    std::shared_ptr<FileCheckpoints> checkpoints = open();
};

TEST_F(FileCheckpointsTest, D158_Undo_RestoresContentCreationAndMode) {
    directory.put("old.sh", "one\n");
    fs::permissions(directory / "old.sh", fs::perms(0750));
    write("old.sh", "two\n", "p1");
    write("old.sh", "three\n", "p1");
    write("new/deep.txt", "x\n", "p1");
    const std::vector<RestoredFile> files = undo("p1");
    ASSERT_EQ(files.size(), 2u);
    EXPECT_EQ(files[0].outcome, Outcome::restored);
    EXPECT_EQ(files[1].outcome, Outcome::removed);
    EXPECT_EQ(directory.get("old.sh"), "one\n");
    EXPECT_EQ(fs::status(directory / "old.sh").permissions(), fs::perms(0750));
    EXPECT_FALSE(fs::exists(directory / "new/deep.txt"));
    EXPECT_THAT(undo("p1"), IsEmpty());
}

TEST_F(FileCheckpointsTest, D158_Prompts_AreTakenBackOneByOne) {
    write("a", "1", "p1");
    write("a", "2", "p2");
    write("b", "2", "p2");
    std::vector<PromptChanges> prompts = checkpoints->prompts(*workspace);
    ASSERT_EQ(prompts.size(), 2u);
    EXPECT_THAT(prompts[1].files, ElementsAre("a", "b"));
    EXPECT_EQ(undo("p2").size(), 2u);
    EXPECT_EQ(directory.get("a"), "1");
    prompts = checkpoints->prompts(*workspace);
    EXPECT_THAT(prompts[1].files, IsEmpty());
    EXPECT_EQ(prompts[1].taken_back, 2u);
    EXPECT_EQ(outcome_of(undo("p1")), Outcome::removed);
    EXPECT_FALSE(fs::exists(directory / "a"));
}

TEST_F(FileCheckpointsTest, D158_SeveralPrompts_AreTakenBackTogether) {
    directory.put("a", "0");
    write("a", "1", "p1");
    write("a", "2", "p2");
    write("b", "2", "p2");
    EXPECT_EQ(checkpoints->undo(*workspace, {"p1", "p2"}).size(), 2u);
    EXPECT_EQ(directory.get("a"), "0");
    EXPECT_FALSE(fs::exists(directory / "b"));
}

TEST_F(FileCheckpointsTest, D158_ChangedFile_IsLeftAlone) {
    directory.put("a", "0");
    write("a", "1", "p1");
    write("b", "1", "p1");
    directory.put("a", "by the user");
    const std::vector<RestoredFile> files = undo("p1");
    ASSERT_EQ(files.size(), 2u);
    EXPECT_EQ(files[0].outcome, Outcome::conflict);
    EXPECT_EQ(files[0].reason, "it was changed since");
    EXPECT_EQ(files[1].outcome, Outcome::removed);
    EXPECT_EQ(directory.get("a"), "by the user");
}

TEST_F(FileCheckpointsTest, D158_ChangeInBetween_IsNotTakenBack) {
    directory.put("a", "0");
    write("a", "1", "p1");
    directory.put("a", "by the user");
    write("a", "2", "p1");
    const std::vector<RestoredFile> files = undo("p1");
    EXPECT_EQ(outcome_of(files), Outcome::restored);
    EXPECT_TRUE(files.front().is_partial);
    EXPECT_EQ(directory.get("a"), "by the user");
}

TEST_F(FileCheckpointsTest, D158_LaterPromptOnTheFile_IsAConflict) {
    write("a", "1", "p1");
    write("a", "2", "p2");
    EXPECT_EQ(outcome_of(undo("p1")), Outcome::conflict);
    EXPECT_EQ(directory.get("a"), "2");
}

TEST_F(FileCheckpointsTest, D158_LinkInPlaceOfFile_IsNotFollowed) {
    directory.put("a", "0");
    directory.put("target", "1");
    write("a", "1", "p1");
    fs::remove(directory / "a");
    fs::create_symlink("target", directory / "a");
    EXPECT_EQ(outcome_of(undo("p1")), Outcome::failed);
    EXPECT_TRUE(fs::is_symlink(directory / "a"));
    EXPECT_EQ(directory.get("target"), "1");
}

TEST_F(FileCheckpointsTest, D158_LinkInPlaceOfDirectory_IsNotFollowed) {
    directory.put("d/a", "0");
    write("d/a", "1", "p1");
    fs::rename(directory / "d", directory / "other");
    fs::create_symlink("other", directory / "d");
    EXPECT_EQ(outcome_of(undo("p1")), Outcome::failed);
    EXPECT_EQ(directory.get("other/a"), "1");
    fs::remove(directory / "d");
    fs::create_symlink(state.path(), directory / "d");
    EXPECT_EQ(outcome_of(undo("p1")), Outcome::failed);
}

TEST_F(FileCheckpointsTest, D158_DirectoryInPlaceOfFile_IsLeft) {
    write("a", "1", "p1");
    fs::remove(directory / "a");
    directory.put("a/inside", "x");
    EXPECT_EQ(outcome_of(undo("p1")), Outcome::failed);
    EXPECT_EQ(directory.get("a/inside"), "x");
}

TEST_F(FileCheckpointsTest, D158_DeletedFile_IsLeftDeleted) {
    directory.put("a", "0");
    write("a", "1", "p1");
    fs::remove(directory / "a");
    const std::vector<RestoredFile> files = undo("p1");
    EXPECT_EQ(outcome_of(files), Outcome::conflict);
    EXPECT_EQ(files.front().reason, "it does not exist any more");
    EXPECT_FALSE(fs::exists(directory / "a"));
}

TEST_F(FileCheckpointsTest, D158_WriteThroughLink_RestoresTheTarget) {
    directory.put("real", "0");
    fs::create_symlink("real", directory / "link");
    write("link", "1", "p1");
    EXPECT_THAT(checkpoints->prompts(*workspace).at(0).files, ElementsAre("real"));
    EXPECT_EQ(outcome_of(undo("p1")), Outcome::restored);
    EXPECT_EQ(directory.get("real"), "0");
    EXPECT_TRUE(fs::is_symlink(directory / "link"));
}

TEST_F(FileCheckpointsTest, D158_RecreatedFile_GetsItsModeBack) {
    directory.put("run.sh", "0");
    fs::permissions(directory / "run.sh", fs::perms(0755));
    write("run.sh", "1", "p1");
    fs::remove(directory / "run.sh");
    write("run.sh", "2", "p1");
    // Something has removed it between the two changes.
    EXPECT_EQ(outcome_of(undo("p1")), Outcome::removed);
    write("run.sh", "3", "p2");
    fs::permissions(directory / "run.sh", fs::perms(0700));
    EXPECT_EQ(outcome_of(undo("p2")), Outcome::removed);
    EXPECT_EQ(outcome_of(checkpoints->redo(*workspace)), Outcome::created);
    EXPECT_EQ(fs::status(directory / "run.sh").permissions(), fs::perms(0700));
}

TEST_F(FileCheckpointsTest, D158_ModeSetByTheUser_Stays) {
    directory.put("a", "0");
    fs::permissions(directory / "a", fs::perms(0644));
    write("a", "1", "p1");
    fs::permissions(directory / "a", fs::perms(0755));
    EXPECT_EQ(outcome_of(undo("p1")), Outcome::restored);
    EXPECT_EQ(fs::status(directory / "a").permissions(), fs::perms(0755));
}

TEST_F(FileCheckpointsTest, D158_Redo_MakesTheChangesAgain) {
    directory.put("a", "0");
    write("a", "1", "p1");
    write("b", "1", "p2");
    undo("p2");
    undo("p1");
    EXPECT_EQ(outcome_of(checkpoints->redo(*workspace)), Outcome::restored);
    EXPECT_EQ(directory.get("a"), "1");
    EXPECT_EQ(outcome_of(checkpoints->redo(*workspace)), Outcome::created);
    EXPECT_EQ(directory.get("b"), "1");
    EXPECT_THAT(checkpoints->redo(*workspace), IsEmpty());
    EXPECT_EQ(outcome_of(undo("p2")), Outcome::removed);
    EXPECT_EQ(outcome_of(undo("p1")), Outcome::restored);
    EXPECT_EQ(directory.get("a"), "0");
}

TEST_F(FileCheckpointsTest, D158_Redo_EndsWithANewChange) {
    write("a", "1", "p1");
    undo("p1");
    write("b", "1", "p2");
    EXPECT_THAT(checkpoints->redo(*workspace), IsEmpty());
}

TEST_F(FileCheckpointsTest, D158_OtherProcess_SeesTheChanges) {
    directory.put("a", "0");
    write("a", "1", "p1");
    const std::shared_ptr<FileCheckpoints> other = open();
    EXPECT_EQ(outcome_of(other->undo(*workspace, {"p1"})), Outcome::restored);
    EXPECT_EQ(directory.get("a"), "0");
    EXPECT_THAT(undo("p1"), IsEmpty());
    write("a", "2", "p2");
    EXPECT_EQ(outcome_of(other->undo(*workspace, {"p2"})), Outcome::restored);
}

TEST_F(FileCheckpointsTest, D158_Copies_ArePrivateAndStoredOnce) {
    directory.put("a", "same\n");
    directory.put("b", "same\n");
    write("a", "1", "p1");
    write("b", "1", "p1");
    EXPECT_EQ(copies(), 1u);
    for (const auto& entry : fs::recursive_directory_iterator(options.directory)) {
        const fs::perms mode = entry.status().permissions();
        EXPECT_EQ(mode, entry.is_directory() ? fs::perms(0700) : fs::perms(0600)) << entry.path();
    }
    EXPECT_EQ(fs::status(options.directory).permissions(), fs::perms(0700));
}

TEST_F(FileCheckpointsTest, D158_TooManyChanges_DropTheOldest) {
    options.max_changes = 10;
    checkpoints = open();
    for (int i = 0; i < 25; ++i)
        write("f" + std::to_string(i), std::to_string(i), "p" + std::to_string(i));
    EXPECT_GE(checkpoints->dropped(), 15u);
    EXPECT_THAT(undo("p0"), IsEmpty());
    EXPECT_EQ(outcome_of(undo("p24")), Outcome::removed);
    EXPECT_EQ(checkpoints->dropped(), open()->dropped());
}

TEST_F(FileCheckpointsTest, D158_TooManyBytes_DropTheOldest) {
    options.max_total_bytes = 3000;
    checkpoints = open();
    for (int i = 0; i < 5; ++i) {
        const std::string name = "f" + std::to_string(i);
        directory.put(name.c_str(), std::string(1000, static_cast<char>('a' + i)));
        write(name, "new", "p" + std::to_string(i));
    }
    EXPECT_EQ(copies(), 3u);
    EXPECT_EQ(checkpoints->dropped(), 2u);
    EXPECT_THAT(undo("p1"), IsEmpty());
    EXPECT_EQ(outcome_of(undo("p4")), Outcome::restored);
    EXPECT_EQ(directory.get("f4"), std::string(1000, 'e'));
}

TEST_F(FileCheckpointsTest, D158_LargeFile_IsCopiedInPieces) {
    const std::string large(17 * 1024 * 1024, 'x');
    directory.put("large", large);
    write("large", "small", "p1");
    EXPECT_THAT(checkpoints->take_problems(), IsEmpty());
    EXPECT_EQ(outcome_of(undo("p1")), Outcome::restored);
    EXPECT_TRUE(directory.get("large") == large);
}

TEST_F(FileCheckpointsTest, D158_HugeFile_IsChangedWithoutACopy) {
    options.max_file_bytes = 1000;
    checkpoints = open();
    directory.put("huge", std::string(1001, 'x'));
    write("huge", "small", "p1");
    EXPECT_THAT(checkpoints->take_problems(),
                ElementsAre(HasSubstr("huge cannot be undone: it has 1001 bytes")));
    const std::vector<RestoredFile> files = undo("p1");
    EXPECT_EQ(outcome_of(files), Outcome::failed);
    EXPECT_EQ(files.front().reason, "there is no copy of it");
    EXPECT_EQ(directory.get("huge"), "small");
}

TEST_F(FileCheckpointsTest, D158_BinaryContent_IsRestored) {
    const std::string binary("\0\xff\xfe\r\n\0x", 7);
    directory.put("bin", binary);
    write("bin", "text", "p1");
    EXPECT_EQ(outcome_of(undo("p1")), Outcome::restored);
    EXPECT_EQ(directory.get("bin"), binary);
}

TEST_F(FileCheckpointsTest, D158_NameThatIsNotUtf8_IsRestored) {
    const std::string name = "d\xff\xfe";
    fs::create_directory(directory.path() / name);
    directory.put((name + "/f").c_str(), "0");
    fs::create_symlink(name, directory / "link");
    write("link/f", "1", "p1");
    checkpoints = open();
    EXPECT_THAT(checkpoints->prompts(*workspace).at(0).files, ElementsAre(name + "/f"));
    EXPECT_EQ(outcome_of(undo("p1")), Outcome::restored);
    EXPECT_EQ(directory.get((name + "/f").c_str()), "0");
}

TEST_F(FileCheckpointsTest, D158_UnusableDirectory_LosesUndoNotTheChange) {
    directory.put("a", "0");
    fs::create_directory(options.directory);
    fs::permissions(options.directory, fs::perms(0755));
    write("a", "1", "p1");
    EXPECT_EQ(directory.get("a"), "1");
    EXPECT_THAT(checkpoints->take_problems(), ElementsAre(HasSubstr("accessible to other users")));
    fs::remove(options.directory);
    state.put("session", "a file");
    write("a", "2", "p1");
    EXPECT_EQ(directory.get("a"), "2");
    EXPECT_THAT(checkpoints->take_problems(), ElementsAre(HasSubstr("a cannot be undone")));
}

TEST_F(FileCheckpointsTest, D158_FullDisk_LosesUndoNotTheChange) {
    directory.put("a", std::string(100'000, 'x'));
    write("other", "1", "p0");
    const rlimit before = [] {
        rlimit limit{};
        getrlimit(RLIMIT_FSIZE, &limit);
        return limit;
    }();
    // A file of this process cannot grow above the limit, which stands for a full disk.
    rlimit small = before;
    small.rlim_cur = 50'000;
    const auto old_handler = std::signal(SIGXFSZ, SIG_IGN);
    setrlimit(RLIMIT_FSIZE, &small);
    write("a", "1", "p1");
    setrlimit(RLIMIT_FSIZE, &before);
    std::signal(SIGXFSZ, old_handler);
    EXPECT_EQ(directory.get("a"), "1");
    EXPECT_THAT(checkpoints->take_problems(), ElementsAre(HasSubstr("a cannot be undone")));
    EXPECT_EQ(outcome_of(undo("p1")), Outcome::failed);
    EXPECT_EQ(outcome_of(undo("p0")), Outcome::removed);
    EXPECT_EQ(copies(), 1u);  // of "other", for redo
}

TEST_F(FileCheckpointsTest, D158_DamagedCopy_IsNotRestored) {
    directory.put("a", "right");
    write("a", "1", "p1");
    for (const auto& entry : fs::directory_iterator(options.directory / "objects"))
        std::ofstream(entry.path()) << "wrong";
    const std::vector<RestoredFile> files = undo("p1");
    EXPECT_EQ(outcome_of(files), Outcome::failed);
    EXPECT_THAT(files.front().reason, HasSubstr("is damaged"));
    EXPECT_EQ(directory.get("a"), "1");
}

TEST_F(FileCheckpointsTest, D158_TornLine_IsRemoved) {
    write("a", "1", "p1");
    std::ofstream(options.directory / "journal", std::ios::app) << R"({"change":99,"kind":"ch)";
    checkpoints = open();
    write("b", "1", "p2");
    checkpoints = open();
    EXPECT_EQ(checkpoints->prompts(*workspace).size(), 2u);
    EXPECT_EQ(outcome_of(undo("p2")), Outcome::removed);
    EXPECT_EQ(outcome_of(undo("p1")), Outcome::removed);
}

TEST_F(FileCheckpointsTest, D158_FailedWrite_IsNotAChange) {
    directory.put("a", "0");
    const FileBefore before = [] {
        FileBefore file;
        file.exists = true;
        file.info.size = 1;
        file.content = "0";
        return file;
    }();
    {
        const auto change =
            FileCheckpoints::record(checkpoints, *workspace, "a", before, "1", "p1");
    }
    EXPECT_THAT(checkpoints->prompts(*workspace), IsEmpty());
    EXPECT_THAT(undo("p1"), IsEmpty());
}

TEST_F(FileCheckpointsTest, D158_DeletedNotes_AreRestored) {
    MemoryToolOptions memory;
    memory.checkpoints = checkpoints;
    const AgentTool tool = memory_tool(workspace, memory);
    run(call(tool, {{"command", "create"}, {"path", "/memories/n"}, {"file_text", "x\n"}}, "p1"));
    run(call(tool,
             {{"command", "rename"}, {"old_path", "/memories/n"}, {"new_path", "/memories/m"}},
             "p2"));
    EXPECT_EQ(undo("p2").size(), 2u);
    EXPECT_EQ(directory.get("n"), "x\n");
    EXPECT_FALSE(fs::exists(directory / "m"));
    run(call(tool, {{"command", "delete"}, {"path", "/memories/n"}}, "p3"));
    EXPECT_FALSE(fs::exists(directory / "n"));
    EXPECT_EQ(outcome_of(undo("p3")), Outcome::created);
    EXPECT_EQ(directory.get("n"), "x\n");
}

TEST_F(FileCheckpointsTest, Before_ReturnsTheFirstVersions) {
    directory.put("a", "0");
    write("a", "1", "p1");
    write("a", "2", "p2");
    write("b", "2", "p2");
    std::vector<EarlierFile> files = checkpoints->before(*workspace, {"p2"});
    ASSERT_EQ(files.size(), 2u);
    EXPECT_EQ(files[0].content, "1");
    EXPECT_FALSE(files[1].existed);
    files = checkpoints->before(*workspace, {"p1", "p2"});
    EXPECT_EQ(files[0].content, "0");
}

TEST_F(FileCheckpointsTest, D159_Copy_TakesChangesBackInTheNewSession) {
    directory.put("a", "0");
    write("a", "1", "p1");
    const fs::path fork = state.path() / "fork";
    FileCheckpoints::copy(options.directory, fork);
    fs::remove_all(options.directory);
    FileCheckpoints forked(FileCheckpointOptions().in(fork));
    EXPECT_EQ(outcome_of(forked.undo(*workspace, {"p1"})), Outcome::restored);
    EXPECT_EQ(directory.get("a"), "0");
    FileCheckpoints::copy(options.directory, state.path() / "nothing");
    EXPECT_FALSE(fs::exists(state.path() / "nothing"));
}

}  // namespace

}  // namespace cubepi
