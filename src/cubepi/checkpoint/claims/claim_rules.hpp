#pragma once

#include <string>

#include <cubepi/agent/checkpointer.hpp>

namespace cubepi::detail {

/// A claim with an owner, as a store keeps it.
struct HeldClaim {
    std::string run_id = {};
    ClaimOwner owner = {};
    double lease_until = 0;  ///< Unix seconds
};

/// True when nobody can be writing under the claim any more, or its lease is over (D50).
bool is_abandoned(const HeldClaim& claim, double now);

/// Decides about a claim of another owner on the thread: takes it over into `result`, or throws
/// RunAlreadyClaimedError that names the owner.
void take_over(const std::string& thread_id, const HeldClaim& claim, double now,
               ClaimResult& result);

// What the stores throw, in the same words.
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
