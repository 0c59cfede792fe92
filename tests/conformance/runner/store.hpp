#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <set>
#include <string>

#include <cubepi/agent/checkpointer.hpp>
#include <cubepi/core/error.hpp>

#include "scenario.hpp"

namespace conformance {

/// What the scenario's failing append throws.
class StoreFault : public cubepi::CheckpointerError {
public:
    using CheckpointerError::CheckpointerError;
};

/// A directory that is gone with its object.
class TemporaryDirectory {
public:
    TemporaryDirectory();
    ~TemporaryDirectory();
    TemporaryDirectory(const TemporaryDirectory&) = delete;
    TemporaryDirectory& operator=(const TemporaryDirectory&) = delete;
    const std::filesystem::path& path() const noexcept { return path_; }

private:
    std::filesystem::path path_;
};

/// The checkpointer of a scenario. reopen() closes and opens a SQLite file; a memory store stays.
class ScenarioStore {
public:
    /// With `keep`, the store is the SQLite file of that name, whatever the scenario says.
    ScenarioStore(const Scenario& scenario, std::string keep);
    ~ScenarioStore();

    bool exists() const noexcept { return store_ != nullptr; }
    /// What agents are given: fails where the scenario says so.
    std::shared_ptr<cubepi::Checkpointer> for_agents() const { return for_agents_; }
    /// The store itself.
    cubepi::Checkpointer& itself() const { return *store_; }
    void reopen();

private:
    void open();

    StoreKind kind_;
    std::set<std::int64_t> fail_append_;
    std::unique_ptr<TemporaryDirectory> directory_;
    std::string file_;
    std::shared_ptr<std::int64_t> appends_ = std::make_shared<std::int64_t>(0);
    std::shared_ptr<cubepi::Checkpointer> store_;
    std::shared_ptr<cubepi::Checkpointer> for_agents_;
};

}  // namespace conformance
