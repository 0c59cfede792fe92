#include <cubepi/core/stream_event.hpp>

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include <cubepi/core/sanitizer_test_support.hpp>
#include <cubepi/core/support/message_log.hpp>

#if CUBEPI_UNDER_SANITIZER
// g++ 12 has the function without its header.
extern "C" std::size_t __sanitizer_get_current_allocated_bytes();
#else
#include <malloc.h>
#endif

namespace cubepi {
namespace {

using detail::MessageLog;

TEST(StreamEvent, TypeNames_AreThoseOfTheProtocol) {
    std::set<std::string_view> names;
    for (int i = 0; i <= static_cast<int>(StreamEventType::notice); ++i) {
        EXPECT_TRUE(names.insert(to_string(static_cast<StreamEventType>(i))).second);
    }
    EXPECT_EQ(to_string(StreamEventType::toolcall_delta), "toolcall_delta");
}

TEST(StreamEvent, BlockAndTerminalEvents_AreDistinguished) {
    const auto of = [](StreamEventType type) {
        StreamEvent event;
        event.type = type;
        return event;
    };
    EXPECT_FALSE(of(StreamEventType::start).is_block_event());
    EXPECT_TRUE(of(StreamEventType::text_start).is_block_event());
    EXPECT_TRUE(of(StreamEventType::toolcall_end).is_block_event());
    EXPECT_FALSE(of(StreamEventType::done).is_block_event());
    EXPECT_FALSE(of(StreamEventType::notice).is_block_event());
    EXPECT_TRUE(of(StreamEventType::done).is_terminal());
    EXPECT_TRUE(of(StreamEventType::error).is_terminal());
    EXPECT_FALSE(of(StreamEventType::notice).is_terminal());
}

TEST(StreamEvent, Delta_LivesAsLongAsAnyEventCopy) {
    std::vector<StreamEvent> retained;
    {
        auto log = MessageLog::make(AssistantMessage());
        log->open(MessageLog::Kind::text_start, 0, TextContent());
        for (int i = 0; i < 100; ++i) {
            StreamEvent event;
            event.type = StreamEventType::text_delta;
            event.content_index = 0;
            event.delta = log->delta(0, "piece " + std::to_string(i));
            event.partial = log->snapshot();
            const StreamEvent copy = event;
            if (i % 9 == 0) retained.push_back(copy);
        }
    }
    for (std::size_t i = 0; i < retained.size(); ++i) {
        EXPECT_EQ(retained[i].delta, "piece " + std::to_string(9 * i));
        EXPECT_TRUE(retained[i].partial.text().ends_with(retained[i].delta));
    }
}

TEST(StreamEvent, D45_ErrorEvent_RepeatsItsMessage) {
    AssistantMessage failed;
    failed.error_message = "overloaded";
    StreamEvent event;
    event.partial = PartialMessage(Message(failed));
    EXPECT_EQ(event.error_message(), "");
    event.type = StreamEventType::error;
    EXPECT_EQ(event.error_message(), "overloaded");
    EXPECT_EQ(event.partial.get(), failed);
}

detail::LogRef new_log() {
    AssistantMessage head;
    head.id = "m";
    head.model_id = "model";
    return MessageLog::make(std::move(head));
}

ToolCall call(JsonObject arguments) {
    ToolCall it;
    it.id = "c1";
    it.name = "add";
    it.arguments = std::move(arguments);
    return it;
}

TEST(PartialMessage, D10_Snapshot_NeverChanges) {
    const auto log = new_log();
    std::vector<std::pair<PartialMessage, AssistantMessage>> retained;
    AssistantMessage expected;
    expected.id = "m";
    expected.model_id = "model";
    const auto keep = [&] { retained.emplace_back(log->snapshot(), expected); };
    keep();
    log->open(MessageLog::Kind::thinking_start, 0, ThinkingContent());
    expected.content.emplace_back(ThinkingContent());
    keep();
    log->open(MessageLog::Kind::text_start, 1, TextContent());
    expected.content.emplace_back(TextContent());
    keep();
    for (int i = 0; i < 100; ++i) {  // blocks that interleave, over several pages of the log
        const std::string piece = std::to_string(i) + " ";
        if (i % 3 == 0) {
            log->delta(0, piece);
            std::get<ThinkingContent>(expected.content[0]).thinking += piece;
        } else {
            log->delta(1, piece);
            std::get<TextContent>(expected.content[1]).text += piece;
        }
        keep();
    }
    ThinkingContent signed_one = std::get<ThinkingContent>(expected.content[0]);
    signed_one.extra["signature"] = "c2ln";
    log->replace(0, signed_one);
    expected.content[0] = signed_one;
    keep();
    log->open(MessageLog::Kind::toolcall_start, 2, call({}));
    const detail::LogPosition call_start = log->last_position();
    expected.content.emplace_back(call({}));
    keep();
    log->delta(2, R"({"a":)");
    keep();
    log->delta(2, "1}");
    keep();
    EXPECT_EQ(log->raw(2, call_start), R"({"a":1})");
    log->replace(2, call({{"a", 1}}));
    expected.content[2] = call({{"a", 1}});
    keep();
    log->end(1);
    keep();

    for (const auto& [snapshot, then] : retained) {
        EXPECT_EQ(snapshot.get(), then);
        EXPECT_EQ(snapshot.text(), then.text());
        EXPECT_EQ(snapshot.message(), Message(then));
    }
}

TEST(PartialMessage, D45_PartialOfFinalMessage_IsThatMessage) {
    AssistantMessage answer;
    answer.content.emplace_back(TextContent{"done"});
    const Message message = answer;
    const PartialMessage partial(message);
    EXPECT_TRUE(partial);
    EXPECT_TRUE(partial.message().is_same(message));
    EXPECT_EQ(partial.get(), answer);
    EXPECT_EQ(partial.text(), "done");
}

TEST(PartialMessage, NoPartial_IsEmpty) {
    const PartialMessage none;
    EXPECT_FALSE(none);
    EXPECT_EQ(none.get(), AssistantMessage());
    EXPECT_EQ(none.text(), "");
    const PartialMessage first = new_log()->snapshot();
    EXPECT_TRUE(first);
    EXPECT_EQ(first.get().id, "m");
}

TEST(PartialMessage, Partial_OutlivesItsLog) {
    PartialMessage partial;
    {
        const auto log = new_log();
        log->open(MessageLog::Kind::text_start, 0, TextContent());
        log->delta(0, "retained");
        log->delta(0, "");
        partial = log->snapshot();
    }
    EXPECT_EQ(partial.text(), "retained");
}

TEST(PartialMessage, LongTextAndManyBytes_AreRetained) {
    const auto log = new_log();
    log->open(MessageLog::Kind::text_start, 0, TextContent{"start:"});
    std::string expected = "start:";
    for (const std::size_t size : {1u, 255u, 257u, 100'000u, 3u, 70'000u, 1u}) {
        const std::string piece(size, static_cast<char>('a' + size % 26));
        EXPECT_EQ(log->delta(0, piece), piece);
        expected += piece;
    }
    EXPECT_EQ(log->snapshot().text(), expected);
}

TEST(PartialMessage, D10_ReplayedMessage_IsToldPieceByPiece) {
    AssistantMessage whole;
    TextContent text;
    text.text = "Look here";
    text.extra["item"] = 1;
    whole.content.emplace_back(text);
    whole.content.emplace_back(call({{"a", 1}}));
    const Message played(whole);
    const AssistantMessage& blocks = *played.assistant();

    const auto log = new_log();
    log->play(played);
    const PartialMessage empty = log->snapshot();
    log->open_played(0, blocks.content[0]);
    const PartialMessage begun = log->snapshot();
    log->delta_played(0,
                      std::string_view(std::get<TextContent>(blocks.content[0]).text).substr(0, 4));
    const PartialMessage half = log->snapshot();
    log->end(0);
    log->open_played(1, blocks.content[1]);
    const PartialMessage asked = log->snapshot();
    log->replace_played(1, blocks.content[1]);
    const PartialMessage called = log->snapshot();

    EXPECT_TRUE(empty.get().content.empty());
    EXPECT_TRUE(empty.message().is_same(empty.message())) << "nothing to build";
    EXPECT_EQ(begun.text(), "");
    EXPECT_EQ(std::get<TextContent>(begun.get().content[0]).extra, text.extra);
    EXPECT_EQ(half.text(), "Look");
    EXPECT_EQ(asked.get().content[1], AssistantContent(call({})));
    EXPECT_EQ(called.get().content[1], blocks.content[1]);
}

/// Returns the number of bytes allocated by the process.
std::size_t bytes_allocated() {
#if CUBEPI_UNDER_SANITIZER
    return __sanitizer_get_current_allocated_bytes();
#else
    const struct mallinfo2 info = mallinfo2();
    return info.uordblks + info.hblkhd;
#endif
}

/// Returns the number of bytes held by a stream of `deltas` pieces, with every snapshot stored.
std::size_t bytes_held(int deltas) {
    const std::size_t before = bytes_allocated();
    const auto log = MessageLog::make(AssistantMessage());
    std::vector<PartialMessage> retained;
    retained.reserve(static_cast<std::size_t>(deltas));
    log->open(MessageLog::Kind::text_start, 0, TextContent());
    for (int i = 0; i < deltas; ++i) {
        log->delta(0, "word ");
        retained.push_back(log->snapshot());
    }
    const std::size_t held = bytes_allocated() - before;
    EXPECT_EQ(retained[1].text(), "word word ");
    return held;
}

TEST(PartialMessage, D10_CostOfStream_IsLinear) {
    bytes_held(10);
    const std::size_t small = bytes_held(1'000);
    const std::size_t large = bytes_held(10'000);
    EXPECT_LT(large, 12 * small);
    EXPECT_LT(large, 10'000 * 128u)
        << "an entry, a snapshot and a few bytes of text for each delta";
}

TEST(PartialMessage, D10_GrowingPartial_CanBeReadByOtherThreads) {
    std::mutex mutex;
    std::condition_variable changed;
    std::vector<PartialMessage> handed;
    bool finished = false;
    const auto read = [&] {
        for (std::size_t next = 0;;) {
            std::unique_lock lock(mutex);
            changed.wait(lock, [&] { return finished || handed.size() > next; });
            if (next >= handed.size()) return;
            const PartialMessage partial = handed[next];
            lock.unlock();
            EXPECT_EQ(partial.text(), std::string(next, 'x'));
            const AssistantMessage message = partial.get();
            EXPECT_EQ(message.content.size(), 2u);
            ++next;
        }
    };
    std::thread one(read);
    std::thread two(read);
    const auto log = new_log();
    log->open(MessageLog::Kind::text_start, 0, TextContent());
    log->open(MessageLog::Kind::toolcall_start, 1, call({}));
    for (int i = 0; i < 300; ++i) {
        {
            const std::lock_guard lock(mutex);
            handed.push_back(log->snapshot());
        }
        changed.notify_all();
        log->delta(0, "x");
        log->delta(1, "{");
        if (i % 50 == 0) log->replace(1, call({{"n", i}}));
    }
    {
        const std::lock_guard lock(mutex);
        finished = true;
    }
    changed.notify_all();
    one.join();
    two.join();
}

/// The reader is ordered after the owner, but not the owner after the reader, so ThreadSanitizer reports any memory that
/// the owner writes after a reader of an older snapshot has read it.
TEST(PartialMessage, D10_Reader_ReadsNothingThatIsWrittenLater) {
    constexpr std::size_t steps = 300;  // over the edges of several pages
    std::vector<PartialMessage> handed(steps);
    std::atomic<std::size_t> published = 0;
    std::atomic<std::size_t> read = 0;
    std::thread reader([&] {
        for (std::size_t next = 0; next < steps; ++next) {
            while (published.load(std::memory_order_acquire) <= next) std::this_thread::yield();
            EXPECT_EQ(handed[next].text(), std::string(next, 'x'));
            read.store(next + 1, std::memory_order_relaxed);
        }
    });
    const auto log = new_log();
    log->open(MessageLog::Kind::text_start, 0, TextContent());
    for (std::size_t i = 0; i < steps; ++i) {
        handed[i] = log->snapshot();
        published.store(i + 1, std::memory_order_release);
        while (read.load(std::memory_order_relaxed) <= i) std::this_thread::yield();
        log->delta(0, "x");
    }
    reader.join();
}

}  // namespace
}  // namespace cubepi
