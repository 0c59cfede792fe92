#include <chrono>
#include <string_view>
#include <utility>
#include <vector>

#include <sqlite3.h>

#include <cubepi/core/error.hpp>
#include <cubepi/core/offload.hpp>
#include <cubepi/schema/python_json.hpp>

#include "fifth_database.hpp"

namespace cubepi::fifth {

using namespace detail;

namespace {

constexpr const char* now = "(julianday('now') - 2440587.5) * 86400";

class Rows final : public SqlRows {
public:
    using Row = std::vector<sqlite3_value*>;
    ~Rows() override {
        for (const Row& row : rows_) {
            for (sqlite3_value* value : row) sqlite3_value_free(value);
        }
    }
    void add(sqlite3_stmt* statement) {
        Row& row = rows_.emplace_back();
        for (int i = 0; i < sqlite3_column_count(statement); ++i)
            row.push_back(sqlite3_value_dup(sqlite3_column_value(statement, i)));
    }
    int rows() const noexcept override { return static_cast<int>(rows_.size()); }
    bool is_null(int row, int column) const noexcept override {
        return sqlite3_value_type(at(row, column)) == SQLITE_NULL;
    }
    std::string_view text(int row, int column) const noexcept override {
        const auto* bytes = static_cast<const char*>(sqlite3_value_blob(at(row, column)));
        if (!bytes) return {};
        return {bytes, static_cast<std::size_t>(sqlite3_value_bytes(at(row, column)))};
    }
    std::int64_t integer(int row, int column) const noexcept override {
        return sqlite3_value_int64(at(row, column));
    }
    double number(int row, int column) const noexcept override {
        return sqlite3_value_double(at(row, column));
    }

private:
    sqlite3_value* at(int row, int column) const noexcept {
        return rows_[static_cast<std::size_t>(row)][static_cast<std::size_t>(column)];
    }
    std::vector<Row> rows_;
};

/// The words of this database for the escapes of SqlQuery.
std::string expand(std::string_view name, std::string_view argument) {
    const std::string text(argument);
    if (name == "text" || name == "epoch") return text;
    if (name == "integer") return "CAST(" + text + " AS INTEGER)";
    if (name == "exists") return "EXISTS (SELECT 1 FROM sqlite_master WHERE name = '" + text + "')";
    if (name == "now") return now;
    if (name == "any") return "IN (SELECT value FROM json_each(" + text + "))";
    if (name == "skip") return "ON CONFLICT DO NOTHING";
    if (name == "filled") return text + " <> '{}'";
    if (name == "nulls") return "NULLS LAST";
    const std::size_t colon = text.find(':');  // replace KEYS: COLUMNS
    return "ON CONFLICT (" + text.substr(0, colon) + ") DO UPDATE SET " +
           assignments(argument.substr(colon + 1), "excluded.", "");
}

/// The engine has numbered parameters, and no locks of rows.
std::string engine_sql(std::string_view sql) {
    std::string text = expand_escapes(sql, expand);
    for (char& c : text) {
        if (c == '$') c = '?';
    }
    constexpr std::string_view lock = " FOR UPDATE";
    const std::size_t at = text.find(lock);
    return at == std::string::npos ? text : text.erase(at, lock.size());
}

void bind(sqlite3_stmt* statement, int place, const SqlValue& value) {
    std::string text = value.text;
    switch (value.type) {
        case SqlValue::Type::integer: sqlite3_bind_int64(statement, place, value.integer); return;
        case SqlValue::Type::number: sqlite3_bind_double(statement, place, value.number); return;
        case SqlValue::Type::bytes:
            sqlite3_bind_blob64(statement, place, text.data(), text.size(), SQLITE_TRANSIENT);
            return;
        case SqlValue::Type::texts:
            text = to_python_json(JsonArray(value.texts.begin(), value.texts.end()));
            break;
        case SqlValue::Type::text:
        case SqlValue::Type::json: break;
    }
    if (value.null) return;
    sqlite3_bind_text64(statement, place, text.data(), text.size(), SQLITE_TRANSIENT, SQLITE_UTF8);
}

/// A session of the server.
class Session {
public:
    Session(const std::string& name, std::chrono::milliseconds lock_timeout,
            std::shared_ptr<Fault> fault)
        : fault_(std::move(fault)) {
        const int flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_URI;
        if (sqlite3_open_v2(name.c_str(), &handle_, flags, nullptr) != SQLITE_OK) {
            sqlite3_close_v2(std::exchange(handle_, nullptr));
            throw SqlFailure(SqlFailureKind::connect, "the database cannot be opened");
        }
        sqlite3_busy_timeout(handle_, static_cast<int>(lock_timeout.count()));
        // Protects against a power failure, and makes no difference to a killed process.
        sqlite3_exec(handle_, "PRAGMA synchronous = off", nullptr, nullptr, nullptr);
        sqlite3_create_function(
            handle_, "now", 0, SQLITE_UTF8, nullptr,
            [](sqlite3_context* context, int, sqlite3_value**) {
                const auto time = std::chrono::system_clock::now().time_since_epoch();
                sqlite3_result_double(context, std::chrono::duration<double>(time).count());
            },
            nullptr, nullptr);
    }
    ~Session() { close(); }
    Session(const Session&) = delete;
    Session& operator=(const Session&) = delete;

    SqlResults execute(const SqlBatch& batch) {
        batch.start_sinks();
        SqlResults results;
        for (const SqlQuery& query : batch.queries()) {
            if (!handle_ || is_lost(true)) lose();
            SqlResult result = execute(query);
            if (is_lost(false)) lose();
            for (int row = 0; query.sink() && row < result.rows(); ++row)
                query.sink()->receive(result, row);
            results.push_back(query.sink() ? SqlResult() : std::move(result));
        }
        return results;
    }
    bool is_open() const noexcept { return handle_ != nullptr; }
    bool is_idle() const noexcept { return handle_ && sqlite3_get_autocommit(handle_) != 0; }

private:
    SqlResult execute(const SqlQuery& query) {
        const std::string sql = engine_sql(query.sql());
        sqlite3_stmt* statement = nullptr;
        int result = sqlite3_prepare_v2(handle_, sql.c_str(), -1, &statement, nullptr);
        auto rows = std::make_unique<Rows>();
        if (result == SQLITE_OK) {
            int place = 0;
            for (const SqlValue& value : query.values()) bind(statement, ++place, value);
            while ((result = sqlite3_step(statement)) == SQLITE_ROW) rows->add(statement);
        }
        sqlite3_finalize(statement);
        if (result != SQLITE_DONE) fail(result);
        return SqlResult(std::move(rows));
    }
    [[noreturn]] void fail(int result) const {
        const bool busy = result == SQLITE_BUSY;
        throw SqlFailure(SqlFailureKind::server, sqlite3_errmsg(handle_), std::to_string(result),
                         busy ? SqlCondition::lock_timeout : SqlCondition::other);
    }
    bool is_lost(bool before) const {
        if (!fault_) return false;
        if (before) ++fault_->statements;
        return fault_->answered == before && fault_->statements == fault_->at;
    }
    [[noreturn]] void lose() {
        close();
        throw SqlFailure(SqlFailureKind::lost, "the session was lost");
    }
    void close() noexcept { sqlite3_close_v2(std::exchange(handle_, nullptr)); }

    const std::shared_ptr<Fault> fault_;
    sqlite3* handle_ = nullptr;
};

class Connection final : public SqlConnection {
public:
    Connection(std::string name, std::chrono::milliseconds lock_timeout,
               std::shared_ptr<Fault> fault)
        : session_([=] { return std::make_shared<Session>(name, lock_timeout, fault); }) {}

    Task<> connect(SqlAddresses /*addresses*/) override {
        std::function<std::shared_ptr<Session>()> open = session_;
        open_ = co_await offload(thread_, std::move(open));
        connecting_ = false;
    }
    bool is_idle() const noexcept override { return open_ && !busy_ && open_->is_idle(); }
    bool is_open() noexcept override { return open_ && open_->is_open(); }
    std::function<void()> canceller() const override { return {}; }
    void forget() noexcept override { open_.reset(); }

protected:
    /// The thread waits for locks. What must not be cancelled has them already, and is executed at once.
    Task<SqlResults> run(SqlBatch batch, bool cancellable) override {
        busy_ = true;
        auto work = [session = open_, batch = std::move(batch)] { return session->execute(batch); };
        SqlResults results;
        if (cancellable) {
            results = co_await offload(thread_, std::move(work));
        } else {
            results = work();
        }
        busy_ = false;
        co_return results;
    }

private:
    const std::function<std::shared_ptr<Session>()> session_;
    std::shared_ptr<Session> open_;
    bool busy_ = false;
    WorkerPool thread_{1, "fifth-session"};
};

class Driver final : public SqlDriver {
public:
    Driver(const SqlOptions& options, std::shared_ptr<Fault> fault)
        : options_(options),
          fault_(std::move(fault)),
          description_("fifth database '" + options.connection + "'") {}

    const char* name() const noexcept override { return "fifth"; }
    const std::string& description() const noexcept override { return description_; }
    std::string without_secrets(std::string text) const override { return text; }
    const char* code_field() const noexcept override { return "code"; }
    SqlRemedy remedy(const SqlFailure& failure) const override {
        SqlRemedy remedy;
        if (std::string_view(failure.what()).starts_with("no such table"))
            remedy = {ErrorCode::schema_mismatch, "apply the schema"};
        return remedy;
    }
    std::vector<std::string> names_to_resolve() const override { return {}; }
    bool is_reachable(const SqlAddresses& /*addresses*/) const override { return true; }
    std::unique_ptr<SqlConnection> connection() const override {
        return std::make_unique<Connection>(options_.connection, options_.lock_timeout, fault_);
    }
    SqlBatch migration_session() const override { return {}; }
    SqlBatch store_session() const override { return {}; }
    void begin_read(SqlBatch& batch) const override { batch.add("BEGIN"); }
    void begin_write(SqlBatch& batch) const override { batch.add("BEGIN IMMEDIATE"); }
    void begin_migration(SqlBatch& batch, const std::string& /*name*/) const override {
        begin_write(batch);
    }
    bool migrates_at_once() const noexcept override { return true; }

private:
    const SqlOptions options_;
    const std::shared_ptr<Fault> fault_;
    const std::string description_;
};

}  // namespace

std::shared_ptr<const SqlDriver> fifth_driver(const SqlOptions& options,
                                              std::shared_ptr<Fault> fault) {
    return std::make_shared<const Driver>(options, std::move(fault));
}

}  // namespace cubepi::fifth
