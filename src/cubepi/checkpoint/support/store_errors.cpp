#include <cubepi/checkpoint/support/store_errors.hpp>

#include <string>

#include <cubepi/core/error.hpp>

namespace cubepi::detail {

namespace {

std::string quoted(const std::string& text) { return "'" + text + "'"; }

}  // namespace

void StoreName::fail_row(const std::string& thread_id, const std::string& row_ref,
                         std::string_view why, std::string_view remedy) const {
    throw CheckpointCorruptionError(description + ": row " + row_ref + " of thread " +
                                        quoted(thread_id) + " cannot be read: " + std::string(why) +
                                        "; " + std::string(remedy),
                                    thread_id, backend, row_ref, path);
}

void throw_thread_in_use(const std::string& thread_id, const HeldClaim& claim) {
    const std::string& owner =
        claim.owner.description.empty() ? claim.owner.owner_id : claim.owner.description;
    throw RunAlreadyClaimedError("thread " + quoted(thread_id) + " is in use: run " +
                                     quoted(claim.run_id) + " is open in " + owner +
                                     "; wait for it to end, or end that process",
                                 thread_id, claim.run_id, owner);
}

void throw_run_claimed(const std::string& thread_id, const std::string& run_id) {
    throw RunAlreadyClaimedError(ErrorCode::run_already_claimed,
                                 "run " + quoted(run_id) + " of thread " + quoted(thread_id) +
                                     " is open already; take another run id, or continue the run",
                                 thread_id, run_id);
}

void throw_run_completed(const std::string& thread_id, const std::string& run_id) {
    throw RunAlreadyCompletedError(
        ErrorCode::run_already_completed,
        "run " + quoted(run_id) + " of thread " + quoted(thread_id) +
            " is complete and takes no more messages; take another run id",
        thread_id, run_id);
}

void throw_run_not_claimed(const std::string& thread_id, const std::string& run_id) {
    throw RunNotClaimedError(ErrorCode::run_not_claimed,
                             "run " + quoted(run_id) + " of thread " + quoted(thread_id) +
                                 " was never claimed, so it cannot be completed",
                             thread_id, run_id);
}

void throw_run_not_completed(const std::string& thread_id, const std::string& run_id) {
    throw RunNotCompletedError(
        ErrorCode::run_not_completed,
        "run " + quoted(run_id) + " of thread " + quoted(thread_id) +
            " is not complete; a thread can be cut only after a complete run",
        thread_id, run_id);
}

void throw_thread_not_found(const std::string& thread_id) {
    throw ThreadNotFoundError(ErrorCode::thread_not_found,
                              "there is no thread " + quoted(thread_id) + " in this store",
                              thread_id);
}

void throw_thread_exists(const std::string& thread_id) {
    throw ThreadAlreadyExistsError(
        ErrorCode::thread_exists,
        "thread " + quoted(thread_id) + " exists already; fork into a new thread id", thread_id);
}

void throw_stale_append(const std::string& thread_id, std::int64_t expected, std::int64_t found) {
    throw StaleAppendError(ErrorCode::stale_append,
                           "another writer has continued thread " + quoted(thread_id) +
                               " (it is at " + std::to_string(found) + ", expected " +
                               std::to_string(expected) +
                               "); nothing was stored, load the thread again (an agent: reset() "
                               "it, then prompt)",
                           thread_id);
}

void throw_claim_lost(const std::string& thread_id, const std::string& run_id) {
    throw StaleAppendError(ErrorCode::stale_append,
                           "the claim of run " + quoted(run_id) + " on thread " +
                               quoted(thread_id) +
                               " is owned by another process now; nothing was stored, load the "
                               "thread again",
                           thread_id, run_id);
}

}  // namespace cubepi::detail
