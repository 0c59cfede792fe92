#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <cubepi/agent/checkpointer.hpp>

namespace cubepi::testing {

/// How the suite gets at the store that it checks.
struct StoreUnderTest {
    /// Makes an empty store; called once per check.
    std::function<std::shared_ptr<Checkpointer>()> make = {};
    /// Ends the given store (the only reference to it is passed in) and gives another one with the same data. Leave it
    /// out for a store that forgets.
    std::function<std::shared_ptr<Checkpointer>(std::shared_ptr<Checkpointer>)> reopen = {};
    /// Moves the time on by which the store judges leases (D50). Without it that is not checked.
    std::function<void(std::chrono::seconds)> advance = {};
};

/// One thing that a store does not do as agents need it.
struct StoreFailure {
    std::string check = {};  ///< one of store_checks()
    std::string text = {};   ///< what was expected and did not happen
};

/// The names of all checks, in order.
std::vector<std::string> store_checks();

/// Puts a store through all checks that fit the interfaces it has (Checkpointer, and what of RunStore, MessageIndex,
/// HitlStore, ForkStore, ThreadStore it derives from) and gives what failed: nothing, for a store that is right.
/// Needs no test framework. Blocks; not inside run(). Throws only what `make` and `reopen` throw.
///
///     for (const auto& failure : cubepi::testing::check_store({.make = [] { return std::make_shared<MyStore>(); }}))
///         ADD_FAILURE() << failure.check << ": " << failure.text;
std::vector<StoreFailure> check_store(const StoreUnderTest& store);

}  // namespace cubepi::testing
