#include <cubepi/core/task_scope.hpp>

#include <cstdio>
#include <exception>
#include <optional>
#include <utility>

#include <boost/asio/associated_cancellation_slot.hpp>
#include <boost/asio/async_result.hpp>
#include <boost/asio/cancellation_signal.hpp>
#include <boost/asio/cancellation_state.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/version.hpp>

#include <cubepi/core/cancellation.hpp>
#include <cubepi/core/detail/scope_core.hpp>
#include <cubepi/core/support/wait_service.hpp>
#include <cubepi/core/task.hpp>

// Boost 1.81's co_spawn posts and dispatches through the type-erased executor three times for each coroutine, even for
// one that ends immediately: 5,000 instructions. On the current executor this is unnecessary. Avoiding it relies on an
// implementation detail of Asio that was verified for this version only; with other versions co_spawn is used
// (-DCUBEPI_PLAIN_CO_SPAWN forces that).
#if BOOST_VERSION == 108100 && !defined(CUBEPI_PLAIN_CO_SPAWN)
#define CUBEPI_DIRECT_LAUNCH 1
#else
#define CUBEPI_DIRECT_LAUNCH 0
#endif

namespace cubepi::detail {

namespace asio = boost::asio;

namespace {

using JoinHandler = asio::async_result<WaitToken, void()>::handler_type;

#if CUBEPI_DIRECT_LAUNCH

using LaunchedTask =
    boost::asio::awaitable<boost::asio::detail::awaitable_thread_entry_point, Executor>;

template <class End>
LaunchedTask launched(Task<> task, End end) {
    co_await std::move(task);
    std::move(end)(nullptr);
}

// Starts `task`, which must not throw, on the current executor and runs it until it first suspends. `end` is called
// when it has ended, possibly before this returns. `end` has the cancellation slot of the task.
template <class End>
void launch_here(const Executor& executor, Task<> task, End end) {
    const boost::asio::cancellation_slot slot = end.get_cancellation_slot();
    const boost::asio::cancellation_state state(slot);
    LaunchedTask entry = launched(std::move(task), std::move(end));
    boost::asio::detail::awaitable_handler<Executor, void> thread(std::move(entry), executor, slot,
                                                                  state);
    thread.launch();
}

#else

template <class End>
void launch_here(const Executor& executor, Task<> task, End end) {
    boost::asio::co_spawn(executor, std::move(task), std::move(end));
}

#endif

// Like launch_here(), on another executor. `end` is called there.
template <class End>
void launch_on(const Executor& executor, Task<> task, End end) {
    boost::asio::co_spawn(executor, std::move(task), std::move(end));
}

}  // namespace

/// A child's record. Its signal is emitted on the child's executor only, and only between the child's first step and
/// its end: after that Boost 1.81 would emit into a destroyed operation, and before it, co_spawn would throw into the
/// event loop.
struct ScopeChild : std::enable_shared_from_this<ScopeChild> {
    ScopeCore* scope = nullptr;
    ScopeChild* previous = nullptr;
    ScopeChild* next = nullptr;
    std::exception_ptr* failure = nullptr;
    std::shared_ptr<void> keep_alive;
    std::optional<Executor> elsewhere;  // the child's executor if it is not the scope's
    std::exception_ptr result;
    bool cancel_requested = false;  // on the scope's executor, the other members on the child's
    bool started = false;
    bool cancelled = false;
    bool done = false;
    asio::cancellation_signal signal;

    Task<> run(Task<> task) {
        started = true;
        try {
            if (cancelled) throw_cancelled();
            co_await std::move(task);
        } catch (...) {
            result = std::current_exception();
        }
        // co_spawn awaits once more before it reports the end, and must not throw there.
        co_await throw_when_cancelled(false);
    }

    void cancel() {
        cancel_requested = true;
        if (!elsewhere) {
            cancel_here();
        } else {
            boost::asio::post(*elsewhere, [self = shared_from_this()] { self->cancel_here(); });
        }
    }

    void cancel_here() {
        cancelled = true;
        if (started && !done) signal.emit(asio::cancellation_type::terminal);
    }

    void finish() {
        done = true;
        if (!scope) return;
        if (!elsewhere) {
            scope->ended(*this);
        } else {
            boost::asio::post(scope->executor(),
                              [self = shared_from_this()] { self->scope->ended(*self); });
        }
    }

    void abandon() noexcept {
        done = true;
        if (elsewhere) {
            if (!result) result = make_cancelled();
            finish();
        } else if (scope) {
            scope->abandoned(*this);
        }
    }
};

namespace {

/// The completion handler that co_spawn calls at the child's end, on the child's executor. It specifies no executor of
/// its own: only then does co_spawn emit a cancellation directly instead of posting a pointer that may become invalid
/// first.
class ChildHandler {
public:
    using cancellation_slot_type = asio::cancellation_slot;

    explicit ChildHandler(std::shared_ptr<ScopeChild> child) noexcept : child_(std::move(child)) {}
    ChildHandler(ChildHandler&&) noexcept = default;
    ~ChildHandler() {
        if (child_) child_->abandon();  // its execution context is being destroyed
    }

    cancellation_slot_type get_cancellation_slot() const noexcept { return child_->signal.slot(); }

    void operator()(std::exception_ptr) {
        const std::shared_ptr<ScopeChild> child = std::move(child_);
        child->finish();
    }

private:
    std::shared_ptr<ScopeChild> child_;
};

}  // namespace

/// The parent, suspended in join_failure().
struct JoinNode {
    ScopeCore& scope;
    std::function<void()>& on_cancel;
    std::optional<JoinHandler> handler;

    explicit JoinNode(ScopeCore& owner, std::function<void()>& hook) noexcept
        : scope(owner), on_cancel(hook) {
        scope.joiner_ = this;
    }
    ~JoinNode() { scope.joiner_ = nullptr; }
    JoinNode(const JoinNode&) = delete;
    JoinNode& operator=(const JoinNode&) = delete;

    void cancel() const {
        if (on_cancel) {
            on_cancel();
        } else {
            scope.cancel();
        }
    }

    JoinHandler take() {
        JoinHandler taken = std::move(*handler);
        handler.reset();
        return taken;
    }
};

namespace {

struct CancelJoin {
    JoinNode* node;
    void operator()(asio::cancellation_type_t) const { node->cancel(); }
};

struct StartJoin {
    JoinNode* node;
    void operator()(JoinHandler handler) const {
        node->handler.emplace(std::move(handler));
        auto slot = asio::get_associated_cancellation_slot(*node->handler);
        if (slot.is_connected()) slot.assign(CancelJoin{node});
    }
};

}  // namespace

ScopeCore::~ScopeCore() {
    if (live_ == 0) return;
    auto& context = asio::query(executor_, asio::execution::context);
    if (!asio::has_service<WaitService>(context) ||
        !asio::use_service<WaitService>(context).shut_down()) {
        std::fputs(
            "cubepi: a task scope was destroyed while its children were alive. Wait for them with "
            "`co_await "
            "scope.join()`, or use with_task_scope(), which does so also when the parent fails or "
            "is cancelled.\n",
            stderr);
        std::terminate();
    }
    for (ScopeChild* child = children_; child; child = child->next) child->scope = nullptr;
}

void ScopeCore::spawn(Task<> task, std::exception_ptr* failure, const Executor* executor,
                      std::shared_ptr<void> keep_alive) {
    if (cancelled_) {
        if (failure) *failure = make_cancelled();
        return;
    }
    auto child = std::make_shared<ScopeChild>();
    child->scope = this;
    child->failure = failure;
    child->keep_alive = std::move(keep_alive);
    if (executor && *executor != executor_) child->elsewhere.emplace(*executor);
    // Created here, because the destructor needs it when it is too late to create one.
    if (live_ == 0) WaitService::of(executor_);

    child->next = children_;
    if (children_) children_->previous = child.get();
    children_ = child.get();
    ++live_;
    Task<> body = child->run(std::move(task));
    if (child->elsewhere) {
        launch_on(*child->elsewhere, std::move(body), ChildHandler(child));
    } else {
        launch_here(executor_, std::move(body), ChildHandler(child));
    }
}

void ScopeCore::cancel() noexcept {
    if (cancelled_) return;
    cancelled_ = true;
    if (live_ == 0) return;
    emitting_ = true;
    // An operation should not complete inside its cancellation; if one does, the list has changed, and the search for
    // children that are not notified starts over.
    for (ScopeChild* child = children_; child;) {
        const std::shared_ptr<ScopeChild> keep_alive = child->shared_from_this();
        const std::size_t before = live_;
        if (!child->cancel_requested) child->cancel();
        child = live_ == before ? keep_alive->next : children_;
    }
    emitting_ = false;
    if (live_ > 0) return;
    if (joiner_ && joiner_->handler) {
        // Not from inside the emission that is in progress.
        boost::asio::post(executor_, joiner_->take());
    } else if (observer_) {
        observer_->emptied();
    }
}

void ScopeCore::unlink(ScopeChild& child) noexcept {
    (child.previous ? child.previous->next : children_) = child.next;
    if (child.next) child.next->previous = child.previous;
}

void ScopeCore::record(std::exception_ptr* own, std::exception_ptr failure) noexcept {
    if (own) *own = failure;
    if (cancelled_ && is_cancellation(failure)) return;
    if (observer_) {
        observer_->failed(std::move(failure));
        return;
    }
    if (!first_failure_) first_failure_ = std::move(failure);
    if (!cancel_on_failure_) return;
    cancel();
    if (companion_) companion_->cancel();
}

// Not noexcept: the parent resumes inside, and exceptions of its own completion handler belong to the event loop.
void ScopeCore::ended(ScopeChild& child) {
    unlink(child);
    if (child.result) record(child.failure, std::move(child.result));
    if (--live_ == 0 && !emitting_) notify_empty();
}

void ScopeCore::notify_empty() {
    if (observer_) {
        observer_->emptied();
    } else if (joiner_ && joiner_->handler) {
        joiner_->take()();  // may destroy this scope
    }
}

void ScopeCore::abandoned(ScopeChild& child) noexcept {
    unlink(child);
    if (--live_ > 0) return;
    if (observer_) {
        observer_->emptied();
    } else if (joiner_ && joiner_->handler) {
        // The executor has stopped: destroy the parent's frames too.
        const JoinHandler dropped = joiner_->take();
    }
}

Task<std::exception_ptr> ScopeCore::join_failure(std::function<void()> on_cancel) {
    const bool throws = co_await throws_when_cancelled;
    co_await throw_when_cancelled(false);
    if (live_ > 0) {
        JoinNode node(*this, on_cancel);
        const auto before = co_await this_cancellation;
        if (before.cancelled() != asio::cancellation_type::none) node.cancel();
        StartJoin start{&node};
        const WaitToken token;
        co_await asio::async_initiate<const WaitToken, void()>(start, token);
    }
    co_await throw_when_cancelled(throws);
    const auto after = co_await this_cancellation;
    if (after.cancelled() != asio::cancellation_type::none) co_return make_cancelled();
    co_return first_failure_;
}

Task<> ScopeCore::join() {
    const std::exception_ptr failure = co_await join_failure();
    if (failure) std::rethrow_exception(failure);
}

}  // namespace cubepi::detail

namespace cubepi {

struct BackgroundScope::State final : detail::ScopeObserver {
    State(Executor executor, std::function<void(std::exception_ptr)> hook)
        : on_failure(std::move(hook)), core(std::move(executor), false, this) {}

    void failed(std::exception_ptr failure) noexcept override {
        if (on_failure) {
            on_failure(std::move(failure));
        } else if (!first) {
            first = std::move(failure);
        }
    }

    void emptied() noexcept override {
        empty.wake_all();
        work.reset();
    }

    std::function<void(std::exception_ptr)> on_failure;
    std::exception_ptr first;
    detail::WaitList empty;
    detail::ScopeCore core;

    /// Keeps the event loop running while there are children. (Children of a coroutine do not need it, because their
    /// parent has one.)
    std::optional<boost::asio::executor_work_guard<Executor>> work;
};

BackgroundScope::BackgroundScope(Executor executor,
                                 std::function<void(std::exception_ptr)> on_failure)
    : state_(std::make_shared<State>(std::move(executor), std::move(on_failure))) {}

BackgroundScope::~BackgroundScope() {
    state_->on_failure = nullptr;  // it may refer to the owner
    state_->core.cancel();
}

void BackgroundScope::spawn(Task<> task) {
    const std::shared_ptr<State> state = state_;
    if (!state->work) state->work.emplace(state->core.executor());
    state->core.spawn(std::move(task), nullptr, nullptr, state);
    if (state->core.live() == 0) state->work.reset();
}

void BackgroundScope::cancel() noexcept { state_->core.cancel(); }

std::size_t BackgroundScope::live() const noexcept { return state_->core.live(); }

Task<> BackgroundScope::idle() {
    const std::shared_ptr<State> state = state_;
    while (state->core.live() > 0) co_await state->empty.wait();
}

Task<> BackgroundScope::close() {
    const std::shared_ptr<State> state = state_;
    state->core.cancel();
    const bool throws = co_await detail::throws_when_cancelled;
    co_await detail::throw_when_cancelled(false);
    while (state->core.live() > 0) {
        try {
            co_await state->empty.wait();
        } catch (...) {
            // The children are already being cancelled; it remains to wait for them.
        }
    }
    co_await detail::throw_when_cancelled(throws);
    const auto cancellation = co_await this_cancellation;
    if (cancellation.cancelled() != boost::asio::cancellation_type::none) throw_cancelled();
    if (state->first) std::rethrow_exception(std::exchange(state->first, nullptr));
}

}  // namespace cubepi
