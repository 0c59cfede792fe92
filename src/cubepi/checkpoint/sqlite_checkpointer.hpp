#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <cubepi/agent/checkpointer.hpp>
#include <cubepi/checkpoint/stored_threads.hpp>
#include <cubepi/core/clock.hpp>
#include <cubepi/core/log.hpp>

namespace cubepi {

namespace detail {
class SqliteWorker;
}

/// Durability of a commit (PRAGMA synchronous). `full` survives a power failure.
enum class SQLiteSynchronous : std::uint8_t { full, normal, off };

struct SQLiteOptions {
    /// A file, a `file:` URI, or ":memory:". The directory must exist; the file is created if missing.
    std::string path = {};
    /// Never writes to the file, which must exist and have tables of this version.
    bool read_only = false;
    /// Turns write-ahead logging on: readers and the writer do not wait for each other, and `-wal` and `-shm` files
    /// are created next to the database. If false, the mode of the file is left unchanged.
    bool wal = false;
    /// Absent: SQLite's own default (full).
    std::optional<SQLiteSynchronous> synchronous = {};
    /// How long to wait for another process that holds the database, before CheckpointerLockTimeoutError.
    std::chrono::milliseconds busy_timeout{5000};
    /// The maximum size of the file (0: no limit). An append that would exceed it fails with ErrorCode::storage_full.
    std::uint64_t max_bytes = 0;
    /// The time after which a claim expires unless it is renewed (D50).
    std::chrono::seconds lease{60};
    /// The clock that leases go by. Null: the system clock.
    std::shared_ptr<Clock> clock = {};
    /// Receives "store.busy" and "store.failed". Absent: the log of Runtime::standard().
    std::optional<Logger> log = {};
};

/// Counters of a store since its construction.
struct SQLiteStats {
    std::uint64_t writes = 0;   ///< calls that changed something
    std::uint64_t commits = 0;  ///< their transactions: concurrent calls share one
};

/// Threads in one SQLite file, in the tables of Python CubePi 0.13 to CubeLoop 0.15: files can be exchanged in both
/// directions (D21).
///
/// The constructor does no I/O. The file is opened, created and migrated at the first call, or by open(), on a thread that
/// the store owns; no other thread uses the database (D48). Calls may come from any thread and several executors;
/// writes that arrive while one is being committed share the next commit.
///
/// A coroutine that is cancelled while it waits resumes at once; a write that it requested is still made as a whole
/// unless the process ends first. The destructor waits for the requested writes. An executor must outlive the calls
/// made on it. A store cannot be used after fork(): open another one in the child.
///
/// Throws, from every call: CheckpointerLockTimeoutError, CheckpointCorruptionError (with the row), CheckpointerError
/// with ErrorCode::storage, storage_full, storage_corrupt, not_found (the directory), permission_denied or
/// schema_mismatch.
class SQLiteCheckpointer final : public StoredThreads {
public:
    explicit SQLiteCheckpointer(std::string path);
    explicit SQLiteCheckpointer(SQLiteOptions options);
    ~SQLiteCheckpointer() override;
    SQLiteCheckpointer(const SQLiteCheckpointer&) = delete;
    SQLiteCheckpointer& operator=(const SQLiteCheckpointer&) = delete;

    /// Opens the file now, to detect errors early. Optional.
    Task<void> open();
    /// May be called on any thread.
    SQLiteStats stats() const;

private:
    explicit SQLiteCheckpointer(std::shared_ptr<detail::SqliteWorker> worker);

    std::shared_ptr<detail::SqliteWorker> worker_;
};

}  // namespace cubepi
