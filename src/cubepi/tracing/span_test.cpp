#include <cubepi/tracing/span.hpp>

#include <set>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

namespace cubepi {
namespace {

constexpr const char* example = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

TEST(SpanContext, ReadsAndWritesATraceparent) {
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

TEST(SpanContext, AcceptsALaterVersionWithMoreFields) {
    std::string later = example;
    later[1] = '1';
    EXPECT_TRUE(SpanContext::parse(later));
    EXPECT_TRUE(SpanContext::parse(later + "-more"));
    EXPECT_FALSE(SpanContext::parse(later + "more"));
}

TEST(SpanContext, RejectsAnInvalidTraceparent) {
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

TEST(SpanIds, AreValidAndDistinct) {
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

}  // namespace
}  // namespace cubepi
