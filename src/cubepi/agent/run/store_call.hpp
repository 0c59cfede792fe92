#pragma once

#include <exception>
#include <string_view>
#include <type_traits>
#include <utility>

#include <cubepi/core/cancellation.hpp>
#include <cubepi/core/error.hpp>
#include <cubepi/core/task.hpp>

namespace cubepi::detail {

/// Throws the failure of a store as a CheckpointerError (D35), with the original exception nested unless it is one
/// already. `operation` completes the sentence "the checkpointer failed to ...". An Error keeps its code.
[[noreturn]] void throw_store_failure(const std::exception_ptr& failure, std::string_view operation,
                                      std::string_view thread_id);

/// Awaits `call()`, a function of a store. Any exception is thrown as a CheckpointerError, except for the cancellation
/// of the awaiting coroutine.
template <class F>
std::invoke_result_t<F&> store_call(std::string_view operation, std::string_view thread_id,
                                    F call) {
    std::exception_ptr failure;
    try {
        auto pending = call();
        co_return co_await std::move(pending);
    } catch (...) {
        failure = std::current_exception();
    }
    const auto state = co_await this_cancellation;
    const bool cancelled = state.cancelled() != boost::asio::cancellation_type::none;
    if (cancelled && is_cancellation(failure)) std::rethrow_exception(failure);
    throw_store_failure(failure, operation, thread_id);
}

}  // namespace cubepi::detail
