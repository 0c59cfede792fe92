#include <algorithm>
#include <limits>
#include <string>
#include <utility>

#include <cubepi/checkpoint/inbox/inbox_cursor.hpp>
#include <cubepi/checkpoint/server/operations.hpp>
#include <cubepi/checkpoint/server/rows.hpp>
#include <cubepi/core/error.hpp>
#include <cubepi/schema/python_json.hpp>

// The requests of all threads, by indexes on the rows that have not expired.

namespace cubepi::detail {

namespace {

constexpr const char* changed_sql =
    "SELECT thread_id FROM cubepi_native_changed_pending ORDER BY thread_id";

std::int64_t row_limit(std::size_t limit) {
    constexpr std::size_t most = std::numeric_limits<std::int32_t>::max();
    return static_cast<std::int64_t>(std::min(limit, most));
}

/// Makes our table agree with CubePi's column in one thread.
Task<void> adopt_changes(ServerStorePtr store, std::string thread_id) {
    ServerPlan plan;
    plan.threads.push_back(thread_id);
    (void)PendingRequests::add_reads(plan.reads, thread_id, true);
    auto decide = [thread_id](const ServerView& view, ServerBatch& writes) {
        PendingRequests(thread_id, view.results, 0).write(writes);
    };
    return server_write(std::move(store), std::move(plan), std::move(decide));
}

Task<void> adopt_all(ServerStorePtr store, ServerResult changed) {
    for (int row = 0; row < changed.rows(); ++row)
        co_await adopt_changes(store, changed.string(row, 0));
}

Task<void> adopt_all_changes(ServerStorePtr store) {
    ServerBatch reads;
    reads.add(changed_sql);
    ServerResults results = co_await store->read(std::move(reads));
    co_await adopt_all(std::move(store), std::move(results[0]));
}

std::string page_sql(const ServerStore& store, InboxOrder order) {
    const char* const time = order == InboxOrder::age ? "created_at" : "expires_at";
    return store.driver().page_sql(pending_columns, time);
}

std::vector<InboxEntry> entries_of(const ServerResult& rows) {
    std::vector<InboxEntry> entries;
    for (int row = 0; row < rows.rows(); ++row) {
        const PendingRow read = read_pending_row(rows, row);
        entries.push_back(to_inbox_entry(read, pending_row_ref(read)));
    }
    return entries;
}

void write_record(ServerBatch& writes, const std::string& thread_id, const AnswerRecord& record,
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

AnswerRecord read_record(const ServerResult& rows, int row) {
    AnswerRecord record;
    record.run_id = rows.string(row, 1);
    record.question_id = rows.string(row, 2);
    record.answered_at = rows.number(row, 5);
    record.user = rows.string(row, 6);
    record.channel = rows.string(row, 7);
    try {
        record.request = hitl_request_from_json(parse_lenient(rows.text(row, 3)));
        record.answer = parse_lenient(rows.text(row, 4));
    } catch (const Error& error) {
        record.damage = "row cubepi_native_answers.id=" + std::to_string(rows.integer(row, 0)) +
                        " cannot be read: " + error.what();
    }
    return record;
}

}  // namespace

Task<InboxPage> list_requests(ServerStorePtr store, InboxQuery query) {
    const InboxKey after = read_inbox_cursor(query);
    const auto& [time, thread_id, run_id, question_id] = after;
    for (;;) {
        ServerBatch reads;
        reads.add(changed_sql);
        // One more shows whether there is another page.
        reads.add(page_sql(*store, query.order()))
            .number(time)
            .text(thread_id)
            .text(run_id)
            .text(question_id)
            .integer(row_limit(query.limit()) + 1);
        ServerResults results = co_await store->read(std::move(reads));
        if (results[0].rows() == 0) co_return inbox_page(entries_of(results[1]), query);
        co_await adopt_all(store, std::move(results[0]));
    }
}

Task<std::vector<InboxEntry>> expire_due(ServerStorePtr store, double now, std::size_t limit) {
    co_await adopt_all_changes(store);
    ServerPlan plan;
    // Requests without a timeout are at infinity.
    plan.reads
        .add(std::string("SELECT ") + pending_columns +
             " FROM cubepi_native_pending WHERE expired = false AND expires_at <= $1"
             " ORDER BY expires_at, thread_id, run_id, question_id LIMIT $2 FOR UPDATE")
        .number(std::min(now, std::numeric_limits<double>::max()))
        .integer(row_limit(limit));
    auto decide = [](const ServerView& view, ServerBatch& writes) {
        const ServerResult& rows = view.results[0];
        for (int row = 0; row < rows.rows(); ++row) {
            writes.add("UPDATE cubepi_native_pending SET expired = true WHERE id = $1")
                .integer(rows.integer(row, 0));
        }
        return entries_of(rows);
    };
    co_return co_await server_write(std::move(store), std::move(plan), std::move(decide));
}

Task<void> answer_request(ServerStorePtr store, std::string thread_id, AnswerRecord record) {
    refuse_too_deep(thread_id, "an answer", record.answer);
    ServerPlan plan;
    plan.threads.push_back(thread_id);
    (void)PendingRequests::add_reads(plan.reads, thread_id, true);
    auto decide = [store, thread_id, record](const ServerView& view, ServerBatch& writes) {
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

Task<std::vector<AnswerRecord>> load_answer_records(ServerStorePtr store, std::string thread_id) {
    ServerBatch reads;
    reads
        .add(
            "SELECT id, run_id, question_id, request_json, answer_json, answered_at, user_name,"
            " channel FROM cubepi_native_answers WHERE thread_id = $1 ORDER BY id")
        .text(thread_id);
    auto convert = [](const ServerResults& results) {
        std::vector<AnswerRecord> records;
        for (int row = 0; row < results[0].rows(); ++row)
            records.push_back(read_record(results[0], row));
        return records;
    };
    return server_read(std::move(store), std::move(reads), std::move(convert));
}

Task<std::size_t> discard_requests(ServerStorePtr store, std::string thread_id) {
    ServerPlan plan;
    plan.threads.push_back(thread_id);
    (void)PendingRequests::add_reads(plan.reads, thread_id, true);
    auto decide = [thread_id](const ServerView& view, ServerBatch& writes) {
        PendingRequests pending(thread_id, view.results, 0);
        const std::size_t count = pending.rows().size();
        pending.clear();
        pending.write(writes);
        return count;
    };
    return server_write(std::move(store), std::move(plan), std::move(decide));
}

}  // namespace cubepi::detail
