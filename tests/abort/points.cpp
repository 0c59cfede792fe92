#include "points.hpp"

#include <chrono>

#include <boost/asio/post.hpp>

namespace cubepi::abort_tests {

Task<> Points::wait(Clock& clock) {
    if (++count_ != target_) {
        co_await yield_now();
        co_return;
    }
    const Executor executor = co_await this_executor;
    boost::asio::post(executor, [this] { hit(); });
    co_await clock.sleep_for(std::chrono::hours(1));
}

Task<> Points::wait_for_stop(Clock& clock, std::stop_token stop) {
    if (++count_ != target_) {
        co_await yield_now();
        co_return;
    }
    const Executor executor = co_await this_executor;
    boost::asio::post(executor, [this] { hit(); });
    while (!stop.stop_requested()) co_await clock.sleep_for(std::chrono::milliseconds(1));
}

Task<> Points::wait_shortly() {
    if (++count_ == target_) {
        const Executor executor = co_await this_executor;
        boost::asio::post(executor, [this] { hit(); });
    }
    co_await yield_now();
    co_await yield_now();
}

}  // namespace cubepi::abort_tests
