#include <cubepi/core/run.hpp>

#include <exception>
#include <utility>

#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>

#include <cubepi/core/detail/scope_core.hpp>
#include <cubepi/core/error.hpp>
#include <cubepi/core/support/fork_generation.hpp>

namespace cubepi {

namespace {

/// The thread's Loop has been destroyed. Has no destructor, so it can be read until the thread has ended.
constinit thread_local bool loop_destroyed = false;

struct Loop {
    Loop() = default;
    ~Loop() { loop_destroyed = true; }
    Loop(const Loop&) = delete;
    Loop& operator=(const Loop&) = delete;

    /// Replaces the descriptors that the loop of a child process shares with that of its parent: each would miss the events that
    /// the other one receives.
    void separate_from_parent() {
        const unsigned current = detail::fork_generation();
        if (std::exchange(generation, current) == current) return;
        context.notify_fork(boost::asio::execution_context::fork_child);
    }

    boost::asio::io_context context{1};
    bool running = false;
    unsigned generation = detail::fork_generation();
};

Loop& this_thread_loop() {
    if (loop_destroyed) {
        throw Error(ErrorCode::invalid_state,
                    "run() was called after the thread-local objects of this thread were "
                    "destroyed, as they "
                    "are when a static destructor runs: call run() before main() returns or the "
                    "thread ends");
    }
    thread_local Loop loop;
    loop.separate_from_parent();
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

class StopAtEnd final : public detail::ScopeObserver {
public:
    explicit StopAtEnd(boost::asio::io_context& context) noexcept : context_(context) {}
    void failed(std::exception_ptr) noexcept override {}
    void emptied() noexcept override { context_.stop(); }

private:
    boost::asio::io_context& context_;
};

}  // namespace

boost::asio::io_context& this_thread_context() { return this_thread_loop().context; }

namespace detail {

void run_blocking(Task<> task, std::function<bool()> on_idle) {
    Loop& loop = this_thread_loop();
    const Running running(loop);
    boost::asio::io_context& context = loop.context;
    StopAtEnd at_end(context);
    const auto work = boost::asio::make_work_guard(context);
    ScopeCore scope(context.get_executor(), false, &at_end);
    std::exception_ptr own;
    std::exception_ptr stray;
    const auto step = [&](auto&& function) {
        context.restart();
        try {
            function();
        } catch (...) {
            // The exception left a handler without a caller that could receive it: end the task, then report the
            // exception.
            if (!stray) stray = std::current_exception();
            scope.cancel();
        }
    };
    bool started = false;
    boost::asio::post(context, [&] {
        started = true;
        scope.spawn(std::move(task), &own);
        if (scope.live() == 0) context.stop();
    });
    // run() and not run_one(): Asio reuses the memory of finished operations only within one call.
    while (!started || scope.live() > 0) {
        step([&] {
            if (!on_idle) {
                context.run();
            } else if (context.poll() == 0 && !on_idle()) {
                context.run_one();
            }
        });
    }
    step([&] { context.poll(); });
    if (stray) std::rethrow_exception(stray);
    if (own) std::rethrow_exception(own);
}

}  // namespace detail

}  // namespace cubepi
