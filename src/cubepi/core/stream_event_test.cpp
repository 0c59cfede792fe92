#include <cubepi/core/stream_event.hpp>

#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include <cubepi/core/support/message_log.hpp>

namespace cubepi {
namespace {

using detail::MessageLog;

TEST(StreamEvent, NamesOfTypes) {
    std::set<std::string_view> names;
    for (int i = 0; i <= static_cast<int>(StreamEventType::notice); ++i) {
        EXPECT_TRUE(names.insert(to_string(static_cast<StreamEventType>(i))).second);
    }
    EXPECT_EQ(to_string(StreamEventType::toolcall_delta), "toolcall_delta");
}

TEST(StreamEvent, BlockEventsAndTerminalEvents) {
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

TEST(StreamEvent, TheDeltaLivesAsLongAsAnyCopyOfTheEvent) {
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

TEST(StreamEvent, D45_AnErrorSaysWhatItsMessageSays) {
    AssistantMessage failed;
    failed.error_message = "overloaded";
    StreamEvent event;
    event.partial = PartialMessage(Message(failed));
    EXPECT_EQ(event.error_message(), "");
    event.type = StreamEventType::error;
    EXPECT_EQ(event.error_message(), "overloaded");
    EXPECT_EQ(event.partial.get(), failed);
}

}  // namespace
}  // namespace cubepi
