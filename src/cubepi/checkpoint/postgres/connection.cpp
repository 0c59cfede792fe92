#include <cubepi/checkpoint/postgres/connection.hpp>

#include <cerrno>
#include <cstring>
#include <utility>
#include <vector>

#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/cancellation_signal.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/system/system_error.hpp>
#include <sys/epoll.h>
#include <unistd.h>

#include <cubepi/checkpoint/postgres/failure.hpp>
#include <cubepi/core/detail/scope_core.hpp>

namespace cubepi::detail {

namespace {

/// Returns the first line of libpq's message.
std::string one_line(const char* text) {
    std::string line = text ? text : "";
    for (std::size_t i = 0; i < line.size(); ++i) {
        if (line[i] == '\n') line[i] = ' ';
    }
    line.erase(line.find_last_not_of(' ') + 1);
    return line;
}

/// In verbose messages of a failed connection the server's code follows the severity: "FATAL:  28P01: password ...".
std::string take_sqlstate(std::string& text) {
    for (std::size_t at = text.find(":  "); at != std::string::npos;
         at = text.find(":  ", at + 1)) {
        const std::string code = text.substr(at + 3, 5);
        const bool is_code =
            code.size() == 5 && text.compare(at + 8, 2, ": ") == 0 &&
            code.find_first_not_of("0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ") == std::string::npos;
        if (!is_code) continue;
        text.erase(at + 3, 7);
        return code;
    }
    return {};
}

/// Notices ("relation exists, skipping") would be printed to standard error.
void discard_notice(void*, const PGresult*) {}

std::string field(const PGresult* result, int code) {
    const char* text = PQresultErrorField(result, code);
    return text ? text : "";
}

}  // namespace

PgConnection::PgConnection() : set_(epoll_create1(EPOLL_CLOEXEC)) {
    if (set_ < 0)
        throw boost::system::system_error(errno, boost::system::system_category(), "epoll_create1");
}

PgConnection::~PgConnection() {
    if (connection_) PQfinish(connection_);
    close(set_);
}

void PgConnection::attach(const Executor& executor, Clock& clock, Clock::time_point deadline,
                          std::chrono::milliseconds limit) {
    late_ = false;
    limit_ = limit;
    descriptor_.emplace(executor, set_);
    timer_ = clock.timer(executor);
    timer_->expires_at(deadline, [this] {
        late_ = true;
        boost::system::error_code ignored;
        (void)descriptor_->cancel(ignored);
    });
}

void PgConnection::detach() noexcept {
    timer_.reset();
    if (descriptor_) (void)descriptor_->release();
    descriptor_.reset();
}

void PgConnection::watch(bool for_write) {
    const int socket = PQsocket(connection_);
    if (socket < 0) {
        if (connecting_) fail_connecting();
        fail_lost();
    }
    epoll_event event{};
    event.events = EPOLLIN | (for_write ? EPOLLOUT : 0U);
    // libpq may have closed a socket and opened one with the same number.
    if (epoll_ctl(set_, EPOLL_CTL_MOD, socket, &event) == 0) return;
    if (epoll_ctl(set_, EPOLL_CTL_ADD, socket, &event) != 0) fail_lost();
    watched_ = socket;
}

Task<> PgConnection::wait(bool for_write, bool cancellable) {
    if (late_) fail_late();
    watch(for_write);
    boost::system::error_code error;
    constexpr auto ready = boost::asio::posix::descriptor_base::wait_read;
    if (cancellable) {
        auto token = boost::asio::redirect_error(boost::asio::use_awaitable, error);
        co_await descriptor_->async_wait(ready, token);
    } else {
        auto token = boost::asio::bind_cancellation_slot(
            boost::asio::cancellation_slot(),
            boost::asio::redirect_error(boost::asio::use_awaitable, error));
        co_await descriptor_->async_wait(ready, token);
    }
    if (late_) fail_late();
    if (error) throw boost::system::system_error(error);
}

Task<> PgConnection::connect(std::map<std::string, std::string> parameters) {
    std::vector<const char*> keys;
    std::vector<const char*> values;
    for (const auto& [key, value] : parameters) {
        keys.push_back(key.c_str());
        values.push_back(value.c_str());
    }
    keys.push_back(nullptr);
    values.push_back(nullptr);
    connection_ = PQconnectStartParams(keys.data(), values.data(), 0);
    if (!connection_ || PQstatus(connection_) == CONNECTION_BAD) fail_connecting();
    PQsetNoticeReceiver(connection_, discard_notice, nullptr);
    PQsetErrorVerbosity(connection_, PQERRORS_VERBOSE);
    PostgresPollingStatusType next = PGRES_POLLING_WRITING;
    while (next != PGRES_POLLING_OK) {
        if (next == PGRES_POLLING_FAILED) fail_connecting();
        // For reading only, a socket that can be written would be ready at once.
        co_await wait(next == PGRES_POLLING_WRITING, true);
        next = PQconnectPoll(connection_);
    }
    connecting_ = false;
    PQsetErrorVerbosity(connection_, PQERRORS_DEFAULT);
    if (PQsetnonblocking(connection_, 1) != 0 || PQenterPipelineMode(connection_) != 1) fail_lost();
}

void PgConnection::send(const PgBatch& batch) {
    for (const PgQuery& query : batch.queries()) {
        if (!query.send(connection_)) fail_lost();
    }
    if (PQpipelineSync(connection_) != 1) fail_lost();
}

Task<> PgConnection::wait_for_result(bool cancellable) {
    while (PQisBusy(connection_) == 1) {
        const int unsent = PQflush(connection_);
        if (unsent < 0) fail_lost();
        co_await wait(unsent == 1, cancellable);
        if (PQconsumeInput(connection_) != 1) fail_lost();
    }
}

Task<PgResults> PgConnection::run(PgBatch batch, bool cancellable) {
    in_exchange_ = true;
    send(batch);
    PgResults results;
    std::optional<PgFailure> failure;
    for (;;) {
        co_await wait_for_result(cancellable);
        PGresult* const raw = PQgetResult(connection_);
        if (!raw) {
            // The end of a statement's results.
            if (PQstatus(connection_) == CONNECTION_BAD) fail_lost();
            continue;
        }
        PgResult result(raw);
        const ExecStatusType status = PQresultStatus(raw);
        if (status == PGRES_PIPELINE_SYNC) break;
        if (PQstatus(connection_) == CONNECTION_BAD) fail_lost();
        if (status == PGRES_FATAL_ERROR && !failure) {
            failure.emplace(PgFailureKind::server, field(raw, PG_DIAG_MESSAGE_PRIMARY),
                            field(raw, PG_DIAG_SQLSTATE), field(raw, PG_DIAG_CONSTRAINT_NAME));
        }
        results.push_back(std::move(result));
    }
    in_exchange_ = false;
    if (failure) throw PgFailure(*failure);
    co_return results;
}

Task<PgResults> PgConnection::exchange(PgBatch batch) { return run(std::move(batch), true); }

Task<PgResults> PgConnection::exchange_to_the_end(PgBatch batch) {
    // A cancelled coroutine would throw at its next co_await.
    const bool throws = co_await throws_when_cancelled;
    co_await throw_when_cancelled(false);
    std::exception_ptr failure;
    PgResults results;
    try {
        results = co_await run(std::move(batch), false);
    } catch (...) {
        failure = std::current_exception();
    }
    co_await throw_when_cancelled(throws);
    if (failure) std::rethrow_exception(failure);
    co_return results;
}

bool PgConnection::is_idle() const noexcept {
    return connection_ && !connecting_ && !in_exchange_ && !late_ &&
           PQstatus(connection_) == CONNECTION_OK &&
           PQtransactionStatus(connection_) == PQTRANS_IDLE;
}

bool PgConnection::is_open() noexcept {
    // Reads what has arrived: nothing, a parameter, or the end of the connection.
    return PQconsumeInput(connection_) == 1 && PQstatus(connection_) == CONNECTION_OK;
}

std::shared_ptr<PGcancel> PgConnection::canceller() const {
    return {connection_ ? PQgetCancel(connection_) : nullptr, [](PGcancel* one) {
                if (one) PQfreeCancel(one);
            }};
}

void PgConnection::fail_lost() {
    std::string reason = one_line(connection_ ? PQerrorMessage(connection_) : "");
    if (reason.empty()) reason = "the connection was lost";
    throw PgFailure(PgFailureKind::lost, reason);
}

void PgConnection::fail_connecting() {
    std::string reason = one_line(connection_ ? PQerrorMessage(connection_) : "out of memory");
    // The place in the server's source code.
    reason.erase(std::min(reason.find("  LOCATION:"), reason.size()));
    reason.erase(std::min(reason.find(" LOCATION:"), reason.size()));
    std::string code = take_sqlstate(reason);
    throw PgFailure(PgFailureKind::connect, reason, std::move(code));
}

void PgConnection::fail_late() const {
    const std::string after = " for " + std::to_string(limit_.count()) + " ms";
    if (connecting_)
        throw PgFailure(PgFailureKind::connect, "the server did not accept the connection" + after);
    throw PgFailure(PgFailureKind::timeout, "the server did not answer" + after);
}

}  // namespace cubepi::detail
