#include <cubepi/hitl/in_memory_channel.hpp>

#include <atomic>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include <cubepi/core/cancellation.hpp>
#include <cubepi/core/outcome.hpp>
#include <cubepi/core/run.hpp>
#include <cubepi/core/task_scope.hpp>
#include <cubepi/core/timeout.hpp>
#include <cubepi/testing/manual_clock.hpp>

namespace cubepi {
namespace {

using namespace std::chrono_literals;

HitlQuestion question(std::string key, std::string prompt) {
    HitlQuestion one;
    one.key = std::move(key);
    one.prompt = std::move(prompt);
    return one;
}

ErrorCode code_of(const std::exception_ptr& failure) {
    try {
        std::rethrow_exception(failure);
    } catch (const Error& error) {
        return error.code();
    }
}

Task<ErrorCode> code_of(Task<> task) {
    const Outcome<> outcome = co_await outcome_of(std::move(task));
    co_return outcome.ok() ? ErrorCode::unknown : code_of(outcome.failure());
}

/// Takes requests from a stream and answers each with the same value.
Task<> answer_all(InMemoryChannel& channel, HitlRequestStream stream, int count, Json value) {
    for (int i = 0; i < count; ++i) {
        const std::optional<HitlRequest> request = co_await stream.next();
        std::string id = request->question_id;
        Json copy = value;
        co_await channel.answer(std::move(id), std::move(copy));
    }
}

/// Runs `host` while `asking` waits, and returns what that returns.
template <class T>
T run_with_host(Task<T> asking, Task<> host) {
    struct Both {
        static Task<T> run(Task<T> asking, Task<> host) {
            TaskScope scope(co_await this_executor);
            scope.spawn(std::move(host));
            Outcome<T> result = co_await outcome_of(std::move(asking));
            co_await scope.join();
            co_return std::move(result).value();
        }
    };
    return run(Both::run(std::move(asking), std::move(host)));
}

TEST(InMemoryChannel, Confirmation_IsAnswered) {
    InMemoryChannel channel;
    Task<> host = answer_all(channel, channel.subscribe(), 1, Json(true));
    EXPECT_TRUE(run_with_host(channel.confirm("Sure?"), std::move(host)));
    EXPECT_TRUE(channel.pending().empty());
}

TEST(InMemoryChannel, Request_HasItsCallTimeAndThread) {
    auto clock = std::make_shared<testing::ManualClock>();
    InMemoryChannelOptions options;
    options.clock = clock;
    options.thread_id = "t";
    options.default_timeout = 90s;
    InMemoryChannel channel(options);
    HitlRequestStream stream = channel.subscribe();
    Task<> host =
        answer_all(channel, channel.subscribe(), 1, Json(JsonObject{{"decision", "deny"}}));
    Task<ApproveAnswer> asking = channel.approve("rm", "c1", JsonObject{{"path", "x"}}, "danger");
    const ApproveAnswer answer = run_with_host(std::move(asking), std::move(host));
    EXPECT_EQ(answer.decision, ApproveDecision::deny);
    const std::optional<HitlRequest> request = run(stream.next());
    EXPECT_EQ(request->question_id, "c1");
    EXPECT_EQ(request->thread_id, "t");
    EXPECT_EQ(request->timeout_seconds, 90);
    EXPECT_EQ(request->created_at,
              std::chrono::duration<double>(clock->wall().time_since_epoch()).count());
    const auto& call = std::get<ApproveRequest>(request->payload);
    EXPECT_EQ(call.args, (JsonObject{{"path", "x"}}));
    EXPECT_EQ(call.details, Json("danger"));
}

TEST(InMemoryChannel, D61_QuestionIds_EqualThoseOfCubePi) {
    // hashlib.sha256(json.dumps({"kind": ..., "payload": ...}, sort_keys=True)).hexdigest()[:32]
    InMemoryChannel channel;
    HitlRequestStream stream = channel.subscribe();
    const auto id_of = [&](HitlPayload payload, HitlOptions options) {
        Task<> host = answer_all(channel, channel.subscribe(), 1,
                                 std::holds_alternative<AskRequest>(payload)
                                     ? Json(JsonObject{{"color", "red"}})
                                     : Json(true));
        Task<Json> asking = channel.request(std::move(payload), std::move(options));
        run_with_host(std::move(asking), std::move(host));
        return run(stream.next())->question_id;
    };
    AskRequest ask;
    ask.questions.push_back(question("color", "Which?"));
    EXPECT_EQ(id_of(ask, {}), "1a38f81b9b59715c6129877484d904fe.0");
    EXPECT_EQ(id_of(ask, {}), "1a38f81b9b59715c6129877484d904fe.1");
    ConfirmRequest confirm;
    confirm.prompt = "Sür?";
    confirm.details = JsonObject{{"b", 1}, {"a", 2.0}};
    EXPECT_EQ(id_of(confirm, {}), "68afd436fe9b25e8ee8a1f63bae77455.0");
    HitlOptions options;
    options.tool_call_id = "c7";
    EXPECT_EQ(id_of(confirm, options), "c7");
}

TEST(InMemoryChannel, UnansweredRequest_TimesOut) {
    auto clock = std::make_shared<testing::ManualClock>();
    InMemoryChannelOptions options;
    options.clock = clock;
    options.default_timeout = 40s;
    InMemoryChannel channel(options);
    EXPECT_THROW(testing::run_advancing(*clock, channel.confirm("Sure?")), HitlTimedOut);
    EXPECT_TRUE(channel.pending().empty());
    HitlOptions own;
    own.timeout = 5s;
    try {
        testing::run_advancing(*clock, channel.confirm("Sure?", {}, own));
        FAIL();
    } catch (const HitlTimedOut& error) {
        EXPECT_EQ(error.limit(), 5s);
        EXPECT_STREQ(error.what(), "no answer within 5 s");
    }
}

Task<> cancel_one(InMemoryChannel& channel, HitlRequestStream stream) {
    const std::optional<HitlRequest> request = co_await stream.next();
    std::string id = request->question_id;
    co_await channel.cancel(std::move(id), "went home");
}

TEST(InMemoryChannel, CancelledRequest_ThrowsTheReason) {
    InMemoryChannel channel;
    Task<> host = cancel_one(channel, channel.subscribe());
    try {
        run_with_host(channel.confirm("Sure?"), std::move(host));
        FAIL();
    } catch (const HitlCancelled& error) {
        EXPECT_EQ(error.reason(), "went home");
    }
}

Task<> answer_badly_then_well(InMemoryChannel& channel, HitlRequestStream stream) {
    const std::optional<HitlRequest> request = co_await stream.next();
    const std::string id = request->question_id;
    EXPECT_EQ(co_await code_of(channel.answer("other", Json(true))), ErrorCode::stale_answer);
    EXPECT_EQ(co_await code_of(channel.answer(id, Json("yes"))), ErrorCode::bad_answer);
    EXPECT_EQ(channel.pending().size(), 1U);
    co_await channel.answer(id, Json(true));
    EXPECT_EQ(co_await code_of(channel.answer(id, Json(true))), ErrorCode::stale_answer);
    EXPECT_EQ(co_await code_of(channel.cancel(id)), ErrorCode::stale_answer);
}

TEST(InMemoryChannel, D17_BadAnswer_LeavesTheRequestOpen) {
    InMemoryChannel channel;
    Task<> host = answer_badly_then_well(channel, channel.subscribe());
    EXPECT_TRUE(run_with_host(channel.confirm("Sure?"), std::move(host)));
}

TEST(InMemoryChannel, CancelledCaller_WithdrawsItsRequest) {
    auto clock = std::make_shared<testing::ManualClock>();
    InMemoryChannel channel;
    Task<bool> limited = with_timeout(*clock, 3s, channel.confirm("Sure?"));
    EXPECT_THROW(testing::run_advancing(*clock, std::move(limited)), TimeoutError);
    EXPECT_TRUE(channel.pending().empty());
}

Task<bool> ask_twice(InMemoryChannel& channel) {
    TaskScope scope(co_await this_executor);
    HitlRequestStream stream = channel.subscribe();
    HitlOptions first;
    first.tool_call_id = "c1";
    HitlOptions second = first;
    struct Ask {
        static Task<> run(InMemoryChannel& channel, HitlOptions options) {
            Json details;
            (void)co_await channel.confirm("Sure?", std::move(details), std::move(options));
        }
    };
    scope.spawn(Ask::run(channel, std::move(first)));
    (void)co_await stream.next();
    const ErrorCode code = co_await code_of(Ask::run(channel, std::move(second)));
    EXPECT_EQ(channel.pending().size(), 1U) << "the first request is still open";
    co_await channel.answer("c1", Json(true));
    co_await scope.join();
    co_return code == ErrorCode::hitl;
}

TEST(InMemoryChannel, SameQuestion_CannotBePendingTwice) {
    InMemoryChannel channel;
    EXPECT_TRUE(run(ask_twice(channel)));
}

TEST(InMemoryChannel, DestroyedChannel_CancelsRequestsAndEndsStreams) {
    auto channel = std::make_unique<InMemoryChannel>();
    HitlRequestStream stream = channel->subscribe();
    struct Host {
        static Task<> close(std::unique_ptr<InMemoryChannel>& channel, HitlRequestStream requests) {
            (void)co_await requests.next();
            channel.reset();
        }
    };
    Task<bool> asking = channel->confirm("Sure?");
    Task<> host = Host::close(channel, channel->subscribe());
    EXPECT_THROW(run_with_host(std::move(asking), std::move(host)), HitlCancelled);
    EXPECT_TRUE(run(stream.next()).has_value());
    EXPECT_FALSE(run(stream.next()).has_value());
}

TEST(InMemoryChannel, Answers_ComeFromAnyThread) {
    constexpr int rounds = 200;
    InMemoryChannel channel;
    std::thread host([&channel, stream = channel.subscribe()]() mutable {
        run(answer_all(channel, std::move(stream), rounds, Json(true)));
    });
    int agreed = 0;
    for (int i = 0; i < rounds; ++i) agreed += run(channel.confirm("Sure?")) ? 1 : 0;
    host.join();
    EXPECT_EQ(agreed, rounds);
}

}  // namespace
}  // namespace cubepi
