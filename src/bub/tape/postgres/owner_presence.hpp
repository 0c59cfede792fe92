#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include <cubepi/core/task.hpp>
#include <cubepi/sql/postgres_options.hpp>

namespace cubepi::detail {
class SqlStore;
}

namespace bub::detail {

using cubepi::Task;

/// Shows other processes that an owner of turns is alive: by the advisory lock of a session of the server, which ends with the process.
/// Sessions that a pooler shares have no such locks: then by a row that a thread renews, and that ends 10 s after the process (D257).
/// Thread-safe.
class OwnerPresence : public std::enable_shared_from_this<OwnerPresence> {
public:
    OwnerPresence(const cubepi::PostgresOptions& options, std::int64_t owner);
    ~OwnerPresence();
    OwnerPresence(const OwnerPresence&) = delete;
    OwnerPresence& operator=(const OwnerPresence&) = delete;

    /// Ensures that the server shows it.
    Task<> ensure();

private:
    /// Returns true if the row was renewed a moment ago.
    bool is_fresh() const;
    Task<> beat();
    void renew();

    const std::int64_t owner_;
    const int process_;
    const std::shared_ptr<cubepi::detail::SqlStore> store_;
    mutable std::mutex mutex_;
    std::condition_variable changed_;
    bool stopping_ = false;
    std::chrono::steady_clock::time_point fresh_until_ = {};
    std::thread thread_;
};

/// An SQL condition: the owner in this expression is alive.
std::string is_alive_sql(const std::string& owner);

}  // namespace bub::detail
