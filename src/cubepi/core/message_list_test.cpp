#include <cubepi/core/message_list.hpp>

#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include <cubepi/core/error.hpp>

namespace cubepi {
namespace {

Message message(int number) { return user_message(std::to_string(number)); }

MessageList numbers(int from, int count) {
    MessageList list;
    for (int i = 0; i < count; ++i) list.push_back(message(from + i));
    return list;
}

std::string spelled(const MessageList& list) {
    std::string text;
    for (const Message& one : list) text += one.text() + " ";
    return text;
}

TEST(MessageList, IsAListOfMessages) {
    MessageList list;
    EXPECT_TRUE(list.empty());
    EXPECT_EQ(list.begin(), list.end());
    list = numbers(0, 40);
    EXPECT_EQ(list.size(), 40u);
    EXPECT_EQ(list[7].text(), "7");
    EXPECT_EQ(list.front().text(), "0");
    EXPECT_EQ(list.back().text(), "39");
    EXPECT_EQ(list, MessageList(list.to_vector()));
    EXPECT_EQ(spelled({message(1), message(2)}), "1 2 ");
    list.clear();
    EXPECT_EQ(list, MessageList());
    EXPECT_NE(list, numbers(0, 1));
}

TEST(MessageList, CopiesShareTheirMessages) {
    const MessageList list = numbers(0, 10);
    const MessageList copy = list;
    EXPECT_EQ(copy.begin(), list.begin());
    MessageList longer = list;
    const Message* const before = longer.begin();
    longer.push_back(message(10));
    EXPECT_EQ(longer.begin(), before) << "the newest copy appends in place";
    EXPECT_EQ(list.size(), 10u);
    EXPECT_EQ(spelled(longer), spelled(list) + "10 ");
}

TEST(MessageList, D22_WhatOneCopyAppendsNoOtherSees) {
    const MessageList base = numbers(0, 5);
    MessageList left = base;
    MessageList right = base;
    left.push_back(message(100));
    right.push_back(message(200));
    left.push_back(message(101));
    EXPECT_EQ(spelled(base), "0 1 2 3 4 ");
    EXPECT_EQ(spelled(left), "0 1 2 3 4 100 101 ");
    EXPECT_EQ(spelled(right), "0 1 2 3 4 200 ");
}

TEST(MessageList, TruncateKeepsTheOthersWhole) {
    const MessageList base = numbers(0, 6);
    MessageList cut = base;
    cut.truncate(9);
    EXPECT_EQ(cut, base);
    cut.truncate(2);
    EXPECT_EQ(spelled(cut), "0 1 ");
    cut.push_back(message(50));
    EXPECT_EQ(spelled(cut), "0 1 50 ");
    EXPECT_EQ(spelled(base), "0 1 2 3 4 5 ");
    cut.truncate(0);
    EXPECT_TRUE(cut.empty());
    cut.push_back(message(1));
    EXPECT_EQ(spelled(cut), "1 ");
}

TEST(MessageList, LastAndWithFront) {
    const MessageList base = numbers(0, 4);
    EXPECT_EQ(spelled(base.last(2)), "2 3 ");
    EXPECT_EQ(base.last(0), MessageList());
    EXPECT_EQ(base.last(9).begin(), base.begin());
    EXPECT_EQ(MessageList().last(0), MessageList());
    EXPECT_EQ(spelled(base.with_front(message(9))), "9 0 1 2 3 ");
    EXPECT_EQ(spelled(MessageList().with_front(message(9))), "9 ");
    EXPECT_EQ(spelled(base), "0 1 2 3 ");
}

TEST(MessageList, AppendsListsAndItself) {
    MessageList list = numbers(0, 3);
    list.append(numbers(7, 2));
    EXPECT_EQ(spelled(list), "0 1 2 7 8 ");
    list.append(list);
    EXPECT_EQ(spelled(list), "0 1 2 7 8 0 1 2 7 8 ");
    MessageList none;
    none.append(list);
    EXPECT_EQ(none.begin(), list.begin());
    none.append(MessageList());
    EXPECT_EQ(none, list);
    none.push_back(message(1));
    EXPECT_EQ(list.size(), 10u);
}

TEST(MessageList, OneThatWasMovedFromIsEmpty) {
    MessageList list = numbers(0, 3);
    const MessageList taken = std::move(list);
    EXPECT_TRUE(list.empty());  // NOLINT(bugprone-use-after-move)
    list.push_back(message(5));
    EXPECT_EQ(spelled(list), "5 ");
    EXPECT_EQ(taken.size(), 3u);
    MessageList assigned = numbers(0, 9);
    assigned = std::move(list);
    EXPECT_EQ(spelled(assigned), "5 ");
    assigned = *&assigned;
    EXPECT_EQ(spelled(assigned), "5 ");
}

TEST(MessageList, CopiesAppendAndReadOnSeveralThreads) {
    const MessageList base = numbers(0, 5);
    std::vector<std::thread> threads;
    for (int i = 0; i < 4; ++i) {
        threads.emplace_back([copy = base, i]() mutable {
            for (int n = 0; n < 100; ++n) copy.push_back(message(1000 * i + n));
            for (int n = 0; n < 100; ++n) {
                EXPECT_EQ(copy[static_cast<std::size_t>(5 + n)].text(),
                          std::to_string(1000 * i + n));
            }
        });
    }
    for (std::thread& thread : threads) thread.join();
    EXPECT_EQ(spelled(base), "0 1 2 3 4 ");
}

TEST(MessageList, OlderCopiesAreReadWhileTheNewestGrows) {
    MessageList list = numbers(0, 1);
    std::vector<std::thread> readers;
    for (int i = 1; i <= 40; ++i) {
        if (i % 10 == 0) {
            readers.emplace_back([copy = list] {
                for (int n = 0; n < static_cast<int>(copy.size()); ++n) {
                    EXPECT_EQ(copy[static_cast<std::size_t>(n)].text(), std::to_string(n));
                }
            });
        }
        list.push_back(message(i));
    }
    for (std::thread& reader : readers) reader.join();
}

TEST(MessageList, AMessageIsTakenFromAListWithoutOtherOwners) {
    MessageList list;
    list.push_back(message(1));
    const Message copy = list[0];
    EXPECT_TRUE(std::move(list).take(0).is_same(copy));

    MessageList shared;
    shared.push_back(message(2));
    const MessageList other = shared;
    EXPECT_EQ(std::move(shared).take(0).text(), "2");
    EXPECT_EQ(other[0].text(), "2");
}

TEST(MessageList, RefusesAnEmptyMessage) {
    MessageList list;
    EXPECT_THROW(list.push_back(Message()), Error);
    EXPECT_THROW((MessageList{user_message("a"), Message()}), Error);
    EXPECT_TRUE(list.empty());
}

}  // namespace
}  // namespace cubepi
