// A program with its own event loop: the agent runs on it, next to everything else.
#include <cubepi/cubepi.hpp>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/signal_set.hpp>
#include <boost/asio/steady_timer.hpp>

#include <iostream>

namespace asio = boost::asio;
using namespace cubepi;

int main() {
    asio::io_context context(1);  // one thread: an agent needs no locks there

    FauxProvider faux({.tokens_per_second = 400});
    faux.set_responses({"The loop is yours; the agent only takes its turns on it."});
    Agent agent(AgentOptions{.model = faux.model()});
    agent.subscribe([](const AgentEvent& event) { std::cout << event.text() << std::flush; });

    // Other work of the program.
    int ticks = 0;
    bool over = false;  // cancelling a timer does not cancel a tick that is due
    asio::steady_timer timer(context);
    std::function<void()> tick = [&] {
        timer.expires_after(std::chrono::milliseconds(2));
        timer.async_wait([&](boost::system::error_code failure) {
            if (failure || over) return;
            ++ticks;
            tick();
        });
    };
    tick();

    // Ctrl-C ends the answer, not the program.
    asio::signal_set interrupts(context, SIGINT);
    interrupts.async_wait([&](boost::system::error_code failure, int) {
        if (!failure) agent.abort();
    });

    int status = 1;
    asio::co_spawn(context, agent.prompt("Who owns the loop?"),
                   [&](std::exception_ptr failure, RunResult result) {
                       over = true;
                       timer.cancel();
                       interrupts.cancel();
                       if (failure)
                           std::rethrow_exception(failure);  // to the caller of context.run()
                       std::cout << '\n' << to_string(result.outcome) << '\n';
                       status = result && ticks > 0 ? 0 : 1;
                   });
    context.run();
    return status;
}
