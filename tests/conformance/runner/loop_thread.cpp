#include "loop_thread.hpp"

#include <exception>
#include <memory>
#include <utility>

#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>

#include <cubepi/core/task_scope.hpp>

namespace conformance {

namespace {

struct Loop {
    boost::asio::io_context context{1};
    cubepi::BackgroundScope scope{context.get_executor()};
    bool done = false;
    std::exception_ptr failure;
};

cubepi::Task<> watched(Loop& loop, cubepi::Task<> task) {
    try {
        co_await std::move(task);
    } catch (...) {
        loop.failure = std::current_exception();
    }
    loop.done = true;
}

}  // namespace

bool run_within(cubepi::Task<> task, std::chrono::steady_clock::duration limit) {
    auto loop = std::make_unique<Loop>();
    const auto deadline = std::chrono::steady_clock::now() + limit;
    const auto work = boost::asio::make_work_guard(loop->context);
    loop->scope.spawn(watched(*loop, std::move(task)));
    while (!loop->done && std::chrono::steady_clock::now() < deadline)
        (void)loop->context.run_one_until(deadline);
    if (!loop->done) {
        (void)loop.release();
        return false;
    }
    // The task that ended last may still have queued handlers.
    (void)loop->context.poll();
    if (loop->failure) std::rethrow_exception(loop->failure);
    return true;
}

}  // namespace conformance
