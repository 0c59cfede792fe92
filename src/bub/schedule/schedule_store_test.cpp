// The store in a file: the cases of all stores, restarts, and files that are not valid.

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <memory>
#include <string>

#include <bub/schedule/file_schedule_store.hpp>
#include <bub/schedule/schedule_store_suite_test.hpp>
#include <cubepi/core/error.hpp>
#include <cubepi/core/run.hpp>
#include <cubepi/testing/manual_clock.hpp>

namespace bub {
namespace {

using schedule_tests::schedule;

class FileScheduleStoreTest : public ::testing::Test {
protected:
    FileScheduleStoreTest() { std::filesystem::create_directories(directory); }
    ~FileScheduleStoreTest() override { std::filesystem::remove_all(directory); }
    std::shared_ptr<ScheduleStore> open() const {
        return std::make_shared<FileScheduleStore>(
            directory,
            std::make_shared<const cubepi::Runtime>(cubepi::Runtime().with_clock(clock)));
    }

    const std::shared_ptr<cubepi::testing::ManualClock> clock =
        std::make_shared<cubepi::testing::ManualClock>();
    const std::filesystem::path directory =
        std::filesystem::temp_directory_path() /
        ("cubepi-schedules-" + cubepi::Runtime::standard()->ids->next());
    const std::filesystem::path file = directory / "schedules.json";
};

TEST_F(FileScheduleStoreTest, Cases_Hold) { schedule_tests::run_cases(open()); }

TEST_F(FileScheduleStoreTest, Restart_HasTheSameSchedules) {
    const std::int64_t now = cubepi::run(open()->now());
    const Schedule added = schedule("one", now + 60);
    EXPECT_TRUE(cubepi::run(open()->add(added)));
    const auto found = cubepi::run(open()->find("one"));
    ASSERT_TRUE(found);
    EXPECT_EQ(found->text, added.text);
    EXPECT_EQ(found->times, added.times);
    EXPECT_EQ(found->origin, added.origin);
    EXPECT_EQ(found->next, added.next);
}

TEST_F(FileScheduleStoreTest, InvalidFile_IsReportedAndRetained) {
    for (const char* text :
         {"{\"version\": 1, \"sched", "[]", "{\"version\": 2, \"schedules\": []}",
          "{\"version\": 1, \"schedules\": [{\"next\": \"soon\"}]}"}) {
        std::ofstream(file) << text;
        const auto store = open();
        EXPECT_THROW((void)cubepi::run(store->add(schedule("one", 60))), cubepi::Error) << text;
        EXPECT_THROW((void)cubepi::run(store->due({})), cubepi::Error) << text;
        std::ifstream read(file);
        EXPECT_EQ(std::string(std::istreambuf_iterator<char>(read), {}), text);
    }
}

TEST_F(FileScheduleStoreTest, FailedWrite_ChangesNothing) {
    const auto store = open();
    EXPECT_TRUE(cubepi::run(store->add(schedule("one", 60))));
    // A directory cannot be replaced by a file.
    std::filesystem::remove(file);
    std::filesystem::create_directories(file / "in-the-way");
    EXPECT_THROW((void)cubepi::run(store->add(schedule("two", 60))), cubepi::Error);
    EXPECT_THROW((void)cubepi::run(store->remove("one")), cubepi::Error);
    EXPECT_EQ(cubepi::run(store->list("")).size(), 1u);
    std::filesystem::remove_all(file);
    EXPECT_TRUE(cubepi::run(store->add(schedule("two", 60))));
    EXPECT_EQ(cubepi::run(open()->list("")).size(), 2u);
}

}  // namespace
}  // namespace bub
