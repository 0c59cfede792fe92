#include "db_divide.hpp"

#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <bub/channel/postgres_delivery_schema.hpp>
#include <bub/tape/copy_tape.hpp>
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
    Task<bool> is_recorded() const;
    /// Throws Error if the division may not be changed at the moment.
    Task<> check_idle() const;
    /// Returns the number of tapes in other databases than theirs, which it moves if `move`.
    Task<std::size_t> sort_tapes(bool move) const;
    Task<> record_all() const;

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

Task<bool> Division::is_recorded() const {
    for (std::size_t at = 0; at < size(); ++at) {
        const bub::DivisionState state = co_await bub::read_division(options(at));
        if (state.record != record(at)) co_return false;
    }
    co_return true;
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

Task<> Division::record_all() const {
    for (std::size_t at = 0; at < size(); ++at)
        co_await bub::record_division(options(at), record(at));
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
    if (run(division.is_recorded()) && !move) {
        err << "The databases have recorded this division already.\n";
        return exit_ok;
    }
    run(division.check_idle());
    const std::size_t tapes = run(division.sort_tapes(move));
    if (tapes > 0 && !move)
        throw Error(ErrorCode::invalid_state,
                    std::to_string(tapes) +
                        " tapes are in another database than that of their sessions. Nothing was "
                        "recorded. Back up the databases, then move the tapes and record the "
                        "division: cubepi db divide --move");
    run(division.record_all());
    if (move) err << for_terminal("Moved " + std::to_string(tapes) + " tapes.\n");
    err << for_terminal("Recorded which sessions each of the " + std::to_string(division.size()) +
                        " databases has.\n");
    return exit_ok;
}

}  // namespace cubepi::app
