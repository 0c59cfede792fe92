#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <bub/limits/usage_store.hpp>
#include <cubepi/core/run.hpp>

// The cases of every store of usage.

namespace bub::usage_tests {

inline const std::string day = "2026-12-01";

inline UsageLimit limit_of(std::optional<std::int64_t> messages,
                           std::optional<std::int64_t> tokens = {},
                           std::optional<std::int64_t> micros = {}) {
    return UsageLimit{messages, tokens, micros};
}

/// A turn of a message that counts toward one counter.
inline UsageAdmission turn(const std::string& counter, UsageLimit limit,
                           std::vector<std::string> records, const std::string& of_day = day) {
    UsageAdmission made;
    made.day = of_day;
    made.counters.push_back({counter, limit});
    made.unrecorded = records.empty() ? 1 : 0;
    made.records = std::move(records);
    return made;
}

inline UsageAmounts used(UsageStore& store, const std::string& counter,
                         const std::string& of_day = day) {
    for (const auto& [name, amounts] : cubepi::run(store.list(of_day, 100)))
        if (name == counter) return amounts;
    return {};
}

inline void run_cases(const std::shared_ptr<UsageStore>& store) {
    using cubepi::run;
    EXPECT_GT(run(store->now()), 0);
    EXPECT_TRUE(run(store->list(day, 10)).empty());
    // Messages count up to the limit, each record once.
    EXPECT_FALSE(run(store->admit(turn("user:a", limit_of(2), {"1"}))));
    EXPECT_FALSE(run(store->admit(turn("user:a", limit_of(2), {"1"}))));
    EXPECT_EQ(used(*store, "user:a"), (UsageAmounts{1, 0, 0}));
    // Messages of one prompt are counted together or not at all.
    const auto both = run(store->admit(turn("user:a", limit_of(2), {"2", "3"})));
    ASSERT_TRUE(both);
    EXPECT_EQ(both->kind, UsageKind::messages);
    EXPECT_EQ(used(*store, "user:a"), (UsageAmounts{1, 0, 0}));
    EXPECT_FALSE(run(store->admit(turn("user:a", limit_of(2), {"1", "2"}))));
    EXPECT_TRUE(run(store->admit(turn("user:a", limit_of(2), {"3"}))));
    EXPECT_TRUE(run(store->admit(turn("user:a", limit_of(2), {}))));
    // One that was counted is admitted, whatever was used since.
    EXPECT_FALSE(run(store->admit(turn("user:a", limit_of(1), {"1", "2"}))));
    // Other users and other days have counters of their own.
    EXPECT_FALSE(run(store->admit(turn("user:b", limit_of(1), {}))));
    EXPECT_FALSE(run(store->admit(turn("user:a", limit_of(1), {"3"}, "2026-12-02"))));
    EXPECT_EQ(used(*store, "user:a"), (UsageAmounts{2, 0, 0}));
    EXPECT_EQ(used(*store, "user:a", "2026-12-02"), (UsageAmounts{1, 0, 0}));
    // Tokens and money are limited by what was used before, also where a message counts nothing.
    const std::string today = day;
    run(store->add(today, {{"user:c", {0, 90, 5}}, {"total", {0, 90, 5}}}));
    EXPECT_FALSE(run(store->admit(turn("user:c", limit_of({}, 100, 10), {"4"}))));
    run(store->add(today, {{"user:c", {0, 10, 5}}, {"total", {0, 10, 5}}}));
    UsageAdmission both_reached = turn("user:c", limit_of({}, 101, 10), {});
    both_reached.unrecorded = 0;
    EXPECT_EQ(run(store->admit(std::move(both_reached)))->kind, UsageKind::money);
    EXPECT_EQ(run(store->admit(turn("user:c", limit_of({}, 100), {"5"})))->kind, UsageKind::tokens);
    EXPECT_FALSE(run(store->admit(turn("user:c", limit_of({}, 100), {"4"}))));
    // An answer counts nothing, and is admitted when it was admitted before.
    const auto answer = [](const char* record) {
        UsageAdmission made = turn("user:f", limit_of(1, 10), {record});
        made.counts_records = false;
        return made;
    };
    EXPECT_FALSE(run(store->admit(answer("11"))));
    EXPECT_EQ(used(*store, "user:f"), UsageAmounts());
    run(store->add(today, {{"user:f", {0, 10, 0}}}));
    EXPECT_FALSE(run(store->admit(answer("11"))));
    EXPECT_EQ(run(store->admit(answer("12")))->kind, UsageKind::tokens);
    EXPECT_EQ(run(store->admit(answer("12")))->kind, UsageKind::tokens);
    // A refused message counts toward none of several counters.
    UsageAdmission several = turn("user:d", limit_of(9), {"6"});
    several.counters.push_back({"total", limit_of({}, 100)});
    const auto total = run(store->admit(std::move(several)));
    ASSERT_TRUE(total);
    EXPECT_EQ(total->counter, 1u);
    EXPECT_EQ(used(*store, "user:d"), UsageAmounts());
    EXPECT_EQ(used(*store, "total"), (UsageAmounts{0, 100, 10}));
    // The highest costs come first, after the counter of all.
    const auto names = [&store](std::size_t most, const char* search) {
        std::vector<std::string> found;
        for (const auto& [name, amounts] : run(store->list(day, most, search)))
            found.push_back(name);
        return found;
    };
    using Names = std::vector<std::string>;
    EXPECT_EQ(names(3, ""), (Names{"total", "user:c", "user:f"}));
    EXPECT_EQ(names(9, "R:C"), (Names{"total", "user:c"}));
    EXPECT_EQ(names(9, "%"), Names{"total"});
    EXPECT_EQ(names(0, ""), Names());
    // Sums do not overflow.
    run(store->add(today, {{"user:e", {0, INT64_MAX, INT64_MAX}}}));
    run(store->add(today, {{"user:e", {0, INT64_MAX, 1}}}));
    EXPECT_EQ(used(*store, "user:e"), (UsageAmounts{0, INT64_MAX, INT64_MAX}));
    // Days that are over for a week are removed.
    EXPECT_FALSE(run(store->admit(turn("user:a", limit_of(1), {"9"}, "2026-12-08"))));
    EXPECT_EQ(used(*store, "user:a"), (UsageAmounts{2, 0, 0}));
    EXPECT_FALSE(run(store->admit(turn("user:a", limit_of(1), {"10"}, "2026-12-09"))));
    EXPECT_TRUE(run(store->list(day, 10)).empty());
    EXPECT_EQ(used(*store, "user:a", "2026-12-02"), (UsageAmounts{1, 0, 0}));
}

}  // namespace bub::usage_tests
