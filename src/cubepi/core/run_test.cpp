#include <cubepi/core/run.hpp>

#include <sys/wait.h>
#include <unistd.h>

#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <gtest/gtest.h>

#include <cubepi/core/error.hpp>
#include <cubepi/core/event_signal.hpp>
#include <cubepi/core/offload.hpp>
#include <cubepi/core/runtime.hpp>
#include <cubepi/core/task_scope.hpp>
#include <cubepi/core/timeout.hpp>
#include <cubepi/testing/manual_clock.hpp>

namespace cubepi {
namespace {

TEST(Run, ReturnsTheResult) {
    EXPECT_EQ(run([]() -> Task<int> { co_return 4; }()), 4);
    auto owned = run([]() -> Task<std::unique_ptr<int>> {
        co_await yield_now();
        co_return std::make_unique<int>(5);
    }());
    EXPECT_EQ(*owned, 5);
    run([]() -> Task<> { co_await yield_now(); }());
}

TEST(Run, ThrowsWhatTheTaskThrows) {
    EXPECT_THROW(run([]() -> Task<> { throw std::runtime_error("x"); }()), std::runtime_error);
    EXPECT_EQ(run([]() -> Task<int> { co_return 1; }()), 1);
}

TEST(Run, InsideItselfIsRefusedWithAnAdvice) {
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

TEST(Run, KeepsItsLoopOnAThread) {
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

TEST(Run, DoesNotMissEventsInAChildOfFork) {
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

TEST(Run, DrainsWhatIsReadyBeforeItReturns) {
    bool ran = false;
    run([](bool& flag) -> Task<> {
        auto set = [&flag] { flag = true; };
        boost::asio::post(co_await this_executor, std::move(set));
    }(ran));
    EXPECT_TRUE(ran);
}

TEST(Run, StrayExceptionEndsTheTaskAndIsThrown) {
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

TEST(Run, SurvivesAHandlerThatStopsTheLoop) {
    const int result = run([]() -> Task<int> {
        this_thread_context().stop();
        co_await yield_now();
        co_return 6;
    }());
    EXPECT_EQ(result, 6);
}

TEST(Runtime, StandardIsOneAndStartsNothing) {
    const auto runtime = Runtime::standard();
    EXPECT_EQ(runtime, Runtime::standard());
    EXPECT_EQ(runtime->resolvers->stats().threads, 0u);
    EXPECT_EQ(runtime->transport, nullptr);
    EXPECT_EQ(runtime->ids->next().size(), 15u);
}

TEST(Runtime, PartsAreReplaced) {
    const auto clock = std::make_shared<testing::ManualClock>();
    const Runtime runtime =
        Runtime().with_clock(clock).with_ids(std::make_shared<testing::SequentialIds>());
    EXPECT_EQ(runtime.clock, clock);
    EXPECT_EQ(runtime.ids->next(), "id1");
    EXPECT_NE(runtime.workers, nullptr);
}

}  // namespace
}  // namespace cubepi
