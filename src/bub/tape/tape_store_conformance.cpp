#include <bub/tape/tape_store_conformance.hpp>

#include <string_view>
#include <utility>

#include <bub/tape/session_tape_store.hpp>
#include <bub/tape/tape_checkpointer.hpp>
#include <bub/tape/turn_transaction.hpp>
#include <cubepi/core/error.hpp>
#include <cubepi/core/offload.hpp>
#include <cubepi/core/run.hpp>
#include <cubepi/core/support/json_member.hpp>

namespace bub {

namespace {

using cubepi::run;

constexpr const char* tape = "w__s";

/// The store of one check, and the failures found.
class Probe {
public:
    Probe(const TapeStoreUnderTest& subject, std::string check)
        : subject_(subject), check_(std::move(check)), store_(subject.make()) {}

    TapeStore& store() { return *store_; }
    TapeMediaStore* media() { return dynamic_cast<TapeMediaStore*>(store_.get()); }
    bool can_reopen() const { return static_cast<bool>(subject_.reopen); }
    void reopen() { store_ = subject_.reopen(std::move(store_)); }
    bool can_share() const { return static_cast<bool>(subject_.share); }
    /// The same store as opened by another process.
    std::shared_ptr<TapeStore> other() { return subject_.share(*store_); }
    std::shared_ptr<TapeStore> shared() { return store_; }
    SessionTapeStore* sessions() { return dynamic_cast<SessionTapeStore*>(store_.get()); }
    bool has_journals() const { return dynamic_cast<TurnJournalStore*>(store_.get()) != nullptr; }

    void fail(std::string text) { failures_.push_back({check_, std::move(text)}); }
    void expect(bool holds, std::string_view what) {
        if (!holds) fail("expected: " + std::string(what));
    }
    template <class F>
    void expect_error(cubepi::ErrorCode code, std::string_view what, F call) {
        const std::string wanted =
            std::string(what) + " is rejected with " + std::string(cubepi::to_string(code));
        try {
            call();
            fail("expected: " + wanted + "; it succeeded");
        } catch (const cubepi::Error& error) {
            if (error.code() != code)
                fail("expected: " + wanted + "; it failed with " +
                     std::string(cubepi::to_string(error.code())) + " (" + error.what() + ")");
        }
    }

    TapePosition append(std::vector<TapeEntry> entries, TapeAppend options = {}) {
        return run(store().append(tape, std::move(entries), std::move(options)));
    }
    TapePosition append(TapeEntry entry, TapeAppend options = {}) {
        std::vector<TapeEntry> one;
        one.push_back(std::move(entry));
        return append(std::move(one), std::move(options));
    }
    /// Returns the texts of messages and the names of events and anchors.
    std::string contents(TapeQuery query = {}) { return contents_of(store(), std::move(query)); }
    static std::string contents_of(TapeStore& of, TapeQuery query = {}) {
        std::string texts;
        for (const TapeEntry& entry : run(of.fetch(tape, std::move(query)))) {
            const Json* content = entry.payload.if_contains("content");
            texts += content ? std::string(content->as_string()) : std::string(entry_name(entry));
            texts += ' ';
        }
        return texts;
    }
    void set_state(std::string key, std::string value) {
        std::function<Json(JsonObject&)> edit = [key, value](JsonObject& state) {
            state[key] = value;
            return Json();
        };
        (void)run(store().edit_state(tape, std::move(edit)));
    }
    std::vector<TapeStoreFailure> take() { return std::move(failures_); }

private:
    const TapeStoreUnderTest& subject_;
    std::string check_;
    std::shared_ptr<TapeStore> store_;
    std::vector<TapeStoreFailure> failures_;
};

struct Check {
    const char* name;
    void (*run)(Probe& probe);
};

// The contents of tapes.

void check_unknown_tape(Probe& probe) {
    TapeStore& store = probe.store();
    probe.expect(run(store.all_tapes()).empty(), "an empty store lists no tapes");
    probe.expect(run(store.fetch(tape, TapeQuery())).empty(), "an unknown tape has no entries");
    const TapePosition end = run(store.position(tape));
    probe.expect(end.last_id == 0 && end.messages == 0, "an unknown tape is at position 0");
    probe.expect(run(store.info(tape)).entries == 0, "the info of an unknown tape is empty");
    probe.expect(run(store.anchors(tape, 3)).empty(), "an unknown tape has no anchors");
    probe.expect(run(store.read_state(tape)).empty(), "the side state of an unknown tape is empty");
    run(store.reset(tape));
    probe.expect(run(store.all_tapes()).empty(), "resetting an unknown tape does not create it");
    for (const char* name : {"", "../w__s", "w/s"}) {
        probe.expect_error(cubepi::ErrorCode::invalid_argument,
                           "the tape name '" + std::string(name) + "'", [&] {
                               std::vector<TapeEntry> one(1, message_entry("user", "a"));
                               (void)run(store.append(name, std::move(one), TapeAppend()));
                           });
    }
}

void check_append(Probe& probe) {
    JsonObject meta;
    meta["of_another_writer"] = 1;
    TapeEntry first = message_entry("user", "a \"quoted\" \xc3\xb6\n", meta);
    first.date = "2026-03-01T12:00:00+00:00";
    std::vector<TapeEntry> both;
    both.push_back(first);
    both.push_back(event_entry("noted", JsonObject()));
    TapePosition end = probe.append(std::move(both));
    probe.expect(end.last_id == 2 && end.messages == 1,
                 "append returns the last id and the number of messages; events do not count");
    end = probe.append(message_entry("assistant", "b"));
    probe.expect(end.last_id == 3 && end.messages == 2, "ids and positions continue");
    const TapePosition again = run(probe.store().position(tape));
    probe.expect(again.last_id == 3 && again.messages == 2, "position() is that of the append");
    const std::vector<TapeEntry> all = run(probe.store().fetch(tape, TapeQuery()));
    probe.expect(all.size() == 3 && all[0].id == 1 && all[1].id == 2 && all[2].id == 3,
                 "the store assigns the ids 1, 2, 3");
    if (all.size() != 3) return;
    probe.expect(all[0].payload == first.payload && all[0].meta == first.meta &&
                     all[0].kind == first.kind && all[0].date == first.date,
                 "an entry is read as it was appended");
    probe.expect(!all[1].date.empty(), "the store assigns a date if there is none");
}

void check_names(Probe& probe) {
    for (const char* name : {"w__t", "w__s", "w__s__log", "plain"}) {
        std::vector<TapeEntry> one(1, message_entry("user", "a"));
        (void)run(probe.store().append(name, std::move(one), TapeAppend()));
    }
    const std::vector<std::string> all{"plain", "w__s", "w__s__log", "w__t"};
    const std::vector<std::string> main{"w__s", "w__t"};
    probe.expect(run(probe.store().all_tapes()) == all, "all_tapes() lists all names, sorted");
    probe.expect(run(probe.store().list_tapes()) == main, "list_tapes() lists main tapes, sorted");
}

void check_expected_position(Probe& probe) {
    probe.append(message_entry("user", "a"));
    probe.append(event_entry("noted", JsonObject()));
    probe.append(message_entry("assistant", "b"), TapeAppend().expected_position(1));
    probe.expect_error(cubepi::ErrorCode::stale_append, "an append at an old position (D20)", [&] {
        probe.append(message_entry("user", "c"), TapeAppend().expected_position(1));
    });
    probe.expect(probe.contents() == "a noted b ", "a rejected append stores nothing");
}

void check_guard(Probe& probe) {
    probe.set_state("key", "value");
    std::string seen;
    probe.append(message_entry("user", "a"), TapeAppend().guard([&](const JsonObject& state) {
        seen = state.contains("key") ? std::string(state.at("key").as_string()) : "";
    }));
    probe.expect(seen == "value", "the guard sees the side state");
    probe.expect_error(cubepi::ErrorCode::invalid_state, "an append whose guard throws (D50)", [&] {
        probe.append(message_entry("user", "b"), TapeAppend().guard([](const JsonObject&) {
            throw cubepi::Error(cubepi::ErrorCode::invalid_state, "rejected");
        }));
    });
    probe.expect(probe.contents() == "a ", "an append rejected by its guard stores nothing");
}

void check_reset(Probe& probe) {
    probe.set_state("key", "value");
    probe.append(message_entry("user", "a"));
    const TapePosition end =
        probe.append(message_entry("user", "b"), TapeAppend().reset().expected_position(1));
    probe.expect(end.last_id == 1 && end.messages == 1, "an append with reset starts at id 1");
    probe.expect(probe.contents() == "b ", "an append with reset replaces the entries");
    run(probe.store().reset(tape));
    probe.expect(probe.contents().empty(), "reset() empties the tape");
    probe.expect(run(probe.store().read_state(tape)).contains("key"),
                 "the side state is preserved by a reset");
    probe.expect(run(probe.store().all_tapes()).empty(), "a tape without entries is not listed");
}

void check_first_anchor(Probe& probe) {
    for (int i = 0; i < 2; ++i) {
        std::vector<TapeEntry> entries;
        entries.push_back(anchor_entry("start", JsonObject()));
        entries.push_back(message_entry("user", "a"));
        probe.append(std::move(entries), TapeAppend().first_anchor(1));
    }
    probe.expect(probe.contents() == "start a a ",
                 "first_anchor entries are omitted if the tape has an anchor");
}

void check_queries(Probe& probe) {
    probe.append(message_entry("user", "a"));
    probe.append(anchor_entry("one", JsonObject()));
    probe.append(message_entry("user", "b"));
    probe.append(anchor_entry("two", JsonObject()));
    probe.append(message_entry("user", "c"));
    probe.expect(probe.contents() == "a one b two c ", "fetch returns entries in tape order");
    probe.expect(probe.contents(TapeQuery().newest_first().limit(2)) == "c two ",
                 "newest_first and limit");
    std::vector<std::string> kinds(1, std::string(entry_kind::message));
    probe.expect(probe.contents(TapeQuery().kinds(std::move(kinds))) == "a b c ", "kinds");
    std::string visited;
    std::function<bool(const TapeEntry&)> visit = [&](const TapeEntry& entry) {
        visited += std::to_string(entry.id);
        return visited.size() < 2;
    };
    run(probe.store().visit(tape, TapeQuery(), std::move(visit)));
    probe.expect(visited == "12", "visit ends when the callback returns false");
    const std::vector<TapeEntry> anchors = run(probe.store().anchors(tape, 1));
    probe.expect(anchors.size() == 1 && entry_name(anchors.front()) == "two",
                 "anchors(1) returns the last anchor");
    const TapeInfo info = run(probe.store().info(tape));
    probe.expect(info.entries == 5 && info.anchors == 2 && info.last_anchor == "two" &&
                     info.entries_since_last_anchor == 1,
                 "info counts entries and anchors");
}

void check_find(Probe& probe) {
    JsonArray messages;
    JsonObject message;
    message["id"] = "m1";
    messages.emplace_back(message);
    JsonObject ours;
    ours["count"] = 1;
    ours["messages"] = std::move(messages);
    JsonObject meta;
    meta["cubepi"] = std::move(ours);
    JsonObject data;
    data["run_id"] = "r";
    probe.append(message_entry("user", "a", meta));
    probe.append(event_entry("cubepi.run", data));
    probe.append(event_entry("noted", JsonObject()));
    probe.append(event_entry("noted", JsonObject()));
    const auto id = [](const std::optional<TapeEntry>& entry) { return entry ? entry->id : 0; };
    TapeStore& store = probe.store();
    probe.expect(id(run(store.find_message_entry(tape, "m1"))) == 1, "a message id is found (D42)");
    probe.expect(id(run(store.find_run(tape, "r"))) == 2, "a run is found");
    probe.expect(id(run(store.find_event(tape, "noted"))) == 4, "the newest event is found");
    probe.expect(id(run(store.find_message_entry(tape, "m2"))) == 0 &&
                     id(run(store.find_run(tape, "other"))) == 0 &&
                     id(run(store.find_event(tape, "other"))) == 0,
                 "what is not on the tape is not found");
    run(store.reset(tape));
    probe.expect(id(run(store.find_message_entry(tape, "m1"))) == 0,
                 "nothing is found after a reset");
}

void check_state(Probe& probe) {
    std::function<Json(JsonObject&)> edit = [](JsonObject& state) {
        state["a"] = 1;
        return Json("result");
    };
    const Json result = run(probe.store().edit_state(tape, std::move(edit)));
    probe.expect(result == Json("result"), "edit_state returns the result of the edit");
    probe.expect_error(cubepi::ErrorCode::invalid_state, "an edit that throws", [&] {
        std::function<Json(JsonObject&)> failing = [](JsonObject& state) -> Json {
            state["b"] = 2;
            throw cubepi::Error(cubepi::ErrorCode::invalid_state, "rejected");
        };
        (void)run(probe.store().edit_state(tape, std::move(failing)));
    });
    const JsonObject state = run(probe.store().read_state(tape));
    probe.expect(state.contains("a") && !state.contains("b"), "an edit that throws stores nothing");
    probe.expect(run(probe.store().all_tapes()).empty(), "side state alone is not a tape");
}

void check_media(Probe& probe) {
    TapeMediaStore* media = probe.media();
    if (!media) return;
    const std::string name = run(media->put_media("bytes"));
    probe.expect(name.size() == 64, "the name of media is a SHA-256 in hex");
    probe.expect(run(media->put_media("bytes")) == name, "equal bytes have one name (B10)");
    probe.expect(run(media->get_media(name)) == "bytes", "media are returned as stored");
    probe.expect(!run(media->get_media(std::string(64, '0'))), "unknown media are not found");
}

void check_search(Probe& probe) {
    probe.append(message_entry("user",
                               "Die Stra\xc3\x9f"
                               "e"));
    probe.append(message_entry("user", "\xce\x9f\xce\xb4\xcf\x8c\xcf\x82"));
    probe.append(message_entry("user", "else"));
    probe.expect(probe.contents(TapeQuery().text("STRASSE")) ==
                     "Die Stra\xc3\x9f"
                     "e ",
                 "search folds the case as Unicode does (B17)");
    probe.expect(probe.contents(TapeQuery().text("\xce\x9f\xce\x94\xce\x8c\xce\xa3")) ==
                     "\xce\x9f\xce\xb4\xcf\x8c\xcf\x82 ",
                 "search folds the case of any script (B17)");
}

void check_keep_ids(Probe& probe) {
    TapeEntry first = message_entry("user", "a");
    first.id = 4;
    TapeEntry second = message_entry("user", "b");
    second.id = 7;
    std::vector<TapeEntry> both;
    both.push_back(std::move(first));
    both.push_back(second);
    const TapePosition end = probe.append(std::move(both), TapeAppend().keep_ids());
    probe.expect(end.last_id == 7 && end.messages == 2, "keep_ids keeps the ids of entries");
    probe.expect_error(cubepi::ErrorCode::stale_append, "an entry with an id that is taken",
                       [&] { probe.append(std::move(second), TapeAppend().keep_ids()); });
    probe.expect(probe.append(message_entry("user", "c")).last_id == 8,
                 "ids continue after those that were kept");
    std::string ids;
    for (const TapeEntry& entry : run(probe.store().fetch(tape, TapeQuery())))
        ids += std::to_string(entry.id);
    probe.expect(ids == "478", "entries are read with the ids that were kept");
}

void check_reopen(Probe& probe) {
    if (!probe.can_reopen()) return;
    probe.append(message_entry("user", "a"));
    probe.set_state("key", "value");
    probe.reopen();
    probe.expect(probe.contents() == "a ", "entries survive reopening");
    probe.expect(run(probe.store().read_state(tape)).contains("key"),
                 "side state survives reopening");
    const TapePosition end = probe.append(message_entry("user", "b"));
    probe.expect(end.last_id == 2 && end.messages == 2, "ids continue after reopening");
}

// Turns in progress, and what a store does with whole tapes.

std::shared_ptr<TurnTransaction> begin_turn(std::shared_ptr<TapeStore> store, std::string id) {
    TurnTransactionOptions options;
    options.turn_id = std::move(id);
    return std::make_shared<TurnTransaction>(std::move(store), tape, std::move(options));
}

void add(TurnTransaction& fork, TapeEntry entry) {
    std::vector<TapeEntry> one;
    one.push_back(std::move(entry));
    (void)run(fork.append(tape, std::move(one), TapeAppend()));
}

/// The outcome of the last turn according to the tape.
std::string last_turn(TapeStore& store) {
    const std::optional<TapeEntry> marker = run(store.find_event(tape, "turn"));
    const JsonObject* data =
        marker ? cubepi::detail::object_member(marker->payload, "data") : nullptr;
    return data ? cubepi::detail::text_member(*data, "status") : std::string();
}

void check_turn(Probe& probe) {
    if (!probe.has_journals()) return;
    probe.append(message_entry("user", "before"));
    auto fork = begin_turn(probe.shared(), "t1");
    add(*fork, message_entry("user", "a"));
    add(*fork, message_entry("assistant", "b"));
    probe.expect(probe.contents() == "before ", "a turn is invisible until it is merged (B9)");
    if (probe.can_share()) {
        const std::shared_ptr<TapeStore> other = probe.other();
        probe.expect(Probe::contents_of(*other) == "before ",
                     "a turn in progress is invisible in other processes");
        const auto second = begin_turn(other, "t2");
        add(*second, message_entry("user", "c"));
        probe.expect(last_turn(*other).empty(), "a turn in progress is not closed by others");
        run(second->discard());
    }
    run(fork->merge());
    probe.expect(probe.contents() == "before a b turn ", "a merged turn is visible as a whole");
    probe.expect(last_turn(probe.store()) == "ok", "the turn's marker has its status");
    if (!probe.can_reopen()) return;
    fork.reset();
    probe.reopen();
    probe.expect(probe.contents() == "before a b turn ", "a merged turn has no journal left");
}

void check_dead_turn(Probe& probe) {
    if (!probe.has_journals() || !probe.can_reopen()) return;
    auto fork = begin_turn(probe.shared(), "t1");
    add(*fork, message_entry("user", "a"));
    fork->add_text("half of an answer");
    run(fork->flush());
    fork.reset();
    probe.reopen();
    const std::vector<std::string> names = run(probe.store().all_tapes());
    probe.expect(names.size() == 1, "a session that died in its first turn is listed");
    probe.expect(probe.contents() == "a half of an answer turn ",
                 "the turn of a dead process is closed with the text that was shown");
    probe.expect(last_turn(probe.store()) == "interrupted", "the turn is closed as interrupted");
    probe.reopen();
    probe.expect(probe.contents() == "a half of an answer turn ", "a turn is closed once");
    const TapePosition end = run(probe.store().position(tape));
    probe.expect(end.messages == 2, "the messages of a closed turn count");
}

void check_suspended_turn(Probe& probe) {
    if (!probe.has_journals() || !probe.can_reopen()) return;
    auto fork = begin_turn(probe.shared(), "t1");
    add(*fork, message_entry("user", "a"));
    {
        TapeCheckpointer questions(probe.shared());
        cubepi::HitlRequest request;
        request.question_id = "q1";
        request.payload = cubepi::ConfirmRequest{.prompt = "Continue?"};
        run(questions.save_pending_request(tape, "r1", std::move(request)));
    }
    fork.reset();
    probe.reopen();
    probe.expect(probe.contents() == "a turn ", "the turn of a dead process is closed");
    probe.expect(last_turn(probe.store()) == "suspended",
                 "a turn whose question is stored is closed as suspended (B23)");
}

void check_discarded_turn(Probe& probe) {
    if (!probe.has_journals() || !probe.can_reopen()) return;
    auto fork = begin_turn(probe.shared(), "t1");
    add(*fork, message_entry("user", "a"));
    run(fork->discard());
    fork.reset();
    probe.reopen();
    probe.expect(probe.contents().empty(), "a discarded turn leaves nothing");
}

void check_remove(Probe& probe) {
    SessionTapeStore* const sessions = probe.sessions();
    if (!sessions) return;
    for (const char* name : {tape, "w__s__log", "w__t", "w__s2"}) {
        std::vector<TapeEntry> one(1, message_entry("user", "a"));
        (void)run(sessions->append(name, std::move(one), TapeAppend()));
    }
    probe.set_state("key", "value");
    run(sessions->remove_tape(tape));
    const std::vector<std::string> left{"w__s2", "w__t"};
    probe.expect(run(sessions->all_tapes()) == left,
                 "remove_tape() removes the tape and its sidecars");
    probe.expect(run(sessions->read_state(tape)).empty(), "remove_tape() removes the side state");
    probe.expect(probe.append(message_entry("user", "b")).last_id == 1,
                 "a removed tape starts from scratch");
    run(sessions->remove_tape("w__unknown"));
}

void check_remove_in_use(Probe& probe) {
    SessionTapeStore* const sessions = probe.sessions();
    if (!sessions || !probe.can_share()) return;
    probe.append(message_entry("user", "a"));
    const std::shared_ptr<TapeStore> other = probe.other();
    auto& remover = dynamic_cast<SessionTapeStore&>(*other);
    const auto remove = [&remover] { run(remover.remove_tape(tape)); };
    const auto fork = begin_turn(probe.shared(), "t1");
    add(*fork, message_entry("user", "b"));
    probe.expect(run(remover.has_open_turn(tape)), "has_open_turn() sees turns of other processes");
    probe.expect_error(cubepi::ErrorCode::storage_locked, "to remove a tape with a turn", remove);
    run(fork->merge());
    probe.expect(!run(remover.has_open_turn(tape)), "a turn that was merged is not open");
}

void check_listing(Probe& probe) {
    SessionTapeStore* const sessions = probe.sessions();
    if (!sessions) return;
    for (const char* name : {tape, "plain", "w__s__log"}) {
        std::vector<TapeEntry> one(1, message_entry("user", "a"));
        (void)run(sessions->append(name, std::move(one), TapeAppend()));
    }
    const std::vector<ListedTape> tapes = run(sessions->newest_tapes());
    probe.expect(tapes.size() == 1 && tapes.front().name == tape,
                 "newest_tapes() lists the tapes with one \"__\" in their name");
    probe.expect(!tapes.empty() && tapes.front().bytes > 20 &&
                     tapes.front().modified > std::chrono::system_clock::time_point(),
                 "newest_tapes() has the size and the time of a tape");
    std::vector<TapeEntry> two(1, message_entry("user", "b"));
    for (const char* name : {"w__b", "w__a", "w__a__log", "w__c"})
        (void)run(sessions->append(name, two, TapeAppend()));
    std::vector<std::string> all;
    for (const ListedTape& one : run(sessions->newest_tapes())) all.push_back(one.name);
    std::vector<std::string> paged;
    std::optional<ListedTape> last;
    for (std::size_t page = 1; paged.size() < all.size(); page = 2) {
        const std::vector<ListedTape> read = run(sessions->newest_tapes_after(last, page));
        if (read.empty() || read.size() > page) break;
        for (const ListedTape& one : read) paged.push_back(one.name);
        last = read.back();
    }
    probe.expect(all.size() == 4 && paged == all, "newest_tapes_after() lists pages of them");
    probe.expect(run(sessions->newest_tapes_after(last, 2)).empty(), "and none after the last one");
    (void)run(sessions->append("v__a", two, TapeAppend()));
    std::vector<std::string> prefixed;
    for (const ListedTape& one : run(sessions->newest_tapes("w__"))) prefixed.push_back(one.name);
    probe.expect(prefixed == all, "newest_tapes() lists those with a prefix");
    probe.expect(run(sessions->newest_tapes_after(last, 2, "w__")).empty() &&
                     run(sessions->newest_tapes_after(std::nullopt, 2, "v_")).size() == 1,
                 "newest_tapes_after() lists pages of those");
    const std::shared_ptr<const void> held = run(sessions->hold("sessions"));
    probe.expect(held != nullptr, "hold() acquires a lock");
}

constexpr Check all_checks[] = {
    {"unknown_tape", check_unknown_tape},
    {"append", check_append},
    {"names", check_names},
    {"expected_position", check_expected_position},
    {"guard", check_guard},
    {"reset", check_reset},
    {"first_anchor", check_first_anchor},
    {"queries", check_queries},
    {"find", check_find},
    {"state", check_state},
    {"media", check_media},
    {"reopen", check_reopen},
    {"search", check_search},
    {"keep_ids", check_keep_ids},
    {"turn", check_turn},
    {"dead_turn", check_dead_turn},
    {"suspended_turn", check_suspended_turn},
    {"discarded_turn", check_discarded_turn},
    {"remove", check_remove},
    {"remove_in_use", check_remove_in_use},
    {"listing", check_listing},
};

}  // namespace

std::vector<std::string> tape_store_checks() {
    std::vector<std::string> names;
    for (const Check& check : all_checks) names.emplace_back(check.name);
    return names;
}

std::vector<TapeStoreFailure> check_tape_store(const TapeStoreUnderTest& store) {
    std::vector<TapeStoreFailure> failures;
    for (const Check& check : all_checks) {
        Probe probe(store, check.name);
        try {
            check.run(probe);
        } catch (...) {
            probe.fail("unexpected " + cubepi::exception_text(std::current_exception()));
        }
        for (TapeStoreFailure& failure : probe.take()) failures.push_back(std::move(failure));
    }
    return failures;
}

}  // namespace bub
