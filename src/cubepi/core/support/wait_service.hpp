#pragma once

#include <mutex>
#include <optional>

#include <boost/asio/execution_context.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/system/error_code.hpp>

#include <cubepi/core/event_signal.hpp>
#include <cubepi/core/task.hpp>

namespace cubepi::detail {

using WaitToken = boost::asio::use_awaitable_t<Executor>;
using WaitHandler =
    boost::asio::async_result<WaitToken, void(boost::system::error_code)>::handler_type;

class WaitService;

/// One suspended coroutine; lives in its frame and owns the handler that owns that frame.
struct WaitNode {
    explicit WaitNode(WaitList& owner) noexcept : list(&owner) {}
    ~WaitNode() { unlink(); }
    WaitNode(const WaitNode&) = delete;
    WaitNode& operator=(const WaitNode&) = delete;

    void start(WaitHandler new_handler);
    void complete(boost::system::error_code result) noexcept;
    void unlink() noexcept;

    WaitList* list;
    WaitNode* previous = nullptr;
    WaitNode* next = nullptr;
    bool linked = false;
    std::optional<WaitHandler> handler;

    WaitService* service = nullptr;
    WaitNode* service_previous = nullptr;
    WaitNode* service_next = nullptr;
};

/// A registry of all coroutines of an execution context that wait in a WaitList, so that the context can destroy them
/// when it is destroyed; without it such a frame would own itself forever.
class WaitService final : public boost::asio::execution_context::service {
public:
    using key_type = WaitService;
    static boost::asio::execution_context::id id;

    explicit WaitService(boost::asio::execution_context& context) : service(context) {}

    static WaitService& of(const Executor& executor);

    void add(WaitNode& node) noexcept;
    void remove(WaitNode& node) noexcept;
    bool shut_down() const noexcept { return shut_down_; }

private:
    void shutdown() noexcept override;

    std::mutex mutex_;
    WaitNode* first_ = nullptr;
    bool shut_down_ = false;
};

}  // namespace cubepi::detail
