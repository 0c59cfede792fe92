#include <cubepi/net/detail/curl_engine.hpp>

#include <cubepi/net/detail/curl_transfer.hpp>

#include <mutex>
#include <utility>

#include <boost/asio/dispatch.hpp>
#include <boost/asio/execution_context.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/strand.hpp>
#include <boost/asio/thread_pool.hpp>

#include <unistd.h>

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

/// A strand of our own on the same context. Where the caller's executor is a strand, ours must not stand
/// behind it: what blocks one session would block all.
Executor own_strand(const Executor& executor) {
    Executor out;
    if (strand_inside<asio::io_context::executor_type>(executor, out)) return out;
    if (strand_inside<asio::thread_pool::executor_type>(executor, out)) return out;
    if (const auto* strand = executor.target<asio::strand<Executor>>()) {
        return own_strand(strand->get_inner_executor());
    }
    return asio::make_strand(executor);
}

/// Ties an engine to its context: made at the first request, shut down when the context is destroyed.
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

}  // namespace

std::shared_ptr<CurlEngine> CurlEngine::of(const Executor& executor) {
    asio::execution_context& context = asio::query(executor, asio::execution::context);
    if (!asio::has_service<CurlService>(context)) {
        // Services are shut down in the reverse order of their making, and ours needs these two to the end.
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

void CurlEngine::resume(std::shared_ptr<CurlTransfer> transfer) {
    if (!alive_) return;
    asio::dispatch(strand_, [self = shared_from_this(), transfer = std::move(transfer)] {
        if (transfer->easy() == nullptr) return;
        transfer->unpause();
        self->run_due();
    });
}

void CurlEngine::shutdown() noexcept {
    if (!alive_.exchange(false)) return;
    auto transfers = std::move(transfers_);
    transfers_.clear();
    for (auto& [easy, transfer] : transfers) {
        curl_multi_remove_handle(multi_, easy);
        transfer->release_handle();
    }
    if (multi_ != nullptr) curl_multi_cleanup(std::exchange(multi_, nullptr));
    while (!sockets_.empty()) forget(sockets_.begin()->first);
    timer_.reset();
    for (auto& [easy, transfer] : transfers) transfer->context_gone();
    // Neither may a strand outlive its context, which this engine does where somebody still holds a body.
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
    curl_multi_remove_handle(multi_, easy);
    transfer.release_handle();
    transfers_.erase(easy);
}

/// Removes a transfer that is under way so that the server learns of it now: alone on its connection it takes that
/// along; else its stream is reset.
void CurlEngine::cut_off(CurlTransfer& transfer) noexcept {
    if (transfer.easy() == nullptr || multi_ == nullptr) return;
    std::shared_ptr<CurlTransfer> sibling;
    for (const auto& [easy, other] : transfers_) {
        if (easy != transfer.easy() && other->connection() == transfer.connection() &&
            transfer.connection() != 0) {
            sibling = other;
            break;
        }
    }
    transfer.forbid_reuse();
    remove(transfer);
    if (sibling) sibling->flush_connection();
}

// ---- sockets

int CurlEngine::on_socket(CURL*, curl_socket_t fd, int what, void* self, void*) noexcept {
    auto* engine = static_cast<CurlEngine*>(self);
    try {
        if (what == CURL_POLL_REMOVE) {
            engine->forget(fd);
        } else {
            engine->watch(fd, what);
        }
        return 0;
    } catch (...) {
        return -1;
    }
}

int CurlEngine::on_close(void* self, curl_socket_t fd) noexcept {
    // Normally it was forgotten long ago; a descriptor must never be closed under the reactor's feet.
    static_cast<CurlEngine*>(self)->forget(fd);
    return ::close(fd);
}

void CurlEngine::watch(curl_socket_t fd, int what) {
    SocketPtr& socket = sockets_[fd];
    if (!socket) {
        try {
            socket = std::make_shared<Socket>(strand_);
            socket->descriptor.assign(fd);
        } catch (...) {
            sockets_.erase(fd);
            throw;
        }
    }
    socket->wanted = what;
    arm(fd, socket);
}

void CurlEngine::forget(curl_socket_t fd) noexcept {
    const auto found = sockets_.find(fd);
    if (found == sockets_.end()) return;
    const SocketPtr socket = std::move(found->second);
    sockets_.erase(found);
    socket->gone = true;
    socket->descriptor.release();
}

void CurlEngine::arm(curl_socket_t fd, const SocketPtr& socket) {
    using Descriptor = asio::posix::stream_descriptor;
    if ((socket->wanted & CURL_POLL_IN) != 0 && !socket->reading) {
        socket->reading = true;
        socket->descriptor.async_wait(
            Descriptor::wait_read,
            [self = shared_from_this(), fd, socket](boost::system::error_code error) {
                socket->reading = false;
                self->ready(fd, socket, error ? CURL_CSELECT_ERR : CURL_CSELECT_IN);
            });
    }
    if ((socket->wanted & CURL_POLL_OUT) != 0 && !socket->writing) {
        socket->writing = true;
        socket->descriptor.async_wait(
            Descriptor::wait_write,
            [self = shared_from_this(), fd, socket](boost::system::error_code error) {
                socket->writing = false;
                self->ready(fd, socket, error ? CURL_CSELECT_ERR : CURL_CSELECT_OUT);
            });
    }
}

void CurlEngine::ready(curl_socket_t fd, const SocketPtr& socket, int events) {
    if (socket->gone || multi_ == nullptr) return;
    const int wanted = (socket->wanted & CURL_POLL_IN ? CURL_CSELECT_IN : 0) |
                       (socket->wanted & CURL_POLL_OUT ? CURL_CSELECT_OUT : 0) | CURL_CSELECT_ERR;
    if ((events & wanted) != 0) {
        int running = 0;
        curl_multi_socket_action(multi_, fd, events, &running);
        run_due();
    }
    if (!socket->gone) arm(fd, socket);
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

/// Does what libcurl has asked to be done now, which it may not do from inside its own callbacks.
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

}  // namespace cubepi::detail
