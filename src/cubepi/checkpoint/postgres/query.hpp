#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <libpq-fe.h>

namespace cubepi::detail {

/// A statement with its parameters, in the order of $1, $2, ... Texts are sent with their length, so that U+0000 is rejected
/// by the server instead of cutting the text.
class PgQuery {
public:
    explicit PgQuery(std::string sql) : sql_(std::move(sql)) {}

    PgQuery& text(std::string_view value);
    /// NULL if the text is empty.
    PgQuery& text_or_null(std::string_view value);
    PgQuery& integer(std::int64_t value);
    PgQuery& number(double value);
    PgQuery& bytes(std::string_view value);
    /// The text of a jsonb value.
    PgQuery& json(std::string_view value);
    /// A text[].
    PgQuery& texts(const std::vector<std::string>& values);

    /// Queues the statement on a connection in pipeline mode. Returns false if libpq refuses it.
    bool send(PGconn* connection) const;

private:
    struct Parameter {
        Oid type = 0;
        bool binary = true;
        bool null = false;
        std::string value = {};
    };
    PgQuery& add(Oid type, std::string_view value);

    std::string sql_;
    std::vector<Parameter> parameters_;
};

/// Statements that are sent together: one round trip.
class PgBatch {
public:
    /// The reference is valid until the next call.
    PgQuery& add(std::string sql) { return queries_.emplace_back(std::move(sql)); }
    void add_all(const PgBatch& other) {
        queries_.insert(queries_.end(), other.queries_.begin(), other.queries_.end());
    }
    bool empty() const noexcept { return queries_.empty(); }
    std::size_t size() const noexcept { return queries_.size(); }
    const std::vector<PgQuery>& queries() const noexcept { return queries_; }

private:
    std::vector<PgQuery> queries_;
};

/// The result of a statement. Columns must have the type of the function that reads them: text, bigint, double precision,
/// boolean, bytea.
class PgResult {
public:
    PgResult() noexcept = default;
    explicit PgResult(PGresult* result) noexcept : result_(result) {}

    int rows() const noexcept { return result_ ? PQntuples(result_.get()) : 0; }
    /// The number of rows that the statement changed.
    std::int64_t changes() const noexcept;
    bool is_null(int row, int column) const noexcept;
    /// Text or bytes; valid as long as the result. Empty for NULL.
    std::string_view text(int row, int column) const noexcept;
    std::string string(int row, int column) const { return std::string(text(row, column)); }
    std::optional<std::string> optional_string(int row, int column) const;
    /// 0 for NULL.
    std::int64_t integer(int row, int column) const noexcept;
    double number(int row, int column) const noexcept;
    bool boolean(int row, int column) const noexcept;

private:
    struct Clear {
        void operator()(PGresult* result) const noexcept { PQclear(result); }
    };
    std::unique_ptr<PGresult, Clear> result_;
};

/// The results of a batch, in the order of its statements.
using PgResults = std::vector<PgResult>;

}  // namespace cubepi::detail
