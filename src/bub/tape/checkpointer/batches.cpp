#include <algorithm>
#include <utility>

#include <bub/tape/checkpointer/checkpointer_state.hpp>
#include <cubepi/checkpoint/common/store_errors.hpp>
#include <cubepi/core/error.hpp>
#include <cubepi/core/support/json_member.hpp>

// The mark of a started batch: an element {"run_id", "batch_id", "calls", "used"} of the list "batches" in the side state, which
// contains the answers that the batch uses. Marking moves them there from the list "answers" in one edit.

namespace bub {

using namespace cubepi;
using cubepi::detail::string_member;
using cubepi::detail::text_member;
using detail::SideState;

namespace {

using Ids = std::vector<std::string>;

bool contains(const Ids& ids, const std::string& id) {
    return std::find(ids.begin(), ids.end(), id) != ids.end();
}

template <class Is>
void erase_where(JsonArray& list, Is is) {
    list.erase(std::remove_if(list.begin(), list.end(), is), list.end());
}

bool is_of(const Json& json, const std::string& run_id, const Ids& question_ids) {
    const JsonObject* one = json.if_object();
    return one && string_member(*one, "run_id") == run_id &&
           contains(question_ids, text_member(*one, "question_id"));
}

bool is_request_of(const Json& json, const std::string& run_id, const Ids& question_ids) {
    const JsonObject* one = json.if_object();
    const Json* request = one ? one->if_contains("request") : nullptr;
    return request && request->is_object() && string_member(*one, "run_id") == run_id &&
           contains(question_ids, text_member(request->get_object(), "question_id"));
}

const JsonObject* find_batch(const JsonObject& state, const std::string& run_id) {
    for (const Json& json : SideState(state).list("batches")) {
        const JsonObject* batch = json.if_object();
        if (batch && string_member(*batch, "run_id") == run_id) return batch;
    }
    return nullptr;
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
    erase_where(answers, [&](const Json& answer) {
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
    erase_where(batches, [&](const Json& json) {
        const JsonObject* one = json.if_object();
        return one && string_member(*one, "run_id") == start.run_id;
    });
    batches.emplace_back(std::move(batch));
    SideState::tidy(state);
}

void remove_settled(JsonObject& state, const std::string& run_id, const Ids& question_ids) {
    erase_where(SideState::edit(state, "pending"),
                [&](const Json& json) { return is_request_of(json, run_id, question_ids); });
    const auto of_question = [&](const Json& json) { return is_of(json, run_id, question_ids); };
    erase_where(SideState::edit(state, "answers"), of_question);
    for (Json& json : SideState::edit(state, "batches")) {
        if (JsonObject* batch = json.if_object())
            erase_where(SideState::edit(*batch, "used"), of_question);
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
        const bool holds =
            start.owner_id.empty() || SideState(side).holds(start.run_id, start.owner_id);
        if (!holds) cubepi::detail::throw_claim_lost(thread_id, start.run_id);
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
        const bool holds = options.claim_owner().empty() ||
                           SideState(side).holds(options.claim_run_id(), options.claim_owner());
        if (!holds) cubepi::detail::throw_claim_lost(tape, options.claim_run_id());
        remove_settled(side, options.settled_run_id(), options.settled_questions());
        return Json();
    };
    co_await store->edit_state(std::move(tape), std::move(edit));
}

}  // namespace bub
