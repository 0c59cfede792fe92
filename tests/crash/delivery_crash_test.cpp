#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include <bub/channel/file_delivery_log.hpp>
#include <cubepi/core/run.hpp>

#include "delivery_worker.hpp"
#include "directory_channel.hpp"
#include "worker_process.hpp"

// A gateway is killed at every record and at every external effect; the next one recovers.

namespace cubepi::crash_tests {

namespace {

/// Runs a gateway to its end, or to its step `kill_at`.
Ended run_gateway(const std::filesystem::path& directory, std::size_t kill_at = 0) {
    return run_worker({"--deliveries", directory.string(), std::to_string(kill_at)});
}

TEST(DeliveryCrash, B18_Kill_LosesNothingAndMarksRepeatedAnswers) {
    std::size_t again = 0;
    const std::size_t steps = kill_at_each_step("--deliveries", [&](const Remains& remains) {
        EXPECT_EQ(run_gateway(remains.directory).status, 0);
        const Count count = expect_dealt_with(remains.directory, answer_to);
        EXPECT_EQ(count.held, 0u) << "one kill holds nothing";
        again += count.again;
    });
    EXPECT_GT(steps, 50u);
    EXPECT_GT(again, 4u);
}

TEST(DeliveryCrash, B18_TwoKills_LoseNothing) {
    (void)kill_at_each_step("--deliveries", [&](const Remains& remains) {
        if (!remains.killed) return;
        const std::size_t then = remains.step * 7 % 60 + 1;
        SCOPED_TRACE("then at " + std::to_string(then));
        (void)run_gateway(remains.directory, then);
        EXPECT_EQ(run_gateway(remains.directory).status, 0);
        (void)expect_dealt_with(remains.directory, answer_to);
    });
}

TEST(DeliveryCrash, B18_MessageKillingTheProcessTwice_IsHeld) {
    const TestDirectory directory;
    const std::vector<std::string> gateway = {"--deliveries", directory.path().string(), "0",
                                              "two"};
    EXPECT_TRUE(run_worker(gateway).killed);
    EXPECT_TRUE(run_worker(gateway).killed);
    EXPECT_EQ(run_worker(gateway).status, 0);
    // A message of the other chat may have been in progress both times as well.
    EXPECT_GE(expect_dealt_with(directory.path(), answer_to).held, 1u);
    const std::vector<std::string> sent = lines_of(sent_file(directory.path()));
    EXPECT_EQ(std::count(sent.begin(), sent.end(), answer_to("two")), 0);
}

TEST(DeliveryCrash, B18_Channel_IsServedByOneProcess) {
    const TestDirectory directory;
    auto log = deliveries_in(directory.path());
    (void)run(log->unfinished());
    EXPECT_EQ(run_gateway(directory.path()).status, found_locked);
    EXPECT_TRUE(lines_of(confirmed_file(directory.path())).empty());
    log.reset();
    EXPECT_EQ(run_gateway(directory.path()).status, 0);
    EXPECT_EQ(lines_of(sent_file(directory.path())).size(), updates.size());
}

}  // namespace

}  // namespace cubepi::crash_tests

int main(int argc, char** argv) {
    using namespace cubepi::crash_tests;
    return tests_or_worker(argc, argv,
                           {{"--deliveries", [](const std::vector<std::string>& arguments) {
                                 return run_delivery_worker(
                                     deliveries_in(arguments.at(0)), arguments.at(0),
                                     std::stoul(arguments.at(1)),
                                     arguments.size() > 2 ? arguments[2] : std::string());
                             }}});
}
