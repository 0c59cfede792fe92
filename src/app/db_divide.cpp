#include "db_divide.hpp"

#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <bub/channel/postgres_delivery_schema.hpp>
#include <bub/tape/copy_tape.hpp>
#include <bub/tape/postgres/division.hpp>
#include <bub/tape/postgres_tape_store.hpp>
#include <bub/tape/tape_session.hpp>
#include <cubepi/core/error.hpp>
#include <cubepi/core/run.hpp>

#include "config/config_file.hpp"
#include "config/paths.hpp"
#include "config/tape_place.hpp"
#include "failure.hpp"
#include "program.hpp"
#include "saved_sessions.hpp"

namespace cubepi::app {

namespace {

using StorePtr = std::shared_ptr<bub::SessionTapeStore>;

/// Returns the session of a channel whose sub-agent has this session; else the session itself.
std::string_view main_session(std::string_view session) {
    for (const std::string_view mark : {"/agent/", "/call/"})
        session = session.substr(0, session.find(mark));
    return session;
}

/// Returns the name of the main tape of a sidecar, else the name itself.
std::string main_tape(const std::string& tape) {
    const std::size_t first = tape.find("__");
    return tape.substr(0, first == std::string::npos ? first : tape.find("__", first + 2));
}

/// A record of a database (DatabaseMap::record()), in its parts.
struct ReadRecord {
    explicit ReadRecord(std::string_view text) {
        const std::string_view mark = bub::detail::being_divided;
        if (text.starts_with(mark)) {
            is_interrupted = true;
            text.remove_prefix(mark.size());
        }
        const std::size_t own = text.find(" of ");
        if (own == std::string_view::npos) return;
        name = text.substr(0, own);
        text.remove_prefix(own + std::string_view(" of ").size());
        while (!text.empty()) {
            const std::string_view one = text.substr(0, text.find("; "));
            const std::size_t colon = one.find(": ");
            if (colon != std::string_view::npos)
                ranges[std::string(one.substr(0, colon))] = one.substr(colon + 2);
            text.remove_prefix(std::min(text.size(), one.size() + 2));
        }
    }

    bool is_interrupted = false;
    std::string name = {};                           ///< of the database itself
    std::map<std::string, std::string> ranges = {};  ///< by name
};

/// The databases of the configuration, without a check of what they have recorded.
class Division {
public:
    explicit Division(std::vector<DatabasePart> parts)
        : parts_(std::move(parts)), map_(database_map(parts_)) {
        for (std::size_t at = 0; at < parts_.size(); ++at)
            stores_.push_back(std::make_shared<bub::PostgresTapeStore>(options(at)));
    }

    std::size_t size() const noexcept { return parts_.size(); }
    const std::string& name(std::size_t at) const { return parts_[at].name; }
    std::string record(std::size_t at) const { return map_.record(at); }
    PostgresOptions options(std::size_t at) const {
        PostgresOptions options;
        options.connection = parts_[at].url;
        return options;
    }
    /// Returns the records of the databases; empty: none.
    Task<std::vector<std::string>> read_records() const;
    bool is_recorded(const std::vector<std::string>& records) const;
    /// Throws Error if another database has or may have sessions of those that are recorded.
    void check_databases(const std::vector<std::string>& records) const;
    /// Throws Error if the division may not be changed at the moment.
    Task<> check_idle() const;
    /// Returns the number of tapes in other databases than theirs, which it moves if `move`.
    Task<std::size_t> sort_tapes(bool move) const;
    /// Records the division; until `is_done`, no connection may use the databases.
    Task<> record_all(bool is_done) const;
    Task<> write_records(std::vector<std::string> records) const;

private:
    using Sessions = std::map<std::string, std::string>;  ///< by main tape

    /// Returns the sessions that are recorded on the main tapes of a database.
    Task<Sessions> sessions_of(std::size_t at) const;
    std::size_t place_of(const std::string& tape, const Sessions& sessions) const;
    Task<> move_tape(std::string tape, std::size_t from, std::size_t to) const;

    const std::vector<DatabasePart> parts_;
    const bub::DatabaseMap map_;
    std::vector<StorePtr> stores_;
};

Task<std::vector<std::string>> Division::read_records() const {
    std::vector<std::string> records;
    for (std::size_t at = 0; at < size(); ++at) {
        bub::DivisionState state = co_await bub::read_division(options(at));
        records.push_back(std::move(state.record));
    }
    co_return records;
}

bool Division::is_recorded(const std::vector<std::string>& records) const {
    for (std::size_t at = 0; at < size(); ++at)
        if (records[at] != record(at)) return false;
    return true;
}

void Division::check_databases(const std::vector<std::string>& records) const {
    std::set<std::string> present;
    for (std::size_t at = 0; at < size(); ++at) {
        // This division was checked before it began.
        if (records[at] == bub::detail::being_divided + record(at)) return;
        present.insert(ReadRecord(records[at]).name);
    }
    for (std::size_t at = 0; at < size(); ++at) {
        const ReadRecord read(records[at]);
        for (const auto& [other, ranges] : read.ranges) {
            const bool is_configured = map_.named(other) < size();
            // Tapes may be left in any database of a move that was interrupted, and one of them may have no record yet.
            if (present.contains(other) || (ranges == "none" && !read.is_interrupted) ||
                (is_configured && read.is_interrupted))
                continue;
            const std::string has = "the database '" + name(at) + "' has recorded that '" + other +
                                    "' has the sessions " + ranges;
            if (is_configured)
                throw Error(ErrorCode::invalid_state,
                            has + ", but the configured database '" + other +
                                "' has no record. Correct its url in the key 'databases'; if it "
                                "was moved to a new server, restore a copy of it there");
            throw Error(ErrorCode::invalid_state,
                        has +
                            ", but it is not configured. Add it to the key 'databases', with "
                            "'sessions: none' if it is to be removed; then: cubepi db divide "
                            "--move");
        }
    }
}

Task<> Division::check_idle() const {
    for (std::size_t at = 0; at < size(); ++at) {
        const bub::DivisionState state = co_await bub::read_division(options(at));
        if (state.gateways > 0)
            throw Error(ErrorCode::busy,
                        std::to_string(state.gateways) + " gateways use the database '" + name(at) +
                            "'. Stop all of them (cubepi gateway drain --all); one that was killed "
                            "counts for 10 s");
        if (state.unfinished > 0)
            throw Error(
                ErrorCode::busy,
                "the database '" + name(at) + "' has " + std::to_string(state.unfinished) +
                    " unfinished messages and answers. Let a gateway with the division "
                    "from before finish them; see those that are held: cubepi gateway held");
        if (at > 0 && state.schedules > 0)
            throw Error(ErrorCode::invalid_state,
                        "the database '" + name(at) + "' has " + std::to_string(state.schedules) +
                            " schedules, which only the first database may have. Name it first in "
                            "the key 'databases'; or move the rows of bub_schedules to the "
                            "database '" +
                            name(0) + "'");
    }
}

Task<Division::Sessions> Division::sessions_of(std::size_t at) const {
    const std::vector<bub::ListedTape> tapes = co_await stores_[at]->newest_tapes();
    Sessions sessions;
    for (const bub::ListedTape& tape : tapes) {
        const auto session = tape.state ? bub::session_of(*tape.state) : std::nullopt;
        if (session) sessions[tape.name] = session->id;
    }
    co_return sessions;
}

/// Returns the database of a tape. A name has the position of the session. Tapes of sub-agents, and those of earlier versions of a
/// gateway, are with the session that is recorded on them; those of a terminal are found by their names alone.
std::size_t Division::place_of(const std::string& tape, const Sessions& sessions) const {
    const std::string main = main_tape(tape);
    const auto found = sessions.find(main);
    if (found == sessions.end() || !session_name_of(found->second).empty())
        return map_.of_tape(main);
    return map_.of_session(main_session(found->second));
}

Task<> Division::move_tape(std::string tape, std::size_t from, std::size_t to) const {
    (void)co_await bub::copy_tape(stores_[from], stores_[to], tape);
    co_await stores_[from]->remove_tape(std::move(tape));
}

Task<std::size_t> Division::sort_tapes(bool move) const {
    std::size_t found = 0;
    for (std::size_t at = 0; at < size(); ++at) {
        const Sessions sessions = co_await sessions_of(at);
        std::vector<std::string> tapes = co_await stores_[at]->all_tapes();
        // A sidecar before its tape, with which it would be removed.
        std::reverse(tapes.begin(), tapes.end());
        for (const std::string& tape : tapes) {
            const std::size_t place = place_of(tape, sessions);
            if (place == at) continue;
            ++found;
            if (move) co_await move_tape(tape, at, place);
        }
    }
    co_return found;
}

Task<> Division::record_all(bool is_done) const {
    std::vector<std::string> records;
    for (std::size_t at = 0; at < size(); ++at)
        records.push_back((is_done ? "" : bub::detail::being_divided) + record(at));
    return write_records(std::move(records));
}

Task<> Division::write_records(std::vector<std::string> records) const {
    for (std::size_t at = 0; at < size(); ++at)
        co_await bub::record_division(options(at), std::move(records[at]));
}

/// Refuses each new connection to the databases until the division is recorded. Throws Error if a gateway uses them.
void close_databases(const Division& division, const std::vector<std::string>& records) {
    run(division.record_all(false));
    try {
        // One may have started since the first check.
        run(division.check_idle());
    } catch (const Error&) {
        // It has to finish its messages.
        run(division.write_records(records));
        throw;
    }
}

}  // namespace

int divide_sessions(bool move, TerminalStream& err) {
    const TapePlace place = tape_place();
    if (place.databases.empty())
        throw Error(ErrorCode::invalid_argument,
                    "the configuration names no databases to divide the sessions among: write the "
                    "key databases to " +
                        config_path().string());
    const Division division(place.databases);
    const std::vector<std::string> records = run(division.read_records());
    if (division.is_recorded(records) && !move) {
        err << "The databases have recorded this division already.\n";
        return exit_ok;
    }
    division.check_databases(records);
    run(division.check_idle());
    std::size_t tapes = move ? 0 : run(division.sort_tapes(false));
    if (tapes > 0)
        throw Error(ErrorCode::invalid_state,
                    std::to_string(tapes) +
                        " tapes are in another database than that of their sessions. Nothing was "
                        "recorded. Back up the databases, then move the tapes and record the "
                        "division: cubepi db divide --move");
    close_databases(division, records);
    // A call that is repeated after an interruption continues.
    if (move) tapes = run(division.sort_tapes(true));
    run(division.record_all(true));
    if (move) err << for_terminal("Moved " + std::to_string(tapes) + " tapes.\n");
    err << for_terminal("Recorded which sessions each of the " + std::to_string(division.size()) +
                        " databases has.\n");
    return exit_ok;
}

}  // namespace cubepi::app
