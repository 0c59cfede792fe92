#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <set>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include <libpq-fe.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <cubepi/core/ids.hpp>
#include <cubepi/core/log.hpp>
#include <cubepi/core/runtime.hpp>
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
/// Calls of echo() for one that is sent, while they arrive.
constexpr std::size_t calls_per_echo = 10;
/// Echoes without one that has arrived; the first call counts as one.
constexpr std::size_t most_unheard = 4;
constexpr const char* deaf_text =
    "what the database notifies does not arrive on the connection for notifications: it is one to "
    "another database, or through a pooler that assigns a session to each transaction";

struct Close {
    void operator()(PGconn* connection) const noexcept { PQfinish(connection); }
};
using Connection = std::unique_ptr<PGconn, Close>;

bool is_failure(const PGresult* result) {
    const ExecStatusType status = PQresultStatus(result);
    return status != PGRES_COMMAND_OK && status != PGRES_TUPLES_OK;
}

/// Returns the connection string. Throws CheckpointerError if it is invalid: the thread uses it.
std::string checked(std::string connection) {
    (void)detail::PgParameters(connection);
    return connection;
}

/// Returns the first line.
std::string line_of(const char* text) {
    const std::string_view all = text ? text : "";
    return std::string(all.substr(0, all.find('\n')));
}

}  // namespace

struct PostgresNotifications::State {
    State(std::string given_connection, Logger given_log, std::string given_channel,
          Receive given_receive)
        : connection(std::move(given_connection)),
          log(std::move(given_log)),
          channel(std::move(given_channel)),
          receive(std::move(given_receive)),
          echo("echo_" + RandomIds().next()),
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
    /// Returns null, and the reason, if it does not succeed.
    Connection connect(std::string& reason) const;
    /// Returns the reason for which the database does not notify; empty: the connection was lost, or this object ends.
    std::string serve(PGconn* database);
    bool send(PGconn* database, const std::string& payloads) const;
    /// The connection has failed; with an empty reason, it works.
    void note(const std::string& reason);
    /// The connection has ended.
    void note_end();
    void receive_payload(const char* payload);
    const std::string& problem() const { return failure.empty() ? deafness : failure; }
    /// Logs the first problem, and that there is none any more. With the mutex.
    void log_changes();

    const std::string connection;
    const Logger log;
    const std::string channel;
    const Receive receive;
    const std::string echo;
    const detail::UniqueFd woken;
    std::atomic<bool> stopping = false;
    std::mutex mutex;
    std::set<std::string> pending;
    std::string failure;      ///< of the connection; empty: none
    std::string deafness;     ///< why echoes do not arrive; empty: they do, or that is not known
    bool has_logged = false;  ///< a problem
    bool is_listening = false;
    std::size_t unheard = 0;  ///< echoes since one has arrived
    std::size_t echo_calls = 0;
    std::thread thread;  // last: it uses the others
};

bool PostgresNotifications::State::wait(int socket, short events, int limit_ms) const {
    std::array<pollfd, 2> all{pollfd{woken.get(), POLLIN, 0}, pollfd{socket, events, 0}};
    const int found = ::poll(all.data(), socket < 0 ? 1 : 2, limit_ms);
    std::uint64_t count = 0;
    (void)!::read(woken.get(), &count, sizeof count);
    return found > 0 && all[1].revents != 0;
}

Connection PostgresNotifications::State::connect(std::string& reason) const {
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
    if (!made) reason = "out of memory";
    while (made && state != PGRES_POLLING_OK) {
        const short events = state == PGRES_POLLING_WRITING ? POLLOUT : POLLIN;
        const bool is_late = std::chrono::steady_clock::now() >= deadline;
        if (stopping || is_late || state == PGRES_POLLING_FAILED || PQsocket(made.get()) < 0) {
            reason = line_of(PQerrorMessage(made.get()));
            if (reason.empty()) reason = "the server does not answer";
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

std::string PostgresNotifications::State::serve(PGconn* database) {
    bool is_busy = send(database, "");
    for (bool works = is_busy; works;) {
        (void)wait(PQsocket(database), POLLIN, -1);
        if (stopping) break;
        works = PQconsumeInput(database) == 1;
        while (is_busy && PQisBusy(database) == 0) {
            PGresult* const result = PQgetResult(database);
            is_busy = result != nullptr;
            std::string reason;
            if (result && is_failure(result)) reason = line_of(PQresultErrorMessage(result));
            PQclear(result);
            if (!reason.empty()) return reason;
            if (!is_busy && works) note(reason);
        }
        for (PGnotify* note = PQnotifies(database); note; note = PQnotifies(database)) {
            receive_payload(note->extra);
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
    return {};
}

void PostgresNotifications::State::note(const std::string& reason) {
    std::string text;
    if (!reason.empty()) text = detail::PgParameters(connection).without_secrets(reason);
    const std::lock_guard lock(mutex);
    failure = std::move(text);
    if (failure.empty() && !is_listening) unheard = 1;
    is_listening = failure.empty();
    log_changes();
}

void PostgresNotifications::State::note_end() {
    const std::lock_guard lock(mutex);
    is_listening = false;
}

void PostgresNotifications::State::receive_payload(const char* payload) {
    if (payload != echo) {
        receive(payload);
        return;
    }
    const std::lock_guard lock(mutex);
    unheard = 0;
    deafness.clear();
    log_changes();
}

void PostgresNotifications::State::log_changes() {
    if (has_logged == !problem().empty()) return;
    has_logged = !has_logged;
    if (has_logged) {
        log.write(LogLevel::warning, "store.notifications_failed",
                  {{"store", "postgres"}, {"reason", problem()}});
    } else {
        log.write(LogLevel::info, "store.notifications_recovered", {{"store", "postgres"}});
    }
}

void PostgresNotifications::State::run() {
    while (!stopping) {
        std::string reason;
        const Connection database = connect(reason);
        if (database) reason = serve(database.get());
        if (stopping) return;
        note_end();
        // A connection that was lost is not a failure yet: the next one may succeed.
        if (!reason.empty()) note(reason);
        (void)wait(-1, 0, retry_ms);
    }
}

PostgresNotifications::PostgresNotifications(PostgresOptions options, std::string channel,
                                             Receive receive)
    : state_(
          std::make_unique<State>(checked(std::move(options.connection)),
                                  options.runtime ? options.runtime->log : Runtime::standard()->log,
                                  std::move(channel), std::move(receive))) {}

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

std::string PostgresNotifications::problem() const {
    const std::lock_guard lock(state_->mutex);
    return state_->problem();
}

std::string PostgresNotifications::echo() {
    State& state = *state_;
    const std::lock_guard lock(state.mutex);
    if (!state.is_listening) return {};
    const bool is_due = state.unheard > 0 || ++state.echo_calls % calls_per_echo == 0;
    if (!is_due) return {};
    if (++state.unheard > most_unheard) state.deafness = deaf_text;
    state.log_changes();
    return state.echo;
}

}  // namespace cubepi
