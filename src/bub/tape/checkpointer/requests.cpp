#include <algorithm>
#include <utility>

#include <bub/tape/checkpointer/checkpointer_state.hpp>
#include <bub/tape/inbox/pending_requests.hpp>
#include <cubepi/core/support/json_member.hpp>

// Pending requests and answers: the lists "pending" and "answers" in the side state.

namespace bub {

using namespace cubepi;
using cubepi::detail::text_member;
using detail::SideState;

namespace {

template <class Is>
std::size_t erase_where(JsonArray& list, Is is) {
    const auto end_of_rest = std::remove_if(list.begin(), list.end(), is);
    const auto removed = static_cast<std::size_t>(list.end() - end_of_rest);
    list.erase(end_of_rest, list.end());
    return removed;
}

bool is_answer(const Json& json, const std::string& run_id, const std::string& question_id) {
    const JsonObject* one = json.if_object();
    return one && text_member(*one, "run_id") == run_id &&
           text_member(*one, "question_id") == question_id;
}

}  // namespace

Task<void> TapeCheckpointer::save_pending_request(std::string thread_id, std::string run_id,
                                                  HitlRequest request) {
    const std::shared_ptr<State> state = state_;
    JsonObject one;
    one["run_id"] = run_id;
    one["request"] = to_json(request);
    const std::string question_id = request.question_id;
    std::function<Json(JsonObject&)> edit = [=](JsonObject& side_state) {
        JsonArray& pending = SideState::edit(side_state, "pending");
        const auto same = std::find_if(pending.begin(), pending.end(), [&](const Json& json) {
            return detail::is_request(json, run_id, question_id);
        });
        if (same != pending.end()) {
            *same = one;
        } else {
            pending.emplace_back(one);
        }
        return Json();
    };
    co_await state->store->edit_state(std::move(thread_id), std::move(edit));
}

Task<std::vector<PendingRequest>> TapeCheckpointer::load_pending_requests(std::string thread_id) {
    const std::shared_ptr<State> state = state_;
    const JsonObject side_state = co_await state->store->read_state(thread_id);
    std::vector<PendingRequest> pending;
    for (const Json& element : SideState(side_state).list("pending")) {
        QuestionEntry read = detail::read_request(thread_id, element);
        if (!read.request) detail::throw_damaged_request(read, state->store->state_file(thread_id));
        PendingRequest entry;
        entry.run_id = std::move(read.run_id);
        entry.request = std::move(*read.request);
        entry.expired = detail::is_expired(element);
        pending.push_back(std::move(entry));
    }
    co_return pending;
}

Task<bool> TapeCheckpointer::clear_pending_request(std::string thread_id, std::string run_id,
                                                   std::string question_id) {
    const std::shared_ptr<State> state = state_;
    std::function<Json(JsonObject&)> edit = [=](JsonObject& side_state) {
        const std::size_t removed = erase_where(
            SideState::edit(side_state, "pending"),
            [&](const Json& json) { return detail::is_request(json, run_id, question_id); });
        SideState::tidy(side_state);
        return Json(removed > 0);
    };
    const Json removed = co_await state->store->edit_state(std::move(thread_id), std::move(edit));
    co_return removed.as_bool();
}

Task<void> TapeCheckpointer::save_hitl_answer(std::string thread_id, HitlAnswer answer) {
    const std::shared_ptr<State> state = state_;
    JsonObject one;
    one["run_id"] = answer.run_id;
    one["question_id"] = answer.question_id;
    one["answer"] = answer.answer;
    std::function<Json(JsonObject&)> edit = [run_id = answer.run_id,
                                             question_id = answer.question_id,
                                             one = std::move(one)](JsonObject& side_state) {
        JsonArray& answers = SideState::edit(side_state, "answers");
        erase_where(answers,
                    [&](const Json& json) { return is_answer(json, run_id, question_id); });
        answers.emplace_back(one);
        return Json();
    };
    co_await state->store->edit_state(std::move(thread_id), std::move(edit));
}

Task<std::optional<Json>> TapeCheckpointer::load_hitl_answer(std::string thread_id,
                                                             std::string run_id,
                                                             std::string question_id) {
    const std::shared_ptr<State> state = state_;
    const JsonObject side_state = co_await state->store->read_state(std::move(thread_id));
    std::optional<Json> found;
    for (const Json& json : SideState(side_state).list("answers")) {
        if (!is_answer(json, run_id, question_id)) continue;
        const Json* answer = json.get_object().if_contains("answer");
        found = answer ? *answer : Json();
    }
    co_return found;
}

Task<void> TapeCheckpointer::clear_hitl_answers(std::string thread_id, std::string run_id,
                                                std::vector<std::string> question_ids) {
    const std::shared_ptr<State> state = state_;
    std::function<Json(JsonObject&)> edit = [=](JsonObject& side_state) {
        erase_where(SideState::edit(side_state, "answers"), [&](const Json& json) {
            const JsonObject* one = json.if_object();
            if (!one || text_member(*one, "run_id") != run_id) return false;
            return question_ids.empty() ||
                   std::find(question_ids.begin(), question_ids.end(),
                             text_member(*one, "question_id")) != question_ids.end();
        });
        SideState::tidy(side_state);
        return Json();
    };
    co_await state->store->edit_state(std::move(thread_id), std::move(edit));
}

}  // namespace bub
