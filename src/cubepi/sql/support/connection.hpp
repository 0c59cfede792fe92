#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <boost/asio/posix/stream_descriptor.hpp>

#include <cubepi/core/clock.hpp>
#include <cubepi/core/task.hpp>

namespace cubepi::detail {

/// A parameter of a statement.
struct SqlValue {
    enum class Type : std::uint8_t { text, integer, number, bytes, json, texts };
    Type type = Type::text;
    bool null = false;
    std::string text = {};  ///< also of bytes and json
    std::int64_t integer = 0;
    double number = 0;
    std::vector<std::string> texts = {};
};

class SqlResult;

/// Receives the rows of a result while they arrive, so that a long result is never in memory as a whole. Its functions must
/// not throw.
class SqlRowSink {
public:
    virtual ~SqlRowSink() = default;
    /// The statement is executed, perhaps another time: discards the rows that were received.
    virtual void start() noexcept = 0;
    virtual void receive(const SqlResult& rows, int row) noexcept = 0;
};

/// A statement with its parameters, in the order of $1, $2, ... Where the servers differ, the SQL has an escape in braces,
/// which the driver of the server expands:
///
///     {text COLUMN}            the text of a JSON column
///     {epoch COLUMN}           a time in Unix seconds
///     {integer EXPRESSION}     an integer of 64 bits
///     {exists TABLE}           "there is such a table"
///     {now}                    the time of the server's clock, in Unix seconds
///     {any $N}                 "is one of the texts"
///     {skip}                   at the end of an INSERT: nothing is inserted if the key exists
///     {replace KEYS: COLUMNS}  at the end of an INSERT: the columns are replaced if the key exists
///     {filled COLUMN}          a JSON object that is not empty
///     {nulls last}             after a descending order
///     {pooled}                 true if SqlConnection::shares_sessions(), false otherwise (PostgreSQL only)
class SqlQuery {
public:
    explicit SqlQuery(std::string sql) : sql_(std::move(sql)) {}

    SqlQuery& text(std::string_view value);
    /// NULL if the text is empty.
    SqlQuery& text_or_null(std::string_view value);
    SqlQuery& integer(std::int64_t value);
    SqlQuery& number(double value);
    SqlQuery& bytes(std::string_view value);
    /// The text of a JSON value.
    SqlQuery& json(std::string_view value);
    /// A list of texts, for {any}.
    SqlQuery& texts(std::vector<std::string> values);

    /// The result of the statement will be empty: the sink receives its rows.
    SqlQuery& rows_to(std::shared_ptr<SqlRowSink> sink);

    const std::string& sql() const noexcept { return sql_; }
    const std::vector<SqlValue>& values() const noexcept { return values_; }
    /// Null if the result has the rows.
    SqlRowSink* sink() const noexcept { return sink_.get(); }

private:
    SqlQuery& add(SqlValue::Type type, std::string_view text);

    std::string sql_;
    std::vector<SqlValue> values_;
    std::shared_ptr<SqlRowSink> sink_;
};

/// Expands the escapes of a statement. `expand(name, argument)` returns the SQL of one.
std::string expand_escapes(
    std::string_view sql,
    const std::function<std::string(std::string_view name, std::string_view argument)>& expand);

/// Returns "a = PREFIXaSUFFIX, b = ..." for the columns of {replace}.
std::string assignments(std::string_view columns, std::string_view prefix, std::string_view suffix);

/// Statements that are sent together: one round trip.
class SqlBatch {
public:
    /// The reference is valid until the next call.
    SqlQuery& add(std::string sql) { return queries_.emplace_back(std::move(sql)); }
    void add(SqlQuery query) { queries_.push_back(std::move(query)); }
    void add_all(SqlBatch other) {
        for (SqlQuery& query : other.queries_) queries_.push_back(std::move(query));
    }
    bool empty() const noexcept { return queries_.empty(); }
    std::size_t size() const noexcept { return queries_.size(); }
    const std::vector<SqlQuery>& queries() const noexcept { return queries_; }
    /// Returns the sink of the statement whose result comes next, after `results` others; null if it has none.
    SqlRowSink* sink_after(std::size_t results) const noexcept {
        return results < queries_.size() ? queries_[results].sink() : nullptr;
    }
    /// Starts all sinks.
    void start_sinks() const noexcept;

private:
    std::vector<SqlQuery> queries_;
};

/// The rows of a result, in the representation of a client library.
class SqlRows {
public:
    virtual ~SqlRows() = default;
    virtual int rows() const noexcept = 0;
    virtual bool is_null(int row, int column) const noexcept = 0;
    virtual std::string_view text(int row, int column) const noexcept = 0;
    virtual std::int64_t integer(int row, int column) const noexcept = 0;
    virtual double number(int row, int column) const noexcept = 0;
};

/// The result of a statement. Columns must have the type of the function that reads them: text, bigint, double precision,
/// boolean, bytes.
class SqlResult {
public:
    SqlResult() noexcept = default;
    explicit SqlResult(std::unique_ptr<SqlRows> rows) noexcept : rows_(std::move(rows)) {}

    int rows() const noexcept { return rows_ ? rows_->rows() : 0; }
    bool is_null(int row, int column) const noexcept { return rows_->is_null(row, column); }
    /// Text or bytes; valid as long as the result. Empty for NULL.
    std::string_view text(int row, int column) const noexcept { return rows_->text(row, column); }
    std::string string(int row, int column) const { return std::string(text(row, column)); }
    std::optional<std::string> optional_string(int row, int column) const;
    /// 0 for NULL.
    std::int64_t integer(int row, int column) const noexcept { return rows_->integer(row, column); }
    double number(int row, int column) const noexcept { return rows_->number(row, column); }
    bool boolean(int row, int column) const noexcept { return integer(row, column) != 0; }

private:
    std::unique_ptr<SqlRows> rows_;
};

/// The results of a batch, in the order of its statements.
using SqlResults = std::vector<SqlResult>;

/// The addresses of the host names of a connection.
using SqlAddresses = std::map<std::string, std::vector<std::string>>;

/// A connection to a server. Between calls it belongs to no executor; SqlUse binds it to that of a call.
///
/// The reactor watches an epoll set with the socket of the client library: the library may replace the socket while it
/// connects, and readiness for reading and for writing is one wait. While only a result is awaited, the reactor watches the
/// socket itself, which takes fewer calls of the system; to be exact, a duplicate, which the library cannot close.
class SqlConnection {
public:
    SqlConnection();
    virtual ~SqlConnection();
    SqlConnection(const SqlConnection&) = delete;
    SqlConnection& operator=(const SqlConnection&) = delete;

    /// Connects. Throws SqlFailure.
    virtual Task<> connect(SqlAddresses addresses) = 0;

    /// Sends the statements and waits for their results. If one fails, the server skips those after it, and SqlFailure is
    /// thrown for it; a transaction must then be rolled back.
    Task<SqlResults> exchange(SqlBatch batch) { return run(std::move(batch), true); }
    /// Does the same, but ignores cancellation: for a COMMIT.
    Task<SqlResults> exchange_to_the_end(SqlBatch batch);

    /// Returns true if a pooler may assign another session of the server to each transaction: settings, locks and prepared
    /// statements of a session have no meaning then.
    virtual bool shares_sessions() const noexcept { return false; }
    /// Returns true if statements that are sent together and do not begin a transaction are one that reads and writes: the server commits it
    /// at their end, or stores nothing if one of them fails.
    virtual bool commits_batches() const noexcept { return false; }
    /// Returns true if the connection can be used for another transaction.
    virtual bool is_idle() const noexcept = 0;
    /// Returns false if the server has closed an idle connection. Does not block.
    virtual bool is_open() noexcept = 0;
    /// Returns a function that cancels what the server executes; it blocks. Empty if there is nothing to cancel.
    virtual std::function<void()> canceller() const = 0;
    /// Abandons the connection in a process that does not own it: closes no session of the parent.
    virtual void forget() noexcept = 0;

    /// When the connection was last used.
    Clock::time_point used_at = {};

protected:
    virtual Task<SqlResults> run(SqlBatch batch, bool cancellable) = 0;
    /// Waits until the socket can be read, or written too if `for_write`. Throws SqlFailure after the time limit.
    Task<> wait(int socket, bool for_write, bool cancellable);
    bool is_late() const noexcept { return late_; }

    bool connecting_ = true;

private:
    friend class SqlUse;
    void attach(const Executor& executor, Clock& clock, Clock::time_point deadline,
                std::chrono::milliseconds limit);
    void detach() noexcept;
    using Descriptor = boost::asio::posix::stream_descriptor;
    void watch(int socket, bool for_write);
    /// Returns the descriptor to wait for.
    Descriptor& watched(int socket, bool for_write);
    void cancel_wait() noexcept;
    [[noreturn]] void fail_late() const;

    int set_ = -1;        ///< the epoll set
    int socket_ = -1;     ///< of the library
    int duplicate_ = -1;  ///< of socket_
    Executor executor_;
    // They do not own what they refer to.
    std::optional<Descriptor> set_descriptor_;
    std::optional<Descriptor> socket_descriptor_;  ///< of the duplicate
    std::unique_ptr<ClockTimer> timer_;
    std::chrono::milliseconds limit_{0};
    bool late_ = false;
};

/// Binds a connection to the executor and the deadline of a call.
class SqlUse {
public:
    SqlUse(SqlConnection& connection, const Executor& executor, Clock& clock,
           std::chrono::milliseconds limit)
        : connection_(connection) {
        connection_.attach(executor, clock, deadline_after(clock.now(), limit), limit);
    }
    ~SqlUse() { connection_.detach(); }
    SqlUse(const SqlUse&) = delete;
    SqlUse& operator=(const SqlUse&) = delete;

private:
    SqlConnection& connection_;
};

}  // namespace cubepi::detail
