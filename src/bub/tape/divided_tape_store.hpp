#pragma once

#include <cstddef>
#include <exception>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <bub/tape/database_map.hpp>
#include <bub/tape/session_tape_store.hpp>

namespace bub {

/// A list of what the databases have that can be read.
template <class List>
struct Readable {
    List list = {};
    std::vector<std::string> unread = {};  ///< the names of the other databases
    std::exception_ptr failure = {};       ///< of one of these
};

/// Tapes that are divided among several stores, usually databases (D258). A tape is found by its name (DatabaseMap::of_tape()). The tapes
/// of sub-agents are those of their session's database instead, so a caller that knows the session uses of_session().
///
/// A tape that a list has found elsewhere, such as that of a sub-agent, is known from then on. Lists of names and of sessions fail if one of
/// the stores does, except readable_tapes_after(); list_requests() lists the questions of the others, so that they expire in time, and
/// readable_requests() also names the databases that it could not read. Media that are stored through this
/// object are placed by their hash, and found wherever they are.
class DividedTapeStore final : public SessionTapeStore {
public:
    /// `stores`: one for each database of the map.
    DividedTapeStore(DatabaseMap map, std::vector<std::shared_ptr<SessionTapeStore>> stores);

    const DatabaseMap& map() const noexcept { return map_; }
    const std::shared_ptr<SessionTapeStore>& at(std::size_t database) const {
        return stores_.at(database);
    }
    /// Returns the store of a session with its sub-agents.
    const std::shared_ptr<SessionTapeStore>& of_session(std::string_view session_id) const {
        return at(map_.of_session(session_id));
    }

    std::string location() const override;
    using SessionTapeStore::newest_tapes_after;
    Task<std::vector<ListedTape>> newest_tapes_after(std::optional<ListedTape> last,
                                                     std::size_t limit,
                                                     std::string prefix) override;
    /// Does the same as newest_tapes_after(). Throws only if no database can be read.
    Task<Readable<std::vector<ListedTape>>> readable_tapes_after(std::optional<ListedTape> last,
                                                                 std::size_t limit,
                                                                 std::string prefix);
    /// Does the same as list_requests().
    Task<Readable<cubepi::QuestionPage>> readable_requests(cubepi::QuestionQuery query);
    Task<std::shared_ptr<const void>> hold(std::string name) override;
    Task<std::vector<std::string>> all_tapes() override;
    Task<cubepi::QuestionPage> list_requests(cubepi::QuestionQuery query) override;

    // The operations on one tape.
    Task<void> remove_tape(std::string tape) override {
        return call(&SessionTapeStore::remove_tape, std::move(tape));
    }
    Task<std::shared_ptr<const void>> open_tape(std::string tape) override {
        return call(&SessionTapeStore::open_tape, std::move(tape));
    }
    Task<bool> has_open_turn(std::string tape) override {
        return call(&SessionTapeStore::has_open_turn, std::move(tape));
    }
    std::shared_ptr<TurnJournal> open_journal(const std::string& tape,
                                              const std::string& turn_id) override {
        return store_of(tape).open_journal(tape, turn_id);
    }
    std::chrono::milliseconds text_interval() const override {
        return stores_.front()->text_interval();
    }
    Task<std::vector<TapeEntry>> fetch(std::string tape, TapeQuery query) override {
        return call(&TapeStore::fetch, std::move(tape), std::move(query));
    }
    Task<void> visit(std::string tape, TapeQuery query,
                     std::function<bool(const TapeEntry&)> visit) override {
        return call(&TapeStore::visit, std::move(tape), std::move(query), std::move(visit));
    }
    Task<TapePosition> append(std::string tape, std::vector<TapeEntry> entries,
                              TapeAppend options) override {
        return call(&TapeStore::append, std::move(tape), std::move(entries), std::move(options));
    }
    Task<TapePosition> position(std::string tape) override {
        return call(&TapeStore::position, std::move(tape));
    }
    Task<void> reset(std::string tape) override { return call(&TapeStore::reset, std::move(tape)); }
    Task<TapeInfo> info(std::string tape) override {
        return call(&TapeStore::info, std::move(tape));
    }
    Task<std::vector<TapeEntry>> anchors(std::string tape, std::size_t limit) override {
        return call(&TapeStore::anchors, std::move(tape), limit);
    }
    Task<Json> edit_state(std::string tape, std::function<Json(JsonObject& state)> edit) override {
        return call(&TapeStore::edit_state, std::move(tape), std::move(edit));
    }
    void edit_state_later(const std::string& tape,
                          std::function<void(JsonObject& state)> edit) override {
        store_of(tape).edit_state_later(tape, std::move(edit));
    }
    Task<JsonObject> read_state(std::string tape) override {
        return call(&TapeStore::read_state, std::move(tape));
    }
    std::string state_file(const std::string& tape) const override {
        return store_of(tape).state_file(tape);
    }
    Task<std::optional<TapeEntry>> find(std::string tape, TapeKey key, std::string value) override {
        return call(&TapeStore::find, std::move(tape), key, std::move(value));
    }

    Task<std::string> put_media(std::string bytes) override;
    Task<std::optional<std::string>> get_media(std::string sha256) override;

private:
    SessionTapeStore& store_of(const std::string& tape) const;
    template <class Result, class Store, class... Parameters, class... Arguments>
    Result call(Result (Store::*operation)(std::string, Parameters...), std::string tape,
                Arguments... arguments) {
        SessionTapeStore& store = store_of(tape);
        return (store.*operation)(std::move(tape), std::move(arguments)...);
    }
    /// Notes where a list has found a tape.
    void note(const std::string& tape, std::size_t database);

    const DatabaseMap map_;
    const std::vector<std::shared_ptr<SessionTapeStore>> stores_;
    mutable std::mutex mutex_;
    std::map<std::string, std::size_t>
        elsewhere_;  ///< tapes that are not where their names place them
};

/// Returns the tapes of any store as DividedTapeStore::readable_tapes_after() does; one that is not divided is read, or fails.
Task<Readable<std::vector<ListedTape>>> readable_tapes(std::shared_ptr<SessionTapeStore> store,
                                                       std::optional<ListedTape> last,
                                                       std::size_t limit);
/// The same for DividedTapeStore::readable_requests().
Task<Readable<cubepi::QuestionPage>> readable_requests(std::shared_ptr<TapeStore> store,
                                                       cubepi::QuestionQuery query);

}  // namespace bub
