#include <cubepi/checkpoint/postgres/driver.hpp>

#include <utility>

#include <cubepi/checkpoint/format/server_json.hpp>
#include <cubepi/checkpoint/postgres/connection.hpp>
#include <cubepi/checkpoint/postgres/failures.hpp>
#include <cubepi/checkpoint/postgres/schema.hpp>

namespace cubepi::detail {

namespace {

ServerBatch quiet_set_up() {
    ServerBatch batch;
    // "relation exists, skipping" would be sent for each table.
    batch.add("SELECT set_config('client_min_messages', 'warning', false)");
    return batch;
}

}  // namespace

PgDriver::PgDriver(const PostgresOptions& options, bool for_store)
    : parameters_(options.connection),
      prepare_(options.prepare_statements),
      for_store_(for_store),
      set_up_(for_store ? session_set_up(options) : quiet_set_up()) {}

std::string PgDriver::without_secrets(std::string text) const {
    return parameters_.without_secrets(std::move(text));
}

ServerRemedy PgDriver::remedy(const ServerFailure& failure) const { return pg_remedy(failure); }

std::vector<std::string> PgDriver::names_to_resolve() const {
    return parameters_.names_to_resolve();
}

bool PgDriver::is_reachable(const ServerAddresses& addresses) const {
    const auto values = parameters_.with_addresses(addresses);
    const auto host = values.find("host");
    return host == values.end() || !host->second.empty();
}

std::unique_ptr<ServerConnection> PgDriver::connection() const {
    return std::make_unique<PgConnection>(parameters_, prepare_);
}

void PgDriver::check(const ServerResults& results) const {
    if (for_store_) check_session(parameters_, results);
}

void PgDriver::begin_read(ServerBatch& batch) const {
    batch.add("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY");
}

void PgDriver::begin_write(ServerBatch& batch, const std::vector<std::string>& threads) const {
    batch.add("BEGIN ISOLATION LEVEL READ COMMITTED");
    // CubePi takes the same lock. Several are taken in the order of their keys.
    if (threads.size() == 1) {
        batch.add("SELECT pg_advisory_xact_lock(hashtext($1))").text(threads[0]);
    } else if (!threads.empty()) {
        batch
            .add(
                "SELECT pg_advisory_xact_lock(key) FROM (SELECT DISTINCT hashtext(t) AS key"
                " FROM unnest($1::text[]) AS t ORDER BY key) AS keys")
            .texts(threads);
    }
}

void PgDriver::write_extra(ServerBatch& batch, const std::string& thread_id,
                           const ExtraChange& change) const {
    batch
        .add(
            "INSERT INTO cubepi_threads AS t (thread_id, extra) VALUES ($1, $3)"
            " ON CONFLICT (thread_id) DO UPDATE"
            " SET extra = (t.extra - $2::text[]) || excluded.extra, updated_at = now()")
        .text(thread_id)
        .texts(change.removed)
        .json(server_json_text(change.changed));
}

void PgDriver::write_fork_row(ServerBatch& batch, const ServerFork& fork, const JsonObject& added,
                              const JsonObject& /*merged*/) const {
    batch
        .add(
            "INSERT INTO cubepi_threads (thread_id, parent_thread_id, forked_at_seq, extra)"
            " SELECT $2, thread_id, $3, extra || $4 FROM cubepi_threads WHERE thread_id = $1")
        .text(fork.source)
        .text(fork.target)
        .integer(fork.cutoff)
        .json(server_json_text(added));
}

std::string PgDriver::page_sql(const std::string& columns, const std::string& time) const {
    const std::string key = time + ", thread_id, run_id, question_id";
    return "SELECT " + columns + " FROM cubepi_native_pending WHERE NOT expired AND (" + key +
           ") > ($1, $2, $3, $4) ORDER BY " + key + " LIMIT $5";
}

// By thread, so that each lookup visits one of the partitions: a subquery of the grouped messages would visit all of them.
// Messages are counted by the primary key alone, so that long ones are not read.
std::string PgDriver::listing_sql() const {
    return "SELECT t.thread_id, counted.count, (SELECT {epoch created_at} FROM cubepi_messages AS m"
           " WHERE m.thread_id = t.thread_id AND m.seq = counted.last) AS at"
           " FROM cubepi_threads AS t, LATERAL (SELECT count(*) AS count, max(seq) AS last"
           " FROM cubepi_messages AS m WHERE m.thread_id = t.thread_id) AS counted"
           " WHERE counted.count > 0 OR {filled t.extra} OR t.parent_thread_id IS NOT NULL"
           " ORDER BY at DESC {nulls last}, t.thread_id";
}

}  // namespace cubepi::detail
