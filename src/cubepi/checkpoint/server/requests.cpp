#include <algorithm>
#include <limits>
#include <string>
#include <utility>

#include <cubepi/checkpoint/common/requests.hpp>
#include <cubepi/checkpoint/format/stored_json.hpp>
#include <cubepi/checkpoint/server/rows.hpp>
#include <cubepi/checkpoint/server_checkpointer.hpp>
#include <cubepi/core/error.hpp>
#include <cubepi/schema/python_json.hpp>

// The pending requests of a thread, their answers, and the requests of all threads, which are read by indexes on the rows that
// have not expired.

namespace cubepi::detail {

namespace {

constexpr const char* pending_columns =
    "id, thread_id, run_id, question_id, request_json, approval_digest, created_at, expires_at,"
    " expired";

void write_answer(SqlBatch& writes, const std::string& thread_id, const std::string& run_id,
                  const std::string& question_id, const Json& answer) {
    write_thread_row(writes, thread_id);
    writes
        .add(
            "INSERT INTO cubepi_hitl_answers (thread_id, run_id, question_id, answer)"
            " VALUES ($1, $2, $3, $4) {replace thread_id, run_id, question_id: answer},"
            " answered_at = now()")
        .text(thread_id)
        .text(run_id)
        .text(question_id)
        .json(server_json_text(answer));
    if (survives_server_json(answer)) return;
    writes
        .add(
            "INSERT INTO cubepi_native_exact (thread_id, item, run_id, question_id, json)"
            " VALUES ($1, 'answer', $2, $3, $4)"
            " {replace thread_id, item, run_id, question_id: json}")
        .text(thread_id)
        .text(run_id)
        .text(question_id)
        .text(to_python_json(answer));
}

/// Reads a row with pending_columns.
PendingRow read_pending_row(const SqlResult& rows, int row) {
    PendingRow read;
    read.id = rows.integer(row, 0);
    read.thread_id = rows.string(row, 1);
    read.run_id = rows.string(row, 2);
    read.question_id = rows.string(row, 3);
    read.request_json = rows.string(row, 4);
    read.approval_digest = rows.string(row, 5);
    read.created_at = rows.number(row, 6);
    read.expires_at = rows.number(row, 7);
    read.expired = rows.boolean(row, 8);
    return read;
}

/// The name of the row in errors.
std::string pending_row_ref(const PendingRow& row) {
    if (row.id == 0) return "cubepi_threads.thread_id=" + row.thread_id;
    return "cubepi_native_pending.id=" + std::to_string(row.id);
}

/// Throws CheckpointCorruptionError naming the row if the request is unreadable.
PendingRequest to_pending_request(const SqlThreadStore& store, const PendingRow& row) {
    std::string damage;
    std::optional<HitlRequest> request = parse_request(row, damage);
    if (!request) {
        store.fail_row(row.thread_id, pending_row_ref(row), damage,
                       "discard the requests of the thread with QuestionStore::discard_requests()");
    }
    return to_pending_request(row, std::move(*request));
}

bool same_request(const HitlRequest& shared, const HitlRequest& ours) {
    return is_server_json_of(shared_request_json(shared), shared_request_json(ours));
}

std::optional<SharedRequest> read_shared(const std::string& thread_id, const SqlResult& thread) {
    std::optional<SharedRequest> shared;
    if (thread.rows() == 0 || thread.is_null(0, 0) || thread.text(0, 0) == "null") return shared;
    shared.emplace();
    shared->row.thread_id = thread_id;
    shared->row.request_json = thread.string(0, 0);
    shared->row.run_id = thread.string(0, 1);
    shared->row.created_at = thread.number(0, 2);
    read_shared_request(*shared);
    return shared;
}

/// An unreadable request is repeated as well as possible: the column must not name one that is not pending.
Json shared_json(const PendingRow& row) {
    std::string damage;
    std::optional<HitlRequest> request = parse_request(row, damage);
    if (request) return shared_request_json(std::move(*request));
    try {
        return parse_lenient(row.request_json);
    } catch (const Error&) {
        return Json(row.request_json);
    }
}

void insert_row(SqlBatch& writes, const PendingRow& row) {
    writes
        .add(
            "INSERT INTO cubepi_native_pending (thread_id, run_id, question_id, request_json,"
            " approval_digest, created_at, expires_at) VALUES ($1, $2, $3, $4, $5, $6, $7)"
            " {replace thread_id, run_id, question_id: request_json, approval_digest, created_at,"
            " expires_at}, expired = false")
        .text(row.thread_id)
        .text(row.run_id)
        .text(row.question_id)
        .text(row.request_json)
        .text_or_null(row.approval_digest)
        .number(row.created_at)
        .number(row.expires_at);
}

SqlPlan plan_for(const std::string& thread_id) {
    SqlPlan plan;
    plan.locks.push_back(thread_id);
    return plan;
}

constexpr const char* changed_sql =
    "SELECT thread_id FROM cubepi_native_changed_pending ORDER BY thread_id";

/// Makes our table agree with CubePi's column in one thread.
Task<void> adopt_changes(SqlStorePtr store, std::string thread_id) {
    SqlPlan plan = plan_for(thread_id);
    (void)PendingRequests::add_reads(plan.reads, thread_id, true);
    auto decide = [thread_id](const SqlView& view, SqlBatch& writes) {
        PendingRequests(thread_id, view.results, 0).write(writes);
    };
    return server_write(std::move(store), std::move(plan), std::move(decide));
}

Task<void> adopt_all(SqlStorePtr store, SqlResult changed) {
    for (int row = 0; row < changed.rows(); ++row)
        co_await adopt_changes(store, changed.string(row, 0));
}

Task<void> adopt_all_changes(SqlStorePtr store) {
    SqlBatch reads;
    reads.add(changed_sql);
    SqlResults results = co_await store->read(std::move(reads));
    co_await adopt_all(std::move(store), std::move(results[0]));
}

std::string page_sql(const SqlThreadStore& store, QuestionOrder order) {
    const char* const time = order == QuestionOrder::age ? "created_at" : "expires_at";
    return store.schema().page_sql(pending_columns, time);
}

std::vector<QuestionEntry> entries_of(const SqlResult& rows) {
    std::vector<QuestionEntry> entries;
    for (int row = 0; row < rows.rows(); ++row) {
        const PendingRow read = read_pending_row(rows, row);
        entries.push_back(to_question_entry(read, pending_row_ref(read)));
    }
    return entries;
}

void write_record(SqlBatch& writes, const std::string& thread_id, const AnswerRecord& record,
                  HitlRequest request) {
    // The schema of the tool (D63) may be large, and has been used to check the answer.
    request.extra.erase("input_schema");
    writes
        .add(
            "INSERT INTO cubepi_native_answers (thread_id, run_id, question_id, request_json,"
            " answer_json, answered_at, user_name, channel)"
            " VALUES ($1, $2, $3, $4, $5, $6, $7, $8)")
        .text(thread_id)
        .text(record.run_id)
        .text(record.question_id)
        .text(to_python_json(to_json(request)))
        .text(to_python_json(record.answer))
        .number(record.answered_at)
        .text(record.user)
        .text(record.channel);
}

AnswerRecord read_record(const SqlResult& rows, int row) {
    AnswerRecord record;
    record.run_id = rows.string(row, 1);
    record.question_id = rows.string(row, 2);
    record.answered_at = rows.number(row, 5);
    record.user = rows.string(row, 6);
    record.channel = rows.string(row, 7);
    read_answer_texts(record, rows.integer(row, 0), rows.text(row, 3), rows.text(row, 4));
    return record;
}

Task<void> store_request(SqlStorePtr store, std::string thread_id, std::string run_id,
                         HitlRequest request) {
    const PendingRow row = make_pending_row(thread_id, run_id, request);
    SqlPlan plan = plan_for(thread_id);
    (void)PendingRequests::add_reads(plan.reads, thread_id, true);
    auto decide = [thread_id, row](const SqlView& view, SqlBatch& writes) {
        PendingRequests pending(thread_id, view.results, 0);
        pending.put(row);
        pending.write(writes);
    };
    co_await server_write(std::move(store), std::move(plan), std::move(decide));
}

Task<void> store_answer(SqlStorePtr store, std::string thread_id, HitlAnswer answer) {
    refuse_too_deep(thread_id, "an answer", answer.answer);
    SqlPlan plan = plan_for(thread_id);
    auto decide = [thread_id, answer](const SqlView&, SqlBatch& writes) {
        write_answer(writes, thread_id, answer.run_id, answer.question_id, answer.answer);
    };
    co_await server_write(std::move(store), std::move(plan), std::move(decide));
}

Task<QuestionPage> read_page(SqlStorePtr store, QuestionQuery query) {
    const InboxKey after = read_inbox_cursor(query);
    const auto& [time, thread_id, run_id, question_id] = after;
    for (;;) {
        SqlBatch reads;
        reads.add(changed_sql);
        // One more shows whether there is another page.
        reads.add(page_sql(*store, query.order()))
            .number(time)
            .text(thread_id)
            .text(run_id)
            .text(question_id)
            .integer(row_limit(query.limit()) + 1);
        SqlResults results = co_await store->read(std::move(reads));
        if (results[0].rows() == 0) co_return inbox_page(entries_of(results[1]), query);
        co_await adopt_all(store, std::move(results[0]));
    }
}

Task<std::vector<QuestionEntry>> expire_requests(SqlStorePtr store, double now, std::size_t limit) {
    co_await adopt_all_changes(store);
    SqlPlan plan;
    // Requests without a timeout are at infinity.
    plan.reads
        .add(std::string("SELECT ") + pending_columns +
             " FROM cubepi_native_pending WHERE expired = false AND expires_at <= $1"
             " ORDER BY expires_at, thread_id, run_id, question_id LIMIT $2 FOR UPDATE")
        .number(std::min(now, std::numeric_limits<double>::max()))
        .integer(row_limit(limit));
    auto decide = [](const SqlView& view, SqlBatch& writes) {
        const SqlResult& rows = view.results[0];
        for (int row = 0; row < rows.rows(); ++row) {
            writes.add("UPDATE cubepi_native_pending SET expired = true WHERE id = $1")
                .integer(rows.integer(row, 0));
        }
        return entries_of(rows);
    };
    co_return co_await server_write(std::move(store), std::move(plan), std::move(decide));
}

Task<void> record_answer(SqlStorePtr store, std::string thread_id, AnswerRecord record) {
    refuse_too_deep(thread_id, "an answer", record.answer);
    SqlPlan plan = plan_for(thread_id);
    (void)PendingRequests::add_reads(plan.reads, thread_id, true);
    auto decide = [store, thread_id, record](const SqlView& view, SqlBatch& writes) {
        PendingRequests requests(thread_id, view.results, 0);
        const PendingRow* row = requests.find(record.run_id, record.question_id);
        if (!row) throw_stale_answer(thread_id, record);
        PendingRequest pending = to_pending_request(*store, *row);
        if (has_expired(pending, record.answered_at)) throw_stale_answer(thread_id, record);
        write_answer(writes, thread_id, record.run_id, record.question_id, record.answer);
        write_record(writes, thread_id, record, std::move(pending.request));
        (void)requests.remove(record.run_id, record.question_id);
        requests.write(writes);
    };
    co_await server_write(std::move(store), std::move(plan), std::move(decide));
}

}  // namespace

std::size_t PendingRequests::add_reads(SqlBatch& reads, const std::string& thread_id,
                                       bool for_update) {
    const std::string lock = for_update ? " FOR UPDATE" : "";
    const std::size_t at = reads.size();
    reads
        .add(
            "SELECT {text pending_request}, run_id, {epoch updated_at}"
            " FROM cubepi_threads WHERE thread_id = $1" +
            lock)
        .text(thread_id);
    reads
        .add(std::string("SELECT ") + pending_columns +
             " FROM cubepi_native_pending WHERE thread_id = $1 ORDER BY id" + lock)
        .text(thread_id);
    return at;
}

PendingRequests::PendingRequests(std::string thread_id, const SqlResults& results, std::size_t at)
    : thread_id_(std::move(thread_id)), shared_(read_shared(thread_id_, results[at])) {
    const SqlResult& ours = results[at + 1];
    for (int row = 0; row < ours.rows(); ++row) stored_.push_back(read_pending_row(ours, row));
    rows_ = pending_by_both(shared_, stored_, same_request);
}

const PendingRow* PendingRequests::find(const std::string& run_id,
                                        const std::string& question_id) const {
    const auto found = std::find_if(rows_.begin(), rows_.end(), [&](const PendingRow& row) {
        return row.run_id == run_id && row.question_id == question_id;
    });
    return found == rows_.end() ? nullptr : &*found;
}

void PendingRequests::put(PendingRow row) {
    const auto found = std::find_if(rows_.begin(), rows_.end(), [&](const PendingRow& one) {
        return one.run_id == row.run_id && one.question_id == row.question_id;
    });
    // Without an id it is written; a row with the same key keeps the id that it has.
    if (found != rows_.end()) {
        *found = std::move(row);
    } else {
        rows_.push_back(std::move(row));
    }
}

bool PendingRequests::remove(const std::string& run_id, const std::string& question_id) {
    return std::erase_if(rows_, [&](const PendingRow& row) {
               return row.run_id == run_id && row.question_id == question_id;
           }) > 0;
}

void PendingRequests::write_first(SqlBatch& writes) const {
    if (rows_.empty()) {
        if (!shared_) return;
        writes
            .add(
                "UPDATE cubepi_threads SET pending_request = NULL, run_id = NULL,"
                " updated_at = now() WHERE thread_id = $1")
            .text(thread_id_);
        return;
    }
    const Json first = shared_json(rows_.front());
    const bool same = shared_ && shared_->row.run_id == rows_.front().run_id &&
                      is_server_json_of(parse_lenient(shared_->row.request_json), first);
    if (same) return;
    writes
        .add(
            "UPDATE cubepi_threads SET pending_request = $2, run_id = $3, updated_at = now()"
            " WHERE thread_id = $1")
        .text(thread_id_)
        .json(server_json_text(first))
        .text_or_null(rows_.front().run_id);
}

void PendingRequests::write(SqlBatch& writes) const {
    const auto remains = [&](const PendingRow& row) {
        return find(row.run_id, row.question_id) != nullptr;
    };
    for (const PendingRow& row : stored_) {
        if (remains(row)) continue;
        writes
            .add(
                "DELETE FROM cubepi_native_pending"
                " WHERE thread_id = $1 AND run_id = $2 AND question_id = $3")
            .text(row.thread_id)
            .text(row.run_id)
            .text(row.question_id);
    }
    const auto is_new = [](const PendingRow& row) { return row.id == 0; };
    if (std::any_of(rows_.begin(), rows_.end(), is_new)) write_thread_row(writes, thread_id_);
    for (const PendingRow& row : rows_) {
        if (is_new(row)) insert_row(writes, row);
    }
    write_first(writes);
    writes.add("DELETE FROM cubepi_native_changed_pending WHERE thread_id = $1").text(thread_id_);
}

}  // namespace cubepi::detail

namespace cubepi {

using namespace detail;

Task<void> SqlCheckpointer::save_pending_request(std::string thread_id, std::string run_id,
                                                 HitlRequest request) {
    return store_request(store_, std::move(thread_id), std::move(run_id), std::move(request));
}

Task<std::vector<PendingRequest>> SqlCheckpointer::load_pending_requests(std::string thread_id) {
    SqlBatch reads;
    (void)PendingRequests::add_reads(reads, thread_id, false);
    auto convert = [store = store_, thread_id](const SqlResults& results) {
        const PendingRequests pending(thread_id, results, 0);
        std::vector<PendingRequest> list;
        for (const PendingRow& row : pending.rows())
            list.push_back(to_pending_request(*store, row));
        return list;
    };
    return server_read(store_, std::move(reads), std::move(convert));
}

Task<bool> SqlCheckpointer::clear_pending_request(std::string thread_id, std::string run_id,
                                                  std::string question_id) {
    SqlPlan plan = plan_for(thread_id);
    (void)PendingRequests::add_reads(plan.reads, thread_id, true);
    auto decide = [thread_id, run_id, question_id](const SqlView& view, SqlBatch& writes) {
        PendingRequests pending(thread_id, view.results, 0);
        const bool removed = pending.remove(run_id, question_id);
        pending.write(writes);
        return removed;
    };
    return server_write(store_, std::move(plan), std::move(decide));
}

Task<void> SqlCheckpointer::save_hitl_answer(std::string thread_id, HitlAnswer answer) {
    return store_answer(store_, std::move(thread_id), std::move(answer));
}

Task<std::optional<Json>> SqlCheckpointer::load_hitl_answer(std::string thread_id,
                                                            std::string run_id,
                                                            std::string question_id) {
    SqlBatch reads;
    const std::vector<std::string> questions(1, question_id);
    (void)add_answer_reads(reads, thread_id, run_id, questions);
    auto convert = [store = store_, thread_id, question_id](const SqlResults& results) {
        std::optional<Json> answer;
        try {
            const std::vector<AnswerRow> answers = read_answers(results, 0);
            if (!answers.empty()) answer = answers.front().answer;
        } catch (const Error& error) {
            store->fail_row(thread_id, "cubepi_hitl_answers.question_id=" + question_id,
                            error.what());
        }
        return answer;
    };
    return server_read(store_, std::move(reads), std::move(convert));
}

Task<void> SqlCheckpointer::clear_hitl_answers(std::string thread_id, std::string run_id,
                                               std::vector<std::string> question_ids) {
    SqlPlan plan = plan_for(thread_id);
    auto decide = [thread_id, run_id, question_ids](const SqlView&, SqlBatch& writes) {
        if (question_ids.empty()) {
            remove_all_answers(writes, thread_id, run_id);
        } else {
            remove_answers(writes, thread_id, run_id, question_ids);
        }
    };
    return server_write(store_, std::move(plan), std::move(decide));
}

Task<QuestionPage> SqlCheckpointer::list_requests(QuestionQuery query) {
    return read_page(store_, std::move(query));
}

Task<std::vector<QuestionEntry>> SqlCheckpointer::expire_due(double now, std::size_t limit) {
    return expire_requests(store_, now, limit);
}

Task<void> SqlCheckpointer::answer_request(std::string thread_id, AnswerRecord record) {
    return record_answer(store_, std::move(thread_id), std::move(record));
}

Task<std::vector<AnswerRecord>> SqlCheckpointer::load_answer_records(std::string thread_id) {
    SqlBatch reads;
    reads
        .add(
            "SELECT id, run_id, question_id, request_json, answer_json, answered_at, user_name,"
            " channel FROM cubepi_native_answers WHERE thread_id = $1 ORDER BY id")
        .text(thread_id);
    auto convert = [](const SqlResults& results) {
        std::vector<AnswerRecord> records;
        for (int row = 0; row < results[0].rows(); ++row)
            records.push_back(read_record(results[0], row));
        return records;
    };
    return server_read(store_, std::move(reads), std::move(convert));
}

Task<std::size_t> SqlCheckpointer::discard_requests(std::string thread_id) {
    SqlPlan plan = plan_for(thread_id);
    (void)PendingRequests::add_reads(plan.reads, thread_id, true);
    auto decide = [thread_id](const SqlView& view, SqlBatch& writes) {
        PendingRequests pending(thread_id, view.results, 0);
        const std::size_t count = pending.rows().size();
        pending.clear();
        pending.write(writes);
        return count;
    };
    return server_write(store_, std::move(plan), std::move(decide));
}

}  // namespace cubepi
