#include <cubepi/provider/faux.hpp>

#include <gtest/gtest.h>

#include <cubepi/core/task_scope.hpp>
#include <cubepi/testing/manual_clock.hpp>

#include "test_streams.hpp"

namespace cubepi {
namespace {

FauxOptions whole_blocks() {
    FauxOptions options;
    options.token_size_min = options.token_size_max = 100000;
    return options;
}

MessageList hello() { return MessageList{user_message("hello")}; }

TEST(Faux, EachBlock_IsStreamedInPieces) {
    FauxOptions options;
    options.token_size_min = options.token_size_max = 1;
    FauxProvider faux(options);
    faux.set_responses({faux_assistant_message(
        {faux_thinking("hm"), faux_text("0123456789"), faux_tool_call("add", {{"a", 1}}, "c1")},
        "tool_use")});
    const std::vector<StreamEvent> events = all_events(faux.model("m").stream(hello()));
    EXPECT_EQ(spelled(events),
              "start thinking_start thinking_delta(hm) thinking_end text_start text_delta(0123) "
              "text_delta(4567) "
              "text_delta(89) text_end toolcall_start toolcall_delta({\"a\") toolcall_delta(: 1}) "
              "toolcall_end done");
    const AssistantMessage message = events.back().partial.get();
    EXPECT_EQ(message.text(), "0123456789");
    EXPECT_EQ(message.model_id, "m");
    EXPECT_EQ(message.stop_reason, "tool_use");
    EXPECT_TRUE(message.timestamp);
    EXPECT_EQ(faux.call_count(), 1u);
    EXPECT_EQ(faux.pending_response_count(), 0u);
}

TEST(Faux, DefaultStream_NeverSuspends) {
    FauxProvider faux(whole_blocks());
    faux.set_responses({"Hi"});
    MessageStream stream = faux.model("m").stream(hello());
    std::vector<StreamEvent> events;
    while (auto event = stream.ready()) events.push_back(std::move(*event));
    EXPECT_TRUE(stream.finished());
    EXPECT_EQ(spelled(events), "start text_start text_delta(Hi) text_end done");
}

TEST(Faux, Pieces_AreCutBetweenCodePoints) {
    FauxOptions options;
    options.token_size_min = options.token_size_max = 1;
    FauxProvider faux(options);
    faux.set_responses({"äöü€😀x"});
    EXPECT_EQ(spelled(all_events(faux.model("m").stream(hello()))),
              "start text_start text_delta(äöü€) text_delta(😀x) text_end done");
}

TEST(Faux, SameSeed_ReturnsTheSamePieces) {
    const std::string text(500, 'x');
    FauxProvider one;
    FauxProvider two;
    one.set_responses({text.c_str()});
    two.set_responses({text.c_str()});
    EXPECT_EQ(spelled(all_events(one.model("m").stream(hello()))),
              spelled(all_events(two.model("m").stream(hello()))));
}

TEST(Faux, EmptyText_IsOneEmptyPiece) {
    FauxProvider faux;
    faux.set_responses({""});
    EXPECT_EQ(spelled(all_events(faux.model("m").stream(hello()))),
              "start text_start text_delta text_end done");
}

TEST(Faux, Failures_AreErrorEventsBeforeTheStart) {
    FauxProvider faux;
    ErrorInfo info;
    info.code = ErrorCode::rate_limited;
    info.type = "RateLimited";
    faux.set_responses(
        {faux_failure("boom", info), FauxStep([](const ModelRequest&) -> AssistantMessage {
             throw std::runtime_error("thrown");
         })});
    const BoundModel model = faux.model("m");
    std::vector<StreamEvent> events = all_events(model.stream(hello()));
    EXPECT_EQ(spelled(events), "error");
    EXPECT_EQ(events[0].error_message(), "boom");
    EXPECT_EQ(events[0].partial.get().error->code, ErrorCode::rate_limited);
    EXPECT_EQ(all_events(model.stream(hello()))[0].error_message(), "thrown");
    EXPECT_EQ(all_events(model.stream(hello()))[0].error_message(),
              "No more faux responses queued");
    EXPECT_EQ(faux.call_count(), 3u);
}

TEST(Faux, ScriptedError_IsReturnedUnchanged) {
    FauxProvider faux(whole_blocks());
    faux.set_responses({faux_assistant_message("partial", "error", "overloaded")});
    const std::vector<StreamEvent> events = all_events(faux.model("m").stream(hello()));
    EXPECT_EQ(spelled(events), "start text_start text_delta(partial) text_end error");
    EXPECT_EQ(events.back().partial.get().text(), "partial");
    EXPECT_EQ(events.back().error_message(), "overloaded");
}

TEST(Faux, Factories_SeeTheRequest) {
    FauxProvider faux(whole_blocks());
    faux.set_responses(
        {FauxStep([](const MessageList& messages, const Model& model) {
             return faux_assistant_message(model.id + ":" + messages.back().text());
         }),
         FauxStep([](const MessageList& messages, const Model&) -> Task<AssistantMessage> {
             co_await yield_now();
             co_return faux_assistant_message(messages.back().text() + "!");
         }),
         FauxStep([](const ModelRequest& request) -> Task<AssistantMessage> {
             co_await yield_now();
             co_return faux_assistant_message(request.system_prompt.str());
         })});
    const BoundModel model = faux.model("m");
    EXPECT_EQ(run(model.generate(hello())).text(), "m:hello");
    EXPECT_EQ(run(model.generate(hello())).text(), "hello!");
    EXPECT_EQ(run(model.generate(hello(), "Be brief.")).text(), "Be brief.");
}

TEST(Faux, Copy_SharesTheScript) {
    FauxProvider faux;
    FauxProvider copy = faux;
    copy.append_responses({"one", "two"});
    EXPECT_EQ(faux.pending_response_count(), 2u);
    run(faux.model("m").generate(hello()));
    EXPECT_EQ(copy.call_count(), 1u);
}

TEST(Faux, Usage_SimulatesAPromptCache) {
    FauxProvider faux(whole_blocks());
    faux.set_responses({"12345678", "x", "y"});
    const BoundModel model = faux.model("m");
    MessageList messages{user_message("0123456789abcdef")};
    const Usage first = *run(model.generate(messages)).usage;
    EXPECT_EQ(*first.cache_read_tokens, 0);
    EXPECT_EQ(first.cache_write_tokens, first.input_tokens);
    EXPECT_EQ(*first.output_tokens, 2);
    messages.push_back(user_message("and"));
    const Usage second = *run(model.generate(messages)).usage;
    EXPECT_EQ(second.cache_read_tokens, first.cache_write_tokens);
    EXPECT_GT(*second.cache_write_tokens, 0);
    faux.clear_prompt_cache();
    EXPECT_EQ(*run(model.generate(messages)).usage->cache_read_tokens, 0);
}

TEST(Faux, D7_Abort_IsNoticedBeforeTheNextPiece) {
    // At each event but those after the last piece, and before the first.
    for (int at = 0; at < 6; ++at) {
        FauxOptions options;
        options.token_size_min = options.token_size_max = 1;
        FauxProvider faux(options);
        faux.set_responses({faux_assistant_message({faux_text("01234"), faux_text("x")}), "next"});
        std::stop_source stop;
        MessageStream stream =
            faux.model("m").stream(hello(), {}, {}, StreamOptions().stop_token(stop.get_token()));
        std::vector<StreamEvent> events;
        for (int i = 0; i < at; ++i) events.push_back(*stream.ready());
        stop.request_stop();
        while (auto event = stream.ready()) events.push_back(std::move(*event));
        const AssistantMessage message = events.back().partial.get();
        EXPECT_EQ(message.stop_reason, "aborted") << at;
        EXPECT_EQ(message.error_message, "Request was aborted") << at;
        EXPECT_LE(events.size(), static_cast<std::size_t>(at) + 2) << at;
        if (at >= 3) {
            EXPECT_EQ(message.text().substr(0, 4), "0123") << at;
        }
    }
}

TEST(Faux, D7_AbortBeforeTheCall_ConsumesNoResponse) {
    FauxProvider faux;
    faux.set_responses({"never"});
    std::stop_source stop;
    stop.request_stop();
    const auto events = all_events(
        faux.model("m").stream(hello(), {}, {}, StreamOptions().stop_token(stop.get_token())));
    EXPECT_EQ(spelled(events), "error");
    EXPECT_TRUE(events[0].partial.get().content.empty());
    EXPECT_EQ(faux.call_count(), 0u);
    EXPECT_EQ(faux.pending_response_count(), 1u);
}

TEST(Faux, D34_Abort_DropsTheStreamingCall) {
    FauxOptions options;
    options.token_size_min = options.token_size_max = 1;
    FauxProvider faux(options);
    faux.set_responses({faux_assistant_message(
        {faux_text("ok"), faux_tool_call("add", {{"a", 12345}})}, "tool_use")});
    std::stop_source stop;
    MessageStream stream =
        faux.model("m").stream(hello(), {}, {}, StreamOptions().stop_token(stop.get_token()));
    while (auto event = stream.ready()) {
        if (event->type == StreamEventType::toolcall_delta) stop.request_stop();
    }
    const AssistantMessage message = run(stream.result());
    EXPECT_EQ(message.text(), "ok");
    EXPECT_FALSE(message.has_tool_calls());
}

TEST(Faux, Waits_UseTheClockOfTheRuntime) {
    auto clock = std::make_shared<testing::ManualClock>();
    auto runtime = std::make_shared<const Runtime>(Runtime().with_clock(clock));
    FauxOptions options;
    options.token_size_min = options.token_size_max = 1;
    options.tokens_per_second = 2;
    FauxProvider faux(options);
    faux.set_responses({"01234567"});
    MessageStream stream =
        faux.model("m").stream(hello(), {}, {}, StreamOptions().runtime(runtime));
    const auto began = clock->now();
    const AssistantMessage message = testing::run_advancing(*clock, stream.result());
    EXPECT_EQ(message.text(), "01234567");
    EXPECT_EQ(clock->now() - began, std::chrono::seconds(1));
}

TEST(Faux, D7_Abort_EndsAWait) {
    auto clock = std::make_shared<testing::ManualClock>();
    auto runtime = std::make_shared<const Runtime>(Runtime().with_clock(clock));
    FauxOptions options;
    options.tokens_per_second = 0.001;
    FauxProvider faux(options);
    faux.set_responses({"never seen"});
    std::stop_source stop;
    MessageStream stream = faux.model("m").stream(
        hello(), {}, {}, StreamOptions().runtime(runtime).stop_token(stop.get_token()));
    const AssistantMessage message =
        run([](MessageStream& from, std::stop_source& source) -> Task<AssistantMessage> {
            (void)co_await from.next();
            (void)co_await from.next();
            TaskScope scope(co_await this_executor);
            scope.spawn([](std::stop_source& s) -> Task<> {
                co_await yield_now();
                s.request_stop();
            }(source));
            AssistantMessage result = co_await from.result();
            co_await scope.join();
            co_return result;
        }(stream, stop));
    EXPECT_EQ(message.stop_reason, "aborted");
    EXPECT_EQ(clock->pending_sleepers(), 0u);
}

}  // namespace
}  // namespace cubepi
