#include <cubepi/core/support/posix_file.hpp>

#include <gtest/gtest.h>

#include <cerrno>
#include <filesystem>
#include <string>

#include <cubepi/core/scoped_test_directory.hpp>

namespace cubepi::detail {

namespace {

class PosixFile : public ::testing::Test {
protected:
    const ScopedTestDirectory directory;
    const std::filesystem::path path = directory.path() / "file";

    UniqueFd create(const std::filesystem::path& at) const {
        return open_file(at.c_str(), O_RDWR | O_CREAT | O_EXCL);
    }
};

}  // namespace

TEST_F(PosixFile, Failure_IsInErrno) {
    EXPECT_FALSE(open_file(path.c_str(), O_RDONLY));
    EXPECT_EQ(errno, ENOENT);
    const UniqueFd reader = open_file(directory.path().c_str(), O_RDONLY | O_DIRECTORY);
    ASSERT_TRUE(reader);
    EXPECT_FALSE(write_all(reader.get(), "text"));
    EXPECT_EQ(errno, EBADF);
    char buffer[4];
    EXPECT_FALSE(read_at(reader.get(), 0, buffer, sizeof buffer));
    EXPECT_EQ(errno, EISDIR);
    EXPECT_EQ(errno_text(ENOENT), "No such file or directory");
}

TEST_F(PosixFile, Close_KeepsErrno) {
    errno = ENOSPC;
    {
        const UniqueFd invalid(1 << 30);
    }
    EXPECT_EQ(errno, ENOSPC);
}

TEST_F(PosixFile, Open_IsRelativeToADirectory) {
    const UniqueFd parent = open_file(directory.path().c_str(), O_PATH | O_DIRECTORY);
    ASSERT_TRUE(open_file("file", O_WRONLY | O_CREAT, 0640, parent.get()));
    EXPECT_EQ(std::filesystem::status(path).permissions() & std::filesystem::perms::group_read,
              std::filesystem::perms::group_read);
    const UniqueFd file = open_file("file", O_RDONLY, 0, parent.get());
    ASSERT_TRUE(file);
    EXPECT_NE(fcntl(file.get(), F_GETFD) & FD_CLOEXEC, 0);
}

TEST_F(PosixFile, Read_IsShortOnlyAtTheEnd) {
    const UniqueFd file = create(path);
    ASSERT_TRUE(write_all(file.get(), "0123456789"));
    ASSERT_TRUE(write_all_at(file.get(), 8, "ab"));
    char buffer[4];
    EXPECT_EQ(read_at(file.get(), 6, buffer, 4), 4U);
    EXPECT_EQ(std::string(buffer, 4), "67ab");
    EXPECT_EQ(read_at(file.get(), 9, buffer, 4), 1U);
    EXPECT_EQ(read_at(file.get(), 10, buffer, 4), 0U);
}

TEST_F(PosixFile, Sync_AcceptsFilesAndDirectories) {
    EXPECT_TRUE(sync_file(create(path).get()));
    EXPECT_TRUE(sync_file(open_file(directory.path().c_str(), O_RDONLY | O_DIRECTORY).get()));
}

TEST_F(PosixFile, Lock_ExcludesOtherOpenFiles) {
    UniqueFd first = create(path);
    const UniqueFd second = open_file(path.c_str(), O_RDWR);
    ASSERT_TRUE(try_flock(first.get(), LockKind::shared));
    EXPECT_TRUE(try_flock(second.get(), LockKind::shared));
    EXPECT_FALSE(try_flock(second.get(), LockKind::exclusive));
    EXPECT_EQ(errno, EWOULDBLOCK);
    first = UniqueFd();
    EXPECT_TRUE(try_flock(second.get(), LockKind::exclusive));
}

TEST_F(PosixFile, ReplacementFile_ReplacesTheFile) {
    ASSERT_TRUE(write_all(create(path).get(), "old"));
    {
        ReplacementFile file(create(directory.path() / "new"), directory.path() / "new");
        ASSERT_TRUE(file);
        ASSERT_TRUE(write_all(file.get(), "new"));
        ASSERT_TRUE(file.replace(path));
    }
    EXPECT_EQ(directory.get("file"), "new");
    EXPECT_FALSE(std::filesystem::exists(directory.path() / "new"));
}

TEST_F(PosixFile, UnusedReplacement_IsRemoved) {
    ASSERT_TRUE(write_all(create(path).get(), "old"));
    const UniqueFd parent = open_file(directory.path().c_str(), O_PATH | O_DIRECTORY);
    {
        ReplacementFile unused(open_file("new", O_WRONLY | O_CREAT, 0600, parent.get()), "new",
                               parent.get());
        ASSERT_TRUE(unused);
    }
    {
        ReplacementFile refused(create(directory.path() / "new"), directory.path() / "new");
        EXPECT_FALSE(refused.replace(directory.path() / "missing" / "file"));
        EXPECT_EQ(errno, ENOENT);
    }
    {
        // Not created by this object, so not removed by it.
        ReplacementFile failed(create(path), path);
        EXPECT_FALSE(failed);
    }
    EXPECT_EQ(directory.get("file"), "old");
    EXPECT_FALSE(std::filesystem::exists(directory.path() / "new"));
}

}  // namespace cubepi::detail
