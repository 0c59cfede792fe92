#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <libpq-fe.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <cubepi/core/support/posix_file.hpp>
#include <cubepi/sql/postgres/driver.hpp>
#include <cubepi/sql/postgres_notifications.hpp>

// The thread of PostgresNotifications, which waits for its socket and for calls of notify().

namespace cubepi {

namespace {

/// Before another attempt to connect.
constexpr int retry_ms = 1'000;
/// Of notifications that wait; further ones are dropped.
constexpr std::size_t most_pending = 1'000;
/// In one statement.
constexpr std::size_t most_together = 100;
/// Of an attempt to connect.
constexpr std::chrono::seconds connect_limit{60};

struct Close {
    void operator()(PGconn* connection) const noexcept { PQfinish(connection); }
};
using Connection = std::unique_ptr<PGconn, Close>;

bool has_failed(const PGresult* result) {
    const ExecStatusType status = PQresultStatus(result);
    return status != PGRES_COMMAND_OK && status != PGRES_TUPLES_OK;
}

}  // namespace

struct PostgresNotifications::State {
    State(std::string given_connection, std::string given_channel, Receive given_receive)
        : connection(std::move(given_connection)),
          channel(std::move(given_channel)),
          receive(std::move(given_receive)),
          woken(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
          thread([this] { run(); }) {}
    ~State() {
        stopping = true;
        wake();
        thread.join();
    }

    void wake() const {
        const std::uint64_t one = 1;
        (void)!::write(woken.get(), &one, sizeof one);
    }
    void run();
    /// Waits for the socket or for wake(). Returns true if the socket is ready.
    bool wait(int socket, short events, int limit_ms) const;
    Connection connect() const;
    void serve(PGconn* database);
    bool send(PGconn* database, const std::string& payloads) const;

    const std::string connection;
    const std::string channel;
    const Receive receive;
    const detail::UniqueFd woken;
    std::atomic<bool> stopping = false;
    std::mutex mutex;
    std::set<std::string> pending;
    std::thread thread;  // last: it uses the others
};

bool PostgresNotifications::State::wait(int socket, short events, int limit_ms) const {
    std::array<pollfd, 2> all{pollfd{woken.get(), POLLIN, 0}, pollfd{socket, events, 0}};
    const int found = ::poll(all.data(), socket < 0 ? 1 : 2, limit_ms);
    std::uint64_t count = 0;
    (void)!::read(woken.get(), &count, sizeof count);
    return found > 0 && all[1].revents != 0;
}

Connection PostgresNotifications::State::connect() const {
    std::vector<const char*> keys;
    std::vector<const char*> values;
    const auto add = [&](const char* key, const char* value) {
        keys.push_back(key);
        values.push_back(value);
    };
    // The connection string, which follows, may have others.
    for (const auto& [key, limit] : detail::host_limits) add(key, limit);
    add("dbname", connection.c_str());
    add("application_name", "cubepi notifications");
    add("client_encoding", "UTF8");
    add(nullptr, nullptr);
    const auto deadline = std::chrono::steady_clock::now() + connect_limit;
    Connection made(PQconnectStartParams(keys.data(), values.data(), 1));
    PostgresPollingStatusType state = PGRES_POLLING_WRITING;
    while (made && state != PGRES_POLLING_OK) {
        const short events = state == PGRES_POLLING_WRITING ? POLLOUT : POLLIN;
        const bool is_late = std::chrono::steady_clock::now() >= deadline;
        if (stopping || is_late || state == PGRES_POLLING_FAILED || PQsocket(made.get()) < 0) {
            made.reset();
        } else if (wait(PQsocket(made.get()), events, retry_ms)) {
            // It waits without a limit for a socket that is not ready.
            state = PQconnectPoll(made.get());
        }
    }
    return made;
}

/// Sends the payloads, which are separated by commas; without any, begins to listen.
bool PostgresNotifications::State::send(PGconn* database, const std::string& payloads) const {
    if (payloads.empty()) return PQsendQuery(database, ("LISTEN " + channel).c_str()) == 1;
    const std::array<const char*, 2> values{channel.c_str(), payloads.c_str()};
    return PQsendQueryParams(
               database,
               "SELECT pg_notify($1::text, p) FROM unnest(string_to_array($2::text, ',')) AS p", 2,
               nullptr, values.data(), nullptr, nullptr, 0) == 1;
}

void PostgresNotifications::State::serve(PGconn* database) {
    bool is_busy = send(database, "");
    for (bool works = is_busy; works;) {
        (void)wait(PQsocket(database), POLLIN, -1);
        if (stopping) return;
        works = PQconsumeInput(database) == 1;
        while (is_busy && PQisBusy(database) == 0) {
            PGresult* const result = PQgetResult(database);
            is_busy = result != nullptr;
            if (result && has_failed(result)) works = false;
            PQclear(result);
        }
        for (PGnotify* note = PQnotifies(database); note; note = PQnotifies(database)) {
            receive(note->extra);
            PQfreemem(note);
        }
        std::set<std::string> payloads;
        if (!is_busy) {
            const std::lock_guard lock(mutex);
            while (!pending.empty() && payloads.size() < most_together)
                payloads.insert(pending.extract(pending.begin()));
        }
        if (payloads.empty()) continue;
        std::string list;
        for (const std::string& payload : payloads) list += (list.empty() ? "" : ",") + payload;
        is_busy = send(database, list);
        works = works && is_busy;
    }
}

void PostgresNotifications::State::run() {
    while (!stopping) {
        const Connection database = connect();
        if (database) serve(database.get());
        if (!stopping) (void)wait(-1, 0, retry_ms);
    }
}

PostgresNotifications::PostgresNotifications(PostgresOptions options, std::string channel,
                                             Receive receive)
    : state_(std::make_unique<State>(std::move(options.connection), std::move(channel),
                                     std::move(receive))) {
    (void)detail::PgParameters(state_->connection);
}

PostgresNotifications::~PostgresNotifications() = default;

void PostgresNotifications::notify(std::string payload) {
    {
        const std::lock_guard lock(state_->mutex);
        if (state_->pending.size() < most_pending) state_->pending.insert(std::move(payload));
    }
    state_->wake();
}

std::size_t PostgresNotifications::pending() const {
    const std::lock_guard lock(state_->mutex);
    return state_->pending.size();
}

}  // namespace cubepi
