#include <algorithm>
#include <utility>
#include <variant>

#include <bub/tape/checkpointer/checkpointer_state.hpp>
#include <bub/tape/checkpointer/side_state.hpp>
#include <bub/tape/entry/entry_fields.hpp>
#include <bub/tape/tape_sidecar.hpp>
#include <cubepi/checkpoint/support/store_errors.hpp>
#include <cubepi/core/error.hpp>
#include <cubepi/core/support/json_member.hpp>

// Runs with their claims, and the requests and answers of suspended runs, in the side state.

namespace bub {

using namespace cubepi;
using cubepi::detail::edit_list;
using cubepi::detail::erase_where;
using cubepi::detail::list_of;
using cubepi::detail::tidy_lists;
using detail::SideState;
using detail::SideStateClaims;

namespace {

/// Removes the owner's claim on a run, and the run itself if no other owner has a claim on it.
void remove_run(JsonObject& state, const std::string& run_id, const std::string& owner_id) {
    SideStateClaims claims(state);
    ClaimRules rules(claims, {});
    rules.release(run_id, owner_id);
    if (!rules.claim_on(run_id)) claims.complete_run(run_id);
    cubepi::detail::remove_answers_of_run(state, run_id);
}

std::vector<TapeEntry> completion_of(const std::string& run_id) {
    JsonObject data;
    data["run_id"] = run_id;
    data["status"] = "complete";
    std::vector<TapeEntry> entries;
    entries.push_back(event_entry(detail::run_event, std::move(data), hidden_from_context()));
    return entries;
}

/// Returns the check of complete_run(); nothing without an owner, for mark_run_complete().
std::function<void(const JsonObject&)> completion_guard(std::string tape, std::string run_id,
                                                        std::optional<std::string> owner_id) {
    if (!owner_id) return {};
    return [tape = std::move(tape), run_id = std::move(run_id), owner_id = std::move(*owner_id)](
               const JsonObject& now) { detail::check_claim(now, tape, run_id, owner_id); };
}

}  // namespace

Task<ClaimResult> TapeCheckpointer::State::change_claim(std::string tape, ClaimChange change) {
    const auto self = shared_from_this();
    ClaimResult result;
    switch (change.step) {
        case ClaimChange::Step::claim:
            result = co_await claim(std::move(tape), std::move(change));
            break;
        case ClaimChange::Step::renew: {
            std::function<Json(JsonObject&)> edit = [=, time = time()](JsonObject& side_state) {
                SideStateClaims claims(side_state);
                (void)ClaimRules(claims, tape, time).apply(change);
                return Json();
            };
            co_await store->edit_state(tape, std::move(edit));
            break;
        }
        case ClaimChange::Step::release: {
            (void)forget_fresh_run(change.run_id);
            std::function<void(JsonObject&)> edit = [change](JsonObject& side_state) {
                SideStateClaims claims(side_state);
                (void)ClaimRules(claims, {}).apply(change);
            };
            co_await edit_at_end(std::move(tape), std::move(edit));
            break;
        }
        case ClaimChange::Step::complete:
            co_await complete(std::move(tape), std::move(change.run_id),
                              std::move(change.owner.owner_id));
            break;
        case ClaimChange::Step::mark_complete:
            co_await complete(std::move(tape), std::move(change.run_id), std::nullopt);
            break;
    }
    co_return result;
}

Task<ClaimResult> TapeCheckpointer::State::claim(std::string tape, ClaimChange change) {
    const auto self = shared_from_this();
    const std::string run_id = change.run_id;
    const std::string owner_id = change.owner.owner_id;
    const bool is_fresh = change.kind == ClaimKind::fresh_run;
    if (!is_fresh) {
        const bool complete = co_await is_run_complete(tape, run_id);
        if (complete) cubepi::detail::throw_run_completed(tape, run_id);
    }
    auto result = std::make_shared<ClaimResult>();
    std::function<Json(JsonObject&)> edit = [=, this,
                                             change = std::move(change)](JsonObject& side) {
        SideStateClaims claims(side);
        *result = ClaimRules(claims, tape, time()).apply(change);
        note_session(side, options.session);
        return Json();
    };
    co_await store->edit_state(tape, std::move(edit));
    if (result->superseded) co_await check_still_open(tape, run_id, owner_id);
    if (turn && !owner_id.empty()) turn->hold_claim(tape, TapeClaim{run_id, owner_id});
    if (is_fresh) {
        const std::lock_guard lock(mutex);
        fresh_runs.insert(run_id);
    }
    co_return *result;
}

/// The former owner may have completed the run between the first check and the takeover.
Task<void> TapeCheckpointer::State::check_still_open(std::string tape, std::string run_id,
                                                     std::string owner_id) {
    const auto self = shared_from_this();
    const bool complete = co_await is_run_complete(tape, run_id);
    if (!complete) co_return;
    std::function<Json(JsonObject&)> give_up = [=](JsonObject& side_state) {
        remove_run(side_state, run_id, owner_id);
        return Json();
    };
    co_await store->edit_state(tape, std::move(give_up));
    cubepi::detail::throw_run_completed(tape, run_id);
}

/// The claim is checked when the event is appended, under the lock of the tape. In a turn it is checked again when the
/// turn is merged. The claim is removed after that, when another owner may have claimed the run: only a claim held
/// before is removed. A completion that is repeated removes a claim that remained when its removal failed. A fresh run is
/// complete only if the claim was superseded.
Task<void> TapeCheckpointer::State::complete(std::string tape, std::string run_id,
                                             std::optional<std::string> owner_id) {
    const auto self = shared_from_this();
    const bool is_fresh = forget_fresh_run(run_id) && owner_id;
    bool complete_before = false;
    if (!is_fresh) complete_before = co_await is_run_complete(tape, run_id);
    std::string owner = owner_id.value_or(std::string());
    if (complete_before || !owner_id) {
        JsonObject side_state = co_await store->read_state(tape);
        const bool open = SideState(side_state).is_open(run_id);
        if (complete_before && !open) co_return;
        if (!open) cubepi::detail::throw_run_not_claimed(tape, run_id);
        SideStateClaims claims(side_state);
        const std::optional<HeldClaim> held = ClaimRules(claims, tape).claim_on(run_id);
        owner = held ? held->owner.owner_id : std::string();
    }
    if (!complete_before) co_await append_completion(tape, run_id, std::move(owner_id));
    std::function<void(JsonObject&)> edit = [run_id, owner](JsonObject& now) {
        remove_run(now, run_id, owner);
    };
    co_await edit_at_end(std::move(tape), std::move(edit));
}

bool TapeCheckpointer::State::forget_fresh_run(const std::string& run_id) {
    const std::lock_guard lock(mutex);
    return fresh_runs.erase(run_id) > 0;
}

/// An owner's claim is checked with the append only: if it is held, the run is open.
Task<void> TapeCheckpointer::State::append_completion(std::string tape, std::string run_id,
                                                      std::optional<std::string> owner_id) {
    const auto self = shared_from_this();
    std::vector<TapeEntry> entries = completion_of(run_id);
    TapeAppend options = TapeAppend().guard(completion_guard(tape, run_id, owner_id));
    std::exception_ptr failure;
    try {
        co_await store->append(tape, std::move(entries), std::move(options));
    } catch (...) {
        failure = std::current_exception();
    }
    if (!failure) co_return;
    if (owner_id && is_stale(failure)) {
        const JsonObject side_state = co_await store->read_state(tape);
        if (!SideState(side_state).is_open(run_id)) {
            // Another owner may have completed it meanwhile.
            const bool complete = co_await is_run_complete(tape, run_id);
            if (complete) co_return;
            cubepi::detail::throw_run_not_claimed(tape, run_id);
        }
    }
    std::rethrow_exception(failure);
}

Task<void> TapeCheckpointer::State::settle(std::string tape, AppendOptions options) {
    const auto self = shared_from_this();
    if (options.expected_position()) {
        const TapePosition end = co_await store->position(tape);
        if (end.messages != *options.expected_position())
            cubepi::detail::throw_stale_append(tape, *options.expected_position(), end.messages);
    }
    std::function<Json(JsonObject&)> edit = [tape, options](JsonObject& side) {
        if (!options.claim_owner().empty())
            detail::check_claim(side, tape, options.claim_run_id(), options.claim_owner());
        cubepi::detail::remove_settled(side, options);
        return Json();
    };
    co_await store->edit_state(std::move(tape), std::move(edit));
}

// The side state as the object of cubepi::ThreadStates, and the records of answers, which it has in the list "answered".
// When the list has become long, its records are moved to the sidecar `answers` of the tape: the side state is small, because it
// is rewritten often. A process that is killed in between leaves the records in both places.

Task<Json> TapeCheckpointer::State::edit_state(std::string tape,
                                               std::function<Json(JsonObject&)> edit) {
    return store->edit_state(std::move(tape), std::move(edit));
}

Task<void> TapeCheckpointer::State::read_state(std::string tape,
                                               std::function<void(const JsonObject&)> read) {
    const JsonObject state = co_await store->read_state(std::move(tape));
    read(state);
}

Task<QuestionPage> TapeCheckpointer::State::list_requests(QuestionQuery query) {
    return store->list_requests(std::move(query));
}

void TapeCheckpointer::State::require_claim(const JsonObject& state, const std::string& tape,
                                            const std::string& run_id,
                                            const std::string& owner_id) const {
    detail::check_claim(state, tape, run_id, owner_id);
}

void TapeCheckpointer::State::throw_damaged(const QuestionEntry& request) const {
    const std::string file = store->state_file(request.thread_id);
    const std::string place = file.empty() ? "the side state of the tape" : file;
    throw CheckpointCorruptionError(
        "a pending request of tape '" + request.thread_id + "' is damaged (" + request.damage +
            "); repair it in " + place +
            ", or discard the requests of the tape: `cubepi inbox cancel`, or "
            "QuestionStore::discard_requests() in a program",
        request.thread_id, "tape", "pending request '" + request.question_id + "'", file);
}

namespace {

constexpr std::size_t most_records_in_state = 64;
constexpr std::string_view records_archived = "records_archived";

std::string archive_of(const std::string& tape) { return sidecar_tape_name(tape, "answers"); }

std::vector<TapeEntry> archived(const JsonArray& records) {
    std::vector<TapeEntry> entries;
    for (const Json& record : records) {
        if (record.is_object())
            entries.push_back(
                event_entry("hitl.answer", record.get_object(), hidden_from_context()));
    }
    return entries;
}

}  // namespace

Task<std::size_t> TapeCheckpointer::State::change_questions(std::string tape,
                                                            QuestionChange change) {
    const auto self = shared_from_this();
    const bool is_answer = std::holds_alternative<AnswerRecord>(change);
    Task<std::size_t> changing = ThreadStates::change_questions(tape, std::move(change));
    const std::size_t removed = co_await std::move(changing);
    if (!is_answer) co_return removed;
    try {
        co_await archive_records(std::move(tape));
    } catch (const Error&) {
        // The answer is stored. Its record stays in the side state, and the next answer tries again.
    }
    co_return removed;
}

Task<void> TapeCheckpointer::State::archive_records(std::string tape) {
    const auto self = shared_from_this();
    const JsonObject side_state = co_await store->read_state(tape);
    const JsonArray records = list_of(side_state, "answered");
    if (records.size() <= most_records_in_state) co_return;
    std::vector<TapeEntry> entries = archived(records);
    TapeAppend options;
    (void)co_await store->append(archive_of(tape), std::move(entries), std::move(options));
    std::function<Json(JsonObject&)> edit = [records](JsonObject& now) {
        erase_where(edit_list(now, "answered"), [&](const Json& record) {
            return record.is_object() &&
                   std::find(records.begin(), records.end(), record) != records.end();
        });
        now[records_archived] = true;
        tidy_lists(now);
        return Json();
    };
    co_await store->edit_state(std::move(tape), std::move(edit));
}

Task<void> TapeCheckpointer::State::remove_records(std::string tape) {
    const auto self = shared_from_this();
    const JsonObject side_state = co_await store->read_state(tape);
    if (side_state.contains(records_archived)) co_await store->reset(archive_of(tape));
}

/// Reads the side state first, so that a record that is moved meanwhile is not missed.
Task<std::vector<AnswerRecord>> TapeCheckpointer::State::load_answer_records(std::string tape,
                                                                             std::string run_id) {
    const auto self = shared_from_this();
    const JsonObject side_state = co_await store->read_state(tape);
    std::vector<TapeEntry> entries;
    if (side_state.contains(records_archived)) {
        std::function<bool(const TapeEntry&)> take = [&](const TapeEntry& entry) {
            const Json* const data = entry.payload.if_contains("data");
            // The records of a run follow each other: a session has one open run at a time.
            if (!run_id.empty() && data && !cubepi::detail::is_of_run(*data, run_id)) return false;
            entries.push_back(entry);
            return true;
        };
        TapeQuery newest = TapeQuery().newest_first();
        co_await store->visit(archive_of(tape), std::move(newest), std::move(take));
        std::reverse(entries.begin(), entries.end());
    }
    JsonArray stored;
    for (const TapeEntry& entry : entries) {
        if (const Json* data = entry.payload.if_contains("data")) stored.push_back(*data);
    }
    for (const Json& record : list_of(side_state, "answered")) stored.push_back(record);
    co_return cubepi::detail::read_records(stored, run_id);
}

}  // namespace bub
