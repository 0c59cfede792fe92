#include <bub/limits/postgres_usage_store.hpp>

#include <set>

#include <cubepi/core/support/digest.hpp>
#include <cubepi/core/support/lower_case.hpp>
#include <cubepi/sql/support/postgres.hpp>
#include <cubepi/sql/support/transaction.hpp>

namespace bub {

using namespace cubepi::detail;

namespace {

/// The number of rows that one call removes because of their age.
constexpr std::int64_t most_removed = 500;

/// Returns the statements that create the tables. Counters are found by digests: an index takes no long text. The row of a counter is
/// created when it is locked, and has a day from the end of that transaction on.
std::vector<std::string> schema_statements() {
    return {
        "CREATE TABLE IF NOT EXISTS bub_usage_schema (version INTEGER NOT NULL PRIMARY KEY)",
        "CREATE TABLE IF NOT EXISTS bub_usage (key TEXT COLLATE \"C\" NOT NULL PRIMARY KEY, account"
        " TEXT COLLATE \"C\", day TEXT COLLATE \"C\", counter TEXT COLLATE \"C\", messages BIGINT"
        " NOT NULL DEFAULT 0, tokens BIGINT NOT NULL DEFAULT 0, micros BIGINT NOT NULL DEFAULT 0,"
        " write_id TEXT)",
        "CREATE INDEX IF NOT EXISTS bub_usage_ix_day ON bub_usage (account, day)",
        "CREATE TABLE IF NOT EXISTS bub_usage_messages (account TEXT COLLATE \"C\" NOT NULL, record"
        " TEXT COLLATE \"C\" NOT NULL, day TEXT COLLATE \"C\" NOT NULL, PRIMARY KEY (account,"
        " record))",
        "CREATE INDEX IF NOT EXISTS bub_usage_ix_message_day ON bub_usage_messages (account, day)",
        "INSERT INTO bub_usage_schema VALUES (1) ON CONFLICT DO NOTHING",
    };
}

/// Adds to the counter of a row, which the transaction has locked.
void update(SqlBatch& writes, const std::string& key, const std::string& account,
            const std::string& day, const std::string& counter, const UsageAmounts& amounts) {
    constexpr const char* sum =
        "least(9223372036854775807::numeric, {}::numeric + {}::numeric)::bigint";
    const auto added = [&](const char* column, const char* parameter) {
        std::string text(sum);
        text.replace(text.rfind("{}"), 2, parameter);
        text.replace(text.find("{}"), 2, column);
        return std::string(column) + " = " + text;
    };
    writes
        .add("UPDATE bub_usage SET account = $2, day = $3, counter = $4, " +
             added("messages", "$5") + ", " + added("tokens", "$6") + ", " + added("micros", "$7") +
             " WHERE key = $1")
        .text(key)
        .text(account)
        .text(day)
        .text(counter)
        .integer(amounts.messages)
        .integer(amounts.tokens)
        .integer(amounts.micros);
}

/// Removes rows of days that are over. Another gateway may do so at the same time.
void remove_old(SqlBatch& writes, const std::string& account, const std::string& day) {
    const std::string first = detail::first_stored_day(day);
    if (first.empty()) return;
    for (const char* const table : {"bub_usage", "bub_usage_messages"}) {
        const std::string name(table);
        writes
            .add("DELETE FROM " + name + " WHERE ctid = ANY(ARRAY(SELECT ctid FROM " + name +
                 " WHERE account = $1 AND day < $2 LIMIT $3 FOR UPDATE SKIP LOCKED))")
            .text(account)
            .text(first)
            .integer(most_removed);
    }
}

}  // namespace

const cubepi::PostgresTables& postgres_usage_tables() {
    static const cubepi::PostgresTables tables(cubepi::PostgresTables::Description{
        .version_table = "bub_usage_schema",
        .names = "bub_usage*",
        .content = "the use of a gateway",
        .version = 1,
        .create = "'cubepi db init --tapes' ('cubepi db migrate --tapes' next to tapes), or with "
                  "postgres_usage_tables().apply()",
        .migrate = "'cubepi db migrate --tapes', or with postgres_usage_tables().apply()",
        .grant = "grant the user SELECT, INSERT, UPDATE and DELETE on the tables bub_usage*",
        .statements = schema_statements(),
    });
    return tables;
}

PostgresUsageStore::PostgresUsageStore(PostgresUsageStoreOptions options)
    : options_(std::move(options)),
      store_(std::make_shared<SqlStore>(
          options_.database, postgres_driver(options_.database),
          std::make_shared<const PostgresSchema>(postgres_usage_tables(), "bub_usage"))) {}

PostgresUsageStore::~PostgresUsageStore() = default;

std::string PostgresUsageStore::key_of(const std::string& day, const std::string& counter) const {
    constexpr std::size_t digits = 32;  // 128 bits
    std::string name = options_.account;
    name += '\0';
    name += day;
    name += '\0';
    name += counter;
    return sha256_hex(name).substr(0, digits);
}

Task<> PostgresUsageStore::open() {
    SqlBatch nothing;
    (void)co_await store_->read(std::move(nothing));
}

Task<std::int64_t> PostgresUsageStore::now() {
    SqlBatch batch;
    batch.add("SELECT floor(extract(epoch FROM clock_timestamp()))::bigint");
    const SqlResults results = co_await store_->read(std::move(batch));
    co_return results[0].integer(0, 0);
}

Task<std::optional<ReachedLimit>> PostgresUsageStore::admit(UsageAdmission turn) {
    SqlPlan plan;
    for (const LimitedCounter& counter : turn.counters)
        plan.locks.push_back(key_of(turn.day, counter.name));
    std::vector<std::string> keys = plan.locks;
    plan.reads
        .add("SELECT key, messages, tokens, micros FROM bub_usage WHERE key = ANY($1::text[])")
        .texts(keys);
    plan.reads
        .add(
            "SELECT record FROM bub_usage_messages WHERE account = $1 AND record ="
            " ANY($2::text[])")
        .text(options_.account)
        .texts(turn.records);
    auto decide = [account = options_.account, keys = std::move(keys), turn = std::move(turn)](
                      const SqlView& view, SqlBatch& writes) -> std::optional<ReachedLimit> {
        std::map<std::string, UsageAmounts> by_key;
        const SqlResult& rows = view.results[0];
        for (int row = 0; row < rows.rows(); ++row)
            by_key[rows.string(row, 0)] =
                UsageAmounts{rows.integer(row, 1), rows.integer(row, 2), rows.integer(row, 3)};
        std::vector<UsageAmounts> used;
        for (const std::string& key : keys) used.push_back(by_key[key]);
        std::set<std::string> fresh(turn.records.begin(), turn.records.end());
        const SqlResult& known = view.results[1];
        for (int row = 0; row < known.rows(); ++row) fresh.erase(known.string(row, 0));
        std::int64_t messages = turn.messages(fresh.size());
        const std::optional<ReachedLimit> reached = detail::reached_limit(turn, used, fresh.size());
        // A refused message counts nothing, but the rows that the lock has created need their day to be removed one day.
        if (reached) messages = 0;
        for (std::size_t at = 0; at < keys.size(); ++at)
            update(writes, keys[at], account, turn.day, turn.counters[at].name,
                   UsageAmounts{messages, 0, 0});
        if (!reached && !fresh.empty()) {
            writes
                .add(
                    "INSERT INTO bub_usage_messages (account, record, day) SELECT $1, record, $2"
                    " FROM unnest($3::text[]) AS record ON CONFLICT DO NOTHING")
                .text(account)
                .text(turn.day)
                .texts({fresh.begin(), fresh.end()});
        }
        remove_old(writes, account, turn.day);
        return reached;
    };
    co_return co_await server_write(store_, std::move(plan), std::move(decide));
}

Task<> PostgresUsageStore::add(std::string day, UsageByCounter amounts) {
    if (amounts.empty()) co_return;
    SqlPlan plan;
    for (const auto& [counter, amount] : amounts) plan.locks.push_back(key_of(day, counter));
    auto decide = [account = options_.account, keys = plan.locks, day = std::move(day),
                   amounts = std::move(amounts)](const SqlView& /*view*/, SqlBatch& writes) {
        std::size_t at = 0;
        for (const auto& [counter, amount] : amounts)
            update(writes, keys[at++], account, day, counter, amount);
    };
    co_await server_write(store_, std::move(plan), std::move(decide));
}

Task<std::vector<std::pair<std::string, UsageAmounts>>> PostgresUsageStore::list(
    std::string day, std::size_t most, std::string search) {
    SqlBatch batch;
    batch
        .add(
            "SELECT counter, messages, tokens, micros FROM bub_usage WHERE account = $1 AND day ="
            " $2 AND (counter = $4 OR strpos(lower(counter), $5) > 0) ORDER BY counter <> $4,"
            " micros DESC, tokens DESC, messages DESC, counter LIMIT $3")
        .text(options_.account)
        .text(day)
        .integer(static_cast<std::int64_t>(most))
        .text(std::string(total_counter))
        .text(lower_case(search));
    auto convert = [](const SqlResults& results) {
        std::vector<std::pair<std::string, UsageAmounts>> found;
        const SqlResult& rows = results[0];
        for (int row = 0; row < rows.rows(); ++row)
            found.emplace_back(
                rows.string(row, 0),
                UsageAmounts{rows.integer(row, 1), rows.integer(row, 2), rows.integer(row, 3)});
        return found;
    };
    co_return co_await server_read(store_, std::move(batch), std::move(convert));
}

}  // namespace bub
