#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace cubepi::detail {

/// A parameter of a statement.
struct ServerValue {
    enum class Type : std::uint8_t { text, integer, number, bytes, json, texts };
    Type type = Type::text;
    bool null = false;
    std::string text = {};  ///< also of bytes and json
    std::int64_t integer = 0;
    double number = 0;
    std::vector<std::string> texts = {};
};

class ServerResult;

/// Receives the rows of a result while they arrive, so that a long result is never in memory as a whole. Its functions must
/// not throw.
class ServerRowSink {
public:
    virtual ~ServerRowSink() = default;
    /// The statement is executed, perhaps another time: discards the rows that were received.
    virtual void start() noexcept = 0;
    virtual void receive(const ServerResult& rows, int row) noexcept = 0;
};

/// A statement with its parameters, in the order of $1, $2, ... Where the servers differ, the SQL has an escape in braces,
/// which the driver of the server expands:
///
///     {text COLUMN}            the text of a JSON column
///     {epoch COLUMN}           a time in Unix seconds
///     {now}                    the time of the server's clock, in Unix seconds
///     {any $N}                 "is one of the texts"
///     {skip}                   at the end of an INSERT: nothing is inserted if the key exists
///     {replace KEYS: COLUMNS}  at the end of an INSERT: the columns are replaced if the key exists
///     {filled COLUMN}          a JSON object that is not empty
///     {nulls last}             after a descending order
class ServerQuery {
public:
    explicit ServerQuery(std::string sql) : sql_(std::move(sql)) {}

    ServerQuery& text(std::string_view value);
    /// NULL if the text is empty.
    ServerQuery& text_or_null(std::string_view value);
    ServerQuery& integer(std::int64_t value);
    ServerQuery& number(double value);
    ServerQuery& bytes(std::string_view value);
    /// The text of a JSON value.
    ServerQuery& json(std::string_view value);
    /// A list of texts, for {any}.
    ServerQuery& texts(std::vector<std::string> values);

    /// The result of the statement will be empty: the sink receives its rows.
    ServerQuery& rows_to(std::shared_ptr<ServerRowSink> sink);

    const std::string& sql() const noexcept { return sql_; }
    const std::vector<ServerValue>& values() const noexcept { return values_; }
    /// Null if the result has the rows.
    ServerRowSink* sink() const noexcept { return sink_.get(); }

private:
    ServerQuery& add(ServerValue::Type type, std::string_view text);

    std::string sql_;
    std::vector<ServerValue> values_;
    std::shared_ptr<ServerRowSink> sink_;
};

/// Expands the escapes of a statement. `expand(name, argument)` returns the SQL of one.
std::string expand_escapes(
    std::string_view sql,
    const std::function<std::string(std::string_view name, std::string_view argument)>& expand);

/// Returns "a = PREFIXaSUFFIX, b = ..." for the columns of {replace}.
std::string assignments(std::string_view columns, std::string_view prefix, std::string_view suffix);

/// Statements that are sent together: one round trip.
class ServerBatch {
public:
    /// The reference is valid until the next call.
    ServerQuery& add(std::string sql) { return queries_.emplace_back(std::move(sql)); }
    void add_all(const ServerBatch& other) {
        queries_.insert(queries_.end(), other.queries_.begin(), other.queries_.end());
    }
    bool empty() const noexcept { return queries_.empty(); }
    std::size_t size() const noexcept { return queries_.size(); }
    const std::vector<ServerQuery>& queries() const noexcept { return queries_; }
    /// Returns the sink of the statement whose result comes next, after `results` others; null if it has none.
    ServerRowSink* sink_after(std::size_t results) const noexcept {
        return results < queries_.size() ? queries_[results].sink() : nullptr;
    }
    /// Starts all sinks.
    void start_sinks() const noexcept;

private:
    std::vector<ServerQuery> queries_;
};

/// The rows of a result, in the representation of a client library.
class ServerRows {
public:
    virtual ~ServerRows() = default;
    virtual int rows() const noexcept = 0;
    virtual bool is_null(int row, int column) const noexcept = 0;
    virtual std::string_view text(int row, int column) const noexcept = 0;
    virtual std::int64_t integer(int row, int column) const noexcept = 0;
    virtual double number(int row, int column) const noexcept = 0;
};

/// The result of a statement. Columns must have the type of the function that reads them: text, bigint, double precision,
/// boolean, bytes.
class ServerResult {
public:
    ServerResult() noexcept = default;
    explicit ServerResult(std::unique_ptr<ServerRows> rows) noexcept : rows_(std::move(rows)) {}

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
    std::unique_ptr<ServerRows> rows_;
};

/// The results of a batch, in the order of its statements.
using ServerResults = std::vector<ServerResult>;

}  // namespace cubepi::detail
