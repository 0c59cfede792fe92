#pragma once

#include <utility>

#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>

#include <cubepi/core/task.hpp>

namespace cubepi::detail {

/// asio::post with a shortcut for the most common executor: a post through the type-erased one is four times as
/// expensive.
template <class F>
void post_to(const Executor& executor, F&& function) {
    if (const auto* plain = executor.target<boost::asio::io_context::executor_type>()) {
        boost::asio::post(*plain, std::forward<F>(function));
    } else {
        boost::asio::post(executor, std::forward<F>(function));
    }
}

}  // namespace cubepi::detail
