#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <cubepi/agent/checkpointer.hpp>

namespace cubepi {

/// A claim with an owner, as a store records it (D50).
struct HeldClaim {
    std::string run_id = {};
    ClaimOwner owner = {};
    double lease_until = 0;  ///< Unix seconds
};

enum class RunState : std::uint8_t { unknown, open, complete };

/// The runs and claims of one thread, as ClaimRules reads and changes them. A store implements it on top of a
/// transaction (or under its lock); it need not check anything. A run has at most one claim.
class ClaimTable {
public:
    virtual ~ClaimTable() = default;
    virtual RunState run_state(const std::string& run_id) const = 0;
    virtual std::vector<HeldClaim> claims() const = 0;
    /// Records an unknown run as open.
    virtual void open_run(const std::string& run_id) = 0;
    /// Records an open run as complete.
    virtual void complete_run(const std::string& run_id) = 0;
    /// Stores the claim, and replaces the claim on the same run, if any.
    virtual void put_claim(const HeldClaim& claim) = 0;
    virtual void remove_claim(const std::string& run_id) = 0;
};

/// The time by which claims are evaluated.
struct ClaimTime {
    double now = 0;                   ///< Unix seconds
    std::chrono::seconds lease = {};  ///< of a claim that is acquired or renewed
};

/// A change of the claim on a run: an operation of RunStore.
struct ClaimChange {
    enum class Step : std::uint8_t { claim, renew, release, complete, mark_complete };
    Step step = Step::claim;
    std::string run_id = {};
    ClaimOwner owner = {};  ///< only `claim` needs more than the id; `mark_complete` needs nothing
    ClaimKind kind = ClaimKind::new_run;
};

/// Implements the functions of RunStore that concern claims, for one thread inside one transaction. All stores of this
/// library use it. If a function throws, it has changed nothing.
class ClaimRules {
public:
    /// `table` must outlive the rules.
    ClaimRules(ClaimTable& table, std::string thread_id, ClaimTime time = {});

    /// Executes the operation. The result is that of claim(), and empty for the others.
    ClaimResult apply(const ClaimChange& change);

    /// RunStore::claim_run().
    ClaimResult claim(const std::string& run_id, const ClaimOwner& owner, ClaimKind kind);
    /// RunStore::renew_claim().
    void renew(const std::string& run_id, const std::string& owner_id);
    /// RunStore::release_claim(). Has no effect if the owner does not hold the claim.
    void release(const std::string& run_id, const std::string& owner_id);
    /// RunStore::complete_run().
    void complete(const std::string& run_id, const std::string& owner_id);
    /// RunStore::mark_run_complete().
    void mark_complete(const std::string& run_id);

    /// Throws StaleAppendError if the owner does not hold the claim: the check of an append with
    /// AppendOptions::claim().
    void require_claim(const std::string& run_id, const std::string& owner_id) const;
    /// Throws what complete() throws and changes nothing, for a store that records the completion in a second step.
    void check_completion(const std::string& run_id, const std::string& owner_id) const;
    /// Returns the claim on a run.
    std::optional<HeldClaim> claim_on(const std::string& run_id) const;
    bool holds(const std::string& run_id, const std::string& owner_id) const;

private:
    double lease_end() const;
    /// Throws RunAlreadyClaimedError if the process that holds the claim may still be writing.
    void check_abandoned(const HeldClaim& claim) const;

    ClaimTable& table_;
    std::string thread_id_;
    ClaimTime time_;
};

}  // namespace cubepi
