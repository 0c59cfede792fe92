#include <algorithm>
#include <array>
#include <bit>
#include <charconv>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include <libpq-fe.h>

#include <cubepi/sql/postgres/driver.hpp>
#include <cubepi/sql/support/connection.hpp>
#include <cubepi/sql/support/driver.hpp>

namespace cubepi::detail {

namespace {

/// A statement that a session has executed.
struct PgStatement {
    enum class State : std::uint8_t { unprepared, requested, prepared };

    std::string sql = {};   ///< with its escapes expanded
    std::string name = {};  ///< on the server
    std::vector<Oid> types = {};
    State state = State::unprepared;
    bool was_used = false;
};

/// The statements of a session. Those with parameters are prepared at their second use, so that a statement that is executed
/// once, such as those that set up a session, costs nothing.
///
/// A name contains the hash of the statement: if a pooler hands the session of another process to this one, the statement of
/// that name is the same one.
class PgStatements {
public:
    explicit PgStatements(bool prepare) : prepares_(prepare) {}

    /// Returns the statement of a query that has parameters. The reference is valid until forget().
    PgStatement& find(const SqlQuery& query, bool is_pooled);
    /// Returns true if the statement must be prepared before it is executed now.
    bool must_prepare(PgStatement& statement) const noexcept;

    /// Prepares the statements again when they are used next, with new names: a table has changed.
    void forget();
    /// The same, after the server did not know a statement. If that occurs repeatedly, the session is not ours alone (a pooler
    /// assigns another one to each transaction), and nothing is prepared any longer.
    void forget_lost();
    /// Prepares no statements any longer.
    void stop() noexcept { prepares_ = false; }

private:
    bool prepares_;
    int losses_ = 0;
    int generation_ = 0;
    std::unordered_map<std::string, PgStatement> statements_;
};

/// A connection of libpq in pipeline mode.
class PgConnection final : public SqlConnection {
public:
    PgConnection(const PgParameters& parameters, bool prepare)
        : parameters_(parameters), statements_(prepare) {}
    ~PgConnection() override;

    Task<> connect(SqlAddresses addresses) override;
    bool shares_sessions() const noexcept override { return is_pooled_; }
    /// As the protocol has it: up to the message Sync. A session that others share has another level of isolation.
    bool commits_batches() const noexcept override { return !is_pooled_; }
    bool is_idle() const noexcept override;
    bool is_open() noexcept override;
    std::function<void()> canceller() const override;
    void forget() noexcept override { connection_ = nullptr; }

private:
    Task<SqlResults> run(SqlBatch batch, bool cancellable) override;
    Task<> find_pooler();
    void send(const SqlBatch& batch);
    void send(const SqlQuery& query);
    SqlFailure failure_of(const PGresult* result);
    Task<> wait_for_socket(bool for_write, bool cancellable);
    Task<> wait_for_result(bool cancellable);
    [[noreturn]] void fail_lost();
    [[noreturn]] void fail_connecting();

    const PgParameters& parameters_;
    PGconn* connection_ = nullptr;
    PgStatements statements_;
    /// One for each result of the current exchange: the statement that is prepared, or null for a query.
    std::vector<PgStatement*> sent_;
    /// The first failure of the current exchange.
    std::optional<SqlFailure> failure_;
    bool in_exchange_ = false;
    bool is_pooled_ = false;
};

// pg_type.dat
constexpr Oid type_bytea = 17;
constexpr Oid type_int8 = 20;
constexpr Oid type_text = 25;
constexpr Oid type_float8 = 701;
constexpr Oid type_text_array = 1009;
constexpr Oid type_jsonb = 3802;

void append_big_endian(std::string& out, std::uint64_t value, int bytes) {
    for (int shift = (bytes - 1) * 8; shift >= 0; shift -= 8)
        out += static_cast<char>((value >> static_cast<unsigned>(shift)) & 0xFFU);
}

std::uint64_t read_big_endian(std::string_view bytes) noexcept {
    std::uint64_t value = 0;
    for (const char c : bytes) value = value << 8U | static_cast<unsigned char>(c);
    return value;
}

std::string array_of(const std::vector<std::string>& values) {
    std::string bytes;
    append_big_endian(bytes, values.empty() ? 0 : 1, 4);  // dimensions
    append_big_endian(bytes, 0, 4);                       // no NULLs
    append_big_endian(bytes, type_text, 4);
    if (!values.empty()) {
        append_big_endian(bytes, values.size(), 4);
        append_big_endian(bytes, 1, 4);  // first index
    }
    for (const std::string& value : values) {
        append_big_endian(bytes, value.size(), 4);
        bytes += value;
    }
    return bytes;
}

Oid type_of(const SqlValue& value) noexcept {
    switch (value.type) {
        case SqlValue::Type::text: break;
        case SqlValue::Type::bytes: return type_bytea;
        case SqlValue::Type::integer: return type_int8;
        case SqlValue::Type::number: return type_float8;
        case SqlValue::Type::json: return type_jsonb;
        case SqlValue::Type::texts: return type_text_array;
    }
    return type_text;
}

/// The parameters of a query in the binary format, jsonb as text. Texts are not copied.
class Parameters {
public:
    explicit Parameters(const SqlQuery& query) {
        const std::vector<SqlValue>& given = query.values();
        encoded_.resize(given.size());
        for (std::size_t i = 0; i < given.size(); ++i) {
            const std::string& bytes = bytes_of(given[i], encoded_[i]);
            values.push_back(given[i].null ? nullptr : bytes.c_str());
            lengths.push_back(static_cast<int>(bytes.size()));
            formats.push_back(given[i].type == SqlValue::Type::json ? 0 : 1);
        }
    }

    int count() const noexcept { return static_cast<int>(values.size()); }

    std::vector<const char*> values;
    std::vector<int> lengths;
    std::vector<int> formats;

private:
    static const std::string& bytes_of(const SqlValue& value, std::string& encoded) {
        switch (value.type) {
            case SqlValue::Type::integer:
                append_big_endian(encoded, static_cast<std::uint64_t>(value.integer), 8);
                return encoded;
            case SqlValue::Type::number:
                append_big_endian(encoded, std::bit_cast<std::uint64_t>(value.number), 8);
                return encoded;
            case SqlValue::Type::texts: encoded = array_of(value.texts); return encoded;
            default: return value.text;
        }
    }

    std::vector<std::string> encoded_;  ///< of the parameters that are not texts
};

std::string expand(std::string_view name, std::string_view argument, bool is_pooled) {
    const std::string text(argument);
    if (name == "text") return text + "::text";
    if (name == "epoch") return "extract(epoch FROM " + text + ")::float8";
    if (name == "integer") return text + "::bigint";
    if (name == "exists") return "to_regclass('" + text + "') IS NOT NULL";
    if (name == "now") return "extract(epoch FROM clock_timestamp())::float8";
    if (name == "any") return "= ANY (" + text + "::text[])";
    if (name == "skip") return "ON CONFLICT DO NOTHING";
    if (name == "filled") return text + " <> '{}'::jsonb";
    if (name == "nulls") return "NULLS LAST";
    if (name == "pooled") return is_pooled ? "true" : "false";
    // replace KEYS: COLUMNS
    const std::size_t colon = argument.find(':');
    return "ON CONFLICT (" + text.substr(0, colon) + ") DO UPDATE SET " +
           assignments(argument.substr(colon + 1), "excluded.", "");
}

class PgRows final : public SqlRows {
public:
    explicit PgRows(PGresult* result) noexcept : result_(result) {}

    int rows() const noexcept override { return PQntuples(result_.get()); }
    bool is_null(int row, int column) const noexcept override {
        return PQgetisnull(result_.get(), row, column) == 1;
    }
    std::string_view text(int row, int column) const noexcept override {
        return {PQgetvalue(result_.get(), row, column),
                static_cast<std::size_t>(PQgetlength(result_.get(), row, column))};
    }
    std::int64_t integer(int row, int column) const noexcept override {
        return static_cast<std::int64_t>(read_big_endian(text(row, column)));
    }
    double number(int row, int column) const noexcept override {
        return std::bit_cast<double>(read_big_endian(text(row, column)));
    }

private:
    struct Clear {
        void operator()(PGresult* result) const noexcept { PQclear(result); }
    };
    std::unique_ptr<PGresult, Clear> result_;
};

/// Returns the SQL with its escapes expanded for PostgreSQL.
std::string pg_sql(std::string_view sql, bool is_pooled) {
    return expand_escapes(sql, [is_pooled](std::string_view name, std::string_view argument) {
        return expand(name, argument, is_pooled);
    });
}

/// Takes the result.
SqlResult pg_result(PGresult* result) { return SqlResult(std::make_unique<PgRows>(result)); }

/// Queues a query without parameters on a connection in pipeline mode. Returns false if libpq refuses it.
bool send_plain(PGconn* connection, const std::string& sql) {
    return PQsendQueryParams(connection, sql.c_str(), 0, nullptr, nullptr, nullptr, nullptr, 1) ==
           1;
}

/// Queues a query; by name if its statement is prepared. Texts are sent with their length, so that U+0000 is rejected by the
/// server instead of cutting the text.
bool send_query(PGconn* connection, const PgStatement& statement, const SqlQuery& query) {
    const Parameters parameters(query);
    if (statement.state != PgStatement::State::unprepared) {
        return PQsendQueryPrepared(connection, statement.name.c_str(), parameters.count(),
                                   parameters.values.data(), parameters.lengths.data(),
                                   parameters.formats.data(), 1) == 1;
    }
    return PQsendQueryParams(connection, statement.sql.c_str(), parameters.count(),
                             statement.types.data(), parameters.values.data(),
                             parameters.lengths.data(), parameters.formats.data(), 1) == 1;
}

/// Queues the preparation of a statement.
bool send_prepare(PGconn* connection, const PgStatement& statement) {
    return PQsendPrepare(connection, statement.name.c_str(), statement.sql.c_str(),
                         static_cast<int>(statement.types.size()), statement.types.data()) == 1;
}

/// Returns the types of the parameters.
std::vector<Oid> types_of(const SqlQuery& query) {
    std::vector<Oid> types;
    for (const SqlValue& value : query.values()) types.push_back(type_of(value));
    return types;
}

constexpr int most_losses = 2;

/// FNV-1a: processes of any build must agree on a name.
std::uint64_t hash_of(std::string_view text, std::uint64_t hash = 0xcbf29ce484222325U) {
    for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3U;
    return hash;
}

std::string name_of(const PgStatement& statement, int generation) {
    std::uint64_t hash = hash_of(statement.sql);
    for (const Oid type : statement.types) hash = hash_of(std::to_string(type), hash);
    std::array<char, 16> digits{};
    const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), hash, 16).ptr;
    return "cubepi_" + std::string(digits.data(), end) + "_" + std::to_string(generation);
}

/// Returns the first line of libpq's message.
std::string one_line(const char* text) {
    std::string line = text ? text : "";
    for (std::size_t i = 0; i < line.size(); ++i) {
        if (line[i] == '\n') line[i] = ' ';
    }
    line.erase(line.find_last_not_of(' ') + 1);
    return line;
}

/// In verbose messages of a failed connection the server's code follows the severity: "FATAL:  28P01: password ...".
std::string take_sqlstate(std::string& text) {
    for (std::size_t at = text.find(":  "); at != std::string::npos;
         at = text.find(":  ", at + 1)) {
        const std::string code = text.substr(at + 3, 5);
        const bool is_code =
            code.size() == 5 && text.compare(at + 8, 2, ": ") == 0 &&
            code.find_first_not_of("0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ") == std::string::npos;
        if (!is_code) continue;
        text.erase(at + 3, 7);
        return code;
    }
    return {};
}

/// Notices ("relation exists, skipping") would be printed to standard error.
void discard_notice(void*, const PGresult*) {}

void pass_rows(const SqlResult& rows, SqlRowSink& sink) {
    const int count = rows.rows();
    for (int row = 0; row < count; ++row) sink.receive(rows, row);
}

std::string field(const PGresult* result, int code) {
    const char* text = PQresultErrorField(result, code);
    return text ? text : "";
}

}  // namespace

PgStatement& PgStatements::find(const SqlQuery& query, bool is_pooled) {
    const auto [at, is_new] = statements_.try_emplace(query.sql());
    PgStatement& statement = at->second;
    if (is_new) {
        statement.sql = pg_sql(query.sql(), is_pooled);
        statement.types = types_of(query);
        statement.name = name_of(statement, generation_);
    }
    return statement;
}

bool PgStatements::must_prepare(PgStatement& statement) const noexcept {
    if (!prepares_ || statement.state != PgStatement::State::unprepared) return false;
    const bool was_used = statement.was_used;
    statement.was_used = true;
    return was_used;
}

void PgStatements::forget() {
    // The server may still have the statements under their former names.
    ++generation_;
    for (auto& [sql, statement] : statements_) {
        statement.state = PgStatement::State::unprepared;
        statement.name = name_of(statement, generation_);
    }
}

void PgStatements::forget_lost() {
    if (++losses_ >= most_losses) prepares_ = false;
    forget();
}

PgConnection::~PgConnection() {
    if (connection_) PQfinish(connection_);
}

Task<> PgConnection::wait_for_socket(bool for_write, bool cancellable) {
    const int socket = PQsocket(connection_);
    if (socket < 0) {
        if (connecting_) fail_connecting();
        fail_lost();
    }
    return wait(socket, for_write, cancellable);
}

Task<> PgConnection::connect(SqlAddresses addresses) {
    const std::map<std::string, std::string> parameters = parameters_.with_addresses(addresses);
    std::vector<const char*> keys;
    std::vector<const char*> values;
    for (const auto& [key, value] : parameters) {
        keys.push_back(key.c_str());
        values.push_back(value.c_str());
    }
    keys.push_back(nullptr);
    values.push_back(nullptr);
    connection_ = PQconnectStartParams(keys.data(), values.data(), 0);
    if (!connection_ || PQstatus(connection_) == CONNECTION_BAD) fail_connecting();
    PQsetNoticeReceiver(connection_, discard_notice, nullptr);
    PQsetErrorVerbosity(connection_, PQERRORS_VERBOSE);
    PostgresPollingStatusType next = PGRES_POLLING_WRITING;
    while (next != PGRES_POLLING_OK) {
        if (next == PGRES_POLLING_FAILED) fail_connecting();
        // For reading only, a socket that can be written would be ready at once.
        co_await wait_for_socket(next == PGRES_POLLING_WRITING, true);
        next = PQconnectPoll(connection_);
    }
    connecting_ = false;
    PQsetErrorVerbosity(connection_, PQERRORS_DEFAULT);
    if (PQsetnonblocking(connection_, 1) != 0 || PQenterPipelineMode(connection_) != 1) fail_lost();
    co_await find_pooler();
}

Task<> PgConnection::find_pooler() {
    SqlBatch batch;
    batch.add("SELECT pg_backend_pid()::bigint");
    const SqlResults results = co_await run(std::move(batch), true);
    // A pooler states a number of its own, by which it recognizes requests to cancel.
    is_pooled_ = results[0].integer(0, 0) != PQbackendPID(connection_);
    if (is_pooled_) statements_.stop();
}

void PgConnection::send(const SqlQuery& query) {
    // BEGIN and COMMIT would not become faster.
    if (query.values().empty()) {
        if (!send_plain(connection_, pg_sql(query.sql(), is_pooled_))) fail_lost();
        sent_.push_back(nullptr);
        return;
    }
    PgStatement& statement = statements_.find(query, is_pooled_);
    if (statements_.must_prepare(statement)) {
        if (!send_prepare(connection_, statement)) fail_lost();
        statement.state = PgStatement::State::requested;
        sent_.push_back(&statement);
    }
    if (!send_query(connection_, statement, query)) fail_lost();
    sent_.push_back(nullptr);
}

void PgConnection::send(const SqlBatch& batch) {
    sent_.clear();
    for (const SqlQuery& query : batch.queries()) send(query);
    if (PQpipelineSync(connection_) != 1) fail_lost();
}

Task<> PgConnection::wait_for_result(bool cancellable) {
    while (PQisBusy(connection_) == 1) {
        const int unsent = PQflush(connection_);
        if (unsent < 0) fail_lost();
        co_await wait_for_socket(unsent == 1, cancellable);
        if (PQconsumeInput(connection_) != 1) fail_lost();
    }
}

SqlFailure PgConnection::failure_of(const PGresult* result) {
    std::string code = field(result, PG_DIAG_SQLSTATE);
    SqlCondition condition = condition_of(code);
    if (code == "26000" || code == "42P05") {
        // A statement does not exist, or exists already.
        statements_.forget_lost();
    } else if (field(result, PG_DIAG_SOURCE_FUNCTION) == "RevalidateCachedQuery") {
        // "cached plan must not change result type": a table was altered.
        statements_.forget();
        condition = SqlCondition::conflict;
    }
    return SqlFailure(SqlFailureKind::server, field(result, PG_DIAG_MESSAGE_PRIMARY),
                      std::move(code), condition);
}

Task<SqlResults> PgConnection::run(SqlBatch batch, bool cancellable) {
    in_exchange_ = true;
    failure_.reset();
    batch.start_sinks();
    send(batch);
    SqlResults results;
    for (std::size_t at = 0;;) {
        co_await wait_for_result(cancellable);
        PGresult* const raw = PQgetResult(connection_);
        if (!raw) {
            // The end of a statement's results.
            if (PQstatus(connection_) == CONNECTION_BAD) fail_lost();
            continue;
        }
        SqlResult result = pg_result(raw);
        const ExecStatusType status = PQresultStatus(raw);
        if (status == PGRES_PIPELINE_SYNC) break;
        if (PQstatus(connection_) == CONNECTION_BAD) fail_lost();
        PgStatement* const prepared = at < sent_.size() ? sent_[at++] : nullptr;
        if (prepared) {
            prepared->state = status == PGRES_COMMAND_OK ? PgStatement::State::prepared
                                                         : PgStatement::State::unprepared;
        }
        if (status == PGRES_FATAL_ERROR && !failure_) failure_.emplace(failure_of(raw));
        if (prepared) continue;
        if (SqlRowSink* const sink = batch.sink_after(results.size()))
            pass_rows(std::exchange(result, SqlResult()), *sink);
        results.push_back(std::move(result));
    }
    in_exchange_ = false;
    if (failure_) throw SqlFailure(*failure_);
    co_return results;
}

bool PgConnection::is_idle() const noexcept {
    return connection_ && !connecting_ && !in_exchange_ && !is_late() &&
           PQstatus(connection_) == CONNECTION_OK &&
           PQtransactionStatus(connection_) == PQTRANS_IDLE;
}

bool PgConnection::is_open() noexcept {
    // Reads what has arrived: nothing, a parameter, or the end of the connection.
    return PQconsumeInput(connection_) == 1 && PQstatus(connection_) == CONNECTION_OK;
}

std::function<void()> PgConnection::canceller() const {
    if (!connection_) return {};
    const std::shared_ptr<PGcancel> cancel(PQgetCancel(connection_), [](PGcancel* one) {
        if (one) PQfreeCancel(one);
    });
    return [cancel] {
        std::array<char, 256> ignored{};
        if (cancel) (void)PQcancel(cancel.get(), ignored.data(), static_cast<int>(ignored.size()));
    };
}

void PgConnection::fail_lost() {
    // The server has stated why it ends the connection; or a pooler has, which states 08 for refusals that last, too.
    if (failure_ && (failure_->is_starting() || failure_->code().starts_with("08")))
        throw SqlFailure(SqlFailureKind::lost, failure_->what(), failure_->code(),
                         SqlCondition::starting);
    std::string reason = one_line(connection_ ? PQerrorMessage(connection_) : "");
    if (reason.empty()) reason = "the connection was lost";
    throw SqlFailure(SqlFailureKind::lost, reason);
}

void PgConnection::fail_connecting() {
    std::string reason = one_line(connection_ ? PQerrorMessage(connection_) : "out of memory");
    // The place in the server's source code.
    reason.erase(std::min(reason.find("  LOCATION:"), reason.size()));
    reason.erase(std::min(reason.find(" LOCATION:"), reason.size()));
    std::string code = take_sqlstate(reason);
    // A pooler that cannot reach the server has this code too, and others for which no attempt will succeed.
    if (code.starts_with("08")) code.clear();
    throw pg_failure(SqlFailureKind::connect, reason, std::move(code));
}

std::unique_ptr<SqlConnection> pg_connection(const PgParameters& parameters, bool prepare) {
    return std::make_unique<PgConnection>(parameters, prepare);
}

}  // namespace cubepi::detail
