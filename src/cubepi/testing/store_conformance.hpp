#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <cubepi/agent/checkpointer.hpp>

namespace cubepi::testing {

/// The factory of the store under test.
struct StoreUnderTest {
    /// Creates an empty store; called once per check.
    std::function<std::shared_ptr<Checkpointer>()> make = {};
    /// Closes the given store (passed as the only reference) and returns another one with the same data. Leave it empty
    /// for a store without persistence.
    std::function<std::shared_ptr<Checkpointer>(std::shared_ptr<Checkpointer>)> reopen = {};
    /// Advances the time by which the store evaluates leases (D50). If empty, leases are not checked.
    std::function<void(std::chrono::seconds)> advance = {};
};

/// A deviation of a store from the requirements of agents.
struct StoreFailure {
    std::string check = {};  ///< one of store_checks()
    std::string text = {};   ///< the expectation that was not met
};

/// Returns the names of all checks, in order.
std::vector<std::string> store_checks();

/// Runs all checks that apply to the interfaces of the store (Checkpointer, and those of RunStore, MessageIndex,
/// HitlStore, BatchStore, QuestionStore, ForkStore, ThreadStore from which it derives) and returns the failures; empty for a correct store. Needs
/// no test framework. Blocks; must not be called inside run(). Throws only exceptions of `make` and `reopen`.
///
///     for (const auto& failure : cubepi::testing::check_store({.make = [] { return std::make_shared<MyStore>(); }}))
///         ADD_FAILURE() << failure.check << ": " << failure.text;
std::vector<StoreFailure> check_store(const StoreUnderTest& store);

}  // namespace cubepi::testing
