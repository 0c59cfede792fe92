#pragma once

#include <cstdint>
#include <exception>
#include <optional>
#include <string>
#include <vector>

#include <cubepi/checkpoint/postgres/driver.hpp>

namespace bub::detail {

/// Connections to the tables of tapes. What a transaction locks is a tape.
class PgTapeDriver final : public cubepi::detail::PgDriver {
public:
    /// `owner`: its sessions show that the owner of turns is alive (PgTapeTurns); 0: they do not.
    explicit PgTapeDriver(const cubepi::PostgresOptions& options, std::int64_t owner = 0);

    cubepi::detail::SqlBatch set_up() const override { return set_up_; }
    void check(const cubepi::detail::SqlResults& results) const override;
    cubepi::detail::SqlRemedy remedy(const cubepi::detail::SqlFailure& failure) const override;
    cubepi::detail::SqlWriteIds write_ids() const override;

private:
    cubepi::detail::SqlBatch set_up_;
};

/// Returns the statements that create the tables.
std::vector<std::string> tape_schema_statements();

/// Throws the error of a call on the server that failed outside of a transaction.
[[noreturn]] void rethrow_translated(const cubepi::detail::SqlDriver& driver,
                                     const std::exception_ptr& failure,
                                     const std::string& tape = {});

/// Throws CheckpointerError(schema_mismatch) if the tables are newer than this library.
void refuse_newer_tapes(const std::string& where, std::optional<int> version);

}  // namespace bub::detail
