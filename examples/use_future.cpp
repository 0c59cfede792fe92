// Threads and futures: the agent runs on its own thread, and other threads wait for its answers.
#include <cubepi/cubepi.hpp>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/use_future.hpp>

#include <future>
#include <iostream>
#include <thread>

namespace asio = boost::asio;
using namespace cubepi;

int main() {
    asio::io_context context(1);
    auto keep_running = asio::make_work_guard(context);
    FauxProvider faux({.tokens_per_second = 100});
    faux.set_responses(
        {"Forty-two.", faux_assistant_message("This takes a while. " + std::string(2000, 'z'))});
    Agent agent(AgentOptions{.model = faux.model()});
    std::thread loop([&] { context.run(); });

    std::future<RunResult> first =
        asio::co_spawn(context, agent.prompt("6 x 7?"), asio::use_future);
    const RunResult answer = first.get();
    std::cout << answer.text() << '\n';

    // abort(), steer(), follow_up() and cancel_steer() may be called from any thread, nothing else may.
    std::future<RunResult> second =
        asio::co_spawn(context, agent.prompt("Tell me all"), asio::use_future);
    while (second.wait_for(std::chrono::milliseconds(1)) != std::future_status::ready)
        agent.abort();
    const RunResult aborted = second.get();
    std::cout << to_string(aborted.outcome) << '\n';

    keep_running.reset();
    loop.join();  // before the agent is destroyed
    return answer.text() == "Forty-two." && aborted.outcome == RunOutcome::aborted ? 0 : 1;
}
