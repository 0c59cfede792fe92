// Names of counters, and the store in a file: the cases of all stores, restarts, cut lines, the size of the file.

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <memory>
#include <string>

#include <bub/limits/file_usage_store.hpp>
#include <bub/limits/usage_store_suite_test.hpp>
#include <cubepi/core/error.hpp>
#include <cubepi/net/utf8.hpp>

namespace bub {
namespace {

using cubepi::run;
using namespace usage_tests;

TEST(CounterName, D255_HostileIds_AreShortAndDistinct) {
    EXPECT_EQ(counter_name("user", "telegram", "42"), "user:telegram:42");
    const std::string zeros("\0\0", 2);
    const std::string broken("a\xff\xfe");
    const std::string long_one(1'000'000, 'x');
    std::vector<std::string> names;
    for (const std::string& id : {zeros, broken, std::string("a\xff"), long_one, long_one + "y",
                                  std::string(64, 'x'), std::string("\n"), std::string("?")}) {
        names.push_back(counter_name("user", "http", id));
        EXPECT_LE(names.back().size(), 300u);
        EXPECT_EQ(cubepi::replace_broken_utf8(names.back()), names.back());
        EXPECT_EQ(names.back().find_first_of(std::string_view("\0\n", 2)), std::string::npos);
    }
    std::sort(names.begin(), names.end());
    EXPECT_EQ(std::unique(names.begin(), names.end()), names.end());
}

class FileUsageStoreTest : public ::testing::Test {
protected:
    ~FileUsageStoreTest() override { std::filesystem::remove_all(directory); }
    std::shared_ptr<UsageStore> open() const { return std::make_shared<FileUsageStore>(directory); }

    const std::filesystem::path directory =
        std::filesystem::temp_directory_path() /
        ("cubepi-usage-" + cubepi::Runtime::standard()->ids->next());
    const std::filesystem::path file = directory / "usage.jsonl";
};

TEST_F(FileUsageStoreTest, D255_Cases_Hold) { run_cases(open()); }

TEST_F(FileUsageStoreTest, D255_KilledProcess_HasCounted) {
    {
        const auto store = open();
        EXPECT_FALSE(run(store->admit(turn("user:a", limit_of(2), {"1"}))));
        run(store->add(day, {{"user:a", {0, 7, 3}}}));
        // The line that a killed process was writing.
        std::ofstream(file, std::ios::app) << "{\"day\":\"2026-12-01\",\"used\":{\"user:a\":[5,";
    }
    const auto store = open();
    EXPECT_EQ(used(*store, "user:a"), (UsageAmounts{1, 7, 3}));
    EXPECT_FALSE(run(store->admit(turn("user:a", limit_of(1), {"1"}))));
    EXPECT_TRUE(run(store->admit(turn("user:a", limit_of(1), {"2"}))));
    run(store->add(day, {{"user:a", {0, 1, 0}}}));
    EXPECT_EQ(used(*open(), "user:a"), (UsageAmounts{1, 8, 3}));
}

TEST_F(FileUsageStoreTest, D255_ManyCalls_FileStaysSmall) {
    const auto store = open();
    for (int i = 0; i < 5'000; ++i) run(store->add(day, {{"user:a", {0, 1, 1}}}));
    EXPECT_LT(std::filesystem::file_size(file), 200'000u);
    EXPECT_EQ(used(*open(), "user:a"), (UsageAmounts{0, 5'000, 5'000}));
}

TEST_F(FileUsageStoreTest, D255_FailingRewrite_CountsOnce) {
    const auto store = open();
    run(store->add(day, {{"user:a", {0, 1, 1}}}));
    const std::filesystem::path blocked = file.string() + ".new";
    std::filesystem::create_directory(blocked);
    // A call that fails is repeated by its caller, so it must not have counted.
    std::int64_t counted = 1;
    for (bool fails = false; !fails && counted < 100'000;) {
        try {
            run(store->add(day, {{"user:a", {0, 1, 1}}}));
            ++counted;
        } catch (const cubepi::Error&) {
            fails = true;
        }
    }
    EXPECT_LT(counted, 100'000);
    std::filesystem::remove(blocked);
    EXPECT_EQ(used(*store, "user:a"), (UsageAmounts{0, counted, counted}));
}

TEST_F(FileUsageStoreTest, D255_UnwritableDirectory_Throws) {
    std::ofstream(directory.string()) << "a file";
    const auto store = open();
    EXPECT_THROW(run(store->add(day, {{"user:a", {0, 1, 1}}})), cubepi::Error);
    std::filesystem::remove_all(directory);
    run(store->add(day, {{"user:a", {0, 1, 1}}}));
    EXPECT_EQ(used(*store, "user:a"), (UsageAmounts{0, 1, 1}));
}

}  // namespace
}  // namespace bub
