#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include <bub/channel/delivery/delivery_records.hpp>
#include <bub/channel/delivery/postgres_tables.hpp>
#include <bub/channel/postgres_delivery_schema.hpp>
#include <bub/tape/postgres/division.hpp>
#include <cubepi/core/error.hpp>
#include <cubepi/schema/python_json.hpp>
#include <cubepi/sql/support/migration.hpp>
#include <cubepi/sql/support/postgres.hpp>

// The schema of the tables of deliveries, the connections that require it, and the check of the tables.

namespace bub {

using namespace cubepi::detail;

namespace {

/// Returns the statements that create the tables. Messages and sessions are found by digests: an index takes no long text, and no
/// text may contain U+0000.
std::vector<std::string> schema_statements() {
    const std::string record =
        "id BIGINT NOT NULL PRIMARY KEY, account TEXT NOT NULL, channel TEXT NOT NULL,"
        " session TEXT COLLATE \"C\" NOT NULL, owner BIGINT NOT NULL, fence BIGINT NOT NULL,"
        " state TEXT NOT NULL, message TEXT, ";
    return {
        "CREATE TABLE IF NOT EXISTS bub_delivery_schema (version INTEGER NOT NULL PRIMARY KEY)",
        "CREATE SEQUENCE IF NOT EXISTS bub_delivery_ids",
        "CREATE TABLE IF NOT EXISTS bub_delivery_gateways (number BIGINT NOT NULL PRIMARY KEY,"
        " account TEXT NOT NULL, host TEXT NOT NULL, boot_id TEXT NOT NULL, pid BIGINT NOT NULL,"
        " process_start BIGINT NOT NULL,"
        " started_at TIMESTAMP WITH TIME ZONE NOT NULL DEFAULT now(),"
        " lease_until TIMESTAMP WITH TIME ZONE NOT NULL)",
        "CREATE TABLE IF NOT EXISTS bub_delivery_sessions (key TEXT COLLATE \"C\" NOT NULL PRIMARY "
        "KEY, owner BIGINT NOT NULL DEFAULT 0, fence BIGINT NOT NULL DEFAULT 0, write_id TEXT)",
        "CREATE TABLE IF NOT EXISTS bub_delivery_inbound (" + record +
            "message_key TEXT COLLATE \"C\" UNIQUE, address TEXT NOT NULL,"
            " begun BIGINT NOT NULL DEFAULT 0, turn BIGINT NOT NULL DEFAULT 0,"
            " answered BOOLEAN NOT NULL DEFAULT false, planned TEXT,"
            " next_output BIGINT NOT NULL DEFAULT 0, all_sent BOOLEAN NOT NULL DEFAULT false,"
            " received_at TIMESTAMP WITH TIME ZONE NOT NULL DEFAULT now(),"
            " finished_at TIMESTAMP WITH TIME ZONE)",
        "CREATE INDEX IF NOT EXISTS bub_delivery_ix_open_inbound ON bub_delivery_inbound (session)"
        " WHERE finished_at IS NULL",
        "CREATE INDEX IF NOT EXISTS bub_delivery_ix_finished ON bub_delivery_inbound (finished_at)"
        " WHERE finished_at IS NOT NULL",
        "CREATE TABLE IF NOT EXISTS bub_delivery_outbound (" + record +
            "answers BIGINT[] NOT NULL, resent BIGINT NOT NULL DEFAULT 0, reason TEXT,"
            " intended_at TIMESTAMP WITH TIME ZONE NOT NULL DEFAULT now(),"
            " settled_at TIMESTAMP WITH TIME ZONE)",
        "CREATE INDEX IF NOT EXISTS bub_delivery_ix_open_outbound ON bub_delivery_outbound "
        "(session) WHERE settled_at IS NULL",
        "CREATE INDEX IF NOT EXISTS bub_delivery_ix_settled ON bub_delivery_outbound (settled_at)"
        " WHERE settled_at IS NOT NULL",
        // Version 2, whose tables version 1 does not need.
        "CREATE TABLE IF NOT EXISTS bub_delivery_leases (account TEXT NOT NULL, name TEXT NOT NULL,"
        " holder TEXT NOT NULL, host TEXT NOT NULL, boot_id TEXT NOT NULL, pid BIGINT NOT NULL,"
        " process_start BIGINT NOT NULL, lease_until TIMESTAMP WITH TIME ZONE NOT NULL,"
        " PRIMARY KEY (account, name))",
        "ALTER TABLE bub_delivery_gateways ADD COLUMN IF NOT EXISTS facts TEXT",
        "CREATE TABLE IF NOT EXISTS bub_delivery_calls (id BIGINT NOT NULL PRIMARY KEY,"
        " gateway BIGINT NOT NULL, request TEXT NOT NULL,"
        " expires_at TIMESTAMP WITH TIME ZONE NOT NULL, begun BOOLEAN NOT NULL DEFAULT false,"
        " result TEXT)",
        "CREATE INDEX IF NOT EXISTS bub_delivery_ix_calls ON bub_delivery_calls (gateway)",
        // Version 3, whose table earlier ones do not need.
        "CREATE TABLE IF NOT EXISTS bub_delivery_division (id INTEGER NOT NULL PRIMARY KEY CHECK"
        " (id = 1), record TEXT NOT NULL)",
        // The gateways whose turns have begun and have no recorded end. They are counted in begun, as those of earlier programs.
        "ALTER TABLE bub_delivery_inbound ADD COLUMN IF NOT EXISTS begun_by BIGINT[] NOT NULL"
        " DEFAULT '{}'",
        // Earlier programs do not compare the division.
        "INSERT INTO bub_delivery_schema SELECT v FROM (VALUES (1), (2), (3)) AS versions (v) WHERE"
        " v = 3 OR NOT EXISTS (SELECT 1 FROM bub_delivery_division WHERE record <> '') ON CONFLICT"
        " DO NOTHING",
    };
}

}  // namespace

const cubepi::PostgresTables& postgres_delivery_tables() {
    static const cubepi::PostgresTables tables(cubepi::PostgresTables::Description{
        .version_table = "bub_delivery_schema",
        .names = "bub_delivery_*",
        .content = "deliveries",
        .version = 3,
        .create = "'cubepi db init --tapes' ('cubepi db migrate --tapes' next to tapes), or with "
                  "postgres_delivery_tables().apply()",
        .migrate = "'cubepi db migrate --tapes', or with postgres_delivery_tables().apply()",
        .grant =
            "grant the user SELECT, INSERT, UPDATE and DELETE on the tables bub_delivery_*, and "
            "USAGE on the sequence bub_delivery_ids",
        .statements = schema_statements(),
    });
    return tables;
}

namespace detail {

SqlBatch DeliverySchema::settings(const SqlDriver& driver) const {
    SqlBatch batch = driver.store_session();
    // A gateway that is frozen or separated in a transaction, in which it locks sessions, loses it before others give up waiting for
    // the locks: one that does fails all calls that it writes together with them.
    batch.add("SELECT set_config('idle_in_transaction_session_timeout', $1, {pooled})")
        .text(std::to_string(lease_.count() / 5));
    return batch;
}

SqlBatch DeliverySchema::session() const {
    SqlBatch batch;
    if (division_) select_division(batch);
    select_version(batch, postgres_delivery_tables().version_table());
    return batch;
}

void DeliverySchema::check(const std::string& where, const SqlResults& results) const {
    PostgresSchema::check(where, results);
    if (division_) check_division(where, *division_, results[results.size() - 2]);
}

std::shared_ptr<SqlStore> undivided_store(const cubepi::PostgresOptions& options) {
    return std::make_shared<SqlStore>(
        options, postgres_driver(options),
        std::make_shared<const DeliverySchema>(PostgresDeliveryLogOptions().lease, std::nullopt));
}

}  // namespace detail

Task<DivisionState> read_division(cubepi::PostgresOptions options) {
    const std::shared_ptr<SqlStore> store = detail::undivided_store(options);
    SqlBatch reads;
    detail::select_division(reads);
    reads.add("SELECT count(*) FROM bub_delivery_gateways WHERE lease_until > clock_timestamp()");
    reads.add(
        "SELECT (SELECT count(*) FROM bub_delivery_inbound WHERE finished_at IS NULL) + (SELECT"
        " count(*) FROM bub_delivery_outbound WHERE settled_at IS NULL)");
    const SqlResults results = co_await store->read(std::move(reads));
    DivisionState state;
    if (!results[0].is_null(0, 0)) state.record = results[0].string(0, 0);
    state.gateways = static_cast<std::size_t>(results[1].integer(0, 0));
    state.unfinished = static_cast<std::size_t>(results[2].integer(0, 0));
    SqlBatch tables;
    tables.add("SELECT to_regclass('bub_schedules') IS NOT NULL");
    const SqlResults found = co_await store->read(std::move(tables));
    if (!found[0].boolean(0, 0)) co_return state;
    SqlBatch count;
    // The configured ones are made again.
    count.add("SELECT count(*) FROM bub_schedules WHERE configured = 0");
    const SqlResults counted = co_await store->read(std::move(count));
    state.schedules = static_cast<std::size_t>(counted[0].integer(0, 0));
    co_return state;
}

Task<> record_division(cubepi::PostgresOptions options, std::string record) {
    SqlPlan plan;
    take_advisory_locks(plan.reads, {detail::division_lock});
    auto decide = [record = std::move(record)](const SqlView&, SqlBatch& writes) {
        // Earlier programs do not compare it.
        if (!record.empty()) writes.add("DELETE FROM bub_delivery_schema WHERE version < 3");
        writes
            .add(
                "INSERT INTO bub_delivery_division VALUES (1, $1) ON CONFLICT (id) DO UPDATE SET"
                " record = excluded.record")
            .text(record);
    };
    return server_write(detail::undivided_store(options), std::move(plan), std::move(decide));
}

}  // namespace bub

// Checks the tables of deliveries without changing them. Each row is judged with its session in one snapshot.

namespace bub::detail {

using cubepi::StoreReport;
using namespace cubepi::detail;

namespace {

constexpr std::int64_t page = 500;

/// Returns nothing if the text is not a JSON object.
std::optional<JsonObject> parse_object(std::string_view text) {
    try {
        Json json = cubepi::parse_lenient(text);
        if (JsonObject* const object = json.if_object()) return std::move(*object);
    } catch (const cubepi::Error&) {
        return std::nullopt;
    }
    return std::nullopt;
}

bool is_plan(std::string_view text) {
    const std::optional<JsonObject> plan = parse_object(text);
    const Json* const list = plan ? plan->if_contains("plan") : nullptr;
    if (!list || !list->is_array()) return false;
    const JsonArray& outputs = list->get_array();
    // The place of an output that is left out holds null.
    return std::all_of(outputs.begin(), outputs.end(),
                       [](const Json& one) { return one.is_object() || one.is_null(); });
}

class DeliveriesCheck {
public:
    DeliveriesCheck(const cubepi::PostgresOptions& options, std::shared_ptr<StoreReport> report)
        : store_(undivided_store(options)), report_(std::move(report)) {}

    Task<void> run() {
        report_->count("unfinished messages", 0);
        report_->count("unsettled answers", 0);
        co_await check_rows(
            "SELECT r.id, r.fence, s.fence, r.message, r.account, r.message_key, r.begun,"
            " r.answered, r.planned FROM bub_delivery_inbound AS r LEFT JOIN"
            " bub_delivery_sessions AS s ON s.key = r.session WHERE r.finished_at IS NULL",
            &DeliveriesCheck::check_inbound);
        co_await check_rows(
            "SELECT r.id, r.fence, s.fence, r.message, r.resent, r.state = 'waiting' FROM"
            " bub_delivery_outbound AS r LEFT JOIN bub_delivery_sessions AS s ON s.key = r.session"
            " WHERE r.settled_at IS NULL",
            &DeliveriesCheck::check_answer);
        co_await check_gateways();
    }

private:
    using CheckRow = void (DeliveriesCheck::*)(const SqlResult& rows, int row);

    Task<void> check_rows(std::string sql, CheckRow check) {
        std::int64_t after = 0;
        for (;;) {
            SqlBatch reads;
            reads.add(sql + " AND r.id > $1 ORDER BY r.id LIMIT $2").integer(after).integer(page);
            const SqlResults results = co_await store_->read(std::move(reads));
            const SqlResult& rows = results[0];
            for (int row = 0; row < rows.rows(); ++row) {
                after = rows.integer(row, 0);
                (this->*check)(rows, row);
            }
            if (rows.rows() < page) co_return;
        }
    }

    static std::string id_of(const SqlResult& rows, int row) {
        return text_of({rows.integer(row, 0), rows.integer(row, 1)});
    }

    /// Checks the first four columns of a record, and returns its message.
    std::optional<JsonObject> check_record(const SqlResult& rows, int row, const std::string& where,
                                           const std::string& table) {
        const std::string remedy = "repair or delete that row of " + table;
        if (rows.is_null(row, 2))
            report_->damage(where, "no gateway takes it: its session has no row",
                            "add its session to bub_delivery_sessions");
        std::optional<JsonObject> message;
        if (!rows.is_null(row, 3)) message = parse_object(rows.text(row, 3));
        if (!message) report_->damage(where, "its content cannot be read", remedy);
        return message;
    }

    void check_inbound(const SqlResult& rows, int row) {
        StoredInbound inbound;
        inbound.id = id_of(rows, row);
        inbound.begun = static_cast<std::uint64_t>(rows.integer(row, 6));
        inbound.answered = rows.boolean(row, 7);
        const std::string where = "message " + inbound.id;
        note_inbound(inbound, *report_);
        const std::optional<JsonObject> content =
            check_record(rows, row, where, "bub_delivery_inbound");
        if (!rows.is_null(row, 2) && rows.integer(row, 1) > rows.integer(row, 2))
            report_->damage(where,
                            "its fence is later than that of its session, so that a gateway that "
                            "was replaced could still change it",
                            "set the fence of its session to it in bub_delivery_sessions");
        if (!rows.is_null(row, 8) && !is_plan(rows.text(row, 8)))
            report_->damage(where, "the outputs that are left of its turn cannot be read",
                            "repair its column planned, or set it to NULL");
        if (!content) return;
        const Envelope message = inbound_from_stored_form(*content);
        const std::string channel = message.channel.value_or("");
        const std::string inbound_id = message.inbound_id.value_or("");
        // JSON does not hold every id: invalid UTF-8 was replaced.
        constexpr std::string_view replacement = "\xef\xbf\xbd";
        if (channel.find(replacement) != std::string::npos ||
            inbound_id.find(replacement) != std::string::npos)
            return;
        const std::string key = message_key(rows.string(row, 4), channel, inbound_id);
        const std::string stored = rows.is_null(row, 5) ? std::string() : rows.string(row, 5);
        // One without an id of its platform has a key of its own.
        if (key != stored && !key.empty())
            report_->damage(where,
                            "it is not found by its id: when it arrives again, it is processed "
                            "twice",
                            "finish it, or set its column message_key to '" + key + "'");
    }

    void check_answer(const SqlResult& rows, int row) {
        Delivery delivery;
        delivery.id = id_of(rows, row);
        delivery.waits = rows.boolean(row, 5);
        note_answer(delivery, *report_);
        (void)check_record(rows, row, "answer " + delivery.id, "bub_delivery_outbound");
    }

    Task<void> check_gateways() {
        const std::string of_ended =
            " owner <> 0 AND owner NOT IN (SELECT number FROM bub_delivery_gateways WHERE"
            " lease_until > clock_timestamp())";
        SqlBatch reads;
        reads.add(
            "SELECT (SELECT count(*) FROM bub_delivery_gateways WHERE lease_until >"
            " clock_timestamp()), (SELECT count(*) FROM bub_delivery_inbound WHERE finished_at IS"
            " NULL AND" +
            of_ended +
            ") + (SELECT count(*) FROM bub_delivery_outbound WHERE settled_at IS NULL AND" +
            of_ended + ")");
        const SqlResults results = co_await store_->read(std::move(reads));
        report_->count("gateways", results[0].integer(0, 0));
        const std::int64_t left = results[0].integer(0, 1);
        if (left == 0) co_return;
        report_->note("tables " + postgres_delivery_tables().names(),
                      std::to_string(left) + " records are of gateways that have ended",
                      "the next gateway that serves their channels takes them");
    }

    const std::shared_ptr<SqlStore> store_;
    const std::shared_ptr<StoreReport> report_;
};

Task<StoreReport> check_tables(cubepi::PostgresOptions options) {
    const auto report =
        std::make_shared<StoreReport>("deliveries in " + postgres_driver(options)->description());
    const std::string where = "tables " + postgres_delivery_tables().names();
    const std::optional<cubepi::FormatVersion> found =
        co_await postgres_delivery_tables().status(options);
    if (const auto problem = postgres_delivery_tables().problem(found)) {
        // Sessions without a gateway need none.
        const auto kind =
            found ? cubepi::StoreFinding::Kind::damage : cubepi::StoreFinding::Kind::note;
        report->add(kind, where, problem->what, problem->remedy);
        co_return std::move(*report);
    }
    const auto check = std::make_shared<DeliveriesCheck>(options, report);
    co_await check->run();
    co_return std::move(*report);
}

}  // namespace

}  // namespace bub::detail

namespace bub {

cubepi::Task<cubepi::StoreReport> check_postgres_deliveries(cubepi::PostgresOptions options) {
    return detail::check_tables(std::move(options));
}

}  // namespace bub
