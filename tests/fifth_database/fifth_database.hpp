// A fifth database, as an exercise: what a driver and a schema of one more server consist of (docs/guides/checkpointing/custom.md).
//
// Its engine is SQLite behind the interface of a server: each connection is a session with a thread of its own, statements arrive in
// batches, and a session can be lost at any statement. So the exercise is the driver's interface and the words of a schema, not a
// parser of SQL.
#pragma once

#include <atomic>
#include <memory>
#include <string>

#include <cubepi/checkpoint/server_checkpointer.hpp>
#include <cubepi/sql/options.hpp>
#include <cubepi/sql/support/driver.hpp>

namespace cubepi::fifth {

/// When a session is lost. Thread-safe.
struct Fault {
    std::atomic<int> at = 0;  ///< the number of the statement, counted from 1; 0: never
    std::atomic<bool> answered =
        true;                         ///< false: the statement is executed, and its answer is lost
    std::atomic<int> statements = 0;  ///< executed so far
};

/// Threads in a database of this kind. SqlOptions::connection is the name of its file; one with `vfs=memdb` is in memory.
class FifthCheckpointer final : public SqlCheckpointer {
public:
    explicit FifthCheckpointer(SqlOptions options, std::shared_ptr<Fault> fault = {});
};

/// Creates the tables.
Task<> apply_fifth_schema(SqlOptions options);

/// The driver: connections, words, meaning of errors.
std::shared_ptr<const detail::SqlDriver> fifth_driver(const SqlOptions& options,
                                                      std::shared_ptr<Fault> fault = {});

}  // namespace cubepi::fifth
