#include "bare_sql.hpp"

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include <cubepi/checkpoint/postgres_server_test.hpp>

namespace cubepi::cluster_tests {

namespace {

constexpr const char* tables =
    "CREATE TABLE bare_sessions (key BIGINT PRIMARY KEY, owner BIGINT NOT NULL DEFAULT 0,"
    " fence BIGINT NOT NULL DEFAULT 0, waiting BIGINT NOT NULL DEFAULT 1);"
    "CREATE INDEX ON bare_sessions (key) WHERE waiting > 0 AND owner = 0;"
    "CREATE TABLE bare_inbound (id BIGSERIAL PRIMARY KEY, message_key TEXT UNIQUE, session BIGINT,"
    " message TEXT, finished_at TIMESTAMPTZ);"
    "CREATE INDEX ON bare_inbound (session) WHERE finished_at IS NULL;"
    "CREATE TABLE bare_outbound (id BIGSERIAL PRIMARY KEY, session BIGINT, message TEXT,"
    " settled_at TIMESTAMPTZ);"
    "CREATE TABLE bare_entries (tape BIGINT, id BIGINT, line TEXT, PRIMARY KEY (tape, id))";

// One round trip for each transaction.
constexpr const char* statements =
    "PREPARE receive (TEXT, BIGINT) AS WITH ready AS (INSERT INTO bare_sessions (key) VALUES ($2)"
    " ON CONFLICT (key) DO UPDATE SET waiting = bare_sessions.waiting + 1)"
    " INSERT INTO bare_inbound (message_key, session, message) VALUES ($1, $2, repeat('m', 200));"
    "PREPARE claim AS UPDATE bare_sessions AS s SET owner = 1, fence = fence + 1 FROM (SELECT key"
    " FROM bare_sessions WHERE waiting > 0 AND owner = 0 LIMIT 1 FOR UPDATE SKIP LOCKED) AS c"
    " WHERE s.key = c.key RETURNING s.key, s.fence, (SELECT min(id) FROM bare_inbound WHERE session"
    " = s.key AND finished_at IS NULL);"
    "PREPARE finish (BIGINT, BIGINT, BIGINT) AS WITH held AS (UPDATE bare_sessions SET owner = 0,"
    " waiting = waiting - 1 WHERE key = $1 AND fence = $2 RETURNING key), ended AS (UPDATE"
    " bare_inbound SET finished_at = now(), message = NULL WHERE id = $3 AND EXISTS (SELECT FROM"
    " held)), stored AS (INSERT INTO bare_entries SELECT $1, 2 * $3 + i, repeat('e', 300) FROM"
    " generate_series(0, 1) AS i, held) INSERT INTO bare_outbound (session, message) SELECT $1,"
    " repeat('a', 200) FROM held RETURNING id;"
    "PREPARE receipt (BIGINT) AS UPDATE bare_outbound SET settled_at = now(), message = NULL WHERE"
    " id = $1";

using Clients = std::vector<std::unique_ptr<RawPostgres>>;

/// Calls `work` for each number below `count`, at all connections at once. Returns how many there were in a second.
double rate(const Clients& clients, std::size_t count,
            const std::function<void(RawPostgres&, std::size_t)>& work) {
    std::atomic<std::size_t> next = 0;
    const auto begin = std::chrono::steady_clock::now();
    std::vector<std::thread> threads;
    for (const std::unique_ptr<RawPostgres>& client : clients)
        threads.emplace_back([&work, &next, count, at = client.get()] {
            for (std::size_t number = 0; (number = next++) < count;) work(*at, number);
        });
    for (std::thread& thread : threads) thread.join();
    const std::chrono::duration<double> time = std::chrono::steady_clock::now() - begin;
    return static_cast<double>(count) / time.count();
}

}  // namespace

BareSql::BareSql(std::string database, std::size_t clients)
    : database_(std::move(database)), clients_(clients) {
    RawPostgres(database_).query(tables);
}

BareSql::Rates BareSql::run(std::size_t turns) {
    Clients clients;
    for (std::size_t at = 0; at < clients_; ++at) {
        clients.push_back(std::make_unique<RawPostgres>(database_));
        clients.back()->query(statements);
    }
    const std::size_t first = std::exchange(next_, next_ + 2 * turns);
    const auto receive = [first](RawPostgres& server, std::size_t number) {
        const std::string key = std::to_string(first + number);
        server.query("EXECUTE receive ('" + key + "', " + key + ")");
    };
    const auto work = [](RawPostgres& server) {
        // Others may have locked all sessions that the statement saw.
        std::vector<std::string> claim;
        while (claim.empty()) claim = server.query("EXECUTE claim");
        return server.query("EXECUTE finish (" + claim[0] + ", " + claim[1] + ", " + claim[2] +
                            ")");
    };
    Rates rates;
    rates.received = rate(clients, turns, receive);
    rates.worked = rate(clients, turns, [&](RawPostgres& server, std::size_t) { work(server); });
    rates.turns = rate(clients, turns, [&](RawPostgres& server, std::size_t number) {
        receive(server, turns + number);
        const std::string answer = work(server).at(0);
        server.query("EXECUTE receipt (" + answer + ")");
    });
    return rates;
}

}  // namespace cubepi::cluster_tests
