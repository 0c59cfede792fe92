#include "span_index.hpp"

#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

namespace cubepi::app {
namespace {

TraceSpan span_with(std::string id) {
    TraceSpan span;
    span.span_id = std::move(id);
    return span;
}

TEST(SpanIndex, FindsEachSpanWhileTheVectorGrows) {
    constexpr std::size_t count = 3000;
    std::vector<TraceSpan> spans;
    SpanIndex index;
    EXPECT_EQ(index.find(spans, "0"), 0u);
    for (std::size_t i = 0; i < count; ++i) {
        ASSERT_EQ(index.add(spans, std::to_string(i)), i);
        spans.push_back(span_with(std::to_string(i)));
    }
    for (std::size_t i = 0; i < count; ++i) {
        EXPECT_EQ(index.find(spans, std::to_string(i)), i);
        EXPECT_EQ(index.add(spans, std::to_string(i)), i) << "an id that occurs again";
    }
    EXPECT_EQ(index.find(spans, "x"), count);
}

TEST(SpanIndex, OfAVectorFindsTheFirstSpanOfAnId) {
    std::vector<TraceSpan> spans;
    for (const char* id : {"a", "b", "a", ""}) spans.push_back(span_with(id));
    const SpanIndex index(spans);
    EXPECT_EQ(index.find(spans, "a"), 0u);
    EXPECT_EQ(index.find(spans, "b"), 1u);
    EXPECT_EQ(index.find(spans, ""), 3u);
    EXPECT_EQ(index.find(spans, "c"), spans.size());
}

}  // namespace
}  // namespace cubepi::app
