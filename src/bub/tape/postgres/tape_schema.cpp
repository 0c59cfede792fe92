#include <memory>
#include <optional>
#include <string>
#include <utility>

#include <bub/tape/checkpointer/side_state.hpp>
#include <bub/tape/entry/line_check.hpp>
#include <bub/tape/postgres/division.hpp>
#include <bub/tape/postgres/tape_tables.hpp>
#include <bub/tape/postgres_tape_schema.hpp>
#include <cubepi/core/error.hpp>
#include <cubepi/sql/support/migration.hpp>
#include <cubepi/sql/support/postgres.hpp>

// The schema of the tables of tapes, and the sessions that require it.

namespace bub {

using namespace cubepi::detail;

namespace {

/// Returns the statements that create the tables. Names and ids are found by their MD5: an index takes no long text, and no
/// text may contain U+0000.
std::vector<std::string> tape_schema_statements() {
    const std::string tape =
        "tape TEXT COLLATE \"C\" NOT NULL REFERENCES bub_tapes (tape) ON DELETE CASCADE, ";
    return {
        "CREATE TABLE IF NOT EXISTS bub_schema (version INTEGER NOT NULL PRIMARY KEY)",
        "CREATE TABLE IF NOT EXISTS bub_tapes (tape TEXT COLLATE \"C\" NOT NULL PRIMARY KEY,"
        " last_id BIGINT NOT NULL DEFAULT 0, messages BIGINT NOT NULL DEFAULT 0,"
        " info TEXT NOT NULL DEFAULT '{}', state TEXT NOT NULL DEFAULT '{}',"
        " has_requests BOOLEAN NOT NULL DEFAULT false, write_id TEXT,"
        " updated_at TIMESTAMP WITH TIME ZONE NOT NULL DEFAULT now())",
        "CREATE INDEX IF NOT EXISTS bub_ix_tapes_requests ON bub_tapes (tape) WHERE has_requests",
        "CREATE INDEX IF NOT EXISTS bub_ix_tapes_updated ON bub_tapes (updated_at)",
        "CREATE TABLE IF NOT EXISTS bub_entries (" + tape +
            "id BIGINT NOT NULL, kind TEXT NOT NULL, name_key TEXT, run_key TEXT,"
            " line TEXT NOT NULL, PRIMARY KEY (tape, id))",
        "CREATE INDEX IF NOT EXISTS bub_ix_anchors ON bub_entries (tape, id) WHERE kind = 'anchor'",
        "CREATE INDEX IF NOT EXISTS bub_ix_names ON bub_entries (tape, kind, name_key, id)"
        " WHERE name_key IS NOT NULL",
        "CREATE INDEX IF NOT EXISTS bub_ix_runs ON bub_entries (tape, run_key, id)"
        " WHERE run_key IS NOT NULL",
        "CREATE TABLE IF NOT EXISTS bub_message_ids (" + tape +
            "message_key TEXT NOT NULL, id BIGINT NOT NULL,"
            " PRIMARY KEY (tape, message_key, id))",
        "CREATE TABLE IF NOT EXISTS bub_media (sha256 TEXT NOT NULL PRIMARY KEY,"
        " bytes BYTEA NOT NULL)",
        // Version 2.
        "ALTER TABLE bub_tapes ADD COLUMN IF NOT EXISTS bytes BIGINT NOT NULL DEFAULT 0",
        "UPDATE bub_tapes SET bytes = (SELECT coalesce(sum(octet_length(line) + 1), 0)"
        " FROM bub_entries WHERE bub_entries.tape = bub_tapes.tape)"
        " WHERE bytes = 0 AND last_id > 0",
        "CREATE TABLE IF NOT EXISTS bub_turns (" + tape +
            "turn_key TEXT NOT NULL, owner BIGINT NOT NULL,"
            " started_at TIMESTAMP WITH TIME ZONE NOT NULL DEFAULT now(),"
            " PRIMARY KEY (tape, turn_key))",
        "CREATE TABLE IF NOT EXISTS bub_turn_lines (tape TEXT COLLATE \"C\" NOT NULL,"
        " turn_key TEXT NOT NULL, seq BIGINT NOT NULL, lines TEXT NOT NULL,"
        " PRIMARY KEY (tape, turn_key, seq), FOREIGN KEY (tape, turn_key)"
        " REFERENCES bub_turns (tape, turn_key) ON DELETE CASCADE)",
        "CREATE TABLE IF NOT EXISTS bub_open (tape TEXT COLLATE \"C\" NOT NULL,"
        " owner BIGINT NOT NULL, mark BIGINT NOT NULL, PRIMARY KEY (tape, owner, mark))",
        // Version 3, whose table version 2 does not need.
        "CREATE TABLE IF NOT EXISTS bub_owners (number BIGINT NOT NULL PRIMARY KEY,"
        " alive_until TIMESTAMP WITH TIME ZONE NOT NULL)",
        "DELETE FROM bub_schema WHERE version < 2",
        "INSERT INTO bub_schema VALUES (2), (3) ON CONFLICT DO NOTHING",
    };
}

}  // namespace

const cubepi::PostgresTables& postgres_tape_tables() {
    static const cubepi::PostgresTables tables(cubepi::PostgresTables::Description{
        .version_table = "bub_schema",
        .names = "bub_*",
        .content = "tapes",
        .version = 3,
        .create = "'cubepi db init --tapes', or with postgres_tape_tables().apply()",
        .migrate = "'cubepi db migrate --tapes', or with postgres_tape_tables().apply()",
        .grant = "grant the user SELECT, INSERT, UPDATE and DELETE on the tables bub_*",
        .statements = tape_schema_statements(),
    });
    return tables;
}

namespace detail {

SqlBatch TapeSchema::session() const {
    SqlBatch batch;
    // The lock of a session that others share would outlive its owner.
    if (owner_ != 0)
        batch.add("SELECT pg_advisory_lock_shared($1) WHERE NOT {pooled}").integer(owner_);
    if (division_) select_division_if_any(batch);
    select_version(batch, postgres_tape_tables().version_table());
    return batch;
}

void TapeSchema::check(const std::string& where, const SqlResults& results) const {
    PostgresSchema::check(where, results);
    if (division_) check_division(where, *division_, results[results.size() - 2]);
}

void TapeSchema::lock(SqlBatch& batch, const std::vector<std::string>& tapes) const {
    take_advisory_locks(batch, tapes);
}

SqlRemedy TapeSchema::remedy(const SqlFailure& failure, SqlRemedy general) const {
    SqlRemedy remedy = PostgresSchema::remedy(failure, general);
    // The check of a lease divides by zero.
    if (failure.code() == "22012") remedy.code = lease_end_code;
    return remedy;
}

std::shared_ptr<SqlStore> tape_transactions(const cubepi::PostgresOptions& options,
                                            std::int64_t owner,
                                            std::optional<std::string> division) {
    return std::make_shared<SqlStore>(
        options, postgres_driver(options),
        std::make_shared<const TapeSchema>(owner, std::move(division)));
}

}  // namespace detail

}  // namespace bub

// Checks the tables of tapes without changing them.

namespace bub::detail {

using namespace cubepi::detail;
using cubepi::StoreReport;

namespace {

constexpr std::int64_t page = 500;

class TablesCheck {
public:
    TablesCheck(const cubepi::PostgresOptions& options, std::shared_ptr<StoreReport> report)
        : store_(tape_transactions(options)), report_(std::move(report)) {}

    Task<void> run() {
        report_->count("tapes", 0);
        std::string after;
        for (bool is_first = true;; is_first = false) {
            SqlBatch reads;
            reads
                .add(std::string("SELECT tape FROM bub_tapes WHERE tape ") +
                     (is_first ? ">=" : ">") + " $1 ORDER BY tape LIMIT $2")
                .text(after)
                .integer(page);
            const SqlResults results = co_await store_->read(std::move(reads));
            const SqlResult& rows = results[0];
            for (int row = 0; row < rows.rows(); ++row) {
                after = rows.string(row, 0);
                co_await check_tape(after);
            }
            report_->count("tapes", rows.rows());
            if (rows.rows() < page) break;
        }
        co_await check_message_ids();
    }

private:
    struct Found {
        std::string write_id = {};
        TapeRow row = {};
        std::int64_t after = 0;  ///< the entries up to it have been read
        bool is_last_page = false;
        double now = 0;
        bool has_requests = false;
        bool has_open_turn = false;
    };

    /// A tape that is written, or emptied, between the pages is read again.
    Task<void> check_tape(std::string tape) {
        constexpr int most_attempts = 3;
        for (int attempt = 1; attempt <= most_attempts; ++attempt) {
            StoreReport found;
            const std::string before = co_await check_once(tape, &found);
            const std::string after = co_await write_id(tape);
            if (found.is_sound() || before == after) {
                report_->merge(found);
                co_return;
            }
        }
        report_->note("tape '" + tape + "'", "others write to it; it was not checked");
    }

    Task<std::string> write_id(std::string tape) {
        SqlBatch reads;
        reads.add("SELECT write_id FROM bub_tapes WHERE tape = $1").text(tape);
        const SqlResults results = co_await store_->read(std::move(reads));
        co_return results[0].rows() > 0 ? results[0].string(0, 0) : std::string();
    }

    /// Returns the id of the last write. `report` lives in the caller.
    Task<std::string> check_once(std::string tape, StoreReport* report) {
        Found found;
        TapeCheck check(tape, *report);
        std::string damage;
        try {
            while (!found.is_last_page) {
                SqlBatch reads = first_reads(tape);
                reads
                    .add(
                        "SELECT id, line FROM bub_entries WHERE tape = $1 AND id > $2"
                        " ORDER BY id LIMIT $3")
                    .text(tape)
                    .integer(found.after)
                    .integer(page);
                const SqlResults results = co_await store_->read(std::move(reads));
                read_row(tape, results, found);
                check_turns(check, results[2], found, *report);
                add_lines(check, results.back(), found, *report);
            }
        } catch (const cubepi::CheckpointCorruptionError& error) {
            damage = error.what();
        }
        if (!damage.empty()) {
            report->damage(check.where(), damage, {});
            co_return found.write_id;
        }
        if (found.row.exists) check_row(check, found, *report);
        co_return found.write_id;
    }

    static SqlBatch first_reads(const std::string& tape) {
        SqlBatch reads;
        reads.add(select_tape(tape));
        reads.add("SELECT write_id, {now}, has_requests FROM bub_tapes WHERE tape = $1").text(tape);
        // Turns under a lease are those of a gateway, which closes them.
        reads
            .add(
                "SELECT " + is_alive_sql("owner") +
                " OR EXISTS (SELECT 1 FROM bub_turn_lines AS l WHERE l.tape = t.tape AND l.turn_key"
                " = t.turn_key AND l.seq = 0 AND l.lines LIKE '%\"lease\": %\"fence\": %') FROM "
                "bub_turns AS t"
                " WHERE tape = $1")
            .text(tape);
        return reads;
    }

    static void read_row(const std::string& tape, const SqlResults& results, Found& found) {
        if (results[1].rows() > 0) {
            found.write_id = results[1].string(0, 0);
            found.now = results[1].number(0, 1);
            found.has_requests = results[1].boolean(0, 2);
        }
        found.row = read_tape_row(tape, results[0]);
    }

    static void check_turns(const TapeCheck& check, const SqlResult& turns, Found& found,
                            StoreReport& report) {
        if (found.after > 0) return;  // of the first page
        for (int row = 0; row < turns.rows(); ++row) {
            found.has_open_turn = true;
            report.count("open turns", 1);
            if (turns.boolean(row, 0)) continue;
            report.repair(check.where(), "the process of a turn has ended without closing it",
                          "the next use stores its entries and marks it as interrupted");
        }
    }

    static void add_lines(TapeCheck& check, const SqlResult& lines, Found& found,
                          StoreReport& report) {
        for (int row = 0; row < lines.rows(); ++row) {
            found.after = lines.integer(row, 0);
            const std::string place = "row id " + std::to_string(found.after);
            const std::int64_t before = check.sums().entries;
            check.add(lines.text(row, 1), place);
            if (check.sums().entries > before && check.sums().last_id == found.after) continue;
            report.damage(check.where() + ", " + place, "the line is not the entry of that id",
                          "repair or delete that row of bub_entries");
        }
        found.is_last_page = lines.rows() < page;
    }

    static void check_row(TapeCheck& check, const Found& found, StoreReport& report) {
        const CheckedSums& sums = check.sums();
        const TapeRow& row = found.row;
        if (sums.last_id != row.end.last_id || sums.messages != row.end.messages) {
            report.damage(check.where(),
                          "its row states " + std::to_string(row.end.messages) +
                              " messages up to id " + std::to_string(row.end.last_id) +
                              ", and its entries have " + std::to_string(sums.messages) +
                              " up to id " + std::to_string(sums.last_id),
                          "restore the tape from a backup");
        }
        const bool has_requests = !pending_requests(check.tape(), row.state).empty();
        if (has_requests && !found.has_requests)
            report.damage(check.where(), "it has a pending request that no inbox lists",
                          "set has_requests in its row of bub_tapes");
        if (found.has_requests && !has_requests)
            report.repair(check.where(), "it is marked as having requests, and has none",
                          "the next request or answer of the tape corrects it");
        check.finish(row.state, found.now, found.has_open_turn);
    }

    Task<void> check_message_ids() {
        SqlBatch reads;
        reads.add(
            "SELECT m.tape, m.id FROM bub_message_ids AS m LEFT JOIN bub_entries AS e"
            " ON e.tape = m.tape AND e.id = m.id WHERE e.id IS NULL ORDER BY m.tape, m.id"
            " LIMIT 100");
        const SqlResults results = co_await store_->read(std::move(reads));
        for (int row = 0; row < results[0].rows(); ++row) {
            report_->damage("tape '" + results[0].string(row, 0) + "'",
                            "bub_message_ids names entry " +
                                std::to_string(results[0].integer(row, 1)) +
                                ", which does not exist",
                            "delete that row");
        }
    }

    const std::shared_ptr<SqlStore> store_;
    const std::shared_ptr<StoreReport> report_;
};

Task<StoreReport> check_tables(cubepi::PostgresOptions options) {
    const auto report = std::make_shared<StoreReport>(postgres_driver(options)->description());
    const std::optional<cubepi::FormatVersion> found =
        co_await postgres_tape_tables().status(options);
    if (const auto problem = postgres_tape_tables().problem(found)) {
        report->damage("tables " + postgres_tape_tables().names(), problem->what, problem->remedy);
        co_return std::move(*report);
    }
    const auto check = std::make_shared<TablesCheck>(options, report);
    co_await check->run();
    co_return std::move(*report);
}

}  // namespace

}  // namespace bub::detail

namespace bub {

cubepi::Task<cubepi::StoreReport> check_postgres_tapes(cubepi::PostgresOptions options) {
    return detail::check_tables(std::move(options));
}

}  // namespace bub
