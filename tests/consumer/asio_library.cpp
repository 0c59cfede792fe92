// An existing static library of a user: it uses Asio with flags of its own and does not use CubePi.
#include "asio_library.hpp"

#include <boost/asio/awaitable.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#ifdef BOOST_ASIO_SEPARATE_COMPILATION
#include <boost/asio/impl/src.hpp>
#endif

#include <chrono>

namespace {

namespace asio = boost::asio;

// Nested, so that several coroutine frames of different sizes are allocated and freed.
asio::awaitable<int> nested(int depth) {
    asio::steady_timer timer(co_await asio::this_coro::executor, std::chrono::microseconds(1));
    co_await timer.async_wait(asio::use_awaitable);
    if (depth == 0) co_return 1;
    co_return co_await nested(depth - 1);
}

asio::awaitable<void> round(int& completed) { completed += co_await nested(8); }

}  // namespace

int asio_library_work(int rounds) {
    asio::io_context context;
    int completed = 0;
    for (int i = 0; i < rounds; ++i) asio::co_spawn(context, round(completed), asio::detached);
    asio::post(context, [] {});
    context.run();
    return completed;
}
