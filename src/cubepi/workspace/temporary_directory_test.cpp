#include <cubepi/workspace/temporary_directory.hpp>

#include <csignal>
#include <cstdlib>
#include <fstream>
#include <optional>
#include <string>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

namespace cubepi {
namespace {

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

TEST(TemporaryDirectory, IsPrivateAndRemovedByTheDestructor) {
    std::optional<TemporaryDirectory> directory(std::in_place, "test-one");
    const fs::path path = directory->path();
    struct stat info{};
    ASSERT_EQ(::stat(path.c_str(), &info), 0);
    EXPECT_EQ(info.st_mode & 0777, 0700U);
    std::ofstream(path / "file") << "content";
    directory.reset();
    EXPECT_FALSE(fs::exists(path));
}

TEST(TemporaryDirectory, RemovesDirectoriesOfKilledProcesses) {
    const fs::path old = left_behind("test-killed");
    ASSERT_TRUE(fs::exists(old / "file"));
    make_old(old);
    const TemporaryDirectory next("test-killed");
    EXPECT_FALSE(fs::exists(old));
}

TEST(TemporaryDirectory, KeepsUsedAndRecentDirectories) {
    const TemporaryDirectory in_use("test-used");
    make_old(in_use.path());
    const fs::path young = left_behind("test-used");
    const TemporaryDirectory next("test-used");
    EXPECT_TRUE(fs::exists(in_use.path()));
    EXPECT_TRUE(fs::exists(young));
    fs::remove_all(young);
}

TEST(TemporaryDirectory, FollowsNoLinks) {
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
