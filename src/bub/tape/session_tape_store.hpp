#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <bub/tape/tape_store.hpp>

namespace bub {

/// A tape as listed by SessionTapeStore::newest_tapes().
struct ListedTape {
    std::string name = {};
    std::uintmax_t bytes = 0;  ///< of its entries as lines
    std::chrono::system_clock::time_point modified = {};
    std::optional<JsonObject> state =
        {};  ///< its side state, if the store has read it for the list

    /// Returns true if the tape is listed before the other: it was written later, or its name is less.
    bool precedes(const ListedTape& other) const {
        return modified != other.modified ? modified > other.modified : name < other.name;
    }
};

/// A store that keeps the sessions of programs, in files or on a database server: beyond the contents of tapes it lists,
/// opens and removes them, and has the journals of their turns. All processes that use a place see the same.
class SessionTapeStore : public TapeStore, public TapeMediaStore, public TurnJournalStore {
public:
    /// A directory, or "PostgreSQL database 'NAME' on HOST:PORT"; without a password.
    virtual std::string location() const = 0;
    /// Returns all tapes with exactly one "__" in their name, and with this prefix, most recently written first.
    Task<std::vector<ListedTape>> newest_tapes(std::string prefix = {}) {
        constexpr std::size_t all = std::numeric_limits<std::size_t>::max();
        return newest_tapes_after(std::nullopt, all, std::move(prefix));
    }
    Task<std::vector<ListedTape>> newest_tapes_after(std::optional<ListedTape> last,
                                                     std::size_t limit) {
        return newest_tapes_after(std::move(last), limit, std::string());
    }
    /// Returns the first `limit` of newest_tapes(), or of those that it lists after `last`, whose name and time are used. The work on
    /// a server depends on the tapes with the prefix, which ends with an ASCII character; without a prefix, on `limit` only.
    virtual Task<std::vector<ListedTape>> newest_tapes_after(std::optional<ListedTape> last,
                                                             std::size_t limit,
                                                             std::string prefix) = 0;
    /// Removes a tape with its sidecars and its side state; only on an explicit request of the user (D47). Media stay, since
    /// other tapes may use them. Throws `storage_locked` while a turn is in progress on the tape, and while another process has
    /// it open (open_tape).
    virtual Task<void> remove_tape(std::string tape) = 0;
    /// Marks the tape as open in this process until the last copy of the result is destroyed. Several processes may
    /// have a tape open; none of them can lose it to another's remove_tape(). The tape need not exist.
    virtual Task<std::shared_ptr<const void>> open_tape(std::string tape) = 0;
    /// Acquires an exclusive lock that covers several tapes: waits, with the timeout of a tape's lock, until no other
    /// caller in this or another process holds `name` (a file name). Released when the last copy of the result is
    /// destroyed, on the executor of the call.
    virtual Task<std::shared_ptr<const void>> hold(std::string name) = 0;
    /// Closes the turns of dead processes on the tape, and returns true while another turn is in progress on it.
    virtual Task<bool> has_open_turn(std::string tape) = 0;
};

}  // namespace bub
