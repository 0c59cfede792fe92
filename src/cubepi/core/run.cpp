#include <cubepi/core/run.hpp>

#include <exception>
#include <utility>

#include <boost/asio/io_context.hpp>

#include <cubepi/core/detail/scope_core.hpp>
#include <cubepi/core/error.hpp>

namespace cubepi {

namespace {

struct Loop {
    boost::asio::io_context context{1};
    bool running = false;
};

Loop& this_thread_loop() {
    thread_local Loop loop;
    return loop;
}

struct Running {
    explicit Running(Loop& which) : loop(which) {
        if (loop.running) {
            throw Error(ErrorCode::invalid_state,
                        "run() was called from inside run() on the same thread, which would wait "
                        "for itself: "
                        "co_await the task there instead");
        }
        loop.running = true;
    }
    ~Running() { loop.running = false; }
    Running(const Running&) = delete;
    Running& operator=(const Running&) = delete;

    Loop& loop;
};

}  // namespace

boost::asio::io_context& this_thread_context() { return this_thread_loop().context; }

namespace detail {

void run_blocking(Task<> task, std::function<bool()> on_idle) {
    Loop& loop = this_thread_loop();
    const Running running(loop);
    boost::asio::io_context& context = loop.context;
    std::exception_ptr own;
    std::exception_ptr stray;
    ScopeCore scope(context.get_executor(), false);
    context.restart();
    scope.spawn(std::move(task), &own);
    const auto step = [&](auto&& function) {
        try {
            function();
        } catch (...) {
            // It left a handler that belongs to nobody we could give it to: end what was asked for,
            // then report it.
            if (!stray) stray = std::current_exception();
            scope.cancel();
        }
    };
    while (scope.live() > 0) {
        step([&] {
            if (context.stopped()) context.restart();
            if (on_idle && context.poll_one() > 0) return;
            if (on_idle && on_idle()) return;
            if (scope.live() > 0) context.run_one();
        });
    }
    step([&] { context.poll(); });
    if (stray) std::rethrow_exception(stray);
    if (own) std::rethrow_exception(own);
}

}  // namespace detail

}  // namespace cubepi
