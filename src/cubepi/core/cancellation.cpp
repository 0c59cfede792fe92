#include <cubepi/core/cancellation.hpp>

#include <functional>
#include <memory>
#include <optional>
#include <utility>

#include <boost/asio/async_result.hpp>
#include <boost/asio/error.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/system/system_error.hpp>

#include <cubepi/core/detail/scope_core.hpp>
#include <cubepi/core/error.hpp>

namespace cubepi {

namespace asio = boost::asio;

bool is_cancellation(const std::exception_ptr& failure) noexcept {
    if (!failure) return false;
    try {
        std::rethrow_exception(failure);
    } catch (const boost::system::system_error& error) {
        return error.code() == asio::error::operation_aborted;
    } catch (const Error& error) {
        return error.code() == ErrorCode::cancelled;
    } catch (...) {
        return false;
    }
}

std::exception_ptr make_cancelled() {
    return std::make_exception_ptr(boost::system::system_error(asio::error::operation_aborted));
}

void throw_cancelled() { throw boost::system::system_error(asio::error::operation_aborted); }

namespace {

struct PostResume {
    template <class Handler>
    void operator()(Handler handler) const {
        const Executor executor = handler.get_executor();
        boost::asio::post(executor, std::move(handler));
    }
};

}  // namespace

Task<> yield_now() {
    using Token = asio::use_awaitable_t<Executor>;
    const Token token;
    const PostResume start;
    co_await asio::async_initiate<const Token, void()>(start, token);
}

namespace detail {

namespace {

/// The connection of a stop callback, on any thread, to a scope on its executor. `scope` is used only there.
struct StopLink {
    Executor executor;
    ScopeCore* scope;
};

struct CutLink {
    StopLink& link;
    ~CutLink() { link.scope = nullptr; }
};

}  // namespace

Task<> run_cancel_on(std::stop_token token, Task<> task) {
    if (token.stop_requested()) throw_cancelled();
    const Executor executor = co_await this_executor;
    std::exception_ptr own;
    ScopeCore scope(executor, false);
    const auto link = std::make_shared<StopLink>(StopLink{executor, &scope});
    const CutLink cut{*link};
    scope.spawn(std::move(task), &own);
    const auto on_stop = [link] {
        boost::asio::post(link->executor, [link] {
            if (link->scope) link->scope->cancel();
        });
    };
    const std::stop_callback<decltype(on_stop)> callback(token, on_stop);
    const bool throws = co_await throws_when_cancelled;
    co_await throw_when_cancelled(false);
    std::exception_ptr failure = co_await scope.join_failure();
    co_await throw_when_cancelled(throws);
    if (!failure) failure = own;
    if (failure) std::rethrow_exception(failure);
}

Task<> run_stoppable(std::stop_source source, Clock& clock, std::chrono::nanoseconds grace,
                     Task<> task) {
    const Executor executor = co_await this_executor;
    std::exception_ptr own;
    std::unique_ptr<ClockTimer> timer;
    ScopeCore scope(executor, false);
    scope.spawn(std::move(task), &own);
    bool asked = false;
    std::function<void()> on_cancel = [&] {
        if (std::exchange(asked, true)) return;
        source.request_stop();
        if (grace <= std::chrono::nanoseconds::zero()) {
            scope.cancel();
            return;
        }
        timer = clock.timer(executor);
        timer->expires_after(grace, [&scope] { scope.cancel(); });
    };
    const bool throws = co_await throws_when_cancelled;
    co_await throw_when_cancelled(false);
    std::exception_ptr failure = co_await scope.join_failure(std::move(on_cancel));
    co_await throw_when_cancelled(throws);
    if (timer) timer->cancel();
    if (!failure) failure = own;
    if (failure) std::rethrow_exception(failure);
}

}  // namespace detail

}  // namespace cubepi
