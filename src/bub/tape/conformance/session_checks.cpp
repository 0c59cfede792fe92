#include <string>
#include <utility>
#include <vector>

#include <bub/tape/conformance/probe.hpp>
#include <bub/tape/tape_checkpointer.hpp>
#include <bub/tape/turn_transaction.hpp>

// Turns in progress, and what a store does with whole tapes.

namespace bub::detail {

namespace {

using cubepi::run;

constexpr const char* tape = probed_tape;

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
    const Json* data = marker ? marker->payload.if_contains("data") : nullptr;
    if (!data || !data->is_object()) return {};
    const Json* status = data->get_object().if_contains("status");
    return status && status->is_string() ? std::string(status->get_string()) : std::string();
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
    const std::shared_ptr<const void> held = run(sessions->hold("sessions"));
    probe.expect(held != nullptr, "hold() acquires a lock");
}

}  // namespace

std::vector<Check> session_checks() {
    return {
        {"turn", check_turn},
        {"dead_turn", check_dead_turn},
        {"suspended_turn", check_suspended_turn},
        {"discarded_turn", check_discarded_turn},
        {"remove", check_remove},
        {"remove_in_use", check_remove_in_use},
        {"listing", check_listing},
    };
}

}  // namespace bub::detail
