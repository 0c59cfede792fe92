#include <array>
#include <cerrno>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <functional>
#include <limits>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <mysql.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <cubepi/core/offload.hpp>
#include <cubepi/core/outcome.hpp>
#include <cubepi/core/runtime.hpp>
#include <cubepi/core/support/blocked_signals.hpp>
#include <cubepi/sql/mysql/driver.hpp>
#include <cubepi/sql/support/connection.hpp>
#include <cubepi/sql/support/driver.hpp>

namespace cubepi::detail {

namespace {

/// A connection of MariaDB's client library in its non-blocking form.
class MyConnection final : public SqlConnection {
public:
    MyConnection(const MyParameters& parameters, std::shared_ptr<const Runtime> runtime);
    ~MyConnection() override;

    Task<> connect(SqlAddresses addresses) override;
    bool is_idle() const noexcept override;
    bool is_open() noexcept override;
    std::function<void()> canceller() const override;
    void forget() noexcept override { handle_ = nullptr; }

private:
    Task<SqlResults> run(SqlBatch batch, bool cancellable) override;
    Task<> connect_to(std::string address);
    Task<> connect_blocking();
    Task<> send(std::string text, bool cancellable);
    Task<std::optional<SqlFailure>> read_results(const SqlBatch& batch, SqlResults& results,
                                                 bool cancellable);
    /// Reads the next result as a whole. Returns false if it failed.
    Task<bool> read_result(SqlResults& results, bool cancellable);
    /// Passes the rows of the next result to the sink while they arrive. Returns false if it failed.
    Task<bool> pass_rows(SqlRowSink& sink, bool cancellable);
    /// Waits for what the library waits for, and returns what became ready.
    Task<int> wait_for(int wanted, bool cancellable);
    SqlFailure failure() const;
    void close() noexcept;

    const MyParameters& parameters_;
    std::shared_ptr<const Runtime> runtime_;
    MYSQL* handle_ = nullptr;
    std::string address_;
    bool in_exchange_ = false;
};

/// Frees a result without waiting for rows that were not fetched: the connection must be closed then.
struct MyResultFree {
    void operator()(MYSQL_RES* result) const noexcept;
};
using MyResultPtr = std::unique_ptr<MYSQL_RES, MyResultFree>;

std::string expand(std::string_view name, std::string_view argument) {
    std::string text(argument);
    if (name == "text" || name == "integer") return text;
    if (name == "exists") {
        return "(SELECT count(*) FROM information_schema.tables WHERE table_schema = DATABASE()"
               " AND table_name = '" +
               text + "')";
    }
    if (name == "epoch") return "UNIX_TIMESTAMP(" + text + ")";
    if (name == "now") return "UNIX_TIMESTAMP(NOW(6))";
    if (name == "any") return "IN (" + text + ")";
    if (name == "skip") return "ON DUPLICATE KEY UPDATE thread_id = VALUES(thread_id)";
    if (name == "filled") return "JSON_LENGTH(" + text + ") > 0";
    if (name == "nulls") return {};  // the default of a descending order
    // replace KEYS: COLUMNS
    return "ON DUPLICATE KEY UPDATE " +
           assignments(argument.substr(argument.find(':') + 1), "VALUES(", ")");
}

std::string quoted(MYSQL* connection, const std::string& text) {
    std::string out(text.size() * 2 + 3, '\0');
    out[0] = '\'';
    const unsigned long size =
        mysql_real_escape_string(connection, out.data() + 1, text.data(), text.size());
    out[size + 1] = '\'';
    out.resize(size + 2);
    return out;
}

/// JSON and SQL have neither infinity nor NaN; a request without a timeout is at infinity.
std::string number_literal(double value) {
    if (std::isnan(value)) value = 0;
    if (std::isinf(value)) value = std::copysign(std::numeric_limits<double>::max(), value);
    std::array<char, 64> buffer{};
    const auto end = std::to_chars(buffer.data(), buffer.data() + buffer.size(), value,
                                   std::chars_format::scientific)
                         .ptr;
    return {buffer.data(), end};
}

std::string literal(MYSQL* connection, const SqlValue& value) {
    if (value.null) return "NULL";
    switch (value.type) {
        case SqlValue::Type::integer: return std::to_string(value.integer);
        case SqlValue::Type::number: return number_literal(value.number);
        case SqlValue::Type::bytes: return "_binary" + quoted(connection, value.text);
        case SqlValue::Type::texts: break;
        default: return quoted(connection, value.text);
    }
    std::string list;
    for (const std::string& one : value.texts) {
        if (!list.empty()) list += ", ";
        list += quoted(connection, one);
    }
    return list.empty() ? "NULL" : list;
}

template <class T>
T number_of(std::string_view text) noexcept {
    T value = 0;
    (void)std::from_chars(text.data(), text.data() + text.size(), value);
    return value;
}

/// The rows of a result that was read as a whole.
class MyRows final : public SqlRows {
public:
    explicit MyRows(MYSQL_RES* result) : result_(result), columns_(mysql_num_fields(result)) {
        values_.reserve(mysql_num_rows(result) * columns_);
        while (const MYSQL_ROW row = mysql_fetch_row(result)) {
            const unsigned long* const lengths = mysql_fetch_lengths(result);
            for (std::size_t i = 0; i < columns_; ++i)
                values_.emplace_back(row[i], row[i] ? lengths[i] : 0);
            ++rows_;
        }
    }

    int rows() const noexcept override { return rows_; }
    bool is_null(int row, int column) const noexcept override { return !at(row, column).data(); }
    std::string_view text(int row, int column) const noexcept override { return at(row, column); }
    std::int64_t integer(int row, int column) const noexcept override {
        return number_of<std::int64_t>(at(row, column));
    }
    double number(int row, int column) const noexcept override {
        return number_of<double>(at(row, column));
    }

private:
    std::string_view at(int row, int column) const noexcept {
        return values_[static_cast<std::size_t>(row) * columns_ + static_cast<std::size_t>(column)];
    }

    MyResultPtr result_;
    std::size_t columns_;
    int rows_ = 0;
    std::vector<std::string_view> values_;  ///< in the result; NULL has no data
};

/// The current row of a result whose rows are fetched one by one.
class MyCurrentRow final : public SqlRows {
public:
    MyCurrentRow(MYSQL_RES& result, const MYSQL_ROW& row) : result_(result), row_(row) {}

    int rows() const noexcept override { return 1; }
    bool is_null(int /*row*/, int column) const noexcept override { return !row_[column]; }
    std::string_view text(int row, int column) const noexcept override {
        if (is_null(row, column)) return {};
        return {row_[column], mysql_fetch_lengths(&result_)[column]};
    }
    std::int64_t integer(int row, int column) const noexcept override {
        return number_of<std::int64_t>(text(row, column));
    }
    double number(int row, int column) const noexcept override {
        return number_of<double>(text(row, column));
    }

private:
    MYSQL_RES& result_;
    const MYSQL_ROW& row_;
};

/// Returns the SQL with its parameters as literals, quoted for a session whose sql_mode is that of SqlDriver::migration_session().
std::string my_sql(MYSQL* connection, const SqlQuery& query) {
    const std::string sql = expand_escapes(query.sql(), expand);
    std::string text;
    for (std::size_t i = 0; i < sql.size(); ++i) {
        if (sql[i] != '$' || i + 1 == sql.size() || sql[i + 1] < '1' || sql[i + 1] > '9') {
            text += sql[i];
            continue;
        }
        const auto number = static_cast<std::size_t>(sql[++i] - '1');
        text += literal(connection, query.values().at(number));
    }
    return text;
}

void MyResultFree::operator()(MYSQL_RES* result) const noexcept {
    // Otherwise the library would read the rows that were not fetched, which blocks.
    result->handle = nullptr;
    mysql_free_result(result);
}

/// Returns the row that was fetched last, as a result of one row. Refers to both arguments.
SqlResult my_current_row(MYSQL_RES& result, const MYSQL_ROW& row) {
    return SqlResult(std::make_unique<MyCurrentRow>(result, row));
}

/// Takes the rows of a result; null for a statement without rows.
SqlResult my_result(MYSQL_RES* result) {
    return result ? SqlResult(std::make_unique<MyRows>(result)) : SqlResult();
}

// A packet must be smaller than max_allowed_packet of the server, which is at least 16 MiB by default; a batch is sent in
// several packets if it is larger than this.
constexpr std::size_t packet_size = 1U << 20U;

void set_tls(MYSQL* handle, const MyParameters& parameters) {
    if (parameters.tls == MyTls::disabled) return;
    const my_bool yes = 1;
    const my_bool verify = parameters.tls == MyTls::verify_identity ? 1 : 0;
    if (parameters.tls >= MyTls::required) mysql_optionsv(handle, MYSQL_OPT_SSL_ENFORCE, &yes);
    const auto text = [](const std::string& value) {
        return value.empty() ? nullptr : value.c_str();
    };
    mysql_ssl_set(handle, text(parameters.key), text(parameters.certificate), text(parameters.ca),
                  nullptr, nullptr);
    mysql_optionsv(handle, MYSQL_OPT_SSL_VERIFY_SERVER_CERT, &verify);
}

MYSQL* new_handle(const MyParameters& parameters) {
    static std::once_flag once;
    std::call_once(once, [] { mysql_server_init(0, nullptr, nullptr); });
    MYSQL* const handle = mysql_init(nullptr);
    if (!handle) throw std::bad_alloc();
    const unsigned long packet = 1UL << 30U;
    mysql_optionsv(handle, MYSQL_OPT_MAX_ALLOWED_PACKET, &packet);
    mysql_optionsv(handle, MYSQL_SET_CHARSET_NAME, "utf8mb4");
    set_tls(handle, parameters);
    return handle;
}

/// Sets how long a host that does not answer is waited for, as for PostgreSQL (host_limits, D298): not for the two hours of the kernel.
void limit_silence(MYSQL* handle) {
    const my_socket socket = mysql_get_socket(handle);
    if (socket == MARIADB_INVALID_SOCKET) return;
    const auto set = [socket](int level, int option, int value) {
        // A Unix socket has none of them.
        (void)setsockopt(socket, level, option, &value, sizeof value);
    };
    set(SOL_SOCKET, SO_KEEPALIVE, 1);
    set(IPPROTO_TCP, TCP_KEEPIDLE, 5);
    set(IPPROTO_TCP, TCP_KEEPINTVL, 5);
    set(IPPROTO_TCP, TCP_USER_TIMEOUT, 10'000);
}

struct Close {
    void operator()(MYSQL* handle) const noexcept { mysql_close(handle); }
};

/// The arguments that all functions for connecting have.
struct Target {
    Target(const MyParameters& parameters, const std::string& host_or_address)
        : host(parameters.socket.empty() ? host_or_address.c_str() : nullptr),
          user(parameters.user.c_str()),
          password(parameters.password.c_str()),
          database(parameters.database.c_str()),
          port(parameters.port),
          socket(parameters.socket.empty() ? nullptr : parameters.socket.c_str()) {}
    const char* host;
    const char* user;
    const char* password;
    const char* database;
    unsigned port;
    const char* socket;
};

constexpr unsigned long client_flags = CLIENT_MULTI_STATEMENTS | CLIENT_FOUND_ROWS;

void connect_now(MYSQL* handle, const MyParameters& parameters, const std::string& host) {
    const NoSigpipe guard;
    const Target to(parameters, host);
    (void)mysql_real_connect(handle, to.host, to.user, to.password, to.database, to.port, to.socket,
                             client_flags);
}

std::string reason_of(MYSQL* handle) {
    std::string text = mysql_error(handle);
    for (char& c : text) {
        if (c == '\n') c = ' ';
    }
    return text.empty() ? "the connection was lost" : text;
}

/// Ends the statements of a connection, over another one.
void kill_connection(const MyParameters& parameters, const std::string& address,
                     unsigned long thread) {
    MYSQL* const handle = new_handle(parameters);
    const unsigned limit = 5;
    for (const mysql_option option :
         {MYSQL_OPT_CONNECT_TIMEOUT, MYSQL_OPT_READ_TIMEOUT, MYSQL_OPT_WRITE_TIMEOUT})
        mysql_optionsv(handle, option, &limit);
    connect_now(handle, parameters, address);
    const NoSigpipe guard;
    if (mysql_errno(handle) == 0)
        (void)mysql_query(handle, ("KILL CONNECTION " + std::to_string(thread)).c_str());
    mysql_close(handle);
}

}  // namespace

MyConnection::MyConnection(const MyParameters& parameters, std::shared_ptr<const Runtime> runtime)
    : parameters_(parameters), runtime_(std::move(runtime)) {}

MyConnection::~MyConnection() { close(); }

void MyConnection::close() noexcept {
    if (!handle_) return;
    const NoSigpipe guard;
    // The last packet of a connection that is broken or in the middle of a statement must not block.
    if (connecting_ || in_exchange_) {
        const my_socket socket = mysql_get_socket(handle_);
        if (socket != MARIADB_INVALID_SOCKET) (void)shutdown(socket, SHUT_RDWR);
    }
    mysql_close(handle_);
    handle_ = nullptr;
}

SqlFailure MyConnection::failure() const {
    const unsigned error = mysql_errno(handle_);
    const bool is_lost = (error >= 2000 && error < 3000) || error == 1927 || error == 0;
    if (connecting_) return my_failure(SqlFailureKind::connect, reason_of(handle_), error);
    return my_failure(is_lost ? SqlFailureKind::lost : SqlFailureKind::server, reason_of(handle_),
                      is_lost ? 2013 : error);
}

Task<int> MyConnection::wait_for(int wanted, bool cancellable) {
    const my_socket socket = mysql_get_socket(handle_);
    if (socket == MARIADB_INVALID_SOCKET) throw failure();
    co_await wait(socket, (wanted & MYSQL_WAIT_WRITE) != 0, cancellable);
    // The library calls a function of the system again, which reports whether it is ready.
    co_return wanted&(MYSQL_WAIT_READ | MYSQL_WAIT_WRITE);
}

Task<> MyConnection::connect(SqlAddresses addresses) {
    std::vector<std::string> list;
    const auto found = addresses.find(parameters_.host);
    if (found != addresses.end()) {
        list = found->second;
    } else {
        list.push_back(parameters_.host);
    }
    if (parameters_.tls == MyTls::verify_identity && parameters_.has_name()) {
        co_await connect_blocking();
        co_return;
    }
    for (std::size_t i = 0; i < list.size(); ++i) {
        Outcome<> done = co_await outcome_of(connect_to(list[i]));
        if (done.ok()) co_return;
        const SqlFailure* const failed = as_server_failure(done.failure());
        // Only another address may help.
        if (!failed || !failed->code().empty() || is_late() || i + 1 == list.size()) done.rethrow();
    }
}

Task<> MyConnection::connect_to(std::string address) {
    close();
    address_ = std::move(address);
    handle_ = new_handle(parameters_);
    mysql_optionsv(handle_, MYSQL_OPT_NONBLOCK, nullptr);
    const Target to(parameters_, address_);
    MYSQL* connected = nullptr;
    int status = 0;
    {
        const NoSigpipe guard;
        status = mysql_real_connect_start(&connected, handle_, to.host, to.user, to.password,
                                          to.database, to.port, to.socket, client_flags);
        limit_silence(handle_);
    }
    while (status != 0) {
        const int ready = co_await wait_for(status, true);
        const NoSigpipe guard;
        status = mysql_real_connect_cont(&connected, handle_, ready);
    }
    if (!connected) throw failure();
    connecting_ = false;
}

Task<> MyConnection::connect_blocking() {
    // The library verifies the name that it is given, and resolves it with blocking calls.
    address_ = parameters_.host;
    // The call may outlive this object when it is cancelled.
    const auto handle = std::make_shared<std::unique_ptr<MYSQL, Close>>(new_handle(parameters_));
    mysql_optionsv(handle->get(), MYSQL_OPT_NONBLOCK, nullptr);
    const unsigned limit = 10;
    mysql_optionsv(handle->get(), MYSQL_OPT_CONNECT_TIMEOUT, &limit);
    auto call = [handle, parameters = parameters_] {
        MYSQL* const raw = handle->get();
        connect_now(raw, parameters, parameters.host);
        if (mysql_errno(raw) != 0)
            throw my_failure(SqlFailureKind::connect, reason_of(raw), mysql_errno(raw));
        limit_silence(raw);
    };
    co_await offload(*runtime_->resolvers, std::move(call));
    handle_ = handle->release();
    connecting_ = false;
}

Task<> MyConnection::send(std::string text, bool cancellable) {
    int error = 0;
    int status = 0;
    {
        const NoSigpipe guard;
        status = mysql_real_query_start(&error, handle_, text.data(), text.size());
    }
    while (status != 0) {
        const int ready = co_await wait_for(status, cancellable);
        const NoSigpipe guard;
        status = mysql_real_query_cont(&error, handle_, ready);
    }
    if (error != 0) throw failure();
}

Task<bool> MyConnection::read_result(SqlResults& results, bool cancellable) {
    MYSQL_RES* rows = nullptr;
    int status = mysql_store_result_start(&rows, handle_);
    while (status != 0) {
        const int ready = co_await wait_for(status, cancellable);
        status = mysql_store_result_cont(&rows, handle_, ready);
    }
    if (!rows && mysql_errno(handle_) != 0) co_return false;
    results.push_back(my_result(rows));
    co_return true;
}

Task<bool> MyConnection::pass_rows(SqlRowSink& sink, bool cancellable) {
    const MyResultPtr result(mysql_use_result(handle_));
    if (!result) co_return mysql_errno(handle_) == 0;
    MYSQL_ROW row = nullptr;
    const SqlResult current = my_current_row(*result, row);
    for (;;) {
        int status = mysql_fetch_row_start(&row, result.get());
        while (status != 0) {
            const int ready = co_await wait_for(status, cancellable);
            status = mysql_fetch_row_cont(&row, result.get(), ready);
        }
        if (!row) co_return mysql_errno(handle_) == 0;
        sink.receive(current, 0);
    }
}

Task<std::optional<SqlFailure>> MyConnection::read_results(const SqlBatch& batch,
                                                           SqlResults& results, bool cancellable) {
    std::optional<SqlFailure> failed;
    for (;;) {
        bool is_read = false;
        if (SqlRowSink* const sink = batch.sink_after(results.size())) {
            is_read = co_await pass_rows(*sink, cancellable);
            if (is_read) results.emplace_back();
        } else {
            is_read = co_await read_result(results, cancellable);
        }
        if (!is_read) {
            failed.emplace(failure());
            co_return failed;
        }
        if (!mysql_more_results(handle_)) co_return failed;
        int next = 0;
        int status = mysql_next_result_start(&next, handle_);
        while (status != 0) {
            const int ready = co_await wait_for(status, cancellable);
            status = mysql_next_result_cont(&next, handle_, ready);
        }
        if (next > 0) {
            failed.emplace(failure());
            co_return failed;
        }
    }
}

Task<SqlResults> MyConnection::run(SqlBatch batch, bool cancellable) {
    in_exchange_ = true;
    batch.start_sinks();
    SqlResults results;
    std::string text;
    std::optional<SqlFailure> failed;
    const std::vector<SqlQuery>& queries = batch.queries();
    for (std::size_t i = 0; i < queries.size() && !failed; ++i) {
        if (!text.empty()) text += "; ";
        text += my_sql(handle_, queries[i]);
        if (i + 1 < queries.size() && text.size() < packet_size) continue;
        std::string packet = std::exchange(text, {});
        Outcome<> sent = co_await outcome_of(send(std::move(packet), cancellable));
        if (sent.ok()) {
            failed = co_await read_results(batch, results, cancellable);
        } else if (const SqlFailure* one = as_server_failure(sent.failure())) {
            failed.emplace(*one);
        } else {
            sent.rethrow();
        }
    }
    if (!failed || failed->kind() == SqlFailureKind::server) in_exchange_ = false;
    if (failed) throw SqlFailure(*failed);
    co_return results;
}

bool MyConnection::is_idle() const noexcept {
    if (!handle_ || connecting_ || in_exchange_ || is_late()) return false;
    unsigned status = 0;
    return mariadb_get_infov(handle_, MARIADB_CONNECTION_SERVER_STATUS, &status) == 0 &&
           (status & SERVER_STATUS_IN_TRANS) == 0;
}

bool MyConnection::is_open() noexcept {
    // An idle server sends only the reason why it closes the connection.
    char byte = 0;
    const ssize_t count =
        recv(mysql_get_socket(handle_), &byte, 1, MSG_PEEK | MSG_DONTWAIT | MSG_NOSIGNAL);
    return count < 0 && (errno == EAGAIN || errno == EWOULDBLOCK);
}

std::function<void()> MyConnection::canceller() const {
    if (!handle_ || connecting_ || !in_exchange_) return {};
    return [parameters = parameters_, address = address_, thread = mysql_thread_id(handle_)] {
        kill_connection(parameters, address, thread);
    };
}

std::unique_ptr<SqlConnection> my_connection(const MyParameters& parameters,
                                             std::shared_ptr<const Runtime> runtime) {
    return std::make_unique<MyConnection>(parameters, std::move(runtime));
}

}  // namespace cubepi::detail
