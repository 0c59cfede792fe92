#include <cubepi/net/sse_decoder.hpp>

#include <string>
#include <vector>

#include <gtest/gtest.h>

#include <cubepi/net/utf8.hpp>

namespace cubepi {
namespace {

struct Seen {
    std::string event;
    std::string data;
    std::string id;
    long retry = -1;
    bool operator==(const Seen&) const = default;
};

void PrintTo(const Seen& seen, std::ostream* out) {
    *out << seen.event << '|' << seen.data << '|' << seen.id << '|' << seen.retry;
}

Seen copy(const SseEvent& event) {
    return {std::string(event.event), std::string(event.data), std::string(event.id),
            event.retry ? static_cast<long>(event.retry->count()) : -1};
}

std::vector<Seen> decode(std::string_view stream, std::size_t piece, bool finish = false) {
    SseDecoder decoder;
    std::vector<Seen> seen;
    SseEvent event;
    for (std::size_t at = 0; at < stream.size(); at += piece) {
        decoder.feed(stream.substr(at, piece));
        while (decoder.next(event)) seen.push_back(copy(event));
    }
    if (finish && decoder.finish(event)) seen.push_back(copy(event));
    return seen;
}

/// Expects the same events wherever the bytes are split.
void expect_events(std::string_view stream, const std::vector<Seen>& expected) {
    for (std::size_t piece = 1; piece <= stream.size(); ++piece) {
        EXPECT_EQ(decode(stream, piece), expected) << "pieces of " << piece;
    }
}

TEST(SseDecoder, FieldsWithAndWithoutSpace_AreRead) {
    expect_events("data: one\n\ndata:two\n\ndata:  three\n\n",
                  {{"message", "one", ""}, {"message", "two", ""}, {"message", " three", ""}});
}

TEST(SseDecoder, EveryLineEnding_IsRead) {
    expect_events(
        "data: a\r\n\r\ndata: b\r\rdata: c\n\ndata: d\r\n\n",
        {{"message", "a", ""}, {"message", "b", ""}, {"message", "c", ""}, {"message", "d", ""}});
}

TEST(SseDecoder, CarriageReturn_DoesNotWaitForLineFeed) {
    SseDecoder decoder;
    SseEvent event;
    decoder.feed("data: a\r\n\r");
    ASSERT_TRUE(decoder.next(event));
    EXPECT_EQ(event.data, "a");
    decoder.feed("\ndata: b\r\n\r");
    ASSERT_TRUE(decoder.next(event));
    EXPECT_EQ(event.data, "b");
}

TEST(SseDecoder, DataLines_AreJoined) {
    expect_events("data: a\ndata\ndata: c\n\ndata: YHOO\ndata: +2\n\n",
                  {{"message", "a\n\nc", ""}, {"message", "YHOO\n+2", ""}});
}

TEST(SseDecoder, ByteOrderMark_IsSkippedOnlyAtStart) {
    expect_events(
        "\xEF\xBB\xBF"
        "data: a\n\n\xEF\xBB\xBF"
        "data: lost\n\n",
        {{"message", "a", ""}});
}

TEST(SseDecoder, CommentsAndUnknownFields_AreSkipped) {
    expect_events(": keep-alive\n\n:\n\ndata: a\n: between\nfoo: bar\ndatax: no\n\n: ping\n\n",
                  {{"message", "a", ""}});
}

TEST(SseDecoder, TypeIdAndRetry_AreRead) {
    expect_events("event: delta\nid: 7\nretry: 1500\ndata: x\n\ndata: y\n\nid\ndata: z\n\n",
                  {{"delta", "x", "7", 1500}, {"message", "y", "7"}, {"message", "z", ""}});
}

TEST(SseDecoder, InvalidRetryAndIdWithNul_AreIgnored) {
    using namespace std::string_view_literals;
    expect_events("retry: 12a\nretry:\nid: a\0b\ndata: x\n\n"sv, {{"message", "x", ""}});
}

TEST(SseDecoder, EventWithoutData_IsNotDispatched) {
    expect_events("event: nothing\nid: 3\n\ndata\n\ndata:\n\n",
                  {{"message", "", "3"}, {"message", "", "3"}});
}

TEST(SseDecoder, UnfinishedEvent_IsReturnedOnlyOnRequest) {
    EXPECT_TRUE(decode("data: a", 1).empty());
    EXPECT_TRUE(decode("data: a\n", 1).empty());
    EXPECT_EQ(decode("data: a", 1, true), (std::vector<Seen>{{"message", "a", ""}}));
    EXPECT_EQ(decode("data: a\r", 1, true), (std::vector<Seen>{{"message", "a", ""}}));
    EXPECT_EQ(decode("data: a\ndata: b", 3, true), (std::vector<Seen>{{"message", "a\nb", ""}}));
    EXPECT_TRUE(decode(": only a comment", 4, true).empty());
}

TEST(SseDecoder, BigEventInSmallPieces_KeepsItsBytes) {
    std::string big(300'000, 'x');
    for (std::size_t i = 0; i < big.size(); i += 1000)
        big[i] = static_cast<char>('a' + i / 1000 % 26);
    const std::string stream = "data: small\n\ndata: " + big + "\n\ndata: after\n\n";
    EXPECT_EQ(decode(stream, 777),
              (std::vector<Seen>{
                  {"message", "small", ""}, {"message", big, ""}, {"message", "after", ""}}));
}

TEST(SseDecoder, LongStream_DoesNotGrowTheBuffer) {
    SseDecoder decoder;
    SseEvent event;
    for (int i = 0; i < 10'000; ++i) {
        decoder.feed("data: 0123456789\n\n: keep-alive\n\ndata: half");
        while (decoder.next(event)) {
        }
        decoder.feed("\n\n");
        while (decoder.next(event)) {
        }
    }
    EXPECT_LT(decoder.buffer().capacity(), 1000u);
}

TEST(SseDecoder, EndlessLine_IsRefused) {
    SseDecoder decoder(SseLimits{100, 1000});
    SseEvent event;
    EXPECT_THROW(
        {
            for (int i = 0; i < 20; ++i) {
                decoder.feed("0123456789");
                (void)decoder.next(event);
            }
        },
        Error);
}

TEST(SseDecoder, EndlessEvent_IsRefused) {
    for (const char* line : {"data: 0123456789\n", "data\nfoo: 0123456789\n"}) {
        SseDecoder decoder(SseLimits{100, 1000});
        SseEvent event;
        ErrorCode code = ErrorCode::unknown;
        try {
            for (int i = 0; i < 1000; ++i) {
                decoder.feed(line);
                ASSERT_FALSE(decoder.next(event));
            }
        } catch (const Error& error) {
            code = error.code();
        }
        EXPECT_EQ(code, ErrorCode::too_large) << line;
    }
}

const std::string text = "a\xC3\xA9-\xE2\x82\xAC-\xF0\x9F\x98\x80.";  // 2, 3 and 4 byte characters
const std::string mark = "\xEF\xBF\xBD";

TEST(Utf8, Prefix_NeverCutsACharacter) {
    for (std::size_t size = 0; size <= text.size(); ++size) {
        const std::string_view part = std::string_view(text).substr(0, size);
        const std::size_t whole = complete_utf8_prefix(part);
        EXPECT_TRUE(is_utf8(part.substr(0, whole))) << size;
        EXPECT_LE(part.size() - whole, 3u);
    }
    EXPECT_EQ(complete_utf8_prefix(text), text.size());
}

TEST(Utf8, BrokenEnd_IsNotAwaited) {
    EXPECT_EQ(complete_utf8_prefix("a\xFF"), 2u);
    EXPECT_EQ(complete_utf8_prefix("a\x80\x80\x80\x80"), 5u);
    EXPECT_EQ(complete_utf8_prefix("a\xE0\x80"), 3u);
}

TEST(Utf8, WellFormedText_IsRecognized) {
    EXPECT_TRUE(is_utf8(text));
    EXPECT_TRUE(is_utf8(""));
    for (const char* broken : {"\x80", "\xC0\xAF", "\xC3", "\xED\xA0\x80", "\xF4\x90\x80\x80",
                               "\xE2\x82", "abcdefgh\xFF"}) {
        EXPECT_FALSE(is_utf8(broken));
    }
}

TEST(Utf8, BrokenText_ReplacesEachMaximalPart) {
    EXPECT_EQ(replace_broken_utf8(text), text);
    EXPECT_EQ(replace_broken_utf8("a\xF0\x9F\x98z"), "a" + mark + "z");
    EXPECT_EQ(replace_broken_utf8("\xED\xA0\x80"), mark + mark + mark);
    EXPECT_EQ(replace_broken_utf8("a\xE2\x82"), "a" + mark);
}

TEST(Utf8Splitter, EverySplit_ReturnsTheSameText) {
    const std::string broken = text + "\xFF" + text + "\xE2\x82" + text + "\xF0\x9F";
    const std::string expected = text + mark + text + mark + text + mark;
    for (std::size_t piece = 1; piece <= broken.size(); ++piece) {
        Utf8Splitter splitter;
        std::string out;
        for (std::size_t at = 0; at < broken.size(); at += piece) {
            std::string delta;
            splitter.push(std::string_view(broken).substr(at, piece), delta);
            EXPECT_TRUE(is_utf8(delta));
            out += delta;
        }
        splitter.finish(out);
        EXPECT_EQ(out, expected) << "pieces of " << piece;
    }
}

}  // namespace
}  // namespace cubepi
