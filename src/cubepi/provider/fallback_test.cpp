#include <cubepi/provider/fallback.hpp>

#include <stop_token>

#include <gtest/gtest.h>

#include <cubepi/core/task_scope.hpp>
#include <cubepi/net/network_error.hpp>
#include <cubepi/provider/faux.hpp>
#include <cubepi/provider/openai.hpp>
#include <cubepi/testing/manual_clock.hpp>
#include <cubepi/testing/memory_transport.hpp>

#include "test_streams.hpp"

namespace cubepi {
namespace {

using testing::ManualClock;
using testing::MemoryResponse;
using testing::MemoryTransport;

ErrorInfo info_of(ErrorCode code) {
    ErrorInfo info;
    info.code = code;
    return info;
}

FauxStep failing(ErrorCode code, std::string text = "no") {
    return faux_failure(std::move(text), info_of(code));
}

/// Says that it starts, and fails before the first block.
FauxStep failing_after_start(ErrorCode code) {
    AssistantMessage message;
    message.stop_reason = stop_reason::shared(stop_reason::error);
    message.error_message = "broke early";
    message.error = SharedValue<ErrorInfo>(info_of(code));
    return message;
}

/// Three scripted models "a", "b", "c" in one chain, on a clock that stands still.
struct Legs {
    explicit Legs(FallbackOptions options = {})
        : chain({a.model("a"), b.model("b"), c.model("c")}, options) {}

    StreamOptions call(std::string run_id = {}) const {
        return StreamOptions().runtime(runtime).run_id(SharedString(std::move(run_id)));
    }
    std::vector<StreamEvent> events(StreamOptions options) const {
        const BoundModel model = chain;
        return all_events(
            model.stream(MessageList{user_message("hello")}, {}, {}, std::move(options)));
    }
    AssistantMessage ask(std::string run_id = {}) const {
        return events(call(std::move(run_id))).back().partial.get();
    }

    FauxOptions named(const char* id) const {
        FauxOptions options;
        options.provider_id = id;
        options.token_size_min = options.token_size_max = 100000;
        return options;
    }
    FauxProvider a{named("pa")};
    FauxProvider b{named("pb")};
    FauxProvider c{named("pc")};
    std::shared_ptr<ManualClock> clock = std::make_shared<ManualClock>();
    std::shared_ptr<const Runtime> runtime =
        std::make_shared<const Runtime>(Runtime().with_clock(clock));
    FallbackBoundModel chain;
};

TEST(Fallback, FirstModelIsAvailable_ItAnswers) {
    Legs legs;
    legs.a.set_responses({"Hi"});
    EXPECT_EQ(spelled(legs.events(legs.call())), "start text_start text_delta(Hi) text_end done");
    EXPECT_EQ(legs.b.call_count(), 0u);
    EXPECT_EQ(legs.chain.spec().id, "a");
    EXPECT_EQ(legs.chain.chain().size(), 3u);
}

TEST(Fallback, D23_TriggerError_ContinuesAndNamesTheAnsweringModel) {
    Legs legs;
    legs.a.set_responses({failing(ErrorCode::rate_limited, "slow down")});
    legs.b.set_responses({failing(ErrorCode::connect)});
    legs.c.set_responses({"Hi"});
    const std::vector<StreamEvent> events = legs.events(legs.call());
    EXPECT_EQ(spelled(events),
              "notice(failover) notice(failover) start text_start text_delta(Hi) text_end done");
    EXPECT_EQ(events[0].notice->text, "pa/a is rate limited (slow down); continuing with pb/b");
    EXPECT_EQ(events[0].notice->details.at("cause"), "failed");
    EXPECT_EQ(events[0].notice->details.at("to").at("model_id"), "b");
    const AssistantMessage message = events.back().partial.get();
    EXPECT_EQ(message.model_id, "c");
    EXPECT_EQ(message.provider_id, "pc");
    EXPECT_EQ(events[2].partial.get().model_id, "c");
}

TEST(Fallback, D55_DefaultTriggers_IncludeMissingModelsButNotAuth) {
    for (const ErrorCode code : {ErrorCode::model_not_found, ErrorCode::timeout, ErrorCode::dns,
                                 ErrorCode::unavailable, ErrorCode::context_length}) {
        Legs legs;
        legs.a.set_responses({failing(code)});
        legs.b.set_responses({"Hi"});
        EXPECT_EQ(legs.ask().text(), "Hi") << to_string(code);
    }
    for (const ErrorCode code : {ErrorCode::auth, ErrorCode::bad_request, ErrorCode::provider,
                                 ErrorCode::content_filtered, ErrorCode::unknown}) {
        Legs legs;
        legs.a.set_responses({failing(code, "my own words")});
        const AssistantMessage message = legs.ask();
        EXPECT_EQ(message.stop_reason, "error");
        EXPECT_EQ(message.error_message, "my own words");
        EXPECT_EQ(message.error->code, code);
        EXPECT_EQ(legs.b.call_count(), 0u) << to_string(code);
    }
}

TEST(Fallback, D23_TriggerSet_IsChosenByTheCaller) {
    FallbackOptions options;
    options.trigger_errors = {ErrorCode::auth};
    Legs legs(options);
    legs.a.set_responses({failing(ErrorCode::auth), failing(ErrorCode::rate_limited)});
    legs.b.set_responses({"Hi"});
    EXPECT_EQ(legs.ask().text(), "Hi");
    legs.clock->advance(std::chrono::hours(1));
    EXPECT_EQ(legs.ask().stop_reason, "error");
}

TEST(Fallback, D15_ShownContent_PreventsAHop) {
    Legs legs;
    AssistantMessage broken = faux_assistant_message("partial", "error", "the line went dead");
    broken.error = SharedValue<ErrorInfo>(info_of(ErrorCode::disconnected));
    legs.a.set_responses({broken});
    const std::vector<StreamEvent> events = legs.events(legs.call());
    EXPECT_EQ(spelled(events), "start text_start text_delta(partial) text_end error");
    EXPECT_EQ(events.back().partial.get().text(), "partial");
    EXPECT_EQ(legs.b.call_count(), 0u);
}

TEST(Fallback, StartEvent_IsNotContent) {
    Legs legs;
    legs.a.set_responses({failing_after_start(ErrorCode::unavailable)});
    legs.b.set_responses({"Hi"});
    const std::vector<StreamEvent> events = legs.events(legs.call());
    EXPECT_EQ(spelled(events), "notice(failover) start text_start text_delta(Hi) text_end done");
    EXPECT_EQ(events[1].partial.get().model_id, "b");
}

TEST(Fallback, D55_Exhaustion_ListsOneErrorPerLeg) {
    Legs legs;
    legs.a.set_responses({failing(ErrorCode::rate_limited, "slow down")});
    legs.b.set_responses({failing(ErrorCode::connect, "[pb/b @ http://b] refused")});
    legs.c.set_responses({failing_after_start(ErrorCode::model_not_found)});
    const std::vector<StreamEvent> events = legs.events(legs.call());
    EXPECT_EQ(spelled(events), "notice(failover) notice(failover) notice(failover) error");
    const AssistantMessage message = events.back().partial.get();
    EXPECT_EQ(message.error_message,
              "No model of the fallback chain could answer:\n- pa/a: slow down\n"
              "- [pb/b @ http://b] refused\n- pc/c: broke early");
    EXPECT_EQ(message.error->code, ErrorCode::unavailable);
    EXPECT_EQ(message.error->type, "ProviderUnavailable");
    EXPECT_EQ(message.error->message, "no model answered; the last one is not known to its server");
    EXPECT_TRUE(events[2].notice->details.at("to").is_null());
}

TEST(Fallback, ExhaustionOfOneKind_KeepsTheKind) {
    Legs legs;
    for (FauxProvider* leg : {&legs.a, &legs.b, &legs.c}) {
        ErrorInfo info = info_of(ErrorCode::rate_limited);
        info.type = "RateLimited";
        info.retry_after = leg == &legs.b ? 5 : 50;
        leg->set_responses({faux_failure("429", info)});
    }
    const AssistantMessage message = legs.ask();
    EXPECT_EQ(message.error->code, ErrorCode::rate_limited);
    EXPECT_EQ(message.error->retry_after, 5);
}

TEST(Fallback, FinalError_ListsTheEarlierOnes) {
    Legs legs;
    legs.a.set_responses({failing(ErrorCode::rate_limited, "slow down")});
    legs.b.set_responses({failing(ErrorCode::auth, "bad key")});
    const AssistantMessage message = legs.ask();
    EXPECT_EQ(message.error->code, ErrorCode::auth);
    EXPECT_EQ(message.error_message, "bad key\nBefore that:\n- pa/a: slow down");
}

TEST(Fallback, D55_WorkingLeg_IsRetainedOnlyForTheRun) {
    FallbackOptions options;
    options.cool_down = std::chrono::nanoseconds::zero();
    Legs legs(options);
    legs.a.set_responses({failing(ErrorCode::unavailable), "a again"});
    legs.b.set_responses({"b1", "b2"});
    EXPECT_EQ(legs.ask("run-1").text(), "b1");
    EXPECT_EQ(legs.ask("run-1").text(), "b2");
    EXPECT_EQ(legs.a.call_count(), 1u);
    EXPECT_EQ(legs.ask("run-2").text(), "a again");
}

TEST(Fallback, ChainNotSticky_StartsEachCallAtFirst) {
    FallbackOptions options;
    options.sticky_within_run = false;
    options.cool_down = std::chrono::seconds(0);
    Legs legs(options);
    legs.a.set_responses({failing(ErrorCode::rate_limited), "first again"});
    legs.b.set_responses({"second"});
    EXPECT_EQ(legs.ask("r1").text(), "second");
    EXPECT_EQ(legs.ask("r1").text(), "first again");
}

TEST(Fallback, LegFailsLater_RunStartsOverAtFirst) {
    FallbackOptions options;
    options.cool_down = std::chrono::nanoseconds::zero();
    Legs legs(options);
    legs.a.set_responses({failing(ErrorCode::unavailable), "a at last"});
    legs.b.set_responses({"b1", failing(ErrorCode::unavailable)});
    legs.c.set_responses({failing(ErrorCode::unavailable)});
    EXPECT_EQ(legs.ask("run").text(), "b1");
    EXPECT_EQ(legs.ask("run").text(), "a at last");
}

TEST(Fallback, FailingLeg_IsSkippedDuringItsCoolDown) {
    Legs legs;
    legs.a.set_responses({failing(ErrorCode::rate_limited, "slow down"), "a again"});
    legs.b.set_responses({"b1", "b2"});
    EXPECT_EQ(legs.ask("run-1").text(), "b1");
    legs.clock->advance(std::chrono::seconds(29));
    const std::vector<StreamEvent> events = legs.events(legs.call("run-2"));
    EXPECT_EQ(events.back().partial.get().text(), "b2");
    EXPECT_EQ(events[0].notice->details.at("cause"), "cooling_down");
    EXPECT_EQ(events[0].notice->text,
              "pa/a: not called for another 1 s, because it is rate limited (slow down); "
              "continuing with pb/b");
    EXPECT_EQ(legs.a.call_count(), 1u);
    legs.clock->advance(std::chrono::seconds(1));
    EXPECT_EQ(legs.ask("run-3").text(), "a again");
}

TEST(Fallback, RetryAfterOfEndpoint_ExtendsTheCoolDown) {
    Legs legs;
    ErrorInfo info = info_of(ErrorCode::rate_limited);
    info.retry_after = 90;
    legs.a.set_responses({faux_failure("429", info), "a again"});
    legs.b.set_responses({"b1", "b2"});
    EXPECT_EQ(legs.ask().text(), "b1");
    legs.clock->advance(std::chrono::seconds(89));
    EXPECT_EQ(legs.ask().text(), "b2");
    legs.clock->advance(std::chrono::seconds(1));
    EXPECT_EQ(legs.ask().text(), "a again");
}

TEST(Fallback, TooLongPrompt_StartsNoCoolDown) {
    Legs legs;
    legs.a.set_responses({failing(ErrorCode::context_length), "a again"});
    legs.b.set_responses({"b1"});
    EXPECT_EQ(legs.ask().text(), "b1");
    EXPECT_EQ(legs.ask().text(), "a again");
}

TEST(Fallback, AllModelsCooling_AreTriedAnyway) {
    Legs legs;
    for (FauxProvider* leg : {&legs.a, &legs.b, &legs.c})
        leg->set_responses({failing(ErrorCode::unavailable)});
    EXPECT_EQ(legs.ask().stop_reason, "error");
    legs.a.set_responses({"back"});
    const std::vector<StreamEvent> events = legs.events(legs.call());
    EXPECT_EQ(spelled(events),
              "notice(failover) notice(failover) start text_start text_delta(back) text_end done");
    // An answer ends the cool-down.
    legs.a.set_responses({"again"});
    EXPECT_EQ(spelled(legs.events(legs.call())),
              "start text_start text_delta(again) text_end done");
}

BoundModel with_window(const FauxProvider& provider, const char* id, std::int64_t window) {
    Model model;
    model.id = id;
    model.context_window = window;
    return provider.model(std::move(model));
}

TEST(Fallback, D55_LegWithTooSmallWindow_IsSkipped) {
    Legs legs;
    const BoundModel chain =
        FallbackBoundModel({with_window(legs.a, "small", 100), with_window(legs.b, "large", 1000)});
    legs.b.set_responses({"Hi"});
    const std::vector<StreamEvent> events = all_events(
        chain.stream(MessageList{user_message(std::string(4000, 'x'))}, {}, {}, legs.call()));
    EXPECT_EQ(events.back().partial.get().text(), "Hi");
    EXPECT_EQ(events[0].notice->details.at("cause"), "context_window");
    EXPECT_EQ(legs.a.call_count(), 0u);

    const AssistantMessage none =
        all_events(
            chain.stream(MessageList{user_message(std::string(8000, 'x'))}, {}, {}, legs.call()))
            .back()
            .partial.get();
    EXPECT_EQ(none.error->code, ErrorCode::context_length);
    EXPECT_EQ(none.error->tokens_in, 2000);
    EXPECT_EQ(legs.b.call_count(), 1u);
}

TEST(Fallback, SmallerWindowThanFailedOne_IsNotTried) {
    Legs legs;
    const BoundModel chain = FallbackBoundModel(
        {with_window(legs.a, "a", 1000), with_window(legs.b, "b", 900), legs.c.model("c")});
    legs.a.set_responses({failing(ErrorCode::context_length)});
    legs.c.set_responses({"Hi"});
    const MessageList messages{user_message("hello")};
    EXPECT_EQ(run(chain.generate(messages, {}, {}, legs.call())).text(), "Hi");
    EXPECT_EQ(legs.b.call_count(), 0u);
}

TEST(Fallback, Callback_SeesEachHopAndMayAwait) {
    std::vector<std::string> seen;
    FallbackOptions options;
    options.on_failover = [&seen](const Failover& failover) -> Task<> {
        co_await yield_now();
        seen.push_back(failover.from.id + ">" + (failover.to ? failover.to->id : "none") + ":" +
                       failover.reason);
    };
    Legs legs(options);
    legs.a.set_responses({failing(ErrorCode::unavailable, "down")});
    legs.b.set_responses({failing(ErrorCode::unavailable, "down too")});
    legs.c.set_responses({"Hi"});
    EXPECT_EQ(legs.ask().text(), "Hi");
    EXPECT_EQ(seen, (std::vector<std::string>{"a>b:down", "b>c:down too"}));
}

TEST(Fallback, ThrowingCallback_DoesNotFailTheCall) {
    FallbackOptions options;
    options.on_failover = [](const Failover&) { throw std::runtime_error("oops"); };
    Legs legs(options);
    legs.a.set_responses({failing(ErrorCode::unavailable)});
    legs.b.set_responses({"Hi"});
    const std::vector<StreamEvent> events = legs.events(legs.call());
    EXPECT_EQ(
        spelled(events),
        "notice(failover) notice(observer_failed) start text_start text_delta(Hi) text_end done");
    EXPECT_NE(events[1].notice->text.find("oops"), std::string::npos);
}

TEST(Fallback, D7_AbortBeforeTheCall_CallsNoModel) {
    Legs legs;
    std::stop_source stop;
    stop.request_stop();
    const std::vector<StreamEvent> events = legs.events(legs.call().stop_token(stop.get_token()));
    EXPECT_EQ(spelled(events), "error");
    EXPECT_EQ(events.back().partial.get().stop_reason, "aborted");
    EXPECT_EQ(legs.a.call_count(), 0u);
}

TEST(Fallback, D7_AbortBetweenLegs_EndsTheCall) {
    std::stop_source stop;
    FallbackOptions options;
    options.on_failover = [&stop](const Failover&) { stop.request_stop(); };
    Legs legs(options);
    legs.a.set_responses({failing(ErrorCode::unavailable)});
    const std::vector<StreamEvent> events = legs.events(legs.call().stop_token(stop.get_token()));
    EXPECT_EQ(events.back().partial.get().stop_reason, "aborted");
    EXPECT_EQ(legs.b.call_count(), 0u);
}

TEST(Fallback, D7_Abort_EndsAHangingCallback) {
    std::stop_source stop;
    auto clock = std::make_shared<ManualClock>();
    FallbackOptions options;
    options.on_failover = [&](const Failover&) -> Task<> {
        stop.request_stop();
        co_await clock->sleep_for(std::chrono::hours(1));
    };
    Legs legs(options);
    legs.a.set_responses({failing(ErrorCode::unavailable)});
    const std::vector<StreamEvent> events = legs.events(legs.call().stop_token(stop.get_token()));
    EXPECT_EQ(events.back().partial.get().stop_reason, "aborted");
}

TEST(Fallback, D7_AbortedLeg_IsNotFollowedByAnother) {
    Legs legs;
    std::stop_source stop;
    legs.a.set_responses({FauxStep([&stop](const ModelRequest&) {
        stop.request_stop();
        return faux_assistant_message("never seen");
    })});
    const std::vector<StreamEvent> events = legs.events(legs.call().stop_token(stop.get_token()));
    EXPECT_EQ(events.back().partial.get().stop_reason, "aborted");
    EXPECT_EQ(legs.b.call_count(), 0u);
}

TEST(Fallback, Chain_MayBePartOfAChain) {
    Legs legs;
    legs.a.set_responses({failing(ErrorCode::unavailable)});
    legs.b.set_responses({failing(ErrorCode::unavailable)});
    legs.c.set_responses({"Hi"});
    const BoundModel inner = FallbackBoundModel({legs.a.model("a"), legs.b.model("b")});
    const BoundModel outer = FallbackBoundModel({inner, legs.c.model("c")});
    const MessageList messages{user_message("hello")};
    EXPECT_EQ(run(outer.generate(messages, {}, {}, legs.call())).text(), "Hi");
}

TEST(Fallback, Misuse_IsRefused) {
    EXPECT_THROW(FallbackBoundModel(std::vector<BoundModel>{}), Error);
    Model unbound;
    unbound.id = "x";
    EXPECT_THROW(FallbackBoundModel({BoundModel(unbound)}), Error);
}

// Over HTTP.

BoundModel http_leg(const char* host) {
    OpenAIOptions options;
    options.base_url = std::string("http://") + host + ".local/v1";
    options.provider_id = host;
    return OpenAIProvider(std::move(options)).model("m");
}

MemoryResponse answering(const std::string& text) {
    return MemoryResponse(200)
        .with_header("content-type", "text/event-stream")
        .with_event(R"({"id":"r","choices":[{"index":0,"delta":{"content":")" + text + R"("}}]})")
        .with_event(R"({"id":"r","choices":[{"index":0,"delta":{},"finish_reason":"stop"}]})")
        .with_event("[DONE]");
}

TEST(Fallback, D55_Retries_HappenInsideOneLeg) {
    auto clock = std::make_shared<ManualClock>();
    auto transport = std::make_shared<MemoryTransport>(
        [](const HttpRequest& request) {
            if (request.url.find("//first.") != std::string::npos)
                return MemoryResponse(503, "busy");
            return answering("Hi");
        },
        clock);
    auto runtime =
        std::make_shared<const Runtime>(Runtime().with_clock(clock).with_transport(transport));
    std::vector<ModelRetry> retries;
    FallbackOptions options;
    options.on_retry = [&retries](const ModelRetry& retry) -> Task<> {
        co_await yield_now();
        retries.push_back(retry);
        if (retries.size() == 2) throw std::runtime_error("oops");
    };
    const BoundModel chain = FallbackBoundModel({http_leg("first"), http_leg("second")}, options);
    MessageStream stream =
        chain.stream(MessageList{user_message("hello")}, {}, {}, StreamOptions().runtime(runtime));
    const std::vector<StreamEvent> events =
        testing::run_advancing(*clock, read_all(std::move(stream)));
    EXPECT_EQ(
        spelled(events),
        "notice(retry) notice(retry) notice(observer_failed) notice(failover) start text_start "
        "text_delta(Hi) text_end done");
    ASSERT_EQ(retries.size(), 2u);
    EXPECT_EQ(retries[0].model.provider_id, "first");
    EXPECT_EQ(retries[0].attempt, 1);
    EXPECT_EQ(retries[1].attempt, 2);
    EXPECT_GT(retries[0].delay.count(), 0);
    EXPECT_EQ(retries[0].reason, events[0].notice->text);
    EXPECT_EQ(transport->requests().size(), 4u);
    EXPECT_EQ(transport->open_exchanges(), 0u);
}

TEST(Fallback, D7_Abort_EndsASilentLeg) {
    std::stop_source stop;
    auto clock = std::make_shared<ManualClock>();
    auto transport = std::make_shared<MemoryTransport>(
        [&stop](const HttpRequest& request) {
            if (request.url.find("//first.") != std::string::npos)
                return MemoryResponse(404, "model not found");
            return MemoryResponse(200).with_call([&stop] { stop.request_stop(); }).with_stall();
        },
        clock);
    auto runtime =
        std::make_shared<const Runtime>(Runtime().with_clock(clock).with_transport(transport));
    const BoundModel chain = FallbackBoundModel({http_leg("first"), http_leg("second")});
    const std::vector<StreamEvent> events =
        all_events(chain.stream(MessageList{user_message("hello")}, {}, {},
                                StreamOptions().runtime(runtime).stop_token(stop.get_token())));
    EXPECT_EQ(events.back().partial.get().stop_reason, "aborted");
    EXPECT_EQ(transport->open_exchanges(), 0u);
}

TEST(Fallback, D7_StreamDroppedMidHop_LeavesNothingBehind) {
    auto transport = std::make_shared<MemoryTransport>([](const HttpRequest& request) {
        if (request.url.find("//first.") != std::string::npos)
            return MemoryResponse(404, "model not found");
        return MemoryResponse(200)
            .with_event(R"({"id":"r","choices":[{"index":0,"delta":{"content":"x"}}]})")
            .with_stall();
    });
    auto runtime = std::make_shared<const Runtime>(Runtime().with_transport(transport));
    const BoundModel chain = FallbackBoundModel({http_leg("first"), http_leg("second")});
    {
        MessageStream stream = chain.stream(MessageList{user_message("hello")}, {}, {},
                                            StreamOptions().runtime(runtime));
        const std::optional<StreamEvent> notice = run(stream.next());
        EXPECT_EQ(notice->type, StreamEventType::notice);
        const std::optional<StreamEvent> start = run(stream.next());
        EXPECT_EQ(start->type, StreamEventType::start);
        EXPECT_EQ(transport->open_exchanges(), 1u);
    }
    EXPECT_EQ(transport->open_exchanges(), 0u);
}

}  // namespace
}  // namespace cubepi
