#include <cubepi/tracing/recorder/run_table.hpp>

#include <memory>
#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace cubepi::detail {
namespace {

TEST(RunTable, FindsWhatWasAddedUntilItIsRemoved) {
    RunTable<int> table;
    for (const std::string id :
         {"", "a", "12345678", "run-1", "b24f2a2c796944fe8f41200e1d32489c"}) {
        const auto run = std::make_shared<int>(1);
        table.add(id, run);
        EXPECT_EQ(table.find(id), run) << id;
        EXPECT_EQ(table.find(id + "x"), nullptr) << id;
        table.remove(id, run.get());
        EXPECT_EQ(table.find(id), nullptr) << id;
    }
}

TEST(RunTable, ReusesTheEntryOfARemovedRun) {
    RunTable<int> table;
    for (int i = 0; i < 1000; ++i) {
        const std::string id = "run-" + std::to_string(i);
        const auto run = std::make_shared<int>(i);
        table.add(id, run);
        EXPECT_EQ(table.find(id), run);
        if (i % 3 != 0) table.remove(id, run.get());
        EXPECT_EQ(run.use_count(), i % 3 != 0 ? 1 : 2);
    }
    EXPECT_EQ(*table.find("run-999"), 999);
    EXPECT_EQ(table.find("run-998"), nullptr);
}

TEST(RunTable, ALaterRunWithTheSameIdReplacesTheEarlierOne) {
    RunTable<int> table;
    const auto other = std::make_shared<int>(0);
    table.add("a", other);
    table.remove("a", other.get());
    const auto first = std::make_shared<int>(1);
    const auto second = std::make_shared<int>(2);
    table.add("a", first);
    table.add("a", second);
    EXPECT_EQ(first.use_count(), 1);
    table.remove("a", first.get());
    EXPECT_EQ(table.find("a"), second);
}

TEST(RunTable, ALaterRunReplacesTheEarlierOneAlsoWithAnEntryToReuse) {
    RunTable<int> table;
    const auto first = std::make_shared<int>(1);
    table.add("a", first);
    // Every part has an entry to reuse.
    std::vector<std::shared_ptr<int>> others;
    for (int i = 0; i < 200; ++i) {
        others.push_back(std::make_shared<int>(i));
        table.add("b" + std::to_string(i), others.back());
    }
    for (int i = 0; i < 200; ++i)
        table.remove("b" + std::to_string(i), others.at(static_cast<std::size_t>(i)).get());
    const auto second = std::make_shared<int>(2);
    table.add("a", second);
    EXPECT_EQ(table.find("a"), second);
    EXPECT_EQ(first.use_count(), 1);
}

}  // namespace
}  // namespace cubepi::detail
