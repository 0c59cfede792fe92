#pragma once

#include <compare>
#include <string>
#include <vector>

#include <bub/tape/tape_store.hpp>

namespace bub {

/// A look-up by TapeStore::find().
struct TapeLookup {
    TapeKey key = TapeKey::message;
    std::string value = {};

    friend auto operator<=>(const TapeLookup&, const TapeLookup&) = default;
};

/// Optional interface of a store of one turn (LeasableTapes::leased()), which reads at once what its turn looks up.
class TurnReads {
public:
    virtual ~TurnReads() = default;
    /// Announces what the turn looks up on its tape, and other tapes of which it reads the position. The first look-up reads all of them
    /// at one moment. Returns at once.
    virtual void expect(std::vector<TapeLookup> lookups, std::vector<std::string> tapes) = 0;
    /// Returns the side state as of the last write of this store, or of a few seconds ago: for a check that is repeated when the turn
    /// is written. TapeStore::read_state() sees what others have written since.
    virtual Task<JsonObject> recent_state(std::string tape) = 0;
};

}  // namespace bub
