#include <algorithm>
#include <limits>
#include <string>
#include <utility>
#include <variant>

#include <cubepi/checkpoint/format/stored_json.hpp>
#include <cubepi/checkpoint/support/requests.hpp>
#include <cubepi/checkpoint/tables/rows.hpp>
#include <cubepi/core/error.hpp>
#include <cubepi/schema/python_json.hpp>

// The pending requests of a thread, their answers, and the requests of all threads, which are read by indexes on the rows that
// have not expired.

namespace cubepi::detail {

namespace {

constexpr const char* pending_columns =
    "id, thread_id, run_id, question_id, request_json, approval_digest, created_at, expires_at,"
    " expired";

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
std::string row_ref(const RunSchema& schema, const PendingRow& row) {
    if (row.id == 0) return schema.words().shared_request + ".thread_id=" + row.thread_id;
    return "cubepi_native_pending.id=" + std::to_string(row.id);
}

/// Throws CheckpointCorruptionError naming the row if the request is unreadable.
PendingRequest to_pending_request(const RunSchema& schema, const StoreName& name,
                                  const PendingRow& row) {
    std::string damage;
    std::optional<HitlRequest> request = parse_request(row, damage);
    if (!request) {
        name.fail_row(row.thread_id, row_ref(schema, row), damage,
                      "discard the requests of the thread with QuestionStore::discard_requests()");
    }
    return to_pending_request(row, std::move(*request));
}

std::optional<SharedRequest> read_shared(const RunSchema& schema, const std::string& thread_id,
                                         const SqlResult& thread) {
    std::optional<SharedRequest> shared;
    if (thread.rows() == 0 || thread.is_null(0, 0)) return shared;
    if (schema.words().has_json_null && thread.text(0, 0) == "null") return shared;
    shared.emplace();
    shared->row.thread_id = thread_id;
    shared->row.request_json = thread.string(0, 0);
    shared->row.run_id = thread.string(0, 1);
    shared->row.created_at = thread.number(0, 2);
    read_shared_request(*shared);
    return shared;
}

void insert_row(SqlBatch& writes, const RunSchema& schema, const PendingRow& row) {
    writes
        .add(
            "INSERT INTO cubepi_native_pending (thread_id, run_id, question_id, request_json,"
            " approval_digest, created_at, expires_at) VALUES ($1, $2, $3, $4, $5, $6, $7)"
            " {replace thread_id, run_id, question_id: request_json, approval_digest, created_at,"
            " expires_at}, expired = " +
            schema.words().no)
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

/// A transaction that begins with the pending requests of a thread. `change(PendingRequests&, SqlBatch&)` changes them.
template <class F>
auto change_requests(TablesPtr tables, std::string thread_id, F change)
    -> Task<std::invoke_result_t<F&, PendingRequests&, SqlBatch&>> {
    SqlPlan plan = plan_for(thread_id);
    (void)PendingRequests::add_reads(plan.reads, *tables->run_schema(), thread_id, true);
    auto decide = [schema = tables->run_schema(), thread_id, change](const SqlView& view,
                                                                     SqlBatch& writes) {
        PendingRequests pending(*schema, thread_id, view.results, 0);
        if constexpr (std::is_void_v<std::invoke_result_t<F&, PendingRequests&, SqlBatch&>>) {
            change(pending, writes);
            pending.write(writes);
        } else {
            auto result = change(pending, writes);
            pending.write(writes);
            return result;
        }
    };
    return server_write(std::move(tables), std::move(plan), std::move(decide));
}

std::vector<std::string> first_texts(const SqlResult& rows) {
    std::vector<std::string> texts;
    for (int row = 0; row < rows.rows(); ++row) texts.push_back(rows.string(row, 0));
    return texts;
}

/// Returns the pending requests of a thread. Writes nothing.
Task<std::vector<PendingRow>> pending_rows(TablesPtr tables, std::string thread_id) {
    const RunSchemaPtr schema = tables->run_schema();
    SqlBatch reads;
    (void)PendingRequests::add_reads(reads, *schema, thread_id, false);
    const SqlResults results = co_await tables->read(std::move(reads));
    const PendingRequests pending(*schema, std::move(thread_id), results, 0);
    co_return pending.rows();
}

QuestionEntry entry_of(const RunSchema& schema, const PendingRow& row) {
    return to_question_entry(row, row_ref(schema, row));
}

std::vector<QuestionEntry> entries_of(const RunSchema& schema, const SqlResult& rows) {
    std::vector<QuestionEntry> entries;
    for (int row = 0; row < rows.rows(); ++row)
        entries.push_back(entry_of(schema, read_pending_row(rows, row)));
    return entries;
}

void write_record(SqlBatch& writes, const RunSchema& schema, const std::string& thread_id,
                  const AnswerRecord& record, HitlRequest request) {
    // The schema of the tool (D63) may be large, and has been used to check the answer.
    request.extra.erase("input_schema");
    writes
        .add(
            "INSERT INTO cubepi_native_answers (thread_id, run_id, question_id, request_json,"
            " answer_json, answered_at, " +
            schema.words().user + ", channel) VALUES ($1, $2, $3, $4, $5, $6, $7, $8)")
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

/// Reads a page. The threads with a note are read by both tables in a database that is read-only; otherwise their changes are
/// adopted first.
Task<QuestionPage> read_page(TablesPtr tables, QuestionQuery query) {
    const InboxKey after = read_inbox_cursor(query);
    const auto& [time, thread_id, run_id, question_id] = after;
    const RunSchemaPtr schema = tables->run_schema();
    const char* const order = query.order() == QuestionOrder::age ? "created_at" : "expires_at";
    bool adopted = false;
    for (;;) {
        SqlBatch reads;
        reads.add(changed_threads_sql(*schema));
        // One more shows whether there is another page.
        reads.add(schema->page_sql(pending_columns, order))
            .number(time)
            .text(thread_id)
            .text(run_id)
            .text(question_id)
            .integer(row_limit(query.limit()) + 1);
        SqlResults results = co_await tables->read(std::move(reads));
        const std::vector<std::string> changed = first_texts(results[0]);
        if (!changed.empty() && !adopted) {
            adopted = co_await tables->adopt_changes(changed);
            if (adopted) continue;
        }
        std::vector<QuestionEntry> entries = entries_of(*schema, results[1]);
        for (const std::string& changed_thread : changed) {
            const std::vector<PendingRow> pending = co_await pending_rows(tables, changed_thread);
            for (const PendingRow& one : pending) {
                if (!one.expired) entries.push_back(entry_of(*schema, one));
            }
        }
        co_return inbox_page(std::move(entries), query);
    }
}

Task<std::vector<QuestionEntry>> expire_requests(TablesPtr tables, double now, std::size_t limit) {
    const RunSchemaPtr schema = tables->run_schema();
    SqlBatch reads;
    reads.add(changed_threads_sql(*schema));
    const SqlResults results = co_await tables->read(std::move(reads));
    std::vector<std::string> changed = first_texts(results[0]);
    if (!changed.empty()) (void)co_await tables->adopt_changes(std::move(changed));
    const TableWords words = schema->words();
    SqlPlan plan;
    // Requests without a timeout are at infinity. One that CubePi has changed meanwhile waits for the next call.
    plan.reads
        .add(std::string("SELECT ") + pending_columns +
             " FROM cubepi_native_pending WHERE expired = " + words.no +
             " AND expires_at <= $1 AND thread_id NOT IN"
             " (SELECT thread_id FROM cubepi_native_changed_pending)"
             " ORDER BY expires_at, thread_id, run_id, question_id LIMIT $2" +
             words.lock)
        .number(std::min(now, std::numeric_limits<double>::max()))
        .integer(row_limit(limit));
    auto decide = [schema, words](const SqlView& view, SqlBatch& writes) {
        const SqlResult& rows = view.results[0];
        for (int row = 0; row < rows.rows(); ++row) {
            writes.add("UPDATE cubepi_native_pending SET expired = " + words.yes + " WHERE id = $1")
                .integer(rows.integer(row, 0));
        }
        return entries_of(*schema, rows);
    };
    co_return co_await server_write(std::move(tables), std::move(plan), std::move(decide));
}

// The operations of QuestionChange. The result is the number of removed requests.

Task<std::size_t> apply(TablesPtr tables, std::string thread_id, PendingRequest saved) {
    auto put = [row = make_pending_row(thread_id, saved.run_id, saved.request)](
                   PendingRequests& pending, SqlBatch&) { pending.put(row); };
    co_await change_requests(std::move(tables), std::move(thread_id), std::move(put));
    co_return 0;
}

Task<std::size_t> apply(TablesPtr tables, std::string thread_id, HitlAnswer answer) {
    refuse_too_deep(thread_id, "an answer", answer.answer);
    SqlPlan plan = plan_for(thread_id);
    auto decide = [schema = tables->run_schema(), thread_id, answer](const SqlView&,
                                                                     SqlBatch& writes) {
        schema->write_answer(writes, thread_id, answer);
    };
    co_await server_write(std::move(tables), std::move(plan), std::move(decide));
    co_return 0;
}

Task<std::size_t> apply(TablesPtr tables, std::string thread_id, BatchStart start) {
    return mark_batch(std::move(tables), std::move(thread_id), std::move(start));
}

Task<std::size_t> apply(TablesPtr tables, std::string thread_id, AnswerRecord record) {
    refuse_too_deep(thread_id, "an answer", record.answer);
    HitlAnswer answer;
    answer.run_id = record.run_id;
    answer.question_id = record.question_id;
    answer.answer = record.answer;
    auto use = [schema = tables->run_schema(), name = tables->name(), thread_id, record, answer](
                   PendingRequests& requests, SqlBatch& writes) {
        const PendingRow* row = requests.find(record.run_id, record.question_id);
        if (!row) throw_stale_answer(thread_id, record);
        PendingRequest pending = to_pending_request(*schema, name, *row);
        if (has_expired(pending, record.answered_at)) throw_stale_answer(thread_id, record);
        schema->write_answer(writes, thread_id, answer);
        write_record(writes, *schema, thread_id, record, std::move(pending.request));
        (void)requests.remove(record.run_id, record.question_id);
    };
    co_await change_requests(std::move(tables), std::move(thread_id), std::move(use));
    co_return 0;
}

Task<std::size_t> apply(TablesPtr tables, std::string thread_id, RequestRemoval removal) {
    auto remove = [removal](PendingRequests& pending, SqlBatch&) {
        std::size_t removed = pending.rows().size();
        if (removal.all) {
            pending.clear();
        } else {
            removed = pending.remove(removal.run_id, removal.question_id) ? 1 : 0;
        }
        return removed;
    };
    return change_requests(std::move(tables), std::move(thread_id), std::move(remove));
}

Task<std::size_t> apply(TablesPtr tables, std::string thread_id, AnswerRemoval removal) {
    SqlPlan plan = plan_for(thread_id);
    auto decide = [schema = tables->run_schema(), thread_id, removal](const SqlView&,
                                                                      SqlBatch& writes) {
        if (removal.question_ids.empty()) {
            schema->remove_all_answers(writes, thread_id, removal.run_id);
        } else {
            schema->remove_answers(writes, thread_id, removal.run_id, removal.question_ids);
        }
    };
    co_await server_write(std::move(tables), std::move(plan), std::move(decide));
    co_return 0;
}

}  // namespace

Task<bool> adopt_by_thread(TablesPtr tables, std::vector<std::string> threads) {
    for (const std::string& thread_id : threads) {
        auto nothing = [](PendingRequests&, SqlBatch&) {};
        co_await change_requests(tables, thread_id, std::move(nothing));
    }
    co_return true;
}

std::size_t PendingRequests::add_reads(SqlBatch& reads, const RunSchema& schema,
                                       const std::string& thread_id, bool for_update) {
    const std::size_t at = reads.size();
    schema.add_shared_read(reads, thread_id, for_update);
    reads
        .add(std::string("SELECT ") + pending_columns +
             " FROM cubepi_native_pending WHERE thread_id = $1 ORDER BY id" +
             (for_update ? schema.words().lock : ""))
        .text(thread_id);
    return at;
}

PendingRequests::PendingRequests(const RunSchema& schema, std::string thread_id,
                                 const SqlResults& results, std::size_t at)
    : schema_(schema),
      thread_id_(std::move(thread_id)),
      shared_(read_shared(schema, thread_id_, results[at])) {
    const SqlResult& ours = results[at + 1];
    for (int row = 0; row < ours.rows(); ++row) stored_.push_back(read_pending_row(ours, row));
    rows_ = pending_by_both(shared_, stored_, schema.same_request());
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
    if (std::any_of(rows_.begin(), rows_.end(), is_new))
        schema_.write_thread_row(writes, thread_id_);
    for (const PendingRow& row : rows_) {
        if (is_new(row)) insert_row(writes, schema_, row);
    }
    schema_.write_shared(writes, thread_id_, shared_, rows_.empty() ? nullptr : &rows_.front());
    writes.add("DELETE FROM cubepi_native_changed_pending WHERE thread_id = $1").text(thread_id_);
}

Task<std::size_t> ThreadTables::change_questions(std::string thread_id, QuestionChange change) {
    return std::visit(
        [&](auto& one) { return apply(shared_from_this(), std::move(thread_id), std::move(one)); },
        change);
}

Task<std::vector<PendingRequest>> ThreadTables::load_pending_requests(std::string thread_id) {
    const RunSchemaPtr& schema = run_schema_;
    SqlBatch reads;
    (void)PendingRequests::add_reads(reads, *schema, thread_id, false);
    auto convert = [schema, name = name_, thread_id](const SqlResults& results) {
        const PendingRequests pending(*schema, thread_id, results, 0);
        std::vector<PendingRequest> list;
        for (const PendingRow& row : pending.rows())
            list.push_back(to_pending_request(*schema, name, row));
        return list;
    };
    return server_read(shared_from_this(), std::move(reads), std::move(convert));
}

Task<std::optional<Json>> ThreadTables::load_hitl_answer(std::string thread_id, std::string run_id,
                                                         std::string question_id) {
    const RunSchemaPtr& schema = run_schema_;
    SqlBatch reads;
    const std::vector<std::string> questions(1, question_id);
    (void)schema->add_answer_reads(reads, thread_id, run_id, questions);
    auto convert = [schema, name = name_, thread_id, question_id](const SqlResults& results) {
        std::optional<Json> answer;
        try {
            const std::vector<AnswerRow> answers = schema->read_answers(results, 0);
            if (!answers.empty()) answer = parse_lenient(answers.front().text);
        } catch (const Error& error) {
            name.fail_row(thread_id, schema->words().answers + ".question_id=" + question_id,
                          error.what());
        }
        return answer;
    };
    return server_read(shared_from_this(), std::move(reads), std::move(convert));
}

Task<QuestionPage> ThreadTables::list_requests(QuestionQuery query) {
    return read_page(shared_from_this(), std::move(query));
}

Task<std::vector<QuestionEntry>> ThreadTables::expire_due(double now, std::size_t limit) {
    return expire_requests(shared_from_this(), now, limit);
}

Task<std::vector<AnswerRecord>> ThreadTables::load_answer_records(std::string thread_id,
                                                                  std::string run_id) {
    SqlBatch reads;
    const bool is_all = run_id.empty();
    auto& statement = reads.add(
        "SELECT id, run_id, question_id, request_json, answer_json, answered_at, " +
        run_schema_->words().user + ", channel FROM cubepi_native_answers WHERE thread_id = $1" +
        (is_all ? "" : " AND run_id = $2") + " ORDER BY id");
    statement.text(thread_id);
    if (!is_all) statement.text(run_id);
    auto convert = [](const SqlResults& results) {
        std::vector<AnswerRecord> records;
        for (int row = 0; row < results[0].rows(); ++row)
            records.push_back(read_record(results[0], row));
        return records;
    };
    return server_read(shared_from_this(), std::move(reads), std::move(convert));
}

}  // namespace cubepi::detail
