#include <cubepi/checkpoint/postgres/statement.hpp>

#include <bit>
#include <cstdint>
#include <memory>
#include <vector>

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

Oid type_of(const ServerValue& value) noexcept {
    switch (value.type) {
        case ServerValue::Type::text: break;
        case ServerValue::Type::bytes: return type_bytea;
        case ServerValue::Type::integer: return type_int8;
        case ServerValue::Type::number: return type_float8;
        case ServerValue::Type::json: return type_jsonb;
        case ServerValue::Type::texts: return type_text_array;
    }
    return type_text;
}

/// The parameters of a query in the binary format, jsonb as text. Texts are not copied.
class Parameters {
public:
    explicit Parameters(const ServerQuery& query) {
        const std::vector<ServerValue>& given = query.values();
        encoded_.resize(given.size());
        for (std::size_t i = 0; i < given.size(); ++i) {
            const std::string& bytes = bytes_of(given[i], encoded_[i]);
            values.push_back(given[i].null ? nullptr : bytes.c_str());
            lengths.push_back(static_cast<int>(bytes.size()));
            formats.push_back(given[i].type == ServerValue::Type::json ? 0 : 1);
        }
    }

    int count() const noexcept { return static_cast<int>(values.size()); }

    std::vector<const char*> values;
    std::vector<int> lengths;
    std::vector<int> formats;

private:
    static const std::string& bytes_of(const ServerValue& value, std::string& encoded) {
        switch (value.type) {
            case ServerValue::Type::integer:
                append_big_endian(encoded, static_cast<std::uint64_t>(value.integer), 8);
                return encoded;
            case ServerValue::Type::number:
                append_big_endian(encoded, std::bit_cast<std::uint64_t>(value.number), 8);
                return encoded;
            case ServerValue::Type::texts: encoded = array_of(value.texts); return encoded;
            default: return value.text;
        }
    }

    std::vector<std::string> encoded_;  ///< of the parameters that are not texts
};

std::string expand(std::string_view name, std::string_view argument) {
    const std::string text(argument);
    if (name == "text") return text + "::text";
    if (name == "epoch") return "extract(epoch FROM " + text + ")::float8";
    if (name == "now") return "extract(epoch FROM clock_timestamp())::float8";
    if (name == "any") return "= ANY (" + text + "::text[])";
    if (name == "skip") return "ON CONFLICT DO NOTHING";
    if (name == "filled") return text + " <> '{}'::jsonb";
    if (name == "nulls") return "NULLS LAST";
    // replace KEYS: COLUMNS
    const std::size_t colon = argument.find(':');
    return "ON CONFLICT (" + text.substr(0, colon) + ") DO UPDATE SET " +
           assignments(argument.substr(colon + 1), "excluded.", "");
}

class PgRows final : public ServerRows {
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

}  // namespace

std::string pg_sql(std::string_view sql) { return expand_escapes(sql, expand); }

ServerResult pg_result(PGresult* result) { return ServerResult(std::make_unique<PgRows>(result)); }

bool send_plain(PGconn* connection, const std::string& sql) {
    return PQsendQueryParams(connection, sql.c_str(), 0, nullptr, nullptr, nullptr, nullptr, 1) ==
           1;
}

bool send_query(PGconn* connection, const PgStatement& statement, const ServerQuery& query) {
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

bool send_prepare(PGconn* connection, const PgStatement& statement) {
    return PQsendPrepare(connection, statement.name.c_str(), statement.sql.c_str(),
                         static_cast<int>(statement.types.size()), statement.types.data()) == 1;
}

std::vector<Oid> types_of(const ServerQuery& query) {
    std::vector<Oid> types;
    for (const ServerValue& value : query.values()) types.push_back(type_of(value));
    return types;
}

}  // namespace cubepi::detail
