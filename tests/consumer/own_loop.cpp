// A user's program with an event loop of its own. It calls functions of Boost.Asio compiled into the library, whose names differ
// between g++ and clang.
// <curses.h> defines this macro, and a program may include it first.
#define timeout(delay) wtimeout(stdscr, (delay))
#include <cubepi/cubepi.hpp>
#undef timeout

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/strand.hpp>
#include <boost/asio/use_future.hpp>

#include <future>
#include <iostream>

int main() {
    boost::asio::io_context context(1);
    cubepi::FauxProvider faux;
    faux.set_responses({"The loop is mine.", "So is the strand."});
    cubepi::Agent agent({.model = faux.model()});
    std::future<cubepi::RunResult> first =
        boost::asio::co_spawn(context, agent.prompt("Whose loop?"), boost::asio::use_future);
    context.run();
    context.restart();
    boost::asio::any_io_executor strand = boost::asio::make_strand(context);
    std::future<cubepi::RunResult> second =
        boost::asio::co_spawn(strand, agent.prompt("And this?"), boost::asio::use_future);
    context.run();
    std::cout << first.get().text() << ' ' << second.get().text() << '\n';
}
