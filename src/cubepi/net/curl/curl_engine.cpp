#include <cubepi/net/curl/curl_engine.hpp>

#include <algorithm>
#include <array>
#include <cerrno>
#include <mutex>
#include <utility>

#include <sys/epoll.h>
#include <unistd.h>

#include <boost/asio/dispatch.hpp>
#include <boost/asio/execution_context.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/strand.hpp>
#include <boost/asio/thread_pool.hpp>
#include <boost/system/system_error.hpp>
#include <curl/curl.h>

#include <cubepi/net/curl/curl_transfer.hpp>

namespace cubepi::detail {
namespace {

namespace asio = boost::asio;

template <class Inner>
bool strand_inside(const Executor& executor, Executor& out) {
    if (const auto* strand = executor.target<asio::strand<Inner>>()) {
        out = asio::make_strand(strand->get_inner_executor());
        return true;
    }
    if (const auto* inner = executor.target<Inner>()) {
        out = asio::make_strand(*inner);
        return true;
    }
    return false;
}

/// Returns a new strand on the same context. If the caller's executor is a strand, the engine must not be nested in it:
/// code that blocks one session would block all.
Executor own_strand(const Executor& executor) {
    Executor out;
    if (strand_inside<asio::io_context::executor_type>(executor, out)) return out;
    if (strand_inside<asio::thread_pool::executor_type>(executor, out)) return out;
    if (const auto* strand = executor.target<asio::strand<Executor>>()) {
        return own_strand(strand->get_inner_executor());
    }
    return asio::make_strand(executor);
}

/// The service that ties an engine to its context: created by the first request, shut down when the context is
/// destroyed.
class CurlService final : public asio::execution_context::service {
public:
    static inline asio::execution_context::id id;

    explicit CurlService(asio::execution_context& context) : service(context) {}

    std::shared_ptr<CurlEngine> engine(const Executor& executor) {
        const std::lock_guard lock(mutex_);
        if (!engine_) engine_ = std::make_shared<CurlEngine>(own_strand(executor));
        return engine_;
    }

    void shutdown() noexcept override {
        std::shared_ptr<CurlEngine> engine;
        {
            const std::lock_guard lock(mutex_);
            engine = std::move(engine_);
        }
        if (engine) engine->shutdown();
    }

private:
    std::mutex mutex_;
    std::shared_ptr<CurlEngine> engine_;
};

void initialise_libcurl() {
    static std::once_flag once;
    std::call_once(once, [] { curl_global_init(CURL_GLOBAL_DEFAULT); });
}

[[noreturn]] void throw_errno(const char* what) {
    throw boost::system::system_error(errno, boost::system::system_category(), what);
}

int new_set() {
    const int fd = epoll_create1(EPOLL_CLOEXEC);
    if (fd < 0) throw_errno("epoll_create1");
    return fd;
}

std::uint64_t key_of(int fd, std::uint32_t generation) {
    return (std::uint64_t{generation} << 32U) | static_cast<std::uint32_t>(fd);
}

}  // namespace

std::shared_ptr<CurlEngine> CurlEngine::of(const Executor& executor) {
    asio::execution_context& context = asio::query(executor, asio::execution::context);
    if (!asio::has_service<CurlService>(context)) {
        // Services are shut down in the reverse order of their creation, and this one needs these two until the end.
        const asio::posix::stream_descriptor descriptor(executor);
        const asio::steady_timer timer(executor);
    }
    return asio::use_service<CurlService>(context).engine(executor);
}

CurlEngine::CurlEngine(Executor strand)
    : strand_(std::move(strand)),
      system_names_(
          std::make_shared<NameCache>(std::make_shared<SystemClock>(), &resolve_with_system)),
      timer_(std::make_unique<asio::steady_timer>(strand_)) {}

CurlEngine::~CurlEngine() { shutdown(); }

bool CurlEngine::open() {
    if (multi_ != nullptr) return true;
    initialise_libcurl();
    try {
        sockets_.emplace(strand_);
    } catch (const boost::system::system_error&) {
        return false;
    }
    multi_ = curl_multi_init();
    if (multi_ == nullptr) return false;
    curl_multi_setopt(multi_, CURLMOPT_SOCKETFUNCTION, &on_socket);
    curl_multi_setopt(multi_, CURLMOPT_SOCKETDATA, this);
    curl_multi_setopt(multi_, CURLMOPT_TIMERFUNCTION, &on_timer);
    curl_multi_setopt(multi_, CURLMOPT_TIMERDATA, this);
    return true;
}

bool CurlEngine::set_socket_options(CURL* easy) noexcept {
    return curl_easy_setopt(easy, CURLOPT_CLOSESOCKETFUNCTION, &on_close) == CURLE_OK &&
           curl_easy_setopt(easy, CURLOPT_CLOSESOCKETDATA, this) == CURLE_OK;
}

void CurlEngine::start(std::shared_ptr<CurlTransfer> transfer) {
    if (!alive_) return transfer->context_gone();
    asio::dispatch(strand_, [self = shared_from_this(), transfer = std::move(transfer)] {
        self->add(transfer);
        self->run_due();
    });
}

void CurlEngine::abort(std::shared_ptr<CurlTransfer> transfer) {
    if (!alive_) return;
    asio::dispatch(strand_, [self = shared_from_this(), transfer = std::move(transfer)] {
        self->cut_off(*transfer);
        self->run_due();
    });
}

void CurlEngine::abort_soon(std::shared_ptr<CurlTransfer> transfer) {
    if (!alive_) return;
    asio::post(strand_, [self = shared_from_this(), transfer = std::move(transfer)] {
        self->cut_off(*transfer);
        self->run_due();
    });
}

/// Posted: a reader that takes bytes as fast as a server sends them would otherwise never return to the event loop.
void CurlEngine::resume(std::shared_ptr<CurlTransfer> transfer) {
    if (!alive_) return;
    asio::post(strand_, [self = shared_from_this(), transfer = std::move(transfer)] {
        if (transfer->easy() == nullptr) return;
        transfer->unpause();
        self->run_due();
    });
}

void CurlEngine::shutdown() noexcept {
    if (!alive_.exchange(false)) return;
    auto transfers = std::move(transfers_);
    transfers_.clear();
    connections_.clear();
    for (auto& [easy, transfer] : transfers) {
        curl_multi_remove_handle(multi_, easy);
        transfer->release_handle();
    }
    if (multi_ != nullptr) curl_multi_cleanup(std::exchange(multi_, nullptr));
    sockets_.reset();
    timer_.reset();
    for (auto& [easy, transfer] : transfers) transfer->context_gone();
    // A strand must not outlive its context either; this engine does if a body still exists.
    strand_ = Executor();
}

void CurlEngine::add(const std::shared_ptr<CurlTransfer>& transfer) {
    if (!alive_) return transfer->context_gone();
    if (!open() || !transfer->prepare()) return transfer->finished(CURLE_FAILED_INIT);
    transfers_.emplace(transfer->easy(), transfer);
    if (curl_multi_add_handle(multi_, transfer->easy()) != CURLM_OK) {
        remove(*transfer);
        transfer->finished(CURLE_FAILED_INIT);
    }
}

void CurlEngine::remove(CurlTransfer& transfer) noexcept {
    CURL* easy = transfer.easy();
    if (easy == nullptr || multi_ == nullptr) return;
    leave_connection(transfer);
    curl_multi_remove_handle(multi_, easy);
    transfer.release_handle();
    transfers_.erase(easy);
}

void CurlEngine::connected(CurlTransfer& transfer, int connection) {
    leave_connection(transfer);
    transfer.connection(connection);
    connections_[connection].insert(&transfer);
}

void CurlEngine::leave_connection(CurlTransfer& transfer) noexcept {
    const auto found = connections_.find(transfer.connection());
    if (found == connections_.end()) return;
    found->second.erase(&transfer);
    if (found->second.empty()) connections_.erase(found);
}

CurlTransfer* CurlEngine::sibling_of(const CurlTransfer& transfer) const noexcept {
    const auto found = connections_.find(transfer.connection());
    if (found == connections_.end()) return nullptr;
    for (CurlTransfer* other : found->second) {
        if (other != &transfer) return other;
    }
    return nullptr;
}

/// Removes a running transfer so that the server is notified immediately: if it is alone on its connection, the
/// connection is closed; else its stream is reset.
void CurlEngine::cut_off(CurlTransfer& transfer) noexcept {
    if (transfer.easy() == nullptr || multi_ == nullptr) return;
    CurlTransfer* const sibling = sibling_of(transfer);
    transfer.forbid_reuse();
    remove(transfer);
    if (sibling) sibling->flush_connection();
}

// ---- sockets

int CurlEngine::on_socket(CURL*, curl_socket_t fd, int what, void* self, void*) noexcept {
    auto* engine = static_cast<CurlEngine*>(self);
    try {
        if (what == CURL_POLL_REMOVE || what == CURL_POLL_NONE) {
            engine->sockets_->forget(fd);
        } else {
            engine->sockets_->watch(fd, what);
            engine->arm();
        }
        return 0;
    } catch (...) {
        return -1;
    }
}

int CurlEngine::on_close(void* self, curl_socket_t fd) noexcept {
    // Normally it was forgotten long ago; a descriptor must never be closed while the set contains it.
    auto& sockets = static_cast<CurlEngine*>(self)->sockets_;
    if (sockets) sockets->forget(fd);
    return ::close(fd);
}

void CurlEngine::arm() {
    if (armed_ || !sockets_ || sockets_->empty()) return;
    armed_ = true;
    sockets_->async_wait([self = shared_from_this()](boost::system::error_code) {
        self->armed_ = false;
        self->serve();
    });
}

/// Handles the ready sockets, one batch at a time, so that other handlers can run in between.
void CurlEngine::serve() {
    constexpr std::size_t batch = 16;
    std::array<SocketSet::Ready, batch> ready;
    const std::size_t count = sockets_ ? sockets_->ready(ready) : 0;
    for (std::size_t i = 0; i < count; ++i) {
        if (!sockets_ || !sockets_->holds(ready[i])) continue;
        int running = 0;
        curl_multi_socket_action(multi_, ready[i].fd, ready[i].events, &running);
    }
    run_due();
    arm();
}

// ---- time

int CurlEngine::on_timer(CURLM*, long timeout_ms, void* self) noexcept {
    try {
        static_cast<CurlEngine*>(self)->set_timer(timeout_ms);
        return 0;
    } catch (...) {
        return -1;
    }
}

void CurlEngine::set_timer(long timeout_ms) {
    ++timer_round_;
    due_now_ = timeout_ms == 0;
    if (!timer_) return;
    if (timeout_ms <= 0) {
        timer_->cancel();
        return;
    }
    timer_->expires_after(std::chrono::milliseconds(timeout_ms));
    timer_->async_wait(
        [weak = weak_from_this(), round = timer_round_](boost::system::error_code error) {
            const auto self = weak.lock();
            if (error || !self || self->timer_round_ != round) return;
            self->due_now_ = true;
            self->run_due();
        });
}

/// Performs the work that libcurl has requested, which must not be done inside its own callbacks.
void CurlEngine::run_due() {
    constexpr int rounds = 32;
    for (int round = 0; multi_ != nullptr && round < rounds; ++round) {
        if (due_now_) {
            due_now_ = false;
            int running = 0;
            curl_multi_socket_action(multi_, CURL_SOCKET_TIMEOUT, 0, &running);
        }
        reap();
        if (!due_now_) return;
    }
    if (multi_ != nullptr) {
        asio::post(strand_, [self = shared_from_this()] { self->run_due(); });
    }
}

void CurlEngine::reap() {
    int left = 0;
    while (CURLMsg* message = curl_multi_info_read(multi_, &left)) {
        if (message->msg != CURLMSG_DONE) continue;
        CURL* easy = message->easy_handle;
        const CURLcode code = message->data.result;
        const auto found = transfers_.find(easy);
        if (found == transfers_.end()) continue;
        const std::shared_ptr<CurlTransfer> transfer = found->second;
        transfer->finished(code);
        remove(*transfer);
    }
}

SocketSet::SocketSet(const Executor& executor) : descriptor_(executor, new_set()) {}

void SocketSet::watch(int fd, int what) {
    const auto [entry, added] = sockets_.try_emplace(fd);
    Watched& watched = entry->second;
    if (added) watched.generation = ++generations_;
    watched.wanted = what;
    epoll_event event{};
    event.events = (what & CURL_POLL_IN ? EPOLLIN : 0U) | (what & CURL_POLL_OUT ? EPOLLOUT : 0U);
    event.data.u64 = key_of(fd, watched.generation);
    const int operation = added ? EPOLL_CTL_ADD : EPOLL_CTL_MOD;
    if (epoll_ctl(descriptor_.native_handle(), operation, fd, &event) == 0) return;
    const int failure = errno;
    sockets_.erase(entry);
    errno = failure;
    throw_errno("epoll_ctl");
}

void SocketSet::forget(int fd) noexcept {
    if (sockets_.erase(fd) == 0) return;
    epoll_event unused{};
    epoll_ctl(descriptor_.native_handle(), EPOLL_CTL_DEL, fd, &unused);
    boost::system::error_code ignored;
    // A wait that cannot end would keep the context running forever.
    if (sockets_.empty()) (void)descriptor_.cancel(ignored);
}

std::size_t SocketSet::ready(std::span<Ready> out) {
    std::array<epoll_event, 16> events{};
    const auto capacity = static_cast<int>(std::min(out.size(), events.size()));
    const int count = epoll_wait(descriptor_.native_handle(), events.data(), capacity, 0);
    std::size_t filled = 0;
    for (int i = 0; i < count; ++i) {
        const epoll_event& event = events[static_cast<std::size_t>(i)];
        Ready socket;
        socket.fd = static_cast<int>(event.data.u64 & 0xFFFFFFFFU);
        socket.generation = static_cast<std::uint32_t>(event.data.u64 >> 32U);
        const auto found = sockets_.find(socket.fd);
        if (found == sockets_.end() || found->second.generation != socket.generation) continue;
        // A waiter detects a broken connection by performing the operation for which it waits.
        const bool broken = (event.events & (EPOLLERR | EPOLLHUP)) != 0;
        const int wanted = found->second.wanted;
        if ((wanted & CURL_POLL_IN) != 0 && (broken || (event.events & EPOLLIN) != 0))
            socket.events |= CURL_CSELECT_IN;
        if ((wanted & CURL_POLL_OUT) != 0 && (broken || (event.events & EPOLLOUT) != 0))
            socket.events |= CURL_CSELECT_OUT;
        if (socket.events == 0) socket.events = CURL_CSELECT_ERR;
        out[filled++] = socket;
    }
    return filled;
}

bool SocketSet::holds(const Ready& socket) const noexcept {
    const auto found = sockets_.find(socket.fd);
    return found != sockets_.end() && found->second.generation == socket.generation;
}

}  // namespace cubepi::detail
