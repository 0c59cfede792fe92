#pragma once

#include <algorithm>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include <cubepi/checkpoint/claim_rules.hpp>

namespace cubepi::detail {

/// The runs and claims of a thread as read from a database server, and the changes that ClaimRules makes to them, which the
/// store writes afterwards.
class ClaimSheet final : public ClaimTable {
public:
    // The state as read.
    void add_run(std::string run_id, bool complete) {
        runs_[std::move(run_id)] = complete ? RunState::complete : RunState::open;
    }
    void add_claim(HeldClaim claim) { claims_.push_back(std::move(claim)); }

    RunState run_state(const std::string& run_id) const override {
        const auto run = runs_.find(run_id);
        return run == runs_.end() ? RunState::unknown : run->second;
    }
    std::vector<HeldClaim> claims() const override { return claims_; }
    void open_run(const std::string& run_id) override {
        runs_[run_id] = RunState::open;
        opened_.push_back(run_id);
    }
    void complete_run(const std::string& run_id) override {
        runs_[run_id] = RunState::complete;
        completed_.push_back(run_id);
    }
    void put_claim(const HeldClaim& claim) override {
        erase(claim.run_id);
        claims_.push_back(claim);
        put_.push_back(claim);
    }
    void remove_claim(const std::string& run_id) override {
        if (erase(run_id)) removed_.push_back(run_id);
    }

    // The changes, in the order in which they must be written.
    const std::vector<std::string>& removed() const noexcept { return removed_; }
    const std::vector<std::string>& opened() const noexcept { return opened_; }
    const std::vector<std::string>& completed() const noexcept { return completed_; }
    const std::vector<HeldClaim>& put() const noexcept { return put_; }

private:
    bool erase(const std::string& run_id) {
        return std::erase_if(claims_,
                             [&](const HeldClaim& claim) { return claim.run_id == run_id; }) > 0;
    }

    std::map<std::string, RunState> runs_;
    std::vector<HeldClaim> claims_;
    std::vector<std::string> removed_;
    std::vector<std::string> opened_;
    std::vector<std::string> completed_;
    std::vector<HeldClaim> put_;
};

}  // namespace cubepi::detail
