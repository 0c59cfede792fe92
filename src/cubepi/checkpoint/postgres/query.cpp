#include <cubepi/checkpoint/postgres/query.hpp>

#include <bit>
#include <charconv>
#include <utility>

namespace cubepi::detail {

namespace {

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

}  // namespace

PgQuery& PgQuery::add(Oid type, std::string_view value) {
    Parameter& parameter = parameters_.emplace_back();
    parameter.type = type;
    parameter.value = value;
    return *this;
}

PgQuery& PgQuery::text(std::string_view value) { return add(type_text, value); }

PgQuery& PgQuery::text_or_null(std::string_view value) {
    add(type_text, value);
    parameters_.back().null = value.empty();
    return *this;
}

PgQuery& PgQuery::integer(std::int64_t value) {
    std::string bytes;
    append_big_endian(bytes, static_cast<std::uint64_t>(value), 8);
    return add(type_int8, bytes);
}

PgQuery& PgQuery::number(double value) {
    std::string bytes;
    append_big_endian(bytes, std::bit_cast<std::uint64_t>(value), 8);
    return add(type_float8, bytes);
}

PgQuery& PgQuery::bytes(std::string_view value) { return add(type_bytea, value); }

PgQuery& PgQuery::json(std::string_view value) {
    add(type_jsonb, value);
    parameters_.back().binary = false;
    return *this;
}

PgQuery& PgQuery::texts(const std::vector<std::string>& values) {
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
    return add(type_text_array, bytes);
}

bool PgQuery::send(PGconn* connection) const {
    std::vector<Oid> types;
    std::vector<const char*> values;
    std::vector<int> lengths;
    std::vector<int> formats;
    for (const Parameter& parameter : parameters_) {
        types.push_back(parameter.type);
        values.push_back(parameter.null ? nullptr : parameter.value.c_str());
        lengths.push_back(static_cast<int>(parameter.value.size()));
        formats.push_back(parameter.binary ? 1 : 0);
    }
    return PQsendQueryParams(connection, sql_.c_str(), static_cast<int>(parameters_.size()),
                             types.data(), values.data(), lengths.data(), formats.data(), 1) == 1;
}

std::int64_t PgResult::changes() const noexcept {
    const std::string_view text = result_ ? PQcmdTuples(result_.get()) : "";
    std::int64_t count = 0;
    (void)std::from_chars(text.data(), text.data() + text.size(), count);
    return count;
}

bool PgResult::is_null(int row, int column) const noexcept {
    return PQgetisnull(result_.get(), row, column) == 1;
}

std::string_view PgResult::text(int row, int column) const noexcept {
    return {PQgetvalue(result_.get(), row, column),
            static_cast<std::size_t>(PQgetlength(result_.get(), row, column))};
}

std::optional<std::string> PgResult::optional_string(int row, int column) const {
    std::optional<std::string> value;
    if (!is_null(row, column)) value = string(row, column);
    return value;
}

std::int64_t PgResult::integer(int row, int column) const noexcept {
    return static_cast<std::int64_t>(read_big_endian(text(row, column)));
}

double PgResult::number(int row, int column) const noexcept {
    return std::bit_cast<double>(read_big_endian(text(row, column)));
}

bool PgResult::boolean(int row, int column) const noexcept {
    return read_big_endian(text(row, column)) != 0;
}

}  // namespace cubepi::detail
