#include <cubepi/provider/stream_from.hpp>

#include <gtest/gtest.h>

#include <cubepi/core/event_signal.hpp>
#include <cubepi/core/task_scope.hpp>

#include "test_streams.hpp"

namespace cubepi {
namespace {

/// A whole provider of one's own.
class Parrot final : public Provider {
public:
    MessageStream stream(ModelRequest request) override {
        return stream_from(std::move(request), [](StreamWriter& out) -> Task<> {
            const std::string prompt = out.request().messages.back().text();
            co_await out.thinking("What did they say?");
            co_await out.text("You wrote ");
            co_await out.text(prompt);
        });
    }
};

ModelRequest request_of(std::string text) {
    ModelRequest request;
    request.model.id = "m";
    request.messages.push_back(user_message(std::move(text)));
    return request;
}

TEST(StreamFrom, Coroutine_BecomesAProvider) {
    Parrot parrot;
    EXPECT_EQ(spelled(all_events(parrot.stream(request_of("hello")))),
              "start thinking_start thinking_delta(What did they say?) thinking_end text_start "
              "text_delta(You wrote ) "
              "text_delta(hello) text_end done");
}

TEST(StreamFrom, Producer_WritesToolCalls) {
    const auto events = all_events(stream_from(request_of("x"), [](StreamWriter& out) -> Task<> {
        JsonObject arguments;
        arguments["a"] = 1;
        co_await out.tool_call("add", std::move(arguments), "c1");
        co_await out.begin_tool_call("add");
        co_await out.tool_call_arguments("{\"a\"");
        co_await out.tool_call_arguments(": 2}");
        Usage usage;
        usage.output_tokens = 3;
        out.usage(usage);
    }));
    EXPECT_EQ(spelled(events),
              "start toolcall_start toolcall_delta({\"a\": 1}) toolcall_end toolcall_start "
              "toolcall_delta({\"a\") toolcall_delta(: 2}) toolcall_end done");
    const AssistantMessage message = events.back().partial.get();
    EXPECT_EQ(message.stop_reason, "tool_use");
    EXPECT_EQ(message.tool_calls()[1]->arguments, JsonObject({{"a", 2}}));
    EXPECT_FALSE(message.tool_calls()[1]->id.empty());
    EXPECT_EQ(*message.usage->output_tokens, 3);
}

TEST(StreamFrom, D9_ThrowingProducer_KeepsWrittenContent) {
    const auto events = all_events(stream_from(request_of("x"), [](StreamWriter& out) -> Task<> {
        co_await out.text("Hal");
        ErrorInfo info;
        info.code = ErrorCode::rate_limited;
        throw RateLimited(std::move(info), "slow down");
    }));
    EXPECT_EQ(spelled(events), "start text_start text_delta(Hal) error");
    EXPECT_EQ(events.back().partial.get().text(), "Hal");
    EXPECT_EQ(events.back().partial.get().error->code, ErrorCode::rate_limited);
}

TEST(StreamFrom, Producer_WaitsForTheConsumer) {
    auto written = std::make_shared<int>(0);
    MessageStream stream = stream_from(request_of("x"), [written](StreamWriter& out) -> Task<> {
        for (; *written < 100; ++*written) co_await out.text("x");
    });
    run([](MessageStream& from) -> Task<> {
        (void)co_await from.next();
        for (int i = 0; i < 50; ++i) co_await yield_now();
    }(stream));
    EXPECT_LT(*written, 10);
}

Task<> never(std::shared_ptr<bool> ended) {
    struct AtEnd {
        std::shared_ptr<bool> flag;
        ~AtEnd() { *flag = true; }
    } at_end{std::move(ended)};
    AsyncEvent event;
    co_await event.wait();
}

TEST(StreamFrom, D7_Abort_EndsTheProducer) {
    auto ended = std::make_shared<bool>(false);
    std::stop_source stop;
    ModelRequest request = request_of("x");
    request.options = StreamOptions().stop_token(stop.get_token());
    MessageStream stream = stream_from(std::move(request), [ended](StreamWriter& out) -> Task<> {
        co_await out.text("a");
        co_await never(ended);
    });
    const AssistantMessage message =
        run([](MessageStream& from, std::stop_source& source) -> Task<AssistantMessage> {
            for (int i = 0; i < 3; ++i) (void)co_await from.next();
            source.request_stop();
            co_return co_await from.result();
        }(stream, stop));
    EXPECT_EQ(message.stop_reason, "aborted");
    EXPECT_EQ(message.text(), "a");
    EXPECT_TRUE(*ended);
}

TEST(StreamFrom, D7_DroppedStream_EndsTheProducer) {
    auto ended = std::make_shared<bool>(false);
    run([](std::shared_ptr<bool> flag) -> Task<> {
        {
            MessageStream stream =
                stream_from(request_of("x"), [flag](StreamWriter& out) -> Task<> {
                    co_await out.text("a");
                    co_await never(flag);
                });
            for (int i = 0; i < 3; ++i) (void)co_await stream.next();
        }
        for (int i = 0; i < 5; ++i) co_await yield_now();
    }(ended));
    EXPECT_TRUE(*ended);
}

}  // namespace
}  // namespace cubepi
