#include <cubepi/checkpoint/postgres/connection.hpp>

#include <algorithm>
#include <array>
#include <map>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include <cubepi/checkpoint/postgres/failures.hpp>
#include <cubepi/checkpoint/postgres/statement.hpp>

namespace cubepi::detail {

namespace {

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

void pass_rows(const ServerResult& rows, ServerRowSink& sink) {
    const int count = rows.rows();
    for (int row = 0; row < count; ++row) sink.receive(rows, row);
}

std::string field(const PGresult* result, int code) {
    const char* text = PQresultErrorField(result, code);
    return text ? text : "";
}

}  // namespace

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

Task<> PgConnection::connect(ServerAddresses addresses) {
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
}

void PgConnection::send(const ServerQuery& query) {
    // BEGIN and COMMIT would not become faster.
    if (query.values().empty()) {
        if (!send_plain(connection_, pg_sql(query.sql()))) fail_lost();
        sent_.push_back(nullptr);
        return;
    }
    PgStatement& statement = statements_.find(query);
    if (statements_.must_prepare(statement)) {
        if (!send_prepare(connection_, statement)) fail_lost();
        statement.state = PgStatement::State::requested;
        sent_.push_back(&statement);
    }
    if (!send_query(connection_, statement, query)) fail_lost();
    sent_.push_back(nullptr);
}

void PgConnection::send(const ServerBatch& batch) {
    sent_.clear();
    for (const ServerQuery& query : batch.queries()) send(query);
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

ServerFailure PgConnection::failure_of(const PGresult* result) {
    std::string code = field(result, PG_DIAG_SQLSTATE);
    ServerCondition condition = condition_of(code);
    if (code == "26000" || code == "42P05") {
        // A statement does not exist, or exists already.
        statements_.forget_lost();
    } else if (field(result, PG_DIAG_SOURCE_FUNCTION) == "RevalidateCachedQuery") {
        // "cached plan must not change result type": a table was altered.
        statements_.forget();
        condition = ServerCondition::conflict;
    }
    return ServerFailure(ServerFailureKind::server, field(result, PG_DIAG_MESSAGE_PRIMARY),
                         std::move(code), condition);
}

Task<ServerResults> PgConnection::run(ServerBatch batch, bool cancellable) {
    in_exchange_ = true;
    batch.start_sinks();
    send(batch);
    ServerResults results;
    std::optional<ServerFailure> failure;
    for (std::size_t at = 0;;) {
        co_await wait_for_result(cancellable);
        PGresult* const raw = PQgetResult(connection_);
        if (!raw) {
            // The end of a statement's results.
            if (PQstatus(connection_) == CONNECTION_BAD) fail_lost();
            continue;
        }
        ServerResult result = pg_result(raw);
        const ExecStatusType status = PQresultStatus(raw);
        if (status == PGRES_PIPELINE_SYNC) break;
        if (PQstatus(connection_) == CONNECTION_BAD) fail_lost();
        PgStatement* const prepared = at < sent_.size() ? sent_[at++] : nullptr;
        if (prepared) {
            prepared->state = status == PGRES_COMMAND_OK ? PgStatement::State::prepared
                                                         : PgStatement::State::unprepared;
        }
        if (status == PGRES_FATAL_ERROR && !failure) failure.emplace(failure_of(raw));
        if (prepared) continue;
        if (ServerRowSink* const sink = batch.sink_after(results.size()))
            pass_rows(std::exchange(result, ServerResult()), *sink);
        results.push_back(std::move(result));
    }
    in_exchange_ = false;
    if (failure) throw ServerFailure(*failure);
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
    std::string reason = one_line(connection_ ? PQerrorMessage(connection_) : "");
    if (reason.empty()) reason = "the connection was lost";
    throw ServerFailure(ServerFailureKind::lost, reason);
}

void PgConnection::fail_connecting() {
    std::string reason = one_line(connection_ ? PQerrorMessage(connection_) : "out of memory");
    // The place in the server's source code.
    reason.erase(std::min(reason.find("  LOCATION:"), reason.size()));
    reason.erase(std::min(reason.find(" LOCATION:"), reason.size()));
    std::string code = take_sqlstate(reason);
    throw pg_failure(ServerFailureKind::connect, reason, std::move(code));
}

}  // namespace cubepi::detail
