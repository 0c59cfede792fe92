#include <gtest/gtest.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <sys/wait.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include <bub/channel/file_delivery_log.hpp>
#include <cubepi/core/run.hpp>

#include "delivery_worker.hpp"

// A gateway is killed at every record and at every thing that it does outside; the next one finds out what to do.

extern char** environ;

namespace cubepi::crash_tests {

namespace {

struct Folder {
    std::filesystem::path path;
    Folder() {
        std::string name =
            (std::filesystem::temp_directory_path() / "cubepi-delivery-crash-XXXXXX").string();
        path = mkdtemp(name.data());
    }
    ~Folder() { std::filesystem::remove_all(path); }
};

constexpr int was_killed = -1;

/// Runs a gateway to its end, and gives its exit status.
int run_gateway(const std::filesystem::path& folder, std::size_t kill_at) {
    std::vector<std::string> arguments = {"/proc/self/exe", "--deliveries", folder.string(),
                                          std::to_string(kill_at)};
    std::vector<char*> words;
    for (std::string& argument : arguments) words.push_back(argument.data());
    words.push_back(nullptr);
    pid_t pid = 0;
    EXPECT_EQ(posix_spawn(&pid, "/proc/self/exe", nullptr, nullptr, words.data(), environ), 0);
    int status = 0;
    EXPECT_EQ(waitpid(pid, &status, 0), pid);
    if (WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL) return was_killed;
    EXPECT_TRUE(WIFEXITED(status)) << "status " << status;
    return WEXITSTATUS(status);
}

std::unique_ptr<bub::FileDeliveryLog> log_in(const std::filesystem::path& folder) {
    bub::FileDeliveryLogOptions options;
    options.folder = delivery_folder(folder);
    return std::make_unique<bub::FileDeliveryLog>(std::move(options));
}

struct Count {
    std::size_t held = 0;
    std::size_t again = 0;
};

/// Each update was answered, or is held; no answer came twice without a mark.
Count expect_dealt_with(const std::filesystem::path& folder) {
    Count count;
    const std::vector<std::string> sent = lines_of(sent_file(folder));
    std::vector<std::string> held;
    const auto log = log_in(folder);
    for (const bub::StoredInbound& inbound : run(log->unfinished()))
        held.push_back(inbound.message.content_text());
    EXPECT_TRUE(run(log->unsettled()).empty());
    for (const std::string& update : updates) {
        const auto plain = std::count(sent.begin(), sent.end(), "re: " + update);
        const auto again = std::count(sent.begin(), sent.end(), "re: " + update + " (again)");
        const auto kept = std::count(held.begin(), held.end(), update);
        EXPECT_LE(plain, 1) << update << " was answered twice";
        EXPECT_GE(plain + again + kept, 1) << update << " is lost";
        EXPECT_LE(kept, 1);
        count.again += static_cast<std::size_t>(again);
        count.held += static_cast<std::size_t>(kept);
    }
    return count;
}

}  // namespace

TEST(DeliveryCrash, B18_AKillAnywhereLosesNothingAndDoublesNothingUnmarked) {
    std::size_t again = 0;
    std::size_t at = 1;
    for (;; ++at) {
        SCOPED_TRACE("killed at step " + std::to_string(at));
        const Folder folder;
        const bool killed = run_gateway(folder.path, at) == was_killed;
        EXPECT_EQ(run_gateway(folder.path, 0), 0);
        const Count count = expect_dealt_with(folder.path);
        EXPECT_EQ(count.held, 0u) << "one kill holds nothing";
        again += count.again;
        if (!killed || ::testing::Test::HasFailure()) break;
    }
    EXPECT_GT(at, 50u);
    EXPECT_GT(again, 4u);
}

TEST(DeliveryCrash, B18_NorDoTwoKills) {
    std::size_t held = 0;
    for (std::size_t at = 1; !::testing::Test::HasFailure(); ++at) {
        const Folder folder;
        if (run_gateway(folder.path, at) != was_killed) break;
        const std::size_t then = at * 7 % 60 + 1;
        SCOPED_TRACE("killed at step " + std::to_string(at) + ", then at " + std::to_string(then));
        (void)run_gateway(folder.path, then);
        EXPECT_EQ(run_gateway(folder.path, 0), 0);
        held += expect_dealt_with(folder.path).held;
    }
    EXPECT_GT(held, 0u) << "what ends the process twice is held";
}

TEST(DeliveryCrash, B18_TwoProcessesDoNotServeTheSameChannels) {
    const Folder folder;
    auto log = log_in(folder.path);
    (void)run(log->unfinished());
    EXPECT_EQ(run_gateway(folder.path, 0), found_locked);
    EXPECT_TRUE(lines_of(confirmed_file(folder.path)).empty());
    log.reset();
    EXPECT_EQ(run_gateway(folder.path, 0), 0);
    EXPECT_EQ(lines_of(sent_file(folder.path)).size(), updates.size());
}

}  // namespace cubepi::crash_tests

int main(int argc, char** argv) {
    const std::vector<std::string> words(argv + 1, argv + argc);
    if (words.size() == 3 && words[0] == "--deliveries")
        return cubepi::crash_tests::run_delivery_worker(words[1], std::stoul(words[2]));
    testing::InitGoogleTest(&argc, argv);
    return RUN_ALL_TESTS();
}
