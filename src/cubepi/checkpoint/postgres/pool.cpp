#include <cubepi/checkpoint/postgres/pool.hpp>

#include <array>
#include <utility>

#include <boost/asio/post.hpp>
#include <unistd.h>

#include <cubepi/checkpoint/postgres/failure.hpp>
#include <cubepi/core/error.hpp>
#include <cubepi/core/offload.hpp>
#include <cubepi/core/outcome.hpp>
#include <cubepi/net/name_resolver.hpp>

namespace cubepi::detail {

namespace {

PostgresOptions with_defaults(PostgresOptions options) {
    if (!options.runtime) options.runtime = Runtime::standard();
    if (options.max_connections == 0) options.max_connections = 1;
    return options;
}

}  // namespace

/// A connection that is counted. If it is not handed over, the next waiter may open one in its place.
class PgPool::Place {
public:
    explicit Place(PgPool& pool) noexcept : pool_(&pool) {}
    ~Place() {
        if (pool_) pool_->put_back(nullptr);
    }
    Place(const Place&) = delete;
    Place& operator=(const Place&) = delete;
    void hand_over() noexcept { pool_ = nullptr; }

private:
    PgPool* pool_;
};

PgLease::PgLease(std::shared_ptr<PgPool> pool, std::unique_ptr<PgConnection> connection,
                 const Executor& executor)
    : pool_(std::move(pool)), connection_(std::move(connection)) {
    use_.emplace(*connection_, executor, pool_->clock(), pool_->options().query_timeout);
}

PgLease::~PgLease() {
    use_.reset();
    if (!connection_->is_idle()) {
        pool_->cancel_on_server(*connection_);
        connection_.reset();
    } else {
        connection_->used_at = pool_->clock().now();
    }
    pool_->put_back(std::move(connection_));
}

PgPool::PgPool(PostgresOptions options, PgBatch set_up, Check check)
    : options_(with_defaults(std::move(options))),
      parameters_(options_.connection),
      set_up_(std::move(set_up)),
      check_(check),
      process_(getpid()) {}

PgPool::~PgPool() {
    // In a forked child the sessions belong to the parent.
    if (process_ == getpid()) return;
    for (const Connection& connection : idle_) connection->forget();
}

void PgPool::refuse_other_process() const {
    if (process_ == getpid()) return;
    throw CheckpointerError(ErrorCode::invalid_state,
                            "a PostgreSQL store cannot be used after fork(); open another one in "
                            "the child");
}

PgPool::Connection PgPool::take_idle(bool& permitted) {
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

void PgPool::put_back(Connection connection) noexcept {
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

void PgPool::leave(const std::shared_ptr<Waiter>& waiter) noexcept {
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

Task<PgPool::Connection> PgPool::wait_for_turn() {
    const Executor executor = co_await this_executor;
    auto waiter = std::make_shared<Waiter>(executor);
    struct Leave {
        PgPool* pool;
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
                                parameters_.description() + ": all " +
                                    std::to_string(options_.max_connections) +
                                    " connections of the pool were in use for " +
                                    std::to_string(options_.acquire_timeout.count()) +
                                    " ms; nothing was stored; try again, or raise max_connections");
    }
    leave.pool = nullptr;
    co_return std::move(waiter->connection);
}

Task<std::unique_ptr<PgLease>> PgPool::acquire() {
    refuse_other_process();
    const auto self = shared_from_this();
    bool permitted = false;
    Connection connection = take_idle(permitted);
    if (!connection && !permitted) connection = co_await wait_for_turn();
    Place place(*this);
    if (connection) {
        const bool alive = co_await is_alive(*connection);
        if (!alive) connection.reset();
    }
    if (!connection) connection = co_await open();
    const Executor executor = co_await this_executor;
    auto lease = std::make_unique<PgLease>(self, std::move(connection), executor);
    place.hand_over();
    co_return lease;
}

Task<bool> PgPool::is_alive(PgConnection& connection) {
    if (!connection.is_open()) co_return false;
    const auto idle = clock().now() - connection.used_at;
    if (idle >= options_.idle_limit) co_return false;
    if (idle < options_.check_after) co_return true;
    // The network may have forgotten the connection without telling either end.
    const Executor executor = co_await this_executor;
    const PgUse use(connection, executor, clock(), options_.connect_timeout);
    PgBatch nothing;
    Outcome<PgResults> answer = co_await outcome_of(connection.exchange(std::move(nothing)));
    if (answer.cancelled()) answer.rethrow();
    co_return answer.ok();
}

Task<std::map<std::string, std::string>> PgPool::resolve() {
    std::map<std::string, std::vector<std::string>> addresses;
    std::string reason;
    for (const std::string& name : parameters_.names_to_resolve()) {
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
    std::map<std::string, std::string> values = parameters_.with_addresses(addresses);
    const auto host = values.find("host");
    if (!reason.empty() && host != values.end() && host->second.empty())
        throw PgFailure(PgFailureKind::dns, reason);
    co_return values;
}

Task<PgPool::Connection> PgPool::open_checked(std::map<std::string, std::string> parameters) {
    const Executor executor = co_await this_executor;
    auto connection = std::make_unique<PgConnection>();
    const PgUse use(*connection, executor, clock(), options_.connect_timeout);
    co_await connection->connect(std::move(parameters));
    PgBatch set_up = set_up_;
    const PgResults results = co_await connection->exchange(std::move(set_up));
    check_(parameters_, results);
    connection->used_at = clock().now();
    co_return connection;
}

Task<PgPool::Connection> PgPool::open() {
    std::map<std::string, std::string> values = co_await resolve();
    co_return co_await open_checked(std::move(values));
}

void PgPool::cancel_on_server(const PgConnection& connection) noexcept {
    try {
        const std::shared_ptr<PGcancel> canceller = connection.canceller();
        if (!canceller) return;
        options_.runtime->workers->post([canceller] {
            std::array<char, 256> ignored{};
            (void)PQcancel(canceller.get(), ignored.data(), static_cast<int>(ignored.size()));
        });
    } catch (...) {
        // The server's own limits end what it executes.
    }
}

void PgPool::close_idle() {
    std::vector<Connection> closed;
    const std::lock_guard lock(mutex_);
    closed.swap(idle_);
    open_ -= closed.size();
}

}  // namespace cubepi::detail
