#include <cubepi/tracing/recorder/stream_file.hpp>

#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <memory>
#include <optional>
#include <sstream>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include <cubepi/core/scoped_test_directory.hpp>

namespace cubepi {
namespace {

using namespace detail;
using namespace std::chrono_literals;

constexpr std::chrono::seconds plenty{120};

std::string text_of(const std::filesystem::path& path) {
    std::stringstream text;
    text << std::ifstream(path).rdbuf();
    return text.str();
}

class StreamWriting : public ::testing::Test {
protected:
    std::uint64_t lost() const { return losses->count(Loss::stream_line); }

    const ScopedTestDirectory directory;
    std::vector<std::string> notices;  // read when the writer is closed
    const std::shared_ptr<LossReport> losses = std::make_shared<LossReport>(
        [this](const Notice& notice) { notices.push_back(notice.code); });
};

TEST_F(StreamWriting, Flush_WritesLinesToTheirFiles) {
    StreamWriter writer(directory.path() / "a" / "b", losses);
    EXPECT_TRUE(writer.flush(0ms));
    const auto one = writer.open("one");
    const auto two = writer.open("two");
    EXPECT_FALSE(std::filesystem::exists(directory.path() / "a"));
    writer.write(one, "1\n");
    writer.write(two, "2\n");
    writer.write(one, "3\n");
    EXPECT_TRUE(writer.flush(plenty));
    EXPECT_EQ(text_of(directory.path() / "a" / "b" / "one"), "1\n3\n");
    EXPECT_EQ(text_of(directory.path() / "a" / "b" / "two"), "2\n");
    struct stat status{};
    for (const char* made : {"a", "a/b"}) {
        ASSERT_EQ(::stat((directory.path() / made).c_str(), &status), 0);
        EXPECT_EQ(status.st_mode & 0777U, 0700U);
    }
    ASSERT_EQ(::stat((directory.path() / "a" / "b" / "one").c_str(), &status), 0);
    EXPECT_EQ(status.st_mode & 0777U, 0600U);
    EXPECT_EQ(lost(), 0u);
}

TEST_F(StreamWriting, Close_WritesPendingAndDropsLaterLines) {
    StreamWriter writer(directory.path(), losses);
    const auto file = writer.open("one");
    std::vector<std::thread> threads;
    for (int i = 0; i < 4; ++i) {
        threads.emplace_back([&] {
            for (int j = 0; j < 500; ++j) writer.write(file, "line\n");
        });
    }
    for (std::thread& thread : threads) thread.join();
    EXPECT_TRUE(writer.close(plenty));
    EXPECT_TRUE(writer.close(0ms));
    writer.write(file, "later\n");
    EXPECT_EQ(text_of(directory.path() / "one").size(), 4u * 500 * 5);
    EXPECT_EQ(lost(), 1u);
}

TEST_F(StreamWriting, UnreadPipeAndFullDisk_OnlyLoseLines) {
    ASSERT_EQ(::mkfifo((directory.path() / "pipe").c_str(), 0600), 0);
    std::filesystem::create_symlink("/dev/full", directory.path() / "full");
    StreamWriter writer(directory.path(), losses);
    for (const char* name : {"pipe", "full"}) {
        const auto file = writer.open(name);
        for (int i = 0; i < 3; ++i) writer.write(file, "line\n");
    }
    writer.write(writer.open("good"), "line\n");
    EXPECT_TRUE(writer.close(plenty));
    EXPECT_EQ(lost(), 6u);
    EXPECT_EQ(text_of(directory.path() / "good"), "line\n");
    losses->end();
    EXPECT_EQ(notices, (std::vector<std::string>{"stream_file_failed", "recording_incomplete"}));
}

TEST_F(StreamWriting, ForkedChild_DropsLinesWithoutWaiting) {
    std::optional<StreamWriter> writer(std::in_place, directory.path(), losses);
    const auto file = writer->open("one");
    writer->write(file, "parent\n");
    EXPECT_TRUE(writer->flush(plenty));
    const pid_t child = ::fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
        writer->write(file, "child\n");
        const bool waited = writer->flush(plenty) || writer->close(plenty);
        const bool dropped = losses->count(Loss::stream_line) == 1;
        writer.reset();
        ::_exit(!waited && dropped ? 0 : 1);
    }
    int status = -1;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0);
    writer->write(file, "again\n");
    EXPECT_TRUE(writer->close(plenty));
    EXPECT_EQ(text_of(directory.path() / "one"), "parent\nagain\n");
}

TEST_F(StreamWriting, LineLargerThanQueue_IsDropped) {
    StreamWriter writer(directory.path(), losses);
    const auto file = writer.open("one");
    writer.write(file, std::string(StreamWriter::max_waiting_bytes + 1, 'x'));
    EXPECT_TRUE(writer.close(plenty));
    EXPECT_EQ(lost(), 1u);
    EXPECT_FALSE(std::filesystem::exists(directory.path() / "one"));
}

}  // namespace
}  // namespace cubepi
