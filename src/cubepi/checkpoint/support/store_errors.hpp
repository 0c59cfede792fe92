#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include <cubepi/checkpoint/claim_rules.hpp>

namespace cubepi::detail {

// The errors of all stores, so that their texts are the same.

/// The name of a database in errors.
struct StoreName {
    std::string description = {};  ///< "SQLite database 'threads.db'"
    std::string backend = {};      ///< "sqlite"
    std::string path = {};         ///< of its file; empty for a server

    /// Throws CheckpointCorruptionError for an unreadable row; `row_ref` is like "messages.id=7".
    [[noreturn]] void fail_row(const std::string& thread_id, const std::string& row_ref,
                               std::string_view why,
                               std::string_view remedy = "repair or delete that row") const;
};

/// Throws RunAlreadyClaimedError, which names the owner of the claim.
[[noreturn]] void throw_thread_in_use(const std::string& thread_id, const HeldClaim& claim);
[[noreturn]] void throw_run_claimed(const std::string& thread_id, const std::string& run_id);
[[noreturn]] void throw_run_completed(const std::string& thread_id, const std::string& run_id);
[[noreturn]] void throw_run_not_claimed(const std::string& thread_id, const std::string& run_id);
[[noreturn]] void throw_run_not_completed(const std::string& thread_id, const std::string& run_id);
[[noreturn]] void throw_thread_not_found(const std::string& thread_id);
[[noreturn]] void throw_thread_exists(const std::string& thread_id);
[[noreturn]] void throw_stale_append(const std::string& thread_id, std::int64_t expected,
                                     std::int64_t found);
[[noreturn]] void throw_claim_lost(const std::string& thread_id, const std::string& run_id);

}  // namespace cubepi::detail
