#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <bub/tape/tape_store.hpp>

namespace bub {

/// The factory of the tape store under test.
struct TapeStoreUnderTest {
    /// Creates an empty store; called once per check.
    std::function<std::shared_ptr<TapeStore>()> make = {};
    /// Closes the given store (passed as the only reference) and returns another one with the same data. Leave it empty
    /// for a store without persistence.
    std::function<std::shared_ptr<TapeStore>(std::shared_ptr<TapeStore>)> reopen = {};
    /// Opens the data of the given store once more, as another process does while the first one lives. Leave it empty for a
    /// store that cannot be shared.
    std::function<std::shared_ptr<TapeStore>(TapeStore&)> share = {};
};

/// A deviation of a store from the requirements of TapeStore.
struct TapeStoreFailure {
    std::string check = {};  ///< one of tape_store_checks()
    std::string text = {};   ///< the expectation that was not met
};

/// Returns the names of all checks, in order.
std::vector<std::string> tape_store_checks();

/// Runs all checks of the functions of TapeStore, and of TapeMediaStore, TurnJournalStore and SessionTapeStore if the store derives from
/// them, and returns the failures; empty for a correct store. What an agent requires beyond that is checked by cubepi::testing::check_store
/// with a TapeCheckpointer on the store. Needs no test framework. Blocks; must not be called inside cubepi::run().
/// Throws only exceptions of `make` and `reopen`.
std::vector<TapeStoreFailure> check_tape_store(const TapeStoreUnderTest& store);

}  // namespace bub
