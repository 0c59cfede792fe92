#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include <bub/channel/file_delivery_log.hpp>
#include <cubepi/core/run.hpp>

#include "delivery_worker.hpp"
#include "worker_process.hpp"

// A gateway is killed at every record and at every thing that it does outside; the next one finds out what to do.

namespace cubepi::crash_tests {

namespace {

/// A gateway from its start to its end, or to its step `kill_at`.
Ended run_gateway(const std::filesystem::path& folder, std::size_t kill_at = 0) {
    return run_worker({"--deliveries", folder.string(), std::to_string(kill_at)});
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
    const std::size_t steps = kill_at_each_step("--deliveries", [&](const Remains& remains) {
        EXPECT_EQ(run_gateway(remains.folder).status, 0);
        const Count count = expect_dealt_with(remains.folder);
        EXPECT_EQ(count.held, 0u) << "one kill holds nothing";
        again += count.again;
    });
    EXPECT_GT(steps, 50u);
    EXPECT_GT(again, 4u);
}

TEST(DeliveryCrash, B18_NorDoTwoKills) {
    (void)kill_at_each_step("--deliveries", [&](const Remains& remains) {
        if (!remains.killed) return;
        const std::size_t then = remains.step * 7 % 60 + 1;
        SCOPED_TRACE("then at " + std::to_string(then));
        (void)run_gateway(remains.folder, then);
        EXPECT_EQ(run_gateway(remains.folder).status, 0);
        (void)expect_dealt_with(remains.folder);
    });
}

TEST(DeliveryCrash, B18_AMessageWhoseTurnsEndTheProcessTwiceIsHeld) {
    const TestFolder folder;
    const std::vector<std::string> gateway = {"--deliveries", folder.path().string(), "0", "two"};
    EXPECT_TRUE(run_worker(gateway).killed);
    EXPECT_TRUE(run_worker(gateway).killed);
    EXPECT_EQ(run_worker(gateway).status, 0);
    EXPECT_EQ(expect_dealt_with(folder.path()).held, 1u);
    EXPECT_EQ(lines_of(sent_file(folder.path())).size(), updates.size() - 1);
}

TEST(DeliveryCrash, B18_TwoProcessesDoNotServeTheSameChannels) {
    const TestFolder folder;
    auto log = log_in(folder.path());
    (void)run(log->unfinished());
    EXPECT_EQ(run_gateway(folder.path()).status, found_locked);
    EXPECT_TRUE(lines_of(confirmed_file(folder.path())).empty());
    log.reset();
    EXPECT_EQ(run_gateway(folder.path()).status, 0);
    EXPECT_EQ(lines_of(sent_file(folder.path())).size(), updates.size());
}

}  // namespace cubepi::crash_tests

int main(int argc, char** argv) {
    using namespace cubepi::crash_tests;
    return tests_or_worker(argc, argv,
                           {{"--deliveries", [](const std::vector<std::string>& arguments) {
                                 return run_delivery_worker(
                                     arguments.at(0), std::stoul(arguments.at(1)),
                                     arguments.size() > 2 ? arguments[2] : std::string());
                             }}});
}
