#include <cubepi/workspace/process/output_buffer.hpp>

#include <gtest/gtest.h>

#include <cubepi/net/utf8.hpp>

namespace cubepi::detail {
namespace {

TEST(OutputBuffer, ReturnsShortTextUnchanged) {
    OutputBuffer buffer(4, 6);
    buffer.append("abc");
    buffer.append("defghij");
    EXPECT_EQ(buffer.size(), 10u);
    EXPECT_EQ(buffer.from(0, {}), "abcdefghij");
    EXPECT_EQ(buffer.from(2, {}), "cdefghij");
    EXPECT_EQ(buffer.from(7, {}), "hij");
    EXPECT_EQ(buffer.from(10, {}), "");
}

TEST(OutputBuffer, B12_KeepsHeadAndTailInBoundedMemory) {
    OutputBuffer buffer(10, 20);
    for (int i = 0; i < 100000; ++i) buffer.append("0123456789");
    EXPECT_EQ(buffer.size(), 1000000u);
    EXPECT_EQ(buffer.from(0, "see f"),
              "0123456789\n[... 999970 bytes omitted; see f ...]\n01234567890123456789");
    EXPECT_EQ(buffer.from(999995, {}), "56789");
    EXPECT_EQ(buffer.last(5), "56789");
}

TEST(OutputBuffer, NeverCutsACharacter) {
    OutputBuffer buffer(5, 7);
    std::string all;
    for (int i = 0; i < 50; ++i) {
        buffer.append("\xE2\x82\xAC");
        all += "\xE2\x82\xAC";
        for (std::uint64_t from = 0; from <= buffer.size(); ++from) {
            EXPECT_TRUE(is_utf8(buffer.from(from, {})));
        }
        for (std::size_t n = 0; n < 10; ++n) {
            EXPECT_TRUE(is_utf8(buffer.last(n)));
        }
    }
}

TEST(OutputBuffer, DetectsTruncationInAdvance) {
    for (const std::string piece : {"a", "\xE2\x82\xAC", "0123456"}) {
        OutputBuffer buffer(8, 16);
        std::string all;
        while (buffer.holds_all(piece.size())) {
            buffer.append(piece);
            all += piece;
            EXPECT_EQ(buffer.from(0, {}), all);
        }
        EXPECT_GE(all.size() + piece.size() + 4, 24u);
    }
}

}  // namespace
}  // namespace cubepi::detail
