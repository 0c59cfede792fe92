#include <chrono>
#include <string>
#include <utility>

#include <cubepi/checkpoint/claims/claim_rules.hpp>
#include <cubepi/checkpoint/sqlite/operations.hpp>

namespace cubepi::detail {

namespace {

enum class RunState : std::uint8_t { unknown, open, complete };

RunState state_of(SqliteDatabase& database, const std::string& thread_id,
                  const std::string& run_id) {
    SqliteStatement statement = database.prepare(
        "SELECT completed_at IS NOT NULL FROM runs WHERE thread_id = ? AND run_id = ?");
    if (!statement.bind(thread_id).bind(run_id).step()) return RunState::unknown;
    return statement.integer(0) != 0 ? RunState::complete : RunState::open;
}

std::vector<HeldClaim> claims_of_others(SqliteDatabase& database, const std::string& thread_id,
                                        const std::string& owner_id) {
    SqliteStatement rows = database.prepare(
        "SELECT run_id, owner_id, host, boot_id, pid, process_start, description, lease_until"
        " FROM cubepi_native_claims WHERE thread_id = ? AND owner_id <> ?");
    rows.bind(thread_id).bind(owner_id);
    std::vector<HeldClaim> claims;
    while (rows.step()) {
        HeldClaim claim;
        claim.run_id = rows.text(0);
        claim.owner.owner_id = rows.text(1);
        claim.owner.host = rows.text(2);
        claim.owner.boot_id = rows.text(3);
        claim.owner.pid = rows.integer(4);
        claim.owner.process_start = rows.integer(5);
        claim.owner.description = rows.text(6);
        claim.lease_until = rows.number(7);
        claims.push_back(std::move(claim));
    }
    return claims;
}

double lease_end(const SqliteDatabase& database) {
    return database.now() + std::chrono::duration<double>(database.options().lease).count();
}

void drop_claim(SqliteDatabase& database, const std::string& thread_id, const std::string& run_id) {
    database.prepare("DELETE FROM cubepi_native_claims WHERE thread_id = ? AND run_id = ?")
        .bind(thread_id)
        .bind(run_id)
        .run();
}

void hold_claim(SqliteDatabase& database, const std::string& thread_id, const std::string& run_id,
                const ClaimOwner& owner) {
    database
        .prepare(
            "INSERT OR REPLACE INTO cubepi_native_claims (thread_id, run_id, owner_id, host, "
            "boot_id, pid,"
            " process_start, description, lease_until) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)")
        .bind(thread_id)
        .bind(run_id)
        .bind(owner.owner_id)
        .bind(owner.host)
        .bind(owner.boot_id)
        .bind(owner.pid)
        .bind(owner.process_start)
        .bind(owner.description)
        .bind(lease_end(database))
        .run();
}

}  // namespace

ClaimResult claim_run(SqliteDatabase& database, const std::string& thread_id,
                      const std::string& run_id, const ClaimOwner& owner, ClaimKind kind) {
    const RunState state = state_of(database, thread_id, run_id);
    if (state == RunState::complete) throw_run_completed(thread_id, run_id);
    if (state == RunState::open && kind == ClaimKind::new_run) throw_run_claimed(thread_id, run_id);
    ClaimResult result;
    for (const HeldClaim& claim : claims_of_others(database, thread_id, owner.owner_id)) {
        // CubePi completes a run without knowing of the claim.
        if (state_of(database, thread_id, claim.run_id) == RunState::open) {
            take_over(thread_id, claim, database.now(), result);
        }
        drop_claim(database, thread_id, claim.run_id);
    }
    if (state == RunState::unknown) {
        database.prepare("INSERT INTO runs (thread_id, run_id) VALUES (?, ?)")
            .bind(thread_id)
            .bind(run_id)
            .run();
    }
    if (!owner.owner_id.empty()) hold_claim(database, thread_id, run_id, owner);
    return result;
}

void renew_claim(SqliteDatabase& database, const std::string& thread_id, const std::string& run_id,
                 const std::string& owner_id) {
    database
        .prepare(
            "UPDATE cubepi_native_claims SET lease_until = ?"
            " WHERE thread_id = ? AND run_id = ? AND owner_id = ?")
        .bind(lease_end(database))
        .bind(thread_id)
        .bind(run_id)
        .bind(owner_id)
        .run();
    if (database.changes() == 0) throw_claim_lost(thread_id, run_id);
}

void release_claim(SqliteDatabase& database, const std::string& thread_id,
                   const std::string& run_id, const std::string& owner_id) {
    database
        .prepare(
            "DELETE FROM cubepi_native_claims WHERE thread_id = ? AND run_id = ? AND owner_id = ?")
        .bind(thread_id)
        .bind(run_id)
        .bind(owner_id)
        .run();
}

void require_claim(SqliteDatabase& database, const std::string& thread_id,
                   const std::string& run_id, const std::string& owner_id) {
    SqliteStatement statement = database.prepare(
        "SELECT 1 FROM cubepi_native_claims WHERE thread_id = ? AND run_id = ? AND owner_id = ?");
    if (!statement.bind(thread_id).bind(run_id).bind(owner_id).step())
        throw_claim_lost(thread_id, run_id);
}

void mark_run_complete(SqliteDatabase& database, const std::string& thread_id,
                       const std::string& run_id) {
    switch (state_of(database, thread_id, run_id)) {
        case RunState::unknown: throw_run_not_claimed(thread_id, run_id);
        case RunState::complete: break;
        case RunState::open:
            database
                .prepare(
                    "UPDATE runs SET completed_at = julianday('now'), completion_seq ="
                    " (SELECT coalesce(max(completion_seq), 0) + 1 FROM runs WHERE thread_id = ?1)"
                    " WHERE thread_id = ?1 AND run_id = ?2")
                .bind(thread_id)
                .bind(run_id)
                .run();
            break;
    }
    drop_claim(database, thread_id, run_id);
}

void complete_run(SqliteDatabase& database, const std::string& thread_id, const std::string& run_id,
                  const std::string& owner_id) {
    if (state_of(database, thread_id, run_id) == RunState::open) {
        require_claim(database, thread_id, run_id, owner_id);
    }
    mark_run_complete(database, thread_id, run_id);
}

bool is_run_complete(SqliteDatabase& database, const std::string& thread_id,
                     const std::string& run_id) {
    return state_of(database, thread_id, run_id) == RunState::complete;
}

}  // namespace cubepi::detail
