#pragma once

#include <map>
#include <string>
#include <vector>

#include <cubepi/checkpoint/claim_rules.hpp>
#include <cubepi/checkpoint/memory/thread.hpp>

namespace cubepi::detail {

/// The runs and claims of a thread that may not exist yet: it is created by the first change.
class MemoryClaims final : public ClaimTable {
public:
    MemoryClaims(std::map<std::string, MemoryThread>& threads, const std::string& thread_id)
        : threads_(threads), thread_id_(thread_id) {}

    RunState run_state(const std::string& run_id) const override;
    std::vector<HeldClaim> claims() const override;
    void open_run(const std::string& run_id) override;
    void complete_run(const std::string& run_id) override;
    void put_claim(const HeldClaim& claim) override;
    void remove_claim(const std::string& run_id) override;

private:
    std::map<std::string, MemoryThread>& threads_;
    const std::string& thread_id_;
};

}  // namespace cubepi::detail
