#include <cubepi/core/run.hpp>

#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include <sys/wait.h>
#include <unistd.h>

#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <gtest/gtest.h>

#include <cubepi/core/detail/async_function.hpp>
#include <cubepi/core/error.hpp>
#include <cubepi/core/event_signal.hpp>
#include <cubepi/core/offload.hpp>
#include <cubepi/core/runtime.hpp>
#include <cubepi/core/task_scope.hpp>
#include <cubepi/core/timeout.hpp>
#include <cubepi/testing/manual_clock.hpp>

namespace cubepi {
namespace {

TEST(Run, Run_ReturnsTheResult) {
    EXPECT_EQ(run([]() -> Task<int> { co_return 4; }()), 4);
    auto owned = run([]() -> Task<std::unique_ptr<int>> {
        co_await yield_now();
        co_return std::make_unique<int>(5);
    }());
    EXPECT_EQ(*owned, 5);
    run([]() -> Task<> { co_await yield_now(); }());
}

TEST(Run, FailedTask_ThrowsItsException) {
    EXPECT_THROW(run([]() -> Task<> { throw std::runtime_error("x"); }()), std::runtime_error);
    EXPECT_EQ(run([]() -> Task<int> { co_return 1; }()), 1);
}

TEST(Run, RunInsideItself_IsRefusedWithAdvice) {
    std::string message;
    run([](std::string& out) -> Task<> {
        co_await yield_now();
        try {
            run(yield_now());
        } catch (const Error& error) {
            EXPECT_EQ(error.code(), ErrorCode::invalid_state);
            out = error.what();
        }
    }(message));
    EXPECT_NE(message.find("co_await"), std::string::npos);
    run(yield_now());
}

TEST(Run, Thread_KeepsItsLoop) {
    boost::asio::io_context* first = &this_thread_context();
    run([](boost::asio::io_context* expected) -> Task<> {
        const Executor executor = co_await this_executor;
        EXPECT_EQ(&boost::asio::query(executor, boost::asio::execution::context), expected);
    }(first));
    EXPECT_EQ(&this_thread_context(), first);
    boost::asio::io_context* other = nullptr;
    std::thread([&other] {
        run(yield_now());
        other = &this_thread_context();
    }).join();
    EXPECT_NE(other, first);
}

/// Waits for a thread `count` times, which wakes the loop up through its descriptors.
Task<> wait_for_threads(int count) {
    WorkerPool pool(1);
    for (int i = 0; i < count; ++i) {
        std::function<int()> work = [] { return 1; };
        co_await offload(pool, std::move(work));
    }
}

TEST(Run, ChildOfFork_DoesNotMissEvents) {
    run(wait_for_threads(1));
    std::vector<pid_t> children;
    for (int i = 0; i < 3; ++i) {
        const pid_t child = fork();
        ASSERT_GE(child, 0);
        if (child == 0) {
            run(wait_for_threads(200));
            _exit(0);
        }
        children.push_back(child);
    }
    run(wait_for_threads(200));
    for (const pid_t child : children) {
        int status = -1;
        ASSERT_EQ(waitpid(child, &status, 0), child);
        EXPECT_EQ(status, 0);
    }
}

TEST(Run, ReadyHandlers_AreDrainedBeforeRunReturns) {
    bool ran = false;
    run([](bool& flag) -> Task<> {
        auto set = [&flag] { flag = true; };
        boost::asio::post(co_await this_executor, std::move(set));
    }(ran));
    EXPECT_TRUE(ran);
}

TEST(Run, StrayException_EndsTheTaskAndIsThrown) {
    bool ended = false;
    auto task = [](bool& flag) -> Task<> {
        struct Note {
            bool& over;
            ~Note() { over = true; }
        };
        const Note note{flag};
        boost::asio::post(co_await this_executor, [] { throw std::domain_error("stray"); });
        AsyncEvent never;
        co_await never.wait();
    };
    EXPECT_THROW(run(task(ended)), std::domain_error);
    EXPECT_TRUE(ended);
}

TEST(Run, HandlerStopsTheLoop_RunStillFinishes) {
    const int result = run([]() -> Task<int> {
        this_thread_context().stop();
        co_await yield_now();
        co_return 6;
    }());
    EXPECT_EQ(result, 6);
}

TEST(Runtime, StandardRuntime_IsUniqueAndStartsNothing) {
    const auto runtime = Runtime::standard();
    EXPECT_EQ(runtime, Runtime::standard());
    EXPECT_EQ(runtime->resolvers->stats().threads, 0u);
    EXPECT_EQ(runtime->transport, nullptr);
    EXPECT_EQ(runtime->ids->next().size(), 15u);
}

TEST(Runtime, Parts_AreReplaced) {
    const auto clock = std::make_shared<testing::ManualClock>();
    const Runtime runtime =
        Runtime().with_clock(clock).with_ids(std::make_shared<testing::SequentialIds>());
    EXPECT_EQ(runtime.clock, clock);
    EXPECT_EQ(runtime.ids->next(), "id1");
    EXPECT_NE(runtime.workers, nullptr);
}

CUBEPI_DETAIL_SLOT(test, "a callable of this test")

constexpr detail::AsyncRules optional_last{.last_is_optional = true};
constexpr detail::AsyncRules void_is_default{.void_is_default = true};

using Length = detail::AsyncFunction<std::size_t(const std::string&), test_slot>;

Task<std::size_t> length_of(Length function, std::string text) {
    MaybeTask<std::size_t> outcome = function(text);
    if (!outcome.is_pending()) co_return std::move(outcome).value();
    std::size_t length = co_await std::move(outcome).task();
    co_return length;
}

TEST(AsyncFunction, PlainCallable_IsCalledWithoutATask) {
    const Length function([](const std::string& text) { return text.size(); });
    EXPECT_FALSE(function.is_async());
    MaybeTask<std::size_t> outcome = function("four");
    EXPECT_FALSE(outcome.is_pending());
    EXPECT_EQ(std::move(outcome).value(), 4U);
}

TEST(AsyncFunction, Coroutine_ReturnsItsTask) {
    const Length function(
        [](const std::string& text) -> Task<std::size_t> { co_return text.size(); });
    EXPECT_TRUE(function.is_async());
    EXPECT_TRUE(function("four").is_pending());
    EXPECT_EQ(run(length_of(function, "four")), 4U);
}

TEST(AsyncFunction, TaskResult_IsConverted) {
    const Length function([](const std::string&) -> Task<unsigned char> { co_return 7; });
    EXPECT_EQ(run(length_of(function, "any")), 7U);
}

TEST(AsyncFunction, MaybeTask_IsPassedOn) {
    const Length function(
        [](const std::string& text) { return MaybeTask<std::size_t>(text.size()); });
    EXPECT_TRUE(function.is_async());
    EXPECT_FALSE(function("four").is_pending());
}

TEST(AsyncFunction, Copies_ShareTheCallable) {
    auto calls = std::make_unique<int>(0);
    int* const count = calls.get();
    const detail::AsyncFunction<void(), test_slot> function(
        [calls = std::move(calls)] { ++*calls; });
    const auto copy = function;
    (void)function();
    (void)copy();
    EXPECT_EQ(*count, 2);
}

TEST(AsyncFunction, LastArgument_MayBeLeftOut) {
    using Sum = detail::AsyncFunction<int(int, int), test_slot, optional_last>;
    const Sum both([](int a, int b) { return a + b; });
    const Sum first([](int a) { return a; });
    EXPECT_EQ(both(1, 2).value(), 3);
    EXPECT_EQ(first(1, 2).value(), 1);
}

TEST(AsyncFunction, CallableThatReturnsNothing_YieldsTheDefault) {
    const detail::AsyncFunction<std::string(), test_slot, void_is_default> function([] {});
    EXPECT_EQ(function().value(), "");
}

TEST(AsyncFunction, NoCallable_IsEmpty) { EXPECT_FALSE(Length()); }

}  // namespace
}  // namespace cubepi
