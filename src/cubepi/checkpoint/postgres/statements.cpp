#include <cubepi/checkpoint/postgres/statements.hpp>

#include <array>
#include <charconv>
#include <string_view>

#include <cubepi/checkpoint/postgres/statement.hpp>

namespace cubepi::detail {

namespace {

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

}  // namespace

PgStatement& PgStatements::find(const ServerQuery& query) {
    const auto [at, is_new] = statements_.try_emplace(query.sql());
    PgStatement& statement = at->second;
    if (is_new) {
        statement.sql = pg_sql(query.sql());
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

}  // namespace cubepi::detail
