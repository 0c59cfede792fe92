#include <csignal>
#include <cstdlib>
#include <fstream>
#include <optional>
#include <string>

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cubepi/workspace/local_workspace.hpp>
#include <cubepi/workspace/spill.hpp>
#include <cubepi/workspace/standard_tools.hpp>
#include <cubepi/workspace/temporary_directory.hpp>
#include <cubepi/workspace/workspace_test.hpp>

namespace cubepi {

namespace {

using ::testing::HasSubstr;

std::string path_in(const FileSpillSink& sink, const std::string& hint) {
    const auto begin = hint.find(sink.directory().string());
    return hint.substr(begin, hint.find(';', begin) - begin);
}

std::size_t files_in(const FileSpillSink& sink) {
    std::size_t count = 0;
    for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator(sink.directory()))
        ++count;
    return count;
}

mode_t mode_of(const std::string& path) {
    struct stat info{};
    EXPECT_EQ(::stat(path.c_str(), &info), 0) << path;
    return info.st_mode & 0777;
}

TEST(FileSpillSink, D24_Text_IsStoredForTheReadTool) {
    ScopedTestDirectory directory;
    FileSpillSink sink;
    const auto hint = sink.spill("my/tool", "call_1", "line one\nline two\n");
    EXPECT_THAT(hint, HasSubstr("read tool"));
    const auto path = path_in(sink, hint);
    EXPECT_EQ(mode_of(sink.directory().string()), 0700u);
    EXPECT_EQ(mode_of(path), 0600u);
    auto workspace = std::make_shared<LocalWorkspace>(
        directory.path(), WorkspacePolicy().also_read(sink.directory()));
    JsonObject arguments;
    arguments["path"] = path;
    EXPECT_EQ(run_tool(read_tool(workspace), std::move(arguments)).text(),
              "     1\tline one\n     2\tline two\n");
}

TEST(FileSpillSink, OwnDirectory_IsRemoved) {
    std::filesystem::path directory;
    {
        FileSpillSink sink;
        sink.spill("t", "c", "x");
        directory = sink.directory();
        EXPECT_TRUE(std::filesystem::exists(directory));
    }
    EXPECT_FALSE(std::filesystem::exists(directory));
}

TEST(FileSpillSink, ConfiguredDirectory_IsRetained) {
    ScopedTestDirectory directory;
    {
        FileSpillSink sink(FileSpillOptions().in(directory.path() / "a" / "spill"));
        sink.spill("t", "c", "x");
    }
    EXPECT_EQ(mode_of(directory / "a/spill"), 0700u);
    EXPECT_FALSE(std::filesystem::is_empty(directory.path() / "a/spill"));
    std::filesystem::permissions(directory.path() / "a/spill", std::filesystem::perms::all);
    EXPECT_THROW(FileSpillSink(FileSpillOptions().in(directory.path() / "a" / "spill")), Error);
    std::ofstream(directory.path() / "file") << "x";
    try {
        const FileSpillSink sink(FileSpillOptions().in(directory.path() / "file" / "b" / "spill"));
        ADD_FAILURE() << "there is no place for it";
    } catch (const Error& error) {
        EXPECT_NE(std::string(error.what()).find("is not a directory"), std::string::npos)
            << error.what();
    }
}

TEST(FileSpillSink, FullSink_ForgetsTheOldest) {
    FileSpillOptions options;
    options.max_total_bytes = 100;
    FileSpillSink sink(std::move(options));
    const auto first = path_in(sink, sink.spill("t", "c", std::string(60, 'a')));
    const auto second = path_in(sink, sink.spill("t", "c", std::string(40, 'b')));
    EXPECT_EQ(files_in(sink), 2u);
    const auto third = path_in(sink, sink.spill("t", "c", std::string(50, 'c')));
    EXPECT_FALSE(std::filesystem::exists(first));
    EXPECT_TRUE(std::filesystem::exists(second));
    EXPECT_TRUE(std::filesystem::exists(third));
}

TEST(FileSpillSink, FilesOfEarlierSink_AreCounted) {
    ScopedTestDirectory directory;
    const auto options = [&directory] {
        FileSpillOptions made = FileSpillOptions().in(directory.path() / "spill");
        made.max_total_bytes = 100;
        return made;
    };
    std::string first;
    {
        FileSpillSink sink(options());
        first = path_in(sink, sink.spill("t", "c", std::string(60, 'a')));
    }
    FileSpillSink sink(options());
    EXPECT_TRUE(std::filesystem::exists(first));
    const auto second = path_in(sink, sink.spill("t", "c", std::string(50, 'b')));
    EXPECT_FALSE(std::filesystem::exists(first));
    EXPECT_TRUE(std::filesystem::exists(second));
}

TEST(FileSpillSink, GrowingFile_IsBounded) {
    FileSpillOptions options;
    options.max_file_bytes = 10;
    FileSpillSink sink(std::move(options));
    const auto file = sink.create("shell");
    EXPECT_FALSE(std::filesystem::exists(file->path()));
    for (int i = 0; i < 5; ++i) file->append("abcd");
    std::ifstream content(file->path());
    std::string line;
    std::getline(content, line);
    EXPECT_EQ(line, "abcdabcdab");
    std::getline(content, line);
    EXPECT_THAT(line, HasSubstr("further text was discarded"));
}

TEST(FileSpillSink, GrowingFile_IsNotRemoved) {
    FileSpillOptions options;
    options.max_total_bytes = 100;
    FileSpillSink sink(std::move(options));
    auto growing = sink.create("shell");
    growing->append(std::string(60, 'a'));
    sink.spill("t", "c", std::string(40, 'b'));
    sink.spill("t", "c", std::string(40, 'c'));
    EXPECT_TRUE(std::filesystem::exists(growing->path()));
    const auto path = growing->path();
    growing.reset();
    sink.spill("t", "c", std::string(100, 'd'));
    EXPECT_FALSE(std::filesystem::exists(path));
    EXPECT_EQ(files_in(sink), 1u);
}

namespace fs = std::filesystem;

/// Sets the time of a directory to that of an old stale one.
void make_old(const fs::path& directory) {
    const timespec times[2] = {{1, 0}, {1, 0}};
    ASSERT_EQ(::utimensat(AT_FDCWD, directory.c_str(), times, 0), 0);
}

/// Runs a process that creates a directory and is killed before it can remove it. Returns the directory.
fs::path left_behind(const std::string& kind) {
    int channel[2];
    if (::pipe(channel) != 0) return {};
    const pid_t child = ::fork();
    if (child == 0) {
        const TemporaryDirectory directory(kind);
        std::ofstream(directory.path() / "file") << "content";
        const std::string path = directory.path().string();
        (void)!::write(channel[1], path.data(), path.size());
        ::kill(::getpid(), SIGKILL);
    }
    ::close(channel[1]);
    char text[4096];
    const ssize_t size = ::read(channel[0], text, sizeof(text));
    ::close(channel[0]);
    ::waitpid(child, nullptr, 0);
    return size > 0 ? fs::path(std::string(text, static_cast<std::size_t>(size))) : fs::path();
}

TEST(TemporaryDirectory, Directory_IsPrivateAndRemovedByTheDestructor) {
    std::optional<TemporaryDirectory> directory(std::in_place, "test-one");
    const fs::path path = directory->path();
    struct stat info{};
    ASSERT_EQ(::stat(path.c_str(), &info), 0);
    EXPECT_EQ(info.st_mode & 0777, 0700U);
    std::ofstream(path / "file") << "content";
    directory.reset();
    EXPECT_FALSE(fs::exists(path));
}

TEST(TemporaryDirectory, DirectoriesOfKilledProcesses_AreRemoved) {
    const fs::path old = left_behind("test-killed");
    ASSERT_TRUE(fs::exists(old / "file"));
    make_old(old);
    const TemporaryDirectory next("test-killed");
    EXPECT_FALSE(fs::exists(old));
}

TEST(TemporaryDirectory, UsedAndRecentDirectories_AreRetained) {
    const TemporaryDirectory in_use("test-used");
    make_old(in_use.path());
    const fs::path young = left_behind("test-used");
    const TemporaryDirectory next("test-used");
    EXPECT_TRUE(fs::exists(in_use.path()));
    EXPECT_TRUE(fs::exists(young));
    fs::remove_all(young);
}

TEST(TemporaryDirectory, Links_AreNotFollowed) {
    const TemporaryDirectory target("test-target");
    std::ofstream(target.path() / "file") << "content";
    make_old(target.path());
    const fs::path link = target.path().parent_path() / "cubepi-test-linked-abcdef";
    fs::remove(link);
    fs::create_directory_symlink(target.path(), link);
    const TemporaryDirectory next("test-linked");
    EXPECT_TRUE(fs::exists(target.path() / "file"));
    fs::remove(link);
}

}  // namespace

}  // namespace cubepi
