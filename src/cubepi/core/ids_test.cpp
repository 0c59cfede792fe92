#include <cubepi/core/ids.hpp>

#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

namespace cubepi {
namespace {

TEST(RandomIds, FifteenLettersAndDigitsWithoutAnAllocation) {
    RandomIds ids;
    const std::string id = ids.next();
    EXPECT_EQ(id.size(), 15u);
    EXPECT_TRUE(
        std::all_of(id.begin(), id.end(), [](unsigned char c) { return std::isalnum(c) != 0; }));
    const char* inside = reinterpret_cast<const char*>(&id);
    EXPECT_TRUE(id.data() >= inside && id.data() < inside + sizeof id);
}

TEST(RandomIds, AllDifferentOverThreads) {
    RandomIds ids;
    std::vector<std::vector<std::string>> made(4);
    std::vector<std::thread> threads;
    for (auto& list : made) {
        threads.emplace_back([&ids, &list] {
            for (int i = 0; i < 5000; ++i) list.push_back(ids.next());
        });
    }
    for (auto& thread : threads) thread.join();
    std::set<std::string> all;
    for (const auto& list : made) all.insert(list.begin(), list.end());
    EXPECT_EQ(all.size(), 20000u);
}

TEST(RandomIds, ChildProcessDoesNotRepeatItsParent) {
    RandomIds ids;
    (void)ids.next();
    int pipe_ends[2];
    ASSERT_EQ(pipe(pipe_ends), 0);
    const pid_t child = fork();
    if (child == 0) {
        const std::string id = ids.next();
        const bool written = write(pipe_ends[1], id.data(), id.size()) == 15;
        _exit(written ? 0 : 1);
    }
    const std::string ours = ids.next();
    std::string theirs(15, ' ');
    ASSERT_EQ(read(pipe_ends[0], theirs.data(), theirs.size()), 15);
    int status = 0;
    waitpid(child, &status, 0);
    close(pipe_ends[0]);
    close(pipe_ends[1]);
    EXPECT_EQ(status, 0);
    EXPECT_NE(ours, theirs);
}

TEST(SequentialIds, CanBeWrittenDown) {
    testing::SequentialIds ids("m");
    EXPECT_EQ(ids.next(), "m1");
    EXPECT_EQ(ids.next(), "m2");
}

}  // namespace
}  // namespace cubepi
