#include <algorithm>
#include <set>
#include <utility>

#include <bub/tape/checkpointer/checkpointer_state.hpp>
#include <bub/tape/checkpointer/side_state.hpp>
#include <bub/tape/tape_sidecar.hpp>
#include <cubepi/checkpoint/common/requests.hpp>
#include <cubepi/core/error.hpp>
#include <cubepi/core/support/json_member.hpp>

// Pending requests and answers: the lists "pending" and "answers" in the side state; the inbox of all tapes; and the records of
// answers with their origin. A record is stored in the list "answered" of the side state, in the edit that removes its request.
// When the list has become long, its records are moved to the sidecar `answers` of the tape: the side state is small, because it
// is rewritten often. A process that is killed in between leaves the records in both places.

namespace bub {

using namespace cubepi;
using cubepi::detail::integer_member;
using cubepi::detail::text_member;
using detail::SideState;

namespace {

/// Stores the answer, in place of a former one to the same question.
void put_answer(JsonObject& state, const std::string& run_id, const std::string& question_id,
                const Json& answer) {
    JsonArray& answers = SideState::edit(state, "answers");
    detail::erase_where(answers, [&](const Json& json) {
        return detail::is_of_question(json, run_id, question_id);
    });
    JsonObject stored;
    stored["run_id"] = run_id;
    stored["question_id"] = question_id;
    stored["answer"] = answer;
    answers.emplace_back(std::move(stored));
}

}  // namespace

Task<void> TapeCheckpointer::save_pending_request(std::string thread_id, std::string run_id,
                                                  HitlRequest request) {
    const std::shared_ptr<State> state = state_;
    JsonObject one;
    one["run_id"] = run_id;
    one["request"] = to_json(request);
    if (state->options.nested) one["nested"] = true;
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
        const std::size_t removed = detail::erase_where(
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
    std::function<Json(JsonObject&)> edit = [answer = std::move(answer)](JsonObject& side_state) {
        // Notes are texts; the endpoint chooses the ids of other answers.
        if (answer.answer.is_string())
            SideState::remove_earlier_notes(side_state, answer.run_id, answer.question_id);
        put_answer(side_state, answer.run_id, answer.question_id, answer.answer);
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
        if (!detail::is_of_question(json, run_id, question_id)) continue;
        const Json* answer = json.get_object().if_contains("answer");
        found = answer ? *answer : Json();
    }
    co_return found;
}

Task<void> TapeCheckpointer::clear_hitl_answers(std::string thread_id, std::string run_id,
                                                std::vector<std::string> question_ids) {
    const std::shared_ptr<State> state = state_;
    std::function<Json(JsonObject&)> edit = [=](JsonObject& side_state) {
        detail::erase_where(SideState::edit(side_state, "answers"), [&](const Json& json) {
            if (!detail::is_of_run(json, run_id)) return false;
            return question_ids.empty() ||
                   std::find(question_ids.begin(), question_ids.end(),
                             text_member(json.get_object(), "question_id")) != question_ids.end();
        });
        SideState::tidy(side_state);
        return Json();
    };
    co_await state->store->edit_state(std::move(thread_id), std::move(edit));
}

namespace {

/// The input schema of the tool (D63), which may be large, is not needed any more.
JsonObject request_json(HitlRequest request) {
    request.extra.erase("input_schema");
    return to_json(request);
}

JsonObject record_json(const AnswerRecord& record, HitlRequest request) {
    JsonObject json;
    json["run_id"] = record.run_id;
    json["question_id"] = record.question_id;
    json["answer"] = record.answer;
    json["answered_at"] = record.answered_at;
    json["user"] = record.user;
    json["channel"] = record.channel;
    json["request"] = request_json(std::move(request));
    return json;
}

AnswerRecord read_record(const Json& element) {
    AnswerRecord record;
    const JsonObject* json = element.if_object();
    if (!json) {
        record.damage = "the stored record is not an object";
        return record;
    }
    record.run_id = text_member(*json, "run_id");
    record.question_id = text_member(*json, "question_id");
    record.user = text_member(*json, "user");
    record.channel = text_member(*json, "channel");
    try {
        record.answer = json->at("answer");
        record.answered_at = json->at("answered_at").to_number<double>();
        record.request = hitl_request_from_json(json->at("request"));
    } catch (const std::exception& error) {
        record.damage = error.what();
    }
    return record;
}

/// Makes each record of a tape unique.
std::int64_t next_number(JsonObject& state) {
    const std::int64_t number = integer_member(state, "answer_count").value_or(0) + 1;
    state["answer_count"] = number;
    return number;
}

/// Removes the request, and stores the answer and its record.
void store_answer(JsonObject& state, const std::string& tape, const std::string& file,
                  const AnswerRecord& record) {
    JsonArray& pending = SideState::edit(state, "pending");
    const auto found = std::find_if(pending.begin(), pending.end(), [&](const Json& element) {
        return detail::is_request(element, record.run_id, record.question_id);
    });
    if (found == pending.end()) cubepi::detail::throw_stale_answer(tape, record);
    QuestionEntry entry = detail::read_request(tape, *found);
    if (!entry.request) detail::throw_damaged_request(entry, file);
    PendingRequest request;
    request.request = std::move(*entry.request);
    request.expired = detail::is_expired(*found);
    if (cubepi::detail::has_expired(request, record.answered_at))
        cubepi::detail::throw_stale_answer(tape, record);
    pending.erase(found);
    put_answer(state, record.run_id, record.question_id, record.answer);
    JsonObject stored = record_json(record, std::move(request.request));
    stored["number"] = next_number(state);
    SideState::edit(state, "answered").emplace_back(std::move(stored));
    SideState::tidy(state);
}

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

bool is_due(const QuestionEntry& entry, double now) {
    return entry.expires_at && *entry.expires_at <= now;
}

/// Returns true if the request was pending, was due, and is expired now.
bool expire(JsonObject& state, const QuestionEntry& entry, double now) {
    for (Json& element : SideState::edit(state, "pending")) {
        if (!detail::is_request(element, entry.run_id, entry.question_id)) continue;
        if (detail::is_expired(element)) return false;
        if (!is_due(detail::read_request(entry.thread_id, element), now)) return false;
        element.get_object()["expired"] = true;
        return true;
    }
    SideState::tidy(state);
    return false;
}

}  // namespace

Task<QuestionPage> TapeCheckpointer::list_requests(QuestionQuery query) {
    return state_->store->list_requests(std::move(query));
}

Task<bool> TapeCheckpointer::State::expire_one(QuestionEntry entry, double now) {
    const std::shared_ptr<State> self = shared_from_this();
    std::string tape = entry.thread_id;
    std::function<Json(JsonObject&)> edit = [entry = std::move(entry),
                                             now](JsonObject& side_state) {
        return Json(expire(side_state, entry, now));
    };
    const Json expired = co_await store->edit_state(std::move(tape), std::move(edit));
    co_return expired.as_bool();
}

/// Goes through the requests by deadline. An unreadable one does not expire: it is listed until it is discarded.
Task<std::vector<QuestionEntry>> TapeCheckpointer::expire_due(double now, std::size_t limit) {
    const std::shared_ptr<State> state = state_;
    std::vector<QuestionEntry> expired;
    std::string cursor;
    bool more = limit > 0;
    while (more) {
        QuestionQuery query =
            QuestionQuery().order(QuestionOrder::deadline).limit(limit).after(cursor);
        QuestionPage page = co_await state->store->list_requests(std::move(query));
        cursor = page.next;
        more = !cursor.empty();
        for (QuestionEntry& entry : page.entries) {
            more = more && is_due(entry, now);
            if (!entry.request || !is_due(entry, now) || expired.size() == limit) continue;
            const bool done = co_await state->expire_one(entry, now);
            if (done) expired.push_back(std::move(entry));
        }
        more = more && expired.size() < limit;
    }
    co_return expired;
}

Task<void> TapeCheckpointer::answer_request(std::string thread_id, AnswerRecord record) {
    const std::shared_ptr<State> state = state_;
    const std::string file = state->store->state_file(thread_id);
    std::function<Json(JsonObject&)> edit = [=](JsonObject& side_state) {
        store_answer(side_state, thread_id, file, record);
        return Json(SideState(side_state).list("answered").size());
    };
    const Json count = co_await state->store->edit_state(thread_id, std::move(edit));
    if (count.to_number<std::size_t>() <= most_records_in_state) co_return;
    try {
        co_await state->archive_records(std::move(thread_id));
    } catch (const Error&) {
        // The answer is stored. Its record stays in the side state, and the next answer tries again.
    }
}

Task<void> TapeCheckpointer::State::archive_records(std::string tape) {
    const std::shared_ptr<State> self = shared_from_this();
    const JsonObject side_state = co_await store->read_state(tape);
    const JsonArray records = SideState(side_state).list("answered");
    std::vector<TapeEntry> entries = archived(records);
    TapeAppend options;
    (void)co_await store->append(archive_of(tape), std::move(entries), std::move(options));
    std::function<Json(JsonObject&)> edit = [records](JsonObject& now) {
        detail::erase_where(SideState::edit(now, "answered"), [&](const Json& record) {
            return record.is_object() &&
                   std::find(records.begin(), records.end(), record) != records.end();
        });
        now[records_archived] = true;
        SideState::tidy(now);
        return Json();
    };
    co_await store->edit_state(std::move(tape), std::move(edit));
}

Task<void> TapeCheckpointer::State::remove_records(std::string tape) {
    const std::shared_ptr<State> self = shared_from_this();
    const JsonObject side_state = co_await store->read_state(tape);
    if (side_state.contains(records_archived)) co_await store->reset(archive_of(tape));
}

/// Reads the side state first, so that a record that is moved meanwhile is not missed.
Task<std::vector<AnswerRecord>> TapeCheckpointer::load_answer_records(std::string thread_id) {
    const std::shared_ptr<State> state = state_;
    const JsonObject side_state = co_await state->store->read_state(thread_id);
    std::vector<TapeEntry> entries;
    if (side_state.contains(records_archived)) {
        TapeQuery all;
        entries = co_await state->store->fetch(archive_of(thread_id), std::move(all));
    }
    JsonArray stored;
    for (const TapeEntry& entry : entries) {
        if (const Json* data = entry.payload.if_contains("data")) stored.push_back(*data);
    }
    for (const Json& record : SideState(side_state).list("answered")) stored.push_back(record);
    std::vector<AnswerRecord> records;
    std::set<std::string> seen;
    for (const Json& one : stored) {
        if (seen.insert(boost::json::serialize(one)).second) records.push_back(read_record(one));
    }
    co_return records;
}

Task<std::size_t> TapeCheckpointer::discard_requests(std::string thread_id) {
    const std::shared_ptr<State> state = state_;
    std::function<Json(JsonObject&)> edit = [](JsonObject& side_state) {
        const std::size_t count = SideState(side_state).list("pending").size();
        side_state.erase("pending");
        return Json(count);
    };
    const Json count = co_await state->store->edit_state(std::move(thread_id), std::move(edit));
    co_return count.to_number<std::size_t>();
}

}  // namespace bub
