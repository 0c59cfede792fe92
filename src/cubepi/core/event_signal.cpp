#include <cubepi/core/event_signal.hpp>

#include <utility>

#include <boost/asio/associated_cancellation_slot.hpp>
#include <boost/asio/async_result.hpp>
#include <boost/asio/error.hpp>
#include <boost/asio/post.hpp>

#include <cubepi/core/support/wait_service.hpp>

namespace cubepi {

Task<> AsyncEvent::wait() {
    if (!set_) co_await waiters_.wait();
}

}  // namespace cubepi

namespace cubepi::detail {

namespace asio = boost::asio;

namespace {

struct CancelWait {
    WaitNode* node;
    void operator()(asio::cancellation_type_t type) const noexcept {
        if ((type & asio::cancellation_type::terminal) == asio::cancellation_type::none) return;
        if (node->linked) node->complete(asio::error::operation_aborted);
    }
};

struct StartWait {
    WaitNode* node;
    void operator()(WaitHandler handler) const { node->start(std::move(handler)); }
};

struct Resume {
    WaitHandler handler;
    boost::system::error_code result;
    void operator()() { handler(result); }
};

}  // namespace

asio::execution_context::id WaitService::id;

WaitService& WaitService::of(const Executor& executor) {
    return asio::use_service<WaitService>(asio::query(executor, asio::execution::context));
}

void WaitService::add(WaitNode& node) noexcept {
    const std::lock_guard lock(mutex_);
    node.service = this;
    node.service_previous = nullptr;
    node.service_next = first_;
    if (first_) first_->service_previous = &node;
    first_ = &node;
}

void WaitService::remove(WaitNode& node) noexcept {
    const std::lock_guard lock(mutex_);
    (node.service_previous ? node.service_previous->service_next : first_) = node.service_next;
    if (node.service_next) node.service_next->service_previous = node.service_previous;
    node.service = nullptr;
}

void WaitService::shutdown() noexcept {
    shut_down_ = true;
    while (first_) {
        WaitNode& node = *first_;
        const std::optional<WaitHandler> dropped = std::exchange(node.handler, std::nullopt);
        node.unlink();
    }
}

void WaitNode::start(WaitHandler new_handler) {
    WaitService::of(new_handler.get_executor()).add(*this);
    previous = list->last_;
    (previous ? previous->next : list->first_) = this;
    list->last_ = this;
    linked = true;
    handler.emplace(std::move(new_handler));
    auto slot = asio::get_associated_cancellation_slot(*handler);
    if (slot.is_connected()) slot.assign(CancelWait{this});
}

void WaitNode::complete(boost::system::error_code result) noexcept {
    unlink();
    Resume resume{std::move(*handler), result};
    handler.reset();
    const Executor executor = resume.handler.get_executor();
    boost::asio::post(executor, std::move(resume));
}

void WaitNode::unlink() noexcept {
    if (!linked) return;
    linked = false;
    (previous ? previous->next : list->first_) = next;
    (next ? next->previous : list->last_) = previous;
    service->remove(*this);
}

WaitList::~WaitList() {
    while (first_) first_->complete(asio::error::operation_aborted);
}

Task<> WaitList::wait() {
    WaitNode node(*this);
    StartWait start{&node};
    const WaitToken token;
    co_await asio::async_initiate<const WaitToken, void(boost::system::error_code)>(start, token);
}

bool WaitList::wake_one() noexcept {
    if (!first_) return false;
    first_->complete({});
    return true;
}

void WaitList::wake_all() noexcept {
    while (first_) first_->complete({});
}

std::size_t WaitList::size() const noexcept {
    std::size_t count = 0;
    for (const WaitNode* node = first_; node; node = node->next) ++count;
    return count;
}

}  // namespace cubepi::detail
