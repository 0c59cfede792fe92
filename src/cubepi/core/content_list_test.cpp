#include <cubepi/core/content_list.hpp>

#include <stdexcept>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include <cubepi/core/message.hpp>

namespace cubepi {
namespace {

using List = ContentList<std::string>;

const std::string longer = "a text that does not fit into the string itself";

TEST(ContentList, TakesTwoWords) { static_assert(sizeof(List) == 2 * sizeof(void*)); }

TEST(ContentList, IsMadeFromBlocksOrAVector) {
    EXPECT_TRUE(List().empty());
    const List listed = {"a", longer};
    const List moved = std::vector<std::string>{"a", longer};
    EXPECT_EQ(listed, moved);
    EXPECT_EQ(moved.size(), 2u);
    EXPECT_EQ(moved.front(), "a");
    EXPECT_EQ(moved.back(), longer);
}

TEST(ContentList, CopiesAreIndependentAndHaveNoSpareCapacity) {
    List list;
    for (int i = 0; i < 5; ++i) list.push_back(longer + std::to_string(i));
    List copy = list;
    EXPECT_EQ(copy, list);
    EXPECT_EQ(copy.capacity(), 5u);
    copy[4] = "changed";
    EXPECT_EQ(list[4], longer + "4");
    EXPECT_NE(copy, list);
    list = copy;
    EXPECT_EQ(list, copy);
}

TEST(ContentList, WhatWasMovedFromIsEmptyAndUsable) {
    List list = {longer, "b"};
    const List moved = std::move(list);
    EXPECT_EQ(moved.size(), 2u);
    list = {"new"};
    EXPECT_EQ(list.size(), 1u);
}

/// Returns the list stored in `message`, as code inside the library can access it.
ContentList<Content>& list_in(const Message& message) {
    return const_cast<ContentList<Content>&>(message.user()->content);
}

TEST(ContentList, MovingAListThatBelongsToAMessageTakesTheBlocksOutOfIt) {
    ContentList<Content> moved;
    ContentList<Content> assigned = {TextContent{"old"}};
    {
        Message first = user_message(longer);
        Message second = user_message(longer + "2");
        moved = ContentList<Content>(std::move(list_in(first)));
        assigned = std::move(list_in(second));
        EXPECT_TRUE(first.user()->content.empty());
        EXPECT_TRUE(second.user()->content.empty());
        list_in(first).emplace_back(TextContent{"again"});
        EXPECT_EQ(first.text(), "again");
        list_in(second) = {TextContent{"assigned"}};
        EXPECT_EQ(second.text(), "assigned");
    }
    EXPECT_EQ(std::get<TextContent>(moved.at(0)).text, longer);
    EXPECT_EQ(std::get<TextContent>(assigned.at(0)).text, longer + "2");
    EXPECT_GT(moved.capacity(), 0u);
}

TEST(ContentList, SwappingAListThatBelongsToAMessageOutlivesTheMessage) {
    ContentList<Content> other = {TextContent{"other"}};
    {
        Message message = user_message(longer);
        Message neighbour = user_message("neighbour");
        list_in(message).swap(list_in(neighbour));
        EXPECT_EQ(message.text(), "neighbour");
        EXPECT_EQ(neighbour.text(), longer);
        list_in(neighbour).swap(other);
        EXPECT_EQ(neighbour.text(), "other");
        list_in(message).clear();
        list_in(message).swap(list_in(neighbour));
        EXPECT_EQ(message.text(), "other");
        EXPECT_TRUE(neighbour.text().empty());
    }
    EXPECT_EQ(std::get<TextContent>(other.at(0)).text, longer);
}

TEST(ContentList, AddsItsOwnBlocksWhileItGrows) {
    List list = {longer};
    for (int i = 0; i < 6; ++i) list.push_back(list.front());
    EXPECT_EQ(list.size(), 7u);
    for (const std::string& one : list) EXPECT_EQ(one, longer);
}

TEST(ContentList, InsertsErasesAndResizesInOrder) {
    List list = {"a", "c", longer};
    EXPECT_EQ(*list.insert(list.begin() + 1, "b"), "b");
    EXPECT_EQ(list, (List{"a", "b", "c", longer}));
    const auto next = list.erase(list.begin());
    EXPECT_EQ(*next, "b");
    const auto after = list.erase(list.begin() + 1, list.end());
    EXPECT_EQ(after, list.end());
    EXPECT_EQ(list, List{"b"});
    list.resize(2);
    EXPECT_EQ(list, (List{"b", ""}));
    list.pop_back();
    list.resize(0);
    EXPECT_TRUE(list.empty());
    list.clear();
}

TEST(ContentList, RefusesABlockThatIsNotThere) {
    const List list = {"a"};
    EXPECT_EQ(list.at(0), "a");
    EXPECT_THROW((void)list.at(1), std::out_of_range);
}

}  // namespace
}  // namespace cubepi
