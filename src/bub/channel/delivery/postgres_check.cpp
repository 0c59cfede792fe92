#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include <bub/channel/delivery/delivery_records.hpp>
#include <bub/channel/delivery/postgres_tables.hpp>
#include <bub/channel/postgres_delivery_schema.hpp>
#include <cubepi/core/error.hpp>
#include <cubepi/schema/python_json.hpp>
#include <cubepi/sql/support/postgres.hpp>

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
