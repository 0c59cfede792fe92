#include <cubepi/checkpoint/thread_states.hpp>

#include <algorithm>
#include <functional>
#include <optional>
#include <set>
#include <utility>

#include <cubepi/checkpoint/support/question_state.hpp>
#include <cubepi/checkpoint/support/requests.hpp>
#include <cubepi/core/error.hpp>
#include <cubepi/core/support/json_member.hpp>

// The lists of a thread's object: "pending" with the elements {"run_id", "request", "expired", "nested"}, "answers", "batches" with
// {"run_id", "batch_id", "calls", "used"}, and "answered" with the records of answers and their origin. Marking a batch moves its
// answers to "used" in one edit.

namespace cubepi::detail {

namespace {

using Ids = std::vector<std::string>;

std::optional<double> number_of(const JsonObject& object, std::string_view key) {
    const Json* value = object.if_contains(key);
    if (!value || !value->is_number()) return std::nullopt;
    return value->to_number<double>();
}

const JsonObject* request_of(const Json& element) {
    const JsonObject* one = element.if_object();
    return one ? object_member(*one, "request") : nullptr;
}

bool has_flag(const Json& element, std::string_view name) {
    const JsonObject* one = element.if_object();
    return one && flag_member(*one, name);
}

bool is_expired(const Json& element) { return has_flag(element, "expired"); }

/// Returns true for an answer to the question of the run, or a record of one.
bool is_of_question(const Json& element, std::string_view run_id, std::string_view question_id) {
    return is_of_run(element, run_id) &&
           string_member(element.get_object(), "question_id") == question_id;
}

bool is_request(const Json& element, const std::string& run_id, const std::string& question_id) {
    const JsonObject* request = request_of(element);
    return request && is_of_run(element, run_id) &&
           string_member(*request, "question_id") == question_id;
}

bool is_of(const Json& json, const std::string& run_id, const Ids& question_ids) {
    return std::any_of(question_ids.begin(), question_ids.end(),
                       [&](const std::string& id) { return is_of_question(json, run_id, id); });
}

/// An unreadable request has `damage`, and its ids and times as far as they can be read.
QuestionEntry read_request(const std::string& thread_id, const Json& element) {
    QuestionEntry entry;
    entry.thread_id = thread_id;
    if (const JsonObject* one = element.if_object()) entry.run_id = text_member(*one, "run_id");
    const JsonObject* request = request_of(element);
    if (!request) {
        entry.damage = "the stored request is not an object";
        return entry;
    }
    entry.question_id = text_member(*request, "question_id");
    entry.created_at = number_of(*request, "created_at").value_or(0);
    if (const std::optional<double> timeout = number_of(*request, "timeout_seconds"))
        entry.expires_at = entry.created_at + *timeout;
    try {
        entry.request = hitl_request_from_json(*request);
    } catch (const Error& error) {
        entry.damage = error.what();
    }
    return entry;
}

PendingRequest read_pending(const std::string& thread_id, const Json& element,
                            const ThreadStates& states) {
    QuestionEntry read = read_request(thread_id, element);
    if (!read.request) states.throw_damaged(read);
    PendingRequest pending;
    pending.run_id = std::move(read.run_id);
    pending.request = std::move(*read.request);
    pending.expired = is_expired(element);
    return pending;
}

/// Stores the answer, in place of a former one to the same question.
void put_answer(JsonObject& state, const std::string& run_id, const std::string& question_id,
                const Json& answer) {
    JsonArray& answers = edit_list(state, "answers");
    erase_where(answers,
                [&](const Json& json) { return is_of_question(json, run_id, question_id); });
    JsonObject stored;
    stored["run_id"] = run_id;
    stored["question_id"] = question_id;
    stored["answer"] = answer;
    answers.emplace_back(std::move(stored));
}

/// Removes the notes of calls of earlier answers in the run (D176), which have results, so that a long run does not accumulate
/// them. `note_id`: a note that is stored now, of a call of the last answer.
void remove_earlier_notes(JsonObject& state, const std::string& run_id,
                          const std::string& note_id) {
    if (note_id.size() <= call_note_end.size() || !note_id.ends_with(call_note_end)) return;
    const std::size_t index = note_id.rfind('.', note_id.size() - call_note_end.size() - 1);
    if (index == std::string::npos) return;
    const std::string_view of_answer = std::string_view(note_id).substr(0, index + 1);
    erase_where(edit_list(state, "answers"), [&](const Json& one) {
        if (!is_of_run(one, run_id)) return false;
        const std::string_view id = string_member(one.get_object(), "question_id");
        return id.ends_with(call_note_end) && !id.starts_with(of_answer);
    });
}

JsonObject record_json(const AnswerRecord& record, HitlRequest request) {
    // The input schema of the tool (D63), which may be large, is not needed any more.
    request.extra.erase("input_schema");
    JsonObject json;
    json["run_id"] = record.run_id;
    json["question_id"] = record.question_id;
    json["answer"] = record.answer;
    json["answered_at"] = record.answered_at;
    json["user"] = record.user;
    json["channel"] = record.channel;
    json["request"] = to_json(request);
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

/// Makes each record of a thread unique.
std::int64_t next_number(JsonObject& state) {
    const std::int64_t number = integer_member(state, "answer_count").value_or(0) + 1;
    state["answer_count"] = number;
    return number;
}

const JsonObject* find_batch(const JsonObject& state, const std::string& run_id) {
    for (const Json& json : list_of(state, "batches")) {
        if (is_of_run(json, run_id)) return &json.get_object();
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
    JsonArray& answers = edit_list(state, "answers");
    JsonArray& used = edit_list(batch, "used");
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
    JsonArray& calls = edit_list(batch, "calls");
    for (const std::string& call_id : start.tool_call_ids) {
        if (std::find(calls.begin(), calls.end(), Json(call_id)) == calls.end())
            calls.emplace_back(call_id);
    }
    move_answers(state, batch, start);
    JsonArray& batches = edit_list(state, "batches");
    erase_where(batches, [&](const Json& json) { return is_of_run(json, start.run_id); });
    batches.emplace_back(std::move(batch));
    tidy_lists(state);
}

StartedBatch read_batch(const JsonObject& json) {
    StartedBatch batch;
    batch.batch_id = text_member(json, "batch_id");
    for (const Json& call : list_of(json, "calls")) {
        if (call.is_string()) batch.tool_call_ids.emplace_back(call.get_string());
    }
    for (const Json& used : list_of(json, "used")) {
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

bool is_due(const QuestionEntry& entry, double now) {
    return entry.expires_at && *entry.expires_at <= now;
}

/// Returns true if the request was pending, was due, and is expired now.
bool expire(JsonObject& state, const QuestionEntry& entry, double now) {
    for (Json& element : edit_list(state, "pending")) {
        if (!is_request(element, entry.run_id, entry.question_id)) continue;
        if (is_expired(element)) return false;
        if (!is_due(read_request(entry.thread_id, element), now)) return false;
        element.get_object()["expired"] = true;
        return true;
    }
    tidy_lists(state);
    return false;
}

using StatesPtr = std::shared_ptr<ThreadStates>;

/// Returns `convert(state)` of the object of a thread.
template <class F>
auto from_state(StatesPtr states, std::string thread_id, F convert)
    -> Task<std::invoke_result_t<F&, const JsonObject&>> {
    std::optional<std::invoke_result_t<F&, const JsonObject&>> converted;
    std::function<void(const JsonObject&)> read = [&](const JsonObject& state) {
        converted.emplace(convert(state));
    };
    co_await states->read_state(std::move(thread_id), std::move(read));
    co_return std::move(*converted);
}

// The operations of QuestionChange in the object of a thread. The result is the number of removed requests.

std::size_t apply(JsonObject& state, const std::string&, const ThreadStates& states,
                  const PendingRequest& saved) {
    JsonObject one;
    one["run_id"] = saved.run_id;
    one["request"] = to_json(saved.request);
    if (states.is_nested()) one["nested"] = true;
    JsonArray& pending = edit_list(state, "pending");
    const auto same = std::find_if(pending.begin(), pending.end(), [&](const Json& json) {
        return is_request(json, saved.run_id, saved.request.question_id);
    });
    if (same != pending.end()) {
        *same = std::move(one);
    } else {
        pending.emplace_back(std::move(one));
    }
    return 0;
}

std::size_t apply(JsonObject& state, const std::string&, const ThreadStates&,
                  const HitlAnswer& answer) {
    // Notes are texts; the endpoint chooses the ids of other answers.
    if (answer.answer.is_string()) remove_earlier_notes(state, answer.run_id, answer.question_id);
    put_answer(state, answer.run_id, answer.question_id, answer.answer);
    return 0;
}

std::size_t apply(JsonObject& state, const std::string& thread_id, const ThreadStates& states,
                  const BatchStart& start) {
    if (!start.owner_id.empty())
        states.require_claim(state, thread_id, start.run_id, start.owner_id);
    mark(state, start);
    return 0;
}

/// Removes the request, and stores the answer and its record.
std::size_t apply(JsonObject& state, const std::string& thread_id, const ThreadStates& states,
                  const AnswerRecord& record) {
    JsonArray& pending = edit_list(state, "pending");
    const auto found = std::find_if(pending.begin(), pending.end(), [&](const Json& element) {
        return is_request(element, record.run_id, record.question_id);
    });
    if (found == pending.end()) throw_stale_answer(thread_id, record);
    PendingRequest request = read_pending(thread_id, *found, states);
    if (has_expired(request, record.answered_at)) throw_stale_answer(thread_id, record);
    pending.erase(found);
    put_answer(state, record.run_id, record.question_id, record.answer);
    JsonObject stored = record_json(record, std::move(request.request));
    stored["number"] = next_number(state);
    edit_list(state, "answered").emplace_back(std::move(stored));
    tidy_lists(state);
    return 0;
}

std::size_t apply(JsonObject& state, const std::string&, const ThreadStates&,
                  const RequestRemoval& removal) {
    const std::size_t removed = erase_where(edit_list(state, "pending"), [&](const Json& json) {
        return removal.all || is_request(json, removal.run_id, removal.question_id);
    });
    tidy_lists(state);
    return removed;
}

std::size_t apply(JsonObject& state, const std::string&, const ThreadStates&,
                  const AnswerRemoval& removal) {
    erase_where(edit_list(state, "answers"), [&](const Json& json) {
        return is_of_run(json, removal.run_id) &&
               (removal.question_ids.empty() || is_of(json, removal.run_id, removal.question_ids));
    });
    tidy_lists(state);
    return 0;
}

Task<std::size_t> edit_with(StatesPtr states, std::string thread_id, QuestionChange change) {
    std::function<Json(JsonObject&)> edit = [states, thread_id,
                                             change = std::move(change)](JsonObject& state) {
        return std::visit(
            [&](const auto& one) { return Json(apply(state, thread_id, *states, one)); }, change);
    };
    const Json removed = co_await states->edit_state(std::move(thread_id), std::move(edit));
    co_return removed.to_number<std::size_t>();
}

Task<bool> expire_one(StatesPtr states, QuestionEntry entry, double now) {
    std::string thread_id = entry.thread_id;
    std::function<Json(JsonObject&)> edit = [entry = std::move(entry), now](JsonObject& state) {
        return Json(expire(state, entry, now));
    };
    const Json expired = co_await states->edit_state(std::move(thread_id), std::move(edit));
    co_return expired.as_bool();
}

/// Goes through the requests by deadline. An unreadable one does not expire: it is listed until it is discarded.
Task<std::vector<QuestionEntry>> expire_all(StatesPtr states, double now, std::size_t limit) {
    std::vector<QuestionEntry> expired;
    std::string cursor;
    bool more = limit > 0;
    while (more) {
        QuestionQuery query =
            QuestionQuery().order(QuestionOrder::deadline).limit(limit).after(cursor);
        QuestionPage page = co_await states->list_requests(std::move(query));
        cursor = page.next;
        more = !cursor.empty();
        for (QuestionEntry& entry : page.entries) {
            more = more && is_due(entry, now);
            if (!entry.request || !is_due(entry, now) || expired.size() == limit) continue;
            const bool done = co_await expire_one(states, entry, now);
            if (done) expired.push_back(std::move(entry));
        }
        more = more && expired.size() < limit;
    }
    co_return expired;
}

}  // namespace

const JsonArray& list_of(const JsonObject& state, std::string_view name) {
    static const JsonArray none;
    const JsonArray* found = array_member(state, name);
    return found ? *found : none;
}

JsonArray& edit_list(JsonObject& state, std::string_view name) {
    Json& value = state[name];
    if (!value.is_array()) value = JsonArray();
    return value.get_array();
}

void tidy_lists(JsonObject& state) {
    for (const char* name : {"claims", "open_runs", "pending", "answers", "batches", "answered"}) {
        const JsonArray* list = array_member(state, name);
        if (list && list->empty()) state.erase(name);
    }
}

bool is_of_run(const Json& element, std::string_view run_id) {
    const JsonObject* one = element.if_object();
    return one && string_member(*one, "run_id") == run_id;
}

void remove_answers_of_run(JsonObject& state, const std::string& run_id) {
    for (const char* name : {"answers", "batches"}) {
        erase_where(edit_list(state, name),
                    [&](const Json& json) { return is_of_run(json, run_id); });
    }
    tidy_lists(state);
}

void remove_settled(JsonObject& state, const AppendOptions& options) {
    const std::string& run_id = options.settled_run_id();
    const Ids& question_ids = options.settled_questions();
    for (const std::string& id : question_ids) {
        erase_where(edit_list(state, "pending"),
                    [&](const Json& json) { return is_request(json, run_id, id); });
    }
    const auto of_question = [&](const Json& json) { return is_of(json, run_id, question_ids); };
    erase_where(edit_list(state, "answers"), of_question);
    for (Json& json : edit_list(state, "batches")) {
        if (JsonObject* batch = json.if_object())
            erase_where(edit_list(*batch, "used"), of_question);
    }
    tidy_lists(state);
}

std::vector<AnswerRecord> read_records(const JsonArray& stored, const std::string& run_id) {
    std::vector<AnswerRecord> records;
    std::set<std::string> seen;
    for (const Json& one : stored) {
        if (!run_id.empty() && !is_of_run(one, run_id)) continue;
        if (seen.insert(boost::json::serialize(one)).second) records.push_back(read_record(one));
    }
    return records;
}

std::vector<QuestionEntry> pending_requests(const std::string& thread_id, const JsonObject& state) {
    std::vector<QuestionEntry> entries;
    for (const Json& element : list_of(state, "pending")) {
        if (!is_expired(element) && !has_flag(element, "nested"))
            entries.push_back(read_request(thread_id, element));
    }
    return entries;
}

}  // namespace cubepi::detail

namespace cubepi {

using namespace detail;

Task<std::size_t> ThreadStates::change_questions(std::string thread_id, QuestionChange change) {
    return edit_with(shared_from_this(), std::move(thread_id), std::move(change));
}

Task<std::vector<PendingRequest>> ThreadStates::load_pending_requests(std::string thread_id) {
    auto read = [states = shared_from_this(), thread_id](const JsonObject& state) {
        std::vector<PendingRequest> pending;
        for (const Json& element : list_of(state, "pending"))
            pending.push_back(read_pending(thread_id, element, *states));
        return pending;
    };
    return from_state(shared_from_this(), std::move(thread_id), std::move(read));
}

Task<std::optional<Json>> ThreadStates::load_hitl_answer(std::string thread_id, std::string run_id,
                                                         std::string question_id) {
    auto find = [run_id = std::move(run_id),
                 question_id = std::move(question_id)](const JsonObject& state) {
        std::optional<Json> found;
        for (const Json& json : list_of(state, "answers")) {
            if (!is_of_question(json, run_id, question_id)) continue;
            const Json* answer = json.get_object().if_contains("answer");
            found = answer ? *answer : Json();
        }
        return found;
    };
    return from_state(shared_from_this(), std::move(thread_id), std::move(find));
}

Task<std::optional<StartedBatch>> ThreadStates::load_started_batch(std::string thread_id,
                                                                   std::string run_id) {
    auto find = [run_id = std::move(run_id)](const JsonObject& state) {
        std::optional<StartedBatch> started;
        if (const JsonObject* batch = find_batch(state, run_id)) started = read_batch(*batch);
        return started;
    };
    return from_state(shared_from_this(), std::move(thread_id), std::move(find));
}

Task<std::vector<AnswerRecord>> ThreadStates::load_answer_records(std::string thread_id,
                                                                  std::string run_id) {
    auto read = [run_id = std::move(run_id)](const JsonObject& state) {
        return read_records(list_of(state, "answered"), run_id);
    };
    return from_state(shared_from_this(), std::move(thread_id), std::move(read));
}

Task<std::vector<QuestionEntry>> ThreadStates::expire_due(double now, std::size_t limit) {
    return expire_all(shared_from_this(), now, limit);
}

}  // namespace cubepi
