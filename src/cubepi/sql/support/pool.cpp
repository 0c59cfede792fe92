#include <cubepi/sql/support/pool.hpp>

#include <algorithm>
#include <chrono>
#include <exception>
#include <string>
#include <utility>

#include <boost/asio/post.hpp>
#include <unistd.h>

#include <cubepi/core/error.hpp>
#include <cubepi/core/offload.hpp>
#include <cubepi/core/outcome.hpp>
#include <cubepi/core/timeout.hpp>
#include <cubepi/net/name_resolver.hpp>
#include <cubepi/sql/support/driver.hpp>

namespace cubepi::detail {

namespace {

SqlOptions with_defaults(SqlOptions options) {
    if (!options.runtime) options.runtime = Runtime::standard();
    if (options.max_connections == 0) options.max_connections = 1;
    return options;
}

bool is_timeout(const std::exception_ptr& failure) {
    try {
        std::rethrow_exception(failure);
    } catch (const TimeoutError&) {
        return true;
    } catch (...) {
        return false;
    }
}

}  // namespace

/// A connection that is counted. If it is not handed over, the next waiter may open one in its place.
class SqlPool::Slot {
public:
    explicit Slot(SqlPool& pool) noexcept : pool_(&pool) {}
    ~Slot() {
        if (pool_) pool_->put_back(nullptr);
    }
    Slot(const Slot&) = delete;
    Slot& operator=(const Slot&) = delete;
    void hand_over() noexcept { pool_ = nullptr; }

private:
    SqlPool* pool_;
};

SqlLease::SqlLease(std::shared_ptr<SqlPool> pool, std::unique_ptr<SqlConnection> connection,
                   const Executor& executor)
    : pool_(std::move(pool)), connection_(std::move(connection)) {
    use_.emplace(*connection_, executor, pool_->clock(), pool_->options().query_timeout);
}

SqlLease::~SqlLease() {
    use_.reset();
    if (!connection_->is_idle()) {
        pool_->cancel_on_server(*connection_);
        connection_.reset();
    } else {
        connection_->used_at = pool_->clock().now();
    }
    pool_->put_back(std::move(connection_));
}

SqlPool::SqlPool(SqlOptions options, std::shared_ptr<const SqlDriver> driver,
                 std::shared_ptr<const SqlSchema> schema)
    : options_(with_defaults(std::move(options))),
      driver_(std::move(driver)),
      schema_(std::move(schema)),
      process_(getpid()) {}

SqlPool::~SqlPool() {
    // In a forked child the sessions belong to the parent.
    if (process_ == getpid()) return;
    for (const Connection& connection : idle_) connection->forget();
}

void SqlPool::refuse_other_process() const {
    if (process_ == getpid()) return;
    throw CheckpointerError(
        ErrorCode::invalid_state,
        "a store on a database server cannot be used after fork(); open another one in "
        "the child");
}

SqlPool::Connection SqlPool::take_idle(bool& permitted) {
    const std::lock_guard lock(mutex_);
    Connection connection;
    if (!idle_.empty()) {
        connection = std::move(idle_.back());
        idle_.pop_back();
    } else if (open_ < options_.max_connections) {
        ++open_;
        permitted = true;
    }
    return connection;
}

void SqlPool::put_back(Connection connection) noexcept {
    const std::lock_guard lock(mutex_);
    if (waiters_.empty()) {
        if (connection) {
            idle_.push_back(std::move(connection));
        } else {
            --open_;
        }
        return;
    }
    const std::shared_ptr<Waiter> waiter = std::move(waiters_.front());
    waiters_.pop_front();
    waiter->connection = std::move(connection);
    waiter->granted = true;
    // Under the lock, which the waiter takes before it leaves: its executor exists until post() returns.
    boost::asio::post(waiter->executor, [waiter] { waiter->event.set(); });
}

void SqlPool::leave(const std::shared_ptr<Waiter>& waiter) noexcept {
    Connection unused;
    {
        const std::lock_guard lock(mutex_);
        if (!waiter->granted) {
            std::erase(waiters_, waiter);
            return;
        }
        unused = std::move(waiter->connection);
    }
    put_back(std::move(unused));
}

Task<SqlPool::Connection> SqlPool::wait_for_turn() {
    const Executor executor = co_await this_executor;
    auto waiter = std::make_shared<Waiter>(executor);
    struct Leave {
        SqlPool* pool;
        std::shared_ptr<Waiter> waiter;
        ~Leave() {
            if (pool) pool->leave(waiter);
        }
    } leave{this, waiter};
    {
        const std::lock_guard lock(mutex_);
        waiters_.push_back(waiter);
    }
    const std::unique_ptr<ClockTimer> timer = clock().timer(executor);
    timer->expires_after(options_.acquire_timeout, [waiter] {
        waiter->late = true;
        waiter->event.set();
    });
    co_await waiter->event.wait();
    const std::lock_guard lock(mutex_);
    if (!waiter->granted) {
        throw CheckpointerError(ErrorCode::timeout,
                                driver_->description() + ": all " +
                                    std::to_string(options_.max_connections) +
                                    " connections of the pool were in use for " +
                                    std::to_string(options_.acquire_timeout.count()) +
                                    " ms; nothing was stored; try again, or raise max_connections");
    }
    leave.pool = nullptr;
    co_return std::move(waiter->connection);
}

Task<std::unique_ptr<SqlLease>> SqlPool::acquire() {
    refuse_other_process();
    const auto self = shared_from_this();
    bool permitted = false;
    Connection connection = take_idle(permitted);
    if (!connection && !permitted) connection = co_await wait_for_turn();
    Slot place(*this);
    if (connection) {
        const bool alive = co_await is_alive(*connection);
        if (!alive) connection = co_await replace();
    } else {
        connection = co_await open();
    }
    const Executor executor = co_await this_executor;
    auto lease = std::make_unique<SqlLease>(self, std::move(connection), executor);
    place.hand_over();
    co_return lease;
}

Task<bool> SqlPool::is_alive(SqlConnection& connection) {
    if (!connection.is_open()) co_return false;
    const auto idle = clock().now() - connection.used_at;
    if (idle >= options_.idle_limit) co_return false;
    if (idle < options_.check_after) co_return true;
    // The network may have forgotten the connection without telling either end.
    const Executor executor = co_await this_executor;
    const SqlUse use(connection, executor, clock(), options_.connect_timeout);
    SqlBatch nothing;
    Outcome<SqlResults> answer = co_await outcome_of(connection.exchange(std::move(nothing)));
    if (answer.cancelled()) answer.rethrow();
    co_return answer.ok();
}

Task<SqlAddresses> SqlPool::resolve() {
    SqlAddresses addresses;
    std::string reason;
    for (const std::string& name : driver_->names_to_resolve()) {
        auto call = [name] { return resolve_with_system(name); };
        Task<std::vector<std::string>> task =
            offload(*options_.runtime->resolvers, std::move(call));
        Outcome<std::vector<std::string>> found = co_await outcome_of(std::move(task));
        if (found.cancelled()) found.rethrow();
        if (found.ok()) {
            addresses[name] = std::move(found).value();
        } else {
            reason = exception_text(found.failure());
        }
    }
    if (!reason.empty() && !driver_->is_reachable(addresses))
        throw SqlFailure(SqlFailureKind::dns, reason);
    co_return addresses;
}

Task<SqlAddresses> SqlPool::resolve_in_time() {
    Task<SqlAddresses> task = resolve();
    Task<SqlAddresses> limited =
        with_timeout(clock(), options_.connect_timeout, std::move(task), "connect");
    Outcome<SqlAddresses> found = co_await outcome_of(std::move(limited));
    if (!found.ok() && is_timeout(found.failure())) {
        throw SqlFailure(SqlFailureKind::connect,
                         "the name of the host was not resolved within " +
                             std::to_string(options_.connect_timeout.count()) + " ms");
    }
    co_return std::move(found).value();
}

Task<SqlPool::Connection> SqlPool::open_checked(SqlAddresses addresses,
                                                std::chrono::milliseconds limit) {
    const Executor executor = co_await this_executor;
    auto connection = driver_->connection();
    const SqlUse use(*connection, executor, clock(), limit);
    co_await connection->connect(std::move(addresses));
    SqlBatch set_up = schema_->settings(*driver_);
    set_up.add_all(schema_->session());
    const SqlResults results = co_await connection->exchange(std::move(set_up));
    schema_->check(driver_->description(), results);
    connection->used_at = clock().now();
    co_return connection;
}

Task<SqlPool::Connection> SqlPool::open() {
    const Clock::time_point deadline = deadline_after(clock().now(), options_.connect_timeout);
    SqlAddresses addresses = co_await resolve_in_time();
    const auto remaining =
        std::chrono::duration_cast<std::chrono::milliseconds>(deadline - clock().now());
    const auto limit = std::max(remaining, std::chrono::milliseconds(1));
    co_return co_await open_checked(std::move(addresses), limit);
}

Task<SqlPool::Connection> SqlPool::replace() {
    Outcome<Connection> opened = co_await outcome_of(open());
    if (const SqlFailure* failure = as_server_failure(opened.failure()))
        throw failure->as_replacement();
    co_return std::move(opened).value();
}

void SqlPool::cancel_on_server(const SqlConnection& connection) noexcept {
    try {
        std::function<void()> cancel = connection.canceller();
        if (cancel) options_.runtime->workers->post(std::move(cancel));
    } catch (...) {
        // The server's own limits end what it executes.
    }
}

void SqlPool::add_settings(SqlBatch& batch, const SqlLease& lease) const {
    if (lease->shares_sessions()) batch.add_all(schema_->settings(*driver_));
}

void SqlPool::close_idle() {
    std::vector<Connection> closed;
    const std::lock_guard lock(mutex_);
    closed.swap(idle_);
    open_ -= closed.size();
}

}  // namespace cubepi::detail
