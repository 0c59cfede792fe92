#include <cubepi/sql/support/connection.hpp>

#include <algorithm>
#include <cerrno>
#include <utility>

#include <fcntl.h>
#include <sys/epoll.h>
#include <unistd.h>

#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/cancellation_signal.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/system/system_error.hpp>

#include <cubepi/core/detail/scope_core.hpp>
#include <cubepi/sql/support/driver.hpp>

namespace cubepi::detail {

namespace {

/// Without closing what the descriptor refers to.
void abandon(std::optional<boost::asio::posix::stream_descriptor>& descriptor) noexcept {
    if (descriptor) (void)descriptor->release();
    descriptor.reset();
}

}  // namespace

SqlQuery& SqlQuery::add(SqlValue::Type type, std::string_view text) {
    SqlValue& value = values_.emplace_back();
    value.type = type;
    value.text = text;
    return *this;
}

SqlQuery& SqlQuery::text(std::string_view value) { return add(SqlValue::Type::text, value); }

SqlQuery& SqlQuery::text_or_null(std::string_view value) {
    add(SqlValue::Type::text, value);
    values_.back().null = value.empty();
    return *this;
}

SqlQuery& SqlQuery::integer(std::int64_t value) {
    add(SqlValue::Type::integer, {});
    values_.back().integer = value;
    return *this;
}

SqlQuery& SqlQuery::number(double value) {
    add(SqlValue::Type::number, {});
    values_.back().number = value;
    return *this;
}

SqlQuery& SqlQuery::bytes(std::string_view value) { return add(SqlValue::Type::bytes, value); }

SqlQuery& SqlQuery::json(std::string_view value) { return add(SqlValue::Type::json, value); }

SqlQuery& SqlQuery::texts(std::vector<std::string> values) {
    add(SqlValue::Type::texts, {});
    values_.back().texts = std::move(values);
    return *this;
}

SqlQuery& SqlQuery::rows_to(std::shared_ptr<SqlRowSink> sink) {
    sink_ = std::move(sink);
    return *this;
}

void SqlBatch::start_sinks() const noexcept {
    for (const SqlQuery& query : queries_) {
        if (query.sink()) query.sink()->start();
    }
}

std::string expand_escapes(
    std::string_view sql,
    const std::function<std::string(std::string_view name, std::string_view argument)>& expand) {
    std::string text;
    for (;;) {
        const std::size_t open = sql.find('{');
        const std::size_t close = sql.find('}', open);
        if (close == std::string_view::npos) break;
        text += sql.substr(0, open);
        const std::string_view escape = sql.substr(open + 1, close - open - 1);
        const std::size_t space = escape.find(' ');
        // '{}' is a JSON object.
        text += escape.empty() ? "{}"
                               : expand(escape.substr(0, space), space == std::string_view::npos
                                                                     ? std::string_view()
                                                                     : escape.substr(space + 1));
        sql.remove_prefix(close + 1);
    }
    return text += sql;
}

std::string assignments(std::string_view columns, std::string_view prefix,
                        std::string_view suffix) {
    std::string text;
    while (!columns.empty()) {
        const std::size_t comma = std::min(columns.find(','), columns.size());
        std::string_view column = columns.substr(0, comma);
        column.remove_prefix(std::min(column.find_first_not_of(' '), column.size()));
        columns.remove_prefix(std::min(comma + 1, columns.size()));
        if (!text.empty()) text += ", ";
        text += std::string(column) + " = " + std::string(prefix) + std::string(column) +
                std::string(suffix);
    }
    return text;
}

std::optional<std::string> SqlResult::optional_string(int row, int column) const {
    std::optional<std::string> value;
    if (!is_null(row, column)) value = string(row, column);
    return value;
}

SqlConnection::SqlConnection() : set_(epoll_create1(EPOLL_CLOEXEC)) {
    if (set_ < 0)
        throw boost::system::system_error(errno, boost::system::system_category(), "epoll_create1");
}

SqlConnection::~SqlConnection() {
    close(set_);
    if (duplicate_ >= 0) close(duplicate_);
}

void SqlConnection::attach(const Executor& executor, Clock& clock, Clock::time_point deadline,
                           std::chrono::milliseconds limit) {
    late_ = false;
    limit_ = limit;
    executor_ = executor;
    timer_ = clock.timer(executor);
    timer_->expires_at(deadline, [this] {
        late_ = true;
        cancel_wait();
    });
}

void SqlConnection::detach() noexcept {
    timer_.reset();
    abandon(set_descriptor_);
    abandon(socket_descriptor_);
    executor_ = Executor();
}

void SqlConnection::cancel_wait() noexcept {
    boost::system::error_code ignored;
    if (set_descriptor_) (void)set_descriptor_->cancel(ignored);
    if (socket_descriptor_) (void)socket_descriptor_->cancel(ignored);
}

SqlConnection::Descriptor& SqlConnection::watched(int socket, bool for_write) {
    if (connecting_ || for_write) {
        watch(socket, for_write);
        if (!set_descriptor_) set_descriptor_.emplace(executor_, set_);
        return *set_descriptor_;
    }
    if (socket_ != socket) {
        abandon(socket_descriptor_);
        if (duplicate_ >= 0) close(duplicate_);
        duplicate_ = fcntl(socket, F_DUPFD_CLOEXEC, 0);
        if (duplicate_ < 0)
            throw boost::system::system_error(errno, boost::system::system_category(), "dup");
        socket_ = socket;
    }
    if (!socket_descriptor_) socket_descriptor_.emplace(executor_, duplicate_);
    return *socket_descriptor_;
}

void SqlConnection::watch(int socket, bool for_write) {
    epoll_event event{};
    event.events = EPOLLIN | (for_write ? EPOLLOUT : 0U);
    // The library may have closed a socket and opened one with the same number.
    if (epoll_ctl(set_, EPOLL_CTL_MOD, socket, &event) == 0) return;
    if (epoll_ctl(set_, EPOLL_CTL_ADD, socket, &event) != 0)
        throw SqlFailure(SqlFailureKind::lost, "the connection was lost");
}

Task<> SqlConnection::wait(int socket, bool for_write, bool cancellable) {
    if (late_) fail_late();
    Descriptor& descriptor = watched(socket, for_write);
    boost::system::error_code error;
    constexpr auto ready = boost::asio::posix::descriptor_base::wait_read;
    if (cancellable) {
        auto token = boost::asio::redirect_error(boost::asio::use_awaitable, error);
        co_await descriptor.async_wait(ready, token);
    } else {
        auto token = boost::asio::bind_cancellation_slot(
            boost::asio::cancellation_slot(),
            boost::asio::redirect_error(boost::asio::use_awaitable, error));
        co_await descriptor.async_wait(ready, token);
    }
    if (late_) fail_late();
    if (error) throw boost::system::system_error(error);
}

Task<SqlResults> SqlConnection::exchange_to_the_end(SqlBatch batch) {
    // A cancelled coroutine would throw at its next co_await.
    const bool throws = co_await throws_when_cancelled;
    co_await throw_when_cancelled(false);
    std::exception_ptr failure;
    SqlResults results;
    try {
        results = co_await run(std::move(batch), false);
    } catch (...) {
        failure = std::current_exception();
    }
    co_await throw_when_cancelled(throws);
    if (failure) std::rethrow_exception(failure);
    co_return results;
}

void SqlConnection::fail_late() const {
    const std::string after = " for " + std::to_string(limit_.count()) + " ms";
    if (connecting_)
        throw SqlFailure(SqlFailureKind::connect,
                         "the server did not accept the connection" + after);
    throw SqlFailure(SqlFailureKind::timeout, "the server did not answer" + after);
}

}  // namespace cubepi::detail
