#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include <cubepi/core/task.hpp>
#include <cubepi/sql/postgres_options.hpp>

namespace cubepi::detail {
class SqlStore;
}

namespace bub::detail {

using cubepi::Task;

/// Shows other processes that an owner of turns is alive: by the advisory lock of a session of the server, which ends with the process.
/// Behind a pooler, whose sessions have no such locks, by a row that a thread renews, and that ends 10 s after the process (D257).
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
    struct Renewal;

    /// Returns true if the row was renewed a moment ago.
    bool is_fresh() const;
    Task<> beat();
    void renew();

    const std::int64_t owner_;
    const int process_;
    const std::shared_ptr<cubepi::detail::SqlStore> store_;
    std::unique_ptr<Renewal> renewal_;
};

/// An SQL condition: the owner in this expression is alive.
std::string is_alive_sql(const std::string& owner);
/// The same, or its process may only be frozen: its row, which it may renew again, exists for a day.
std::string may_be_alive_sql(const std::string& owner);

}  // namespace bub::detail
