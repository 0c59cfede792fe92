#include <atomic>
#include <barrier>
#include <semaphore>
#include <thread>

#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/strand.hpp>

#include <cubepi/agent/run/serial_check.hpp>

#include "agent_test_support.hpp"

// An agent on an executor that two threads run.

namespace cubepi {
namespace {

using namespace agent_test;

/// Runs an agent on `executor`, which two threads run; both are in one of its tools at the same time.
void run_agent_on(boost::asio::io_context& context, const Executor& executor, std::size_t tools) {
    std::barrier in_tools(static_cast<std::ptrdiff_t>(tools));
    std::counting_semaphore<> passed(0);
    std::atomic<bool> called = false;
    auto meeting = tool<EchoArgs>("echo", "Meets.", [&in_tools](EchoArgs) -> Task<std::string> {
        co_await yield_now();
        in_tools.arrive_and_wait();
        co_return std::string("met");
    });
    std::vector<ToolCall> calls;
    for (std::size_t i = 0; i < tools; ++i)
        calls.push_back(echo_call("a", "c" + std::to_string(i)));
    FauxProvider faux;
    faux.set_responses({calling(std::move(calls)), "done"});
    Agent agent({.model = faux.model(), .tools = {meeting}});
    agent.subscribe([&](const AgentEvent& event) {
        if (event.type() != AgentEventType::tool_execution_end || called.exchange(true)) return;
        if (tools == 1) return;
        // Keeps this thread inside the agent until the other one, whose handler is already running, has finished with
        // it.
        boost::asio::post(context, [&passed] { passed.release(); });
        passed.acquire();
    });
    std::optional<RunResult> result;
    const auto prompt = [&]() -> Task<void> { result = co_await agent.prompt("hi"); };
    BackgroundScope scope(executor);
    boost::asio::post(executor, [&] { scope.spawn(prompt()); });
    {
        const std::jthread other([&context] { context.run(); });
        context.run();
    }
    ASSERT_TRUE(result);
    EXPECT_TRUE(*result);
}

TEST(Threads, AStrandOfTwoThreadsIsSerial) {
    boost::asio::io_context context;
    const Executor strand = boost::asio::make_strand(context);
    run_agent_on(context, strand, 1);
}

#ifndef NDEBUG
TEST(ThreadsDeathTest, ADebugBuildNoticesAnAgentThatTwoThreadsAreInside) {
    GTEST_FLAG_SET(death_test_style, "threadsafe");
    const auto without_strand = [] {
        boost::asio::io_context context;
        run_agent_on(context, context.get_executor(), 2);
    };
    EXPECT_DEATH(without_strand(), "an agent is used by two threads at once.*strand");
}
#endif

TEST(Threads, ACheckHasTheSameLayoutInEveryBuild) {
    // An atomic number with and without NDEBUG: see serial_check.hpp.
    static_assert(sizeof(detail::SerialCheck) == sizeof(std::atomic<std::uint32_t>));
    detail::SerialCheck check;
    const detail::SerialSection outer(check);
    const detail::SerialSection nested(check);
    SUCCEED();
}

}  // namespace
}  // namespace cubepi
