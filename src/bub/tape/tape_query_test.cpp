#include <bub/tape/tape_query.hpp>

#include <gtest/gtest.h>

#include <bub/tape/file_tape_store.hpp>
#include <bub/tape/memory_tape_store.hpp>
#include <bub/tape/tape.hpp>
#include <bub/tape/tape_test_support.hpp>
#include <cubepi/core/error.hpp>

namespace bub {
namespace {

/// Returns the names of anchors and the texts of messages, or the code of an error.
std::string asked(TapeStore& store, TapeQuery query) {
    std::string found;
    try {
        for (const TapeEntry& entry : run(store.fetch("w__s", std::move(query)))) {
            const Json* text = entry.payload.if_contains("content");
            found += text ? std::string_view(text->as_string()) : entry_name(entry);
            found += ' ';
        }
    } catch (const cubepi::Error& error) {
        found = to_string(error.code());
    }
    return found;
}

void fill(TapeStore& store, int from, int to) {
    const char* const names[] = {"0", "#a", "1", "#b", "2", "#a", "3"};
    for (int i = from; i < to; ++i) {
        const std::string name = names[i];
        std::vector<TapeEntry> one;
        one.push_back(name.front() == '#' ? anchor_entry(name) : message_entry("user", name));
        run(store.append("w__s", std::move(one), TapeAppend()));
    }
}

}  // namespace

/// Runs every query on a tape in memory, on one in files, and on each split between a tape and its fork.
class Queries : public ::testing::TestWithParam<int> {
protected:
    Queries() {
        const int split = GetParam();
        if (split < 0) {
            store_ = std::make_shared<FileTapeStore>(directory_.options());
            fill(*store_, 0, 7);
        } else {
            const auto parent = std::make_shared<FileTapeStore>(directory_.options());
            fill(*parent, 0, split);
            store_ = std::make_shared<TurnTransaction>(parent, "w__s");
            fill(*store_, split, 7);
        }
    }
    std::string ask(TapeQuery query) { return asked(*store_, std::move(query)); }

    TestDirectory directory_;
    std::shared_ptr<TapeStore> store_;
};

TEST_P(Queries, B17_AnswerTheSameInForks) {
    EXPECT_EQ(ask(TapeQuery()), "0 #a 1 #b 2 #a 3 ");
    EXPECT_EQ(ask(TapeQuery().last_anchor()), "3 ");
    EXPECT_EQ(ask(TapeQuery().last_anchor().with_anchor()), "#a 3 ");
    EXPECT_EQ(ask(TapeQuery().after_anchor("#b")), "2 #a 3 ");
    EXPECT_EQ(ask(TapeQuery().after_anchor("#b").with_anchor()), "#b 2 #a 3 ");
    EXPECT_EQ(ask(TapeQuery().after_anchor("#x")), "not_found");
    EXPECT_EQ(ask(TapeQuery().after_anchor("")), "0 #a 1 #b 2 #a 3 ");
    EXPECT_EQ(ask(TapeQuery().between_anchors("#b", "#a")), "2 ");
    EXPECT_EQ(ask(TapeQuery().between_anchors("#b", "#a").with_anchor()), "#b 2 ");
    EXPECT_EQ(ask(TapeQuery().between_anchors("#a", "#b")), "not_found") << "the last #a";
    EXPECT_EQ(ask(TapeQuery().between_anchors("#x", "#b")), "not_found");
    EXPECT_EQ(ask(TapeQuery().limit(3)), "0 #a 1 ");
    EXPECT_EQ(ask(TapeQuery().limit(0)), "");
    EXPECT_EQ(ask(TapeQuery().newest_first().limit(4)), "3 #a 2 #b ");
    EXPECT_EQ(ask(TapeQuery().newest_first().kinds({"message"}).limit(3)), "3 2 1 ");
    EXPECT_EQ(ask(TapeQuery().kinds({"anchor"})), "#a #b #a ");
    EXPECT_EQ(ask(TapeQuery().text("2")), "2 ");
    EXPECT_EQ(ask(TapeQuery().between_dates("2020-01-02", "2020-01-01")), "invalid_argument");
    EXPECT_EQ(ask(TapeQuery().between_dates("2020-01-01", "2020-01-02")), "");
    EXPECT_EQ(ask(TapeQuery().between_dates("2020-01-01", "9999-01-02").limit(1)), "0 ");
    const TapeInfo info = run(store_->info("w__s"));
    EXPECT_EQ(info.entries, 7);
    EXPECT_EQ(info.anchors, 3);
    EXPECT_EQ(info.last_anchor, "#a");
    EXPECT_EQ(info.entries_since_last_anchor, 1);
    EXPECT_EQ(run(store_->anchors("w__s", 2)).size(), 2u);
    EXPECT_EQ(run(store_->position("w__s")).messages, 4);
}

INSTANTIATE_TEST_SUITE_P(SplitAt, Queries, ::testing::Values(-1, 0, 1, 2, 3, 4, 5, 6, 7));

}  // namespace bub
