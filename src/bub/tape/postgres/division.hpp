#pragma once

#include <string>

#include <cubepi/core/error.hpp>
#include <cubepi/sql/support/driver.hpp>

// The division of sessions among databases (DatabaseMap), which each of them records: each new connection of a store checks it.

namespace bub::detail {

/// Selects the record of a database (DatabaseMap::record()); NULL: it has all sessions of its users.
inline void select_division(cubepi::detail::SqlBatch& batch) {
    batch.add("SELECT (SELECT record FROM bub_delivery_division)");
}

/// The same for a database that may have no table of it, because it has tapes only: a statement that names a missing table fails.
inline void select_division_if_any(cubepi::detail::SqlBatch& batch) {
    batch.add(
        "DO $$ BEGIN IF to_regclass('bub_delivery_division') IS NOT NULL THEN PERFORM"
        " set_config('bub.division', (SELECT record FROM bub_delivery_division), true);"
        " ELSE PERFORM set_config('bub.division', '', true); END IF; END $$");
    batch.add("SELECT current_setting('bub.division', true)");
}

/// The beginning of the record of a database whose tapes are being moved: no connection may use any of the databases.
inline constexpr const char* being_divided = "being divided as ";

/// Throws CheckpointerError(schema_mismatch) if the result of select_division() is not the expected record; empty: none. `where` names the
/// database.
inline void check_division(const std::string& where, const std::string& expected,
                           const cubepi::detail::SqlResult& result) {
    const std::string found = result.is_null(0, 0) ? std::string() : result.string(0, 0);
    if (found == expected) return;
    std::string text = where;
    if (found.starts_with(being_divided)) {
        text += " is " + found +
                ", and not all tapes are in their places yet: end the division with these "
                "databases: cubepi db divide --move";
    } else if (expected.empty()) {
        text += " has a part of the sessions only (" + found +
                "): configure all of the databases with the key 'databases'";
    } else if (found.empty()) {
        text +=
            " has no record of the databases among which the sessions are divided: configured "
            "is (" +
            expected + "). Stop all gateways, then record it: cubepi db divide";
    } else {
        text += " is recorded as (" + found + "), but configured as (" + expected +
                "): correct the key 'databases'; or, to divide the sessions differently, stop all "
                "gateways, then: cubepi db divide";
    }
    throw cubepi::CheckpointerError(cubepi::ErrorCode::schema_mismatch, text);
}

}  // namespace bub::detail
