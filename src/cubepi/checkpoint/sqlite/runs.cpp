#include <string>
#include <utility>
#include <vector>

#include <cubepi/checkpoint/claim_rules.hpp>
#include <cubepi/checkpoint/sqlite/operations.hpp>

namespace cubepi::detail {

namespace {

/// The runs and claims of a thread, in the transaction of the caller.
class SqliteClaims final : public ClaimTable {
public:
    SqliteClaims(SqliteDatabase& database, const std::string& thread_id)
        : database_(database), thread_id_(thread_id) {}

    RunState run_state(const std::string& run_id) const override {
        SqliteStatement statement = database_.prepare(
            "SELECT completed_at IS NOT NULL FROM runs WHERE thread_id = ? AND run_id = ?");
        if (!statement.bind(thread_id_).bind(run_id).step()) return RunState::unknown;
        return statement.integer(0) != 0 ? RunState::complete : RunState::open;
    }
    std::vector<HeldClaim> claims() const override {
        SqliteStatement rows = database_.prepare(
            "SELECT run_id, owner_id, host, boot_id, pid, process_start, description, lease_until"
            " FROM cubepi_native_claims WHERE thread_id = ?");
        rows.bind(thread_id_);
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
    void open_run(const std::string& run_id) override {
        database_.prepare("INSERT INTO runs (thread_id, run_id) VALUES (?, ?)")
            .bind(thread_id_)
            .bind(run_id)
            .run();
    }
    void complete_run(const std::string& run_id) override {
        database_
            .prepare(
                "UPDATE runs SET completed_at = julianday('now'), completion_seq ="
                " (SELECT coalesce(max(completion_seq), 0) + 1 FROM runs WHERE thread_id = ?1)"
                " WHERE thread_id = ?1 AND run_id = ?2")
            .bind(thread_id_)
            .bind(run_id)
            .run();
        remove_answers_of_run(database_, thread_id_, run_id);
    }
    void put_claim(const HeldClaim& claim) override {
        database_
            .prepare(
                "INSERT OR REPLACE INTO cubepi_native_claims (thread_id, run_id, owner_id, host, "
                "boot_id, pid,"
                " process_start, description, lease_until) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)")
            .bind(thread_id_)
            .bind(claim.run_id)
            .bind(claim.owner.owner_id)
            .bind(claim.owner.host)
            .bind(claim.owner.boot_id)
            .bind(claim.owner.pid)
            .bind(claim.owner.process_start)
            .bind(claim.owner.description)
            .bind(claim.lease_until)
            .run();
    }
    void remove_claim(const std::string& run_id) override {
        database_.prepare("DELETE FROM cubepi_native_claims WHERE thread_id = ? AND run_id = ?")
            .bind(thread_id_)
            .bind(run_id)
            .run();
    }

private:
    SqliteDatabase& database_;
    const std::string& thread_id_;
};

ClaimTime time_of(const SqliteDatabase& database) {
    return ClaimTime{database.now(), database.options().lease};
}

}  // namespace

ClaimResult claim_run(SqliteDatabase& database, const std::string& thread_id,
                      const std::string& run_id, const ClaimOwner& owner, ClaimKind kind) {
    SqliteClaims claims(database, thread_id);
    return ClaimRules(claims, thread_id, time_of(database)).claim(run_id, owner, kind);
}

void renew_claim(SqliteDatabase& database, const std::string& thread_id, const std::string& run_id,
                 const std::string& owner_id) {
    SqliteClaims claims(database, thread_id);
    ClaimRules(claims, thread_id, time_of(database)).renew(run_id, owner_id);
}

void release_claim(SqliteDatabase& database, const std::string& thread_id,
                   const std::string& run_id, const std::string& owner_id) {
    SqliteClaims claims(database, thread_id);
    ClaimRules(claims, thread_id).release(run_id, owner_id);
}

void require_claim(SqliteDatabase& database, const std::string& thread_id,
                   const std::string& run_id, const std::string& owner_id) {
    SqliteClaims claims(database, thread_id);
    ClaimRules(claims, thread_id).require_claim(run_id, owner_id);
}

void mark_run_complete(SqliteDatabase& database, const std::string& thread_id,
                       const std::string& run_id) {
    SqliteClaims claims(database, thread_id);
    ClaimRules(claims, thread_id).mark_complete(run_id);
}

void complete_run(SqliteDatabase& database, const std::string& thread_id, const std::string& run_id,
                  const std::string& owner_id) {
    SqliteClaims claims(database, thread_id);
    ClaimRules(claims, thread_id).complete(run_id, owner_id);
}

bool is_run_complete(SqliteDatabase& database, const std::string& thread_id,
                     const std::string& run_id) {
    return SqliteClaims(database, thread_id).run_state(run_id) == RunState::complete;
}

}  // namespace cubepi::detail
