#include <algorithm>
#include <utility>

#include <bub/tape/checkpointer/checkpointer_state.hpp>
#include <bub/tape/checkpointer/side_state.hpp>
#include <bub/tape/entry/entry_facts.hpp>
#include <cubepi/checkpoint/common/store_errors.hpp>
#include <cubepi/core/error.hpp>
#include <cubepi/core/support/json_member.hpp>

// Runs, their claims, and the marks of started batches in the side state. The mark is an element {"run_id", "batch_id", "calls",
// "used"} of the list "batches", which contains the answers that the batch uses. Marking moves them there from the list "answers"
// in one edit.

namespace bub {

using namespace cubepi;
using cubepi::detail::string_member;
using cubepi::detail::text_member;
using detail::SideState;
using detail::SideStateClaims;

namespace {

/// Removes the owner's claim on a run, and the run itself if no other owner has a claim on it.
void remove_run(JsonObject& state, const std::string& run_id, const std::string& owner_id) {
    SideStateClaims claims(state);
    ClaimRules rules(claims, {});
    rules.release(run_id, owner_id);
    if (!rules.claim_on(run_id)) claims.complete_run(run_id);
    SideState::remove_answers_of_run(state, run_id);
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

Task<ClaimResult> TapeCheckpointer::claim_run(std::string thread_id, std::string run_id,
                                              ClaimOwner owner, ClaimKind kind) {
    const std::shared_ptr<State> state = state_;
    if (co_await state->is_complete(thread_id, run_id))
        cubepi::detail::throw_run_completed(thread_id, run_id);
    auto result = std::make_shared<ClaimResult>();
    std::function<Json(JsonObject&)> edit = [=](JsonObject& side_state) {
        SideStateClaims claims(side_state);
        *result = ClaimRules(claims, thread_id, state->time()).claim(run_id, owner, kind);
        note_session(side_state, state->options.session);
        return Json();
    };
    co_await state->store->edit_state(thread_id, std::move(edit));
    if (result->superseded) co_await state->check_still_open(thread_id, run_id, owner.owner_id);
    if (state->turn && !owner.owner_id.empty())
        state->turn->hold_claim(thread_id, TapeClaim{run_id, owner.owner_id});
    co_return *result;
}

/// The former owner may have completed the run between the first check and the takeover.
Task<void> TapeCheckpointer::State::check_still_open(std::string tape, std::string run_id,
                                                     std::string owner_id) {
    const std::shared_ptr<State> self = shared_from_this();
    const bool complete = co_await is_complete(tape, run_id);
    if (!complete) co_return;
    std::function<Json(JsonObject&)> give_up = [=](JsonObject& side_state) {
        remove_run(side_state, run_id, owner_id);
        return Json();
    };
    co_await store->edit_state(tape, std::move(give_up));
    cubepi::detail::throw_run_completed(tape, run_id);
}

Task<void> TapeCheckpointer::renew_claim(std::string thread_id, std::string run_id,
                                         std::string owner_id) {
    const std::shared_ptr<State> state = state_;
    std::function<Json(JsonObject&)> edit = [=](JsonObject& side_state) {
        SideStateClaims claims(side_state);
        ClaimRules(claims, thread_id, state->time()).renew(run_id, owner_id);
        return Json();
    };
    co_await state->store->edit_state(thread_id, std::move(edit));
}

Task<void> TapeCheckpointer::release_claim(std::string thread_id, std::string run_id,
                                           std::string owner_id) {
    const std::shared_ptr<State> state = state_;
    std::function<void(JsonObject&)> edit = [=](JsonObject& side_state) {
        SideStateClaims claims(side_state);
        ClaimRules(claims, {}).release(run_id, owner_id);
    };
    co_await state->edit_at_end(std::move(thread_id), std::move(edit));
}

Task<void> TapeCheckpointer::mark_run_complete(std::string thread_id, std::string run_id) {
    return state_->complete(std::move(thread_id), std::move(run_id), std::nullopt);
}

Task<void> TapeCheckpointer::complete_run(std::string thread_id, std::string run_id,
                                          std::string owner_id) {
    return state_->complete(std::move(thread_id), std::move(run_id), std::move(owner_id));
}

/// The claim is checked when the event is appended, under the lock of the tape. In a turn it is checked again when the
/// turn is merged. The claim is removed after that, when another owner may have claimed the run: only a claim held
/// before is removed. A completion that is repeated removes a claim that remained when its removal failed.
Task<void> TapeCheckpointer::State::complete(std::string tape, std::string run_id,
                                             std::optional<std::string> owner_id) {
    const std::shared_ptr<State> self = shared_from_this();
    const bool complete_before = co_await is_complete(tape, run_id);
    JsonObject side_state = co_await store->read_state(tape);
    const bool open = SideState(side_state).is_open(run_id);
    if (complete_before && !open) co_return;
    if (!open) cubepi::detail::throw_run_not_claimed(tape, run_id);
    SideStateClaims claims(side_state);
    const std::optional<HeldClaim> held = ClaimRules(claims, tape).claim_on(run_id);
    if (!complete_before) {
        std::vector<TapeEntry> entries = completion_of(run_id);
        TapeAppend options = TapeAppend().guard(completion_guard(tape, run_id, owner_id));
        co_await store->append(tape, std::move(entries), std::move(options));
    }
    std::function<void(JsonObject&)> edit =
        [run_id, owner = held ? held->owner.owner_id : std::string()](JsonObject& now) {
            remove_run(now, run_id, owner);
        };
    co_await edit_at_end(std::move(tape), std::move(edit));
}

Task<bool> TapeCheckpointer::is_run_complete(std::string thread_id, std::string run_id) {
    const std::shared_ptr<State> state = state_;
    const bool complete = co_await state->is_complete(std::move(thread_id), std::move(run_id));
    co_return complete;
}

namespace {

using Ids = std::vector<std::string>;

bool is_of(const Json& json, const std::string& run_id, const Ids& question_ids) {
    return std::any_of(question_ids.begin(), question_ids.end(), [&](const std::string& id) {
        return detail::is_of_question(json, run_id, id);
    });
}

bool is_request_of(const Json& json, const std::string& run_id, const Ids& question_ids) {
    return std::any_of(question_ids.begin(), question_ids.end(),
                       [&](const std::string& id) { return detail::is_request(json, run_id, id); });
}

const JsonObject* find_batch(const JsonObject& state, const std::string& run_id) {
    for (const Json& json : SideState(state).list("batches")) {
        if (detail::is_of_run(json, run_id)) return &json.get_object();
    }
    return nullptr;
}

/// Throws StaleAppendError if another owner has the claim on the run; nothing without an owner.
void check_owner(const JsonObject& state, const std::string& tape, const std::string& run_id,
                 const std::string& owner_id) {
    if (!owner_id.empty()) detail::check_claim(state, tape, run_id, owner_id);
}

JsonObject new_batch(const BatchStart& start) {
    JsonObject batch;
    batch["run_id"] = start.run_id;
    batch["batch_id"] = start.batch_id;
    return batch;
}

void move_answers(JsonObject& state, JsonObject& batch, const BatchStart& start) {
    JsonArray& answers = SideState::edit(state, "answers");
    JsonArray& used = SideState::edit(batch, "used");
    for (const Json& answer : answers) {
        if (is_of(answer, start.run_id, start.question_ids)) used.push_back(answer);
    }
    detail::erase_where(answers, [&](const Json& answer) {
        return is_of(answer, start.run_id, start.question_ids);
    });
}

void mark(JsonObject& state, const BatchStart& start) {
    const JsonObject* former = find_batch(state, start.run_id);
    const bool same = former && string_member(*former, "batch_id") == start.batch_id;
    JsonObject batch = same ? *former : new_batch(start);
    JsonArray& calls = SideState::edit(batch, "calls");
    for (const std::string& call_id : start.tool_call_ids) {
        if (std::find(calls.begin(), calls.end(), Json(call_id)) == calls.end())
            calls.emplace_back(call_id);
    }
    move_answers(state, batch, start);
    JsonArray& batches = SideState::edit(state, "batches");
    detail::erase_where(batches,
                        [&](const Json& json) { return detail::is_of_run(json, start.run_id); });
    batches.emplace_back(std::move(batch));
    SideState::tidy(state);
}

void remove_settled(JsonObject& state, const std::string& run_id, const Ids& question_ids) {
    detail::erase_where(SideState::edit(state, "pending"), [&](const Json& json) {
        return is_request_of(json, run_id, question_ids);
    });
    const auto of_question = [&](const Json& json) { return is_of(json, run_id, question_ids); };
    detail::erase_where(SideState::edit(state, "answers"), of_question);
    for (Json& json : SideState::edit(state, "batches")) {
        if (JsonObject* batch = json.if_object())
            detail::erase_where(SideState::edit(*batch, "used"), of_question);
    }
    SideState::tidy(state);
}

StartedBatch read_batch(const JsonObject& json) {
    StartedBatch batch;
    batch.batch_id = text_member(json, "batch_id");
    for (const Json& call : SideState(json).list("calls")) {
        if (call.is_string()) batch.tool_call_ids.emplace_back(call.get_string());
    }
    for (const Json& used : SideState(json).list("used")) {
        const JsonObject* one = used.if_object();
        if (!one) continue;
        HitlAnswer answer;
        answer.run_id = text_member(*one, "run_id");
        answer.question_id = text_member(*one, "question_id");
        const Json* value = one->if_contains("answer");
        if (value) answer.answer = *value;
        batch.used_answers.push_back(std::move(answer));
    }
    return batch;
}

}  // namespace

Task<void> TapeCheckpointer::mark_batch_started(std::string thread_id, BatchStart start) {
    const std::shared_ptr<State> state = state_;
    std::function<Json(JsonObject&)> edit = [thread_id, start](JsonObject& side) {
        check_owner(side, thread_id, start.run_id, start.owner_id);
        mark(side, start);
        return Json();
    };
    co_await state->store->edit_state(std::move(thread_id), std::move(edit));
}

Task<std::optional<StartedBatch>> TapeCheckpointer::load_started_batch(std::string thread_id,
                                                                       std::string run_id) {
    const std::shared_ptr<State> state = state_;
    const JsonObject side = co_await state->store->read_state(std::move(thread_id));
    std::optional<StartedBatch> started;
    if (const JsonObject* batch = find_batch(side, run_id)) started = read_batch(*batch);
    co_return started;
}

Task<void> TapeCheckpointer::State::settle(std::string tape, AppendOptions options) {
    const std::shared_ptr<State> self = shared_from_this();
    if (options.expected_position()) {
        const TapePosition end = co_await store->position(tape);
        if (end.messages != *options.expected_position())
            cubepi::detail::throw_stale_append(tape, *options.expected_position(), end.messages);
    }
    std::function<Json(JsonObject&)> edit = [tape, options](JsonObject& side) {
        check_owner(side, tape, options.claim_run_id(), options.claim_owner());
        remove_settled(side, options.settled_run_id(), options.settled_questions());
        return Json();
    };
    co_await store->edit_state(std::move(tape), std::move(edit));
}

}  // namespace bub
