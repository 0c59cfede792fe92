#include <cubepi/checkpoint/mysql/statement.hpp>

#include <array>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <memory>
#include <vector>

namespace cubepi::detail {

namespace {

std::string expand(std::string_view name, std::string_view argument) {
    std::string text(argument);
    if (name == "text") return text;
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

std::string literal(MYSQL* connection, const ServerValue& value) {
    if (value.null) return "NULL";
    switch (value.type) {
        case ServerValue::Type::integer: return std::to_string(value.integer);
        case ServerValue::Type::number: return number_literal(value.number);
        case ServerValue::Type::bytes: return "_binary" + quoted(connection, value.text);
        case ServerValue::Type::texts: break;
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
class MyRows final : public ServerRows {
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
class MyCurrentRow final : public ServerRows {
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

}  // namespace

std::string my_sql(MYSQL* connection, const ServerQuery& query) {
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

ServerResult my_current_row(MYSQL_RES& result, const MYSQL_ROW& row) {
    return ServerResult(std::make_unique<MyCurrentRow>(result, row));
}

ServerResult my_result(MYSQL_RES* result) {
    return result ? ServerResult(std::make_unique<MyRows>(result)) : ServerResult();
}

}  // namespace cubepi::detail
