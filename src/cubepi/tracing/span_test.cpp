#include <cubepi/tracing/span.hpp>

#include <cstdint>
#include <limits>
#include <set>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

namespace cubepi {
namespace {

using Kind = AttributeValue::Kind;

constexpr const char* example = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

TEST(SpanContext, Traceparent_IsReadAndWritten) {
    const std::optional<SpanContext> context = SpanContext::parse(example);
    ASSERT_TRUE(context);
    EXPECT_EQ(context->trace_id.hex(), "4bf92f3577b34da6a3ce929d0e0e4736");
    EXPECT_EQ(context->span_id.hex(), "00f067aa0ba902b7");
    EXPECT_TRUE(context->sampled);
    EXPECT_EQ(context->traceparent(), example);
    std::string unsampled = example;
    unsampled.back() = '0';
    EXPECT_FALSE(SpanContext::parse(unsampled)->sampled);
}

TEST(SpanContext, LaterVersionWithMoreFields_IsAccepted) {
    std::string later = example;
    later[1] = '1';
    EXPECT_TRUE(SpanContext::parse(later));
    EXPECT_TRUE(SpanContext::parse(later + "-more"));
    EXPECT_FALSE(SpanContext::parse(later + "more"));
}

TEST(SpanContext, InvalidTraceparent_IsRejected) {
    const std::string good = example;
    for (std::size_t size = 0; size < good.size(); ++size)
        EXPECT_FALSE(SpanContext::parse(good.substr(0, size))) << size;
    EXPECT_FALSE(SpanContext::parse(good + "-more"));
    EXPECT_FALSE(SpanContext::parse("ff" + good.substr(2)));
    EXPECT_FALSE(SpanContext::parse("00-00000000000000000000000000000000-00f067aa0ba902b7-01"));
    EXPECT_FALSE(SpanContext::parse("00-4bf92f3577b34da6a3ce929d0e0e4736-0000000000000000-01"));
    for (std::size_t at = 0; at < good.size(); ++at) {
        std::string broken = good;
        broken[at] = 'X';
        EXPECT_FALSE(SpanContext::parse(broken)) << at;
    }
    EXPECT_FALSE(SpanContext::parse("00-4BF92F3577B34DA6A3CE929D0E0E4736-00F067AA0BA902B7-01"));
}

TEST(SpanIds, Ids_AreValidAndDistinct) {
    std::set<std::string> seen;
    for (int i = 0; i < 1000; ++i) {
        const TraceId trace = TraceId::random();
        const SpanId span = SpanId::random();
        EXPECT_TRUE(trace.valid());
        EXPECT_TRUE(span.valid());
        seen.insert(trace.hex());
        seen.insert(span.hex());
    }
    EXPECT_EQ(seen.size(), 2000u);
}

TEST(AttributeValue, Value_HasOneOfFiveKinds) {
    EXPECT_EQ(AttributeValue("literal").if_text(), "literal");
    EXPECT_EQ(AttributeValue(SharedString("shared")).if_text(), "shared");
    EXPECT_EQ(AttributeValue(std::string("text")).if_text(), "text");
    EXPECT_EQ(AttributeValue(std::string_view("view")).if_text(), "view");
    EXPECT_EQ(AttributeValue().if_text(), "");
    EXPECT_EQ(*AttributeValue(true).if_boolean(), true);
    EXPECT_EQ(*AttributeValue(-7).if_integer(), -7);
    EXPECT_EQ(*AttributeValue(7U).if_integer(), 7);
    EXPECT_EQ(*AttributeValue(std::numeric_limits<std::int64_t>::min()).if_integer(),
              std::numeric_limits<std::int64_t>::min());
    EXPECT_EQ(*AttributeValue(2.5).if_number(), 2.5);
    EXPECT_EQ(AttributeValue(std::vector<SharedString>{"a", "b"}).if_list()->size(), 2u);
    EXPECT_EQ(AttributeValue("x").kind(), Kind::text);
    EXPECT_EQ(AttributeValue(SharedString("x")).kind(), Kind::text);
    EXPECT_EQ(AttributeValue(false).kind(), Kind::boolean);
    EXPECT_EQ(AttributeValue(1).kind(), Kind::integer);
    EXPECT_EQ(AttributeValue(1.0).kind(), Kind::number);
    EXPECT_EQ(AttributeValue(TextList()).kind(), Kind::list);
    static_assert(!std::is_constructible_v<AttributeValue, std::uint64_t>);
}

TEST(AttributeValue, OtherKind_IsAbsent) {
    EXPECT_FALSE(AttributeValue(1).if_text());
    EXPECT_FALSE(AttributeValue("1").if_integer());
    EXPECT_FALSE(AttributeValue(1).if_number());
    EXPECT_FALSE(AttributeValue(1).if_boolean());
    EXPECT_FALSE(AttributeValue("1").if_list());
}

TEST(AttributeValue, Texts_AreComparedByContent) {
    EXPECT_EQ(AttributeValue("a"), AttributeValue(SharedString("a")));
    EXPECT_NE(AttributeValue("a"), AttributeValue("b"));
    EXPECT_NE(AttributeValue(1), AttributeValue(1.0));
    EXPECT_NE(AttributeValue(true), AttributeValue("true"));
    EXPECT_EQ(AttributeValue(std::vector<SharedString>{"a"}),
              AttributeValue(std::vector<SharedString>{"a"}));
}

TEST(AttributeValue, Value_IsCopiedAndMoved) {
    const std::vector<AttributeValue> all = {
        "literal", SharedString("shared"), true, 7, 2.5, std::vector<SharedString>{"a", "b"}};
    for (const AttributeValue& one : all) {
        for (const AttributeValue& other : all) {
            AttributeValue value = other;
            value = one;
            EXPECT_EQ(value, one);
            AttributeValue moved = std::move(value);
            EXPECT_EQ(moved, one);
            value = other;
            value = std::move(moved);
            EXPECT_EQ(value, one);
            AttributeValue& same = value;
            value = same;
            EXPECT_EQ(value, one);
        }
    }
}

TEST(AttributeValue, Memory_CountsOnlySharedTexts) {
    EXPECT_EQ(AttributeValue("a literal").memory(), 0u);
    EXPECT_EQ(AttributeValue(std::string(1000, 'x')).memory(), 1000u);
    EXPECT_GE(AttributeValue(std::vector<SharedString>{"abc", "de"}).memory(), 5u);
    Attributes attributes;
    attributes.add("a", std::string(1000, 'x'));
    attributes.add("b", 1);
    EXPECT_EQ(attributes.memory(), 1000u + 2 * sizeof(Attribute));
}

TEST(Attributes, SetValue_ReplacesAndKeepsOrder) {
    Attributes attributes;
    attributes.set("b", std::int64_t{1});
    attributes.set("a", true);
    attributes.set("b", 2.5);
    EXPECT_EQ(attributes.size(), 2u);
    EXPECT_EQ(attributes.begin()->key.text(), "b");
    ASSERT_NE(attributes.find("b"), nullptr);
    EXPECT_EQ(*attributes.find("b"), 2.5);
    EXPECT_EQ(attributes.find("c"), nullptr);
}

TEST(Attributes, Key_IsALiteralOrAString) {
    const AttributeKey literal = "key";
    AttributeKey owned = std::string("a key that is longer than a literal's pointer");
    AttributeKey copy = owned;
    EXPECT_EQ(copy.text(), "a key that is longer than a literal's pointer");
    const AttributeKey moved = std::move(copy);
    EXPECT_EQ(moved, owned);
    copy = literal;
    EXPECT_EQ(copy.text(), "key");
    copy = moved;
    copy = std::move(owned);
    EXPECT_EQ(copy, moved);
    EXPECT_EQ(AttributeKey(), AttributeKey(std::string()));
}

TEST(Attributes, ListCopies_ShareTheirContent) {
    const TextList list = std::vector<SharedString>{"a", "b"};
    TextList copy = list;
    EXPECT_EQ(copy.begin(), list.begin());
    EXPECT_EQ(copy, TextList(std::vector<SharedString>{"a", "b"}));
    EXPECT_NE(copy, TextList(std::vector<SharedString>{"a"}));
    copy = TextList();
    EXPECT_TRUE(copy.empty());
    EXPECT_EQ(copy.size(), 0U);
    EXPECT_EQ(list.size(), 2U);
    EXPECT_EQ(copy, TextList(std::vector<SharedString>()));
}

}  // namespace
}  // namespace cubepi
