#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace bub {

/// Returns the position of a session among all sessions (D258): the first 16 bits of the SHA-256 of its id. Never changes.
std::uint16_t session_position(std::string_view session_id);

/// A database with a part of the sessions.
struct DatabaseShare {
    std::string name = {};  ///< 1 to 32 letters, digits and '-'
    std::string ranges =
        {};  ///< of positions: "0000-3fff" or "0000-1fff, 8000-8fff"; "none": it receives none
};

/// The division of sessions among databases, by the position of their ids (D258). Each position belongs to exactly one database. Immutable;
/// thread-safe.
class DatabaseMap {
public:
    /// Throws Error(invalid_argument) for names or ranges that are not valid, that overlap, or that leave out a position.
    explicit DatabaseMap(const std::vector<DatabaseShare>& shares);

    std::size_t size() const noexcept { return shares_.size(); }
    const std::string& name(std::size_t database) const { return shares_.at(database).name; }
    /// Returns the ranges in a form of their own: merged and in order.
    const std::string& ranges(std::size_t database) const { return shares_.at(database).ranges; }
    /// Returns the database with this name; size() if there is none.
    std::size_t named(std::string_view name) const;

    std::size_t at_position(std::uint16_t position) const;
    /// Returns the database of a session. For a message this is the session before any hook chooses another one.
    std::size_t of_session(std::string_view session_id) const {
        return at_position(session_position(session_id));
    }
    /// Returns the database of a tape: for the tape of a session (shared_tape_name()) and its sidecars that of the session, as the name
    /// begins with the position after "__".
    std::size_t of_tape(std::string_view tape) const;

    /// Returns the division and the name of one of its databases, as that database records it: "a of a: 0000-7fff; b: 8000-ffff". The
    /// order of the databases has a meaning: the first one has what is not of a session.
    std::string record(std::size_t database) const;

private:
    struct Range {
        std::uint16_t first = 0;
        std::size_t database = 0;
    };
    std::vector<DatabaseShare> shares_;
    std::vector<Range> ranges_;  ///< in order; each ends before the next
};

}  // namespace bub
