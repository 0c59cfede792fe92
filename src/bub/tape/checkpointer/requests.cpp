#include <algorithm>
#include <utility>

#include <bub/tape/checkpointer/checkpointer_state.hpp>
#include <bub/tape/checkpointer/side_state.hpp>
#include <bub/tape/tape_sidecar.hpp>
#include <cubepi/core/error.hpp>

// The side state as the object of a cubepi::StateQuestionStore, and the records of answers, which it has in the list "answered".
// When the list has become long, its records are moved to the sidecar `answers` of the tape: the side state is small, because it
// is rewritten often. A process that is killed in between leaves the records in both places.

namespace bub {

using namespace cubepi;
using cubepi::detail::edit_list;
using cubepi::detail::erase_where;
using cubepi::detail::list_of;
using cubepi::detail::tidy_lists;

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

Task<void> TapeCheckpointer::answer_request(std::string thread_id, AnswerRecord record) {
    const std::shared_ptr<State> state = state_;
    std::function<Json(JsonObject&)> edit = [=](JsonObject& side_state) {
        cubepi::detail::store_answer(side_state, thread_id, record, *state);
        return Json(list_of(side_state, "answered").size());
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
    const JsonArray records = list_of(side_state, "answered");
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
    for (const Json& record : list_of(side_state, "answered")) stored.push_back(record);
    co_return cubepi::detail::read_records(stored);
}

}  // namespace bub
