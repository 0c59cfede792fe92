#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <set>
#include <string>

#include <cubepi/agent/checkpointer.hpp>
#include <cubepi/checkpoint/stored_threads.hpp>
#include <cubepi/core/error.hpp>

#include "scenario.hpp"

namespace conformance {

/// A temporary directory, removed by the destructor.
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

/// The optional interface of a store.
template <class Interface>
Interface& part(const std::shared_ptr<cubepi::Checkpointer>& store) {
    return dynamic_cast<Interface&>(*store);
}

/// The checkpointer of a scenario. reopen() closes and opens a SQLite file; a memory store stays.
class ScenarioStore {
public:
    /// With `keep`, the store is the SQLite file of that name, regardless of the scenario.
    ScenarioStore(const Scenario& scenario, std::string keep);
    ~ScenarioStore();

    bool exists() const noexcept { return store_ != nullptr; }
    /// The store of the agents: fails as the scenario defines.
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
    std::shared_ptr<cubepi::StoredThreads> store_;
    std::shared_ptr<cubepi::Checkpointer> for_agents_;
};

}  // namespace conformance
