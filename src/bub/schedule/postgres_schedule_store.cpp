#include <bub/schedule/postgres_schedule_store.hpp>

#include <utility>
#include <vector>

#include <cubepi/core/error.hpp>
#include <cubepi/core/support/digest.hpp>
#include <cubepi/schema/json_convert.hpp>
#include <cubepi/schema/json_text.hpp>
#include <cubepi/sql/support/postgres.hpp>
#include <cubepi/sql/support/transaction.hpp>

namespace bub {

using namespace cubepi::detail;

namespace {

constexpr const char* now_sql = "floor(extract(epoch FROM clock_timestamp()))::bigint";

/// Returns the statements that create the tables. Sessions are found by digests: an index takes no long text.
std::vector<std::string> schema_statements() {
    return {
        "CREATE TABLE IF NOT EXISTS bub_schedule_schema (version INTEGER NOT NULL PRIMARY KEY)",
        "CREATE TABLE IF NOT EXISTS bub_schedule_sessions (key TEXT COLLATE \"C\" NOT NULL PRIMARY"
        " KEY, write_id TEXT)",
        "CREATE TABLE IF NOT EXISTS bub_schedules (account TEXT COLLATE \"C\" NOT NULL, id TEXT"
        " COLLATE \"C\" NOT NULL, session TEXT COLLATE \"C\" NOT NULL, configured BIGINT NOT NULL,"
        " next_at BIGINT, last_at BIGINT, has_problem BIGINT NOT NULL, schedule TEXT NOT NULL,"
        " PRIMARY KEY (account, id))",
        "CREATE INDEX IF NOT EXISTS bub_schedule_ix_session ON bub_schedules (session)",
        "CREATE INDEX IF NOT EXISTS bub_schedule_ix_next ON bub_schedules (account, next_at)",
        "CREATE INDEX IF NOT EXISTS bub_schedule_ix_last ON bub_schedules (account, last_at)",
        "INSERT INTO bub_schedule_schema VALUES (1) ON CONFLICT DO NOTHING",
    };
}

std::string text_of(const Schedule& schedule) {
    return cubepi::json_text(cubepi::to_json(schedule));
}

Schedule schedule_from(std::string_view text) {
    cubepi::ReadOptions options;
    options.require_fields = false;
    return cubepi::from_json<Schedule>(boost::json::parse(text), options);
}

/// Reads the schedules in a column. Throws Error(storage) for a row that is not valid.
std::vector<Schedule> read_schedules(const SqlResult& rows, int column) {
    std::vector<Schedule> found;
    for (int row = 0; row < rows.rows(); ++row) {
        try {
            found.push_back(schedule_from(rows.text(row, column)));
        } catch (const std::exception& error) {
            throw cubepi::Error(
                cubepi::ErrorCode::storage,
                std::string("a row of bub_schedules is not valid: ") + error.what());
        }
    }
    return found;
}

/// NULL for nothing.
void add_optional(SqlQuery& query, const std::optional<std::int64_t>& value) {
    query.text_or_null(value ? std::to_string(*value) : std::string());
}

}  // namespace

const cubepi::PostgresTables& postgres_schedule_tables() {
    static const cubepi::PostgresTables tables(cubepi::PostgresTables::Description{
        .version_table = "bub_schedule_schema",
        .names = "bub_schedule*",
        .content = "schedules",
        .version = 1,
        .create = "'cubepi db init --tapes' ('cubepi db migrate --tapes' next to tapes), or with "
                  "postgres_schedule_tables().apply()",
        .migrate = "'cubepi db migrate --tapes', or with postgres_schedule_tables().apply()",
        .grant = "grant the user SELECT, INSERT, UPDATE and DELETE on the tables bub_schedule*",
        .statements = schema_statements(),
    });
    return tables;
}

PostgresScheduleStore::PostgresScheduleStore(PostgresScheduleStoreOptions options)
    : options_(std::move(options)),
      store_(std::make_shared<SqlStore>(options_.database, postgres_driver(options_.database),
                                        std::make_shared<const PostgresSchema>(
                                            postgres_schedule_tables(), "bub_schedule_sessions"))) {
}

PostgresScheduleStore::~PostgresScheduleStore() = default;

std::string PostgresScheduleStore::key_of(const std::string& session) const {
    constexpr std::size_t digits = 32;  // 128 bits
    std::string name = options_.account;
    name += '\0';
    name += session;
    return sha256_hex(name).substr(0, digits);
}

Task<> PostgresScheduleStore::open() {
    SqlBatch nothing;
    (void)co_await store_->read(std::move(nothing));
}

Task<std::int64_t> PostgresScheduleStore::now() {
    SqlBatch batch;
    batch.add(std::string("SELECT ") + now_sql);
    const SqlResults results = co_await store_->read(std::move(batch));
    co_return results[0].integer(0, 0);
}

Task<bool> PostgresScheduleStore::add(Schedule schedule) {
    return add_once(std::move(schedule), std::string());
}

Task<bool> PostgresScheduleStore::adopt(Schedule schedule) {
    std::string mark = "moved " + key_of(schedule.id + "\n" + text_of(schedule));
    return add_once(std::move(schedule), std::move(mark));
}

/// Adds a schedule and a mark, unless the mark is there. Empty: none.
Task<bool> PostgresScheduleStore::add_once(Schedule schedule, std::string mark) {
    check_schedule(schedule);
    const std::string key = key_of(schedule.session);
    SqlPlan plan;
    plan.locks.push_back(key);
    plan.reads
        .add(
            "SELECT (SELECT count(*) FROM bub_schedules WHERE account = $1 AND id = $2),"
            " (SELECT count(*) FROM bub_schedules WHERE session = $3 AND configured = 0),"
            " (SELECT count(*) FROM bub_schedules WHERE account = $1),"
            " (SELECT count(*) FROM bub_schedule_sessions WHERE key = $4)")
        .text(options_.account)
        .text(schedule.id)
        .text(key)
        .text(mark);
    auto decide = [account = options_.account, key, mark = std::move(mark),
                   schedule = std::move(schedule)](const SqlView& view, SqlBatch& writes) {
        const SqlResult& counts = view.results[0];
        if (counts.integer(0, 3) > 0) return false;
        // Next to the sessions, whose rows stay as well.
        if (!mark.empty())
            writes.add("INSERT INTO bub_schedule_sessions (key) VALUES ($1) ON CONFLICT DO NOTHING")
                .text(mark);
        if (counts.integer(0, 0) > 0) return false;
        detail::check_limits(schedule, static_cast<std::size_t>(counts.integer(0, 1)),
                             static_cast<std::size_t>(counts.integer(0, 2)));
        SqlQuery& insert = writes.add(
            "INSERT INTO bub_schedules (account, id, session, configured, schedule, has_problem,"
            " next_at, last_at) VALUES ($1, $2, $3, $4, $5, $6, $7::text::bigint, $8::text::bigint)"
            " ON CONFLICT DO NOTHING");
        insert.text(account).text(schedule.id).text(key).integer(int{schedule.configured});
        insert.text(text_of(schedule)).integer(int{!schedule.problem.empty()});
        add_optional(insert, schedule.next);
        add_optional(insert, schedule.last);
        return true;
    };
    co_return co_await server_write(store_, std::move(plan), std::move(decide));
}

Task<std::vector<Schedule>> PostgresScheduleStore::list(std::string session) {
    SqlBatch batch;
    batch
        .add(
            "SELECT schedule FROM bub_schedules WHERE account = $1 AND ($2 = '' OR session = $2)"
            " ORDER BY id")
        .text(options_.account)
        .text(session.empty() ? std::string() : key_of(session));
    auto convert = [](const SqlResults& results) { return read_schedules(results[0], 0); };
    co_return co_await server_read(store_, std::move(batch), std::move(convert));
}

Task<std::optional<Schedule>> PostgresScheduleStore::find(std::string id) {
    if (!detail::is_schedule_id(id)) co_return std::nullopt;
    SqlBatch batch;
    batch.add("SELECT schedule FROM bub_schedules WHERE account = $1 AND id = $2")
        .text(options_.account)
        .text(id);
    auto convert = [](const SqlResults& results) {
        std::vector<Schedule> found = read_schedules(results[0], 0);
        return found.empty() ? std::nullopt : std::optional(std::move(found.front()));
    };
    co_return co_await server_read(store_, std::move(batch), std::move(convert));
}

Task<bool> PostgresScheduleStore::remove(std::string id) {
    const std::optional<Schedule> found = co_await find(id);
    if (!found) co_return false;
    SqlPlan plan;
    plan.locks.push_back(key_of(found->session));
    plan.reads.add("SELECT count(*) FROM bub_schedules WHERE account = $1 AND id = $2")
        .text(options_.account)
        .text(id);
    auto decide = [account = options_.account, id](const SqlView& view, SqlBatch& writes) {
        if (view.results[0].integer(0, 0) == 0) return false;
        writes.add("DELETE FROM bub_schedules WHERE account = $1 AND id = $2")
            .text(account)
            .text(id);
        return true;
    };
    co_return co_await server_write(store_, std::move(plan), std::move(decide));
}

Task<DueSchedules> PostgresScheduleStore::due(DuePlace after) {
    SqlBatch batch;
    batch.add(std::string("SELECT ") + now_sql);
    batch
        .add(std::string("SELECT schedule FROM bub_schedules WHERE account = $1 AND (next_at <= ") +
             now_sql + " OR last_at > " + now_sql +
             " + $2 OR (next_at IS NULL AND last_at IS NOT NULL AND has_problem = 0)) AND"
             " (coalesce(next_at, $4), id) > ($5, $6) ORDER BY coalesce(next_at, $4), id LIMIT $3")
        .text(options_.account)
        .integer(detail::clock_jump)
        .integer(detail::most_due)
        .integer(DuePlace().next)
        .integer(after.next)
        .text(after.id);
    auto convert = [](const SqlResults& results) {
        DueSchedules due;
        due.now = results[0].integer(0, 0);
        due.schedules = read_schedules(results[1], 0);
        if (due.schedules.size() == detail::most_due)
            due.more = detail::place_of(due.schedules.back());
        std::erase_if(due.schedules,
                      [&due](const Schedule& one) { return !detail::is_due(one, due.now); });
        return due;
    };
    co_return co_await server_read(store_, std::move(batch), std::move(convert));
}

Task<bool> PostgresScheduleStore::advance(Schedule schedule, std::optional<std::int64_t> planned) {
    SqlPlan plan;
    plan.locks.push_back(key_of(schedule.session));
    SqlQuery& current = plan.reads.add(
        "SELECT count(*) FROM bub_schedules WHERE account = $1 AND id = $2 AND next_at IS NOT"
        " DISTINCT FROM $3::text::bigint");
    current.text(options_.account).text(schedule.id);
    add_optional(current, planned);
    auto decide = [account = options_.account, schedule = std::move(schedule)](const SqlView& view,
                                                                               SqlBatch& writes) {
        if (view.results[0].integer(0, 0) == 0) return false;
        SqlQuery& update = writes.add(
            "UPDATE bub_schedules SET schedule = $3, has_problem = $4, next_at ="
            " $5::text::bigint, last_at = $6::text::bigint WHERE account = $1 AND id = $2");
        update.text(account).text(schedule.id).text(text_of(schedule));
        update.integer(int{!schedule.problem.empty()});
        add_optional(update, schedule.next);
        add_optional(update, schedule.last);
        return true;
    };
    co_return co_await server_write(store_, std::move(plan), std::move(decide));
}

}  // namespace bub
