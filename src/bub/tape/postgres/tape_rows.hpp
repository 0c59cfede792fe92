#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <bub/tape/tape_store.hpp>
#include <cubepi/checkpoint/server/connection.hpp>

// Rows of the tables of tapes, and the statements that read and write them.

namespace bub::detail {

using cubepi::detail::SqlBatch;
using cubepi::detail::SqlResult;

/// A row of bub_tapes.
struct TapeRow {
    bool exists = false;
    TapePosition end = {};
    TapeInfo info = {};
    JsonObject state = {};
    std::int64_t bytes = 0;  ///< of the entries as lines
};

/// Selects the row of a tape.
void select_tape(SqlBatch& batch, const std::string& tape);
/// Throws CheckpointCorruptionError for JSON that cannot be read.
TapeRow read_tape_row(const std::string& tape, const SqlResult& result);

/// Reads the column `state`. Throws as above.
JsonObject read_state_of(const std::string& tape, std::string_view text);

void write_state(SqlBatch& batch, const std::string& tape, const JsonObject& state);
/// Adds the statements of an append to a tape that is locked, and changes `row` accordingly. Returns the new end of the tape. Throws what
/// prepare_append() throws.
TapePosition write_append(SqlBatch& batch, const std::string& tape, TapeRow& row,
                          std::vector<TapeEntry> entries, const TapeAppend& options,
                          std::chrono::system_clock::time_point now);

/// Reads the lines of the first column. Leaves out lines that cannot be read as entries, as a file does.
std::vector<TapeEntry> read_entries(const SqlResult& result);

/// The value by which a name or an id is found.
std::string key_of(std::string_view name);

/// The ids that a slice selects: those between `low` and `high`, without them.
struct IdRange {
    std::int64_t low = 0;
    std::int64_t high = 0;
};

/// Selects the bounds of the query's slice.
void select_bounds(SqlBatch& batch, const std::string& tape, const TapeQuery& query);
/// Throws Error(not_found) if an anchor of the slice is missing.
IdRange read_bounds(const SqlResult& result, const TapeQuery& query);

/// Selects at most `limit` entries of a range, of the kinds of the query, in its order.
void select_page(SqlBatch& batch, const std::string& tape, const IdRange& range,
                 const TapeQuery& query, std::int64_t limit);

}  // namespace bub::detail
