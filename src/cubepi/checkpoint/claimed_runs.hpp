#pragma once

#include <memory>
#include <string>

#include <cubepi/agent/checkpointer.hpp>
#include <cubepi/checkpoint/claim_rules.hpp>

namespace cubepi {

/// The runs and claims of a store: the two operations on which ClaimedRuns implements those of RunStore. Thread-safe.
class ClaimTransactions {
public:
    virtual ~ClaimTransactions() = default;
    /// Executes the change atomically by the rules of ClaimRules.
    virtual Task<ClaimResult> change_claim(std::string thread_id, ClaimChange change) = 0;
    virtual Task<bool> is_run_complete(std::string thread_id, std::string run_id) = 0;
};

/// The implementation of RunStore in all stores of this library.
class ClaimedRuns : public RunStore {
public:
    ~ClaimedRuns() override;
    ClaimedRuns(const ClaimedRuns&) = delete;
    ClaimedRuns& operator=(const ClaimedRuns&) = delete;

    Task<ClaimResult> claim_run(std::string thread_id, std::string run_id, ClaimOwner owner,
                                ClaimKind kind) override;
    Task<void> renew_claim(std::string thread_id, std::string run_id,
                           std::string owner_id) override;
    Task<void> release_claim(std::string thread_id, std::string run_id,
                             std::string owner_id) override;
    Task<void> mark_run_complete(std::string thread_id, std::string run_id) override;
    Task<void> complete_run(std::string thread_id, std::string run_id,
                            std::string owner_id) override;
    Task<bool> is_run_complete(std::string thread_id, std::string run_id) override;

protected:
    explicit ClaimedRuns(std::shared_ptr<ClaimTransactions> claims);

private:
    const std::shared_ptr<ClaimTransactions> claims_;
};

}  // namespace cubepi
