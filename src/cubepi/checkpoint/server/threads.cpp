#include <string>
#include <utility>

#include <cubepi/checkpoint/claims/store_errors.hpp>
#include <cubepi/checkpoint/format/server_json.hpp>
#include <cubepi/checkpoint/server/failure.hpp>
#include <cubepi/checkpoint/server/operations.hpp>
#include <cubepi/checkpoint/server/rows.hpp>

namespace cubepi::detail {

namespace {

/// Selects one row if the thread exists, with the position of the run in the order of completion.
void add_cutoff_read(ServerBatch& reads, const std::string& thread_id, const std::string& run_id) {
    reads
        .add(
            "SELECT (SELECT completion_seq FROM cubepi_runs WHERE thread_id = $1 AND run_id = $2"
            " AND completed_at IS NOT NULL) FROM cubepi_threads WHERE thread_id = $1")
        .text(thread_id)
        .text(run_id);
}

std::int64_t read_cutoff(const ServerResult& rows, const std::string& thread_id,
                         const std::string& run_id) {
    if (rows.rows() == 0) throw_thread_not_found(thread_id);
    if (rows.is_null(0, 0)) throw_run_not_completed(thread_id, run_id);
    return rows.integer(0, 0);
}

// Copies the stored rows, because some values are read only approximately.
void write_fork(ServerBatch& writes, const ServerFork& fork) {
    for (const char* sql :
         {"INSERT INTO cubepi_messages (thread_id, seq, role, metadata, payload, run_id)"
          " SELECT $2, seq, role, metadata, payload, run_id FROM cubepi_messages"
          " WHERE thread_id = $1 AND (run_id IS NULL OR run_id IN"
          " (SELECT run_id FROM cubepi_runs WHERE thread_id = $1 AND completion_seq <= $3))",
          "INSERT INTO cubepi_runs (thread_id, run_id, claimed_at, completed_at, completion_seq)"
          " SELECT $2, run_id, claimed_at, completed_at, completion_seq FROM cubepi_runs"
          " WHERE thread_id = $1 AND completion_seq <= $3"}) {
        writes.add(sql).text(fork.source).text(fork.target).integer(fork.cutoff);
    }
    writes
        .add(
            "INSERT INTO cubepi_native_message_ids (thread_id, message_id, seq)"
            " SELECT $2, message_id, seq FROM cubepi_native_message_ids WHERE thread_id = $1"
            " AND seq IN (SELECT seq FROM cubepi_messages WHERE thread_id = $2)")
        .text(fork.source)
        .text(fork.target);
}

}  // namespace

Task<MessageList> snapshot_thread(ServerStorePtr store, std::string thread_id,
                                  std::string after_run_id) {
    ServerBatch reads;
    add_cutoff_read(reads, thread_id, after_run_id);
    const auto rows = std::make_shared<MessageRows>(store, thread_id);
    reads
        .add(
            "SELECT seq, {text metadata}, payload FROM cubepi_messages WHERE thread_id = $1"
            " AND (run_id IS NULL OR run_id IN (SELECT run_id FROM cubepi_runs"
            " WHERE thread_id = $1 AND completion_seq <= (SELECT completion_seq FROM cubepi_runs"
            " WHERE thread_id = $1 AND run_id = $2 AND completed_at IS NOT NULL))) ORDER BY seq")
        .text(thread_id)
        .text(after_run_id)
        .rows_to(rows);
    const ServerResults results = co_await store->read(std::move(reads));
    (void)read_cutoff(results[0], thread_id, after_run_id);
    co_return rows->take();
}

Task<void> fork_thread(ServerStorePtr store, std::string source, std::string target,
                       std::string after_run_id, std::optional<JsonObject> metadata) {
    ServerPlan plan;
    plan.threads.push_back(target);
    plan.threads.push_back(source);
    add_cutoff_read(plan.reads, source, after_run_id);
    plan.reads.add("SELECT 1 FROM cubepi_threads WHERE thread_id = $1").text(target);
    const std::size_t extra = add_extra_reads(plan.reads, source, false);
    auto decide = [=](const ServerView& view, ServerBatch& writes) {
        ServerFork fork;
        fork.source = source;
        fork.target = target;
        fork.cutoff = read_cutoff(view.results[0], source, after_run_id);
        if (view.results[1].rows() > 0) throw_thread_exists(target);
        JsonObject added;
        if (metadata) added["fork"] = *metadata;
        JsonObject stored = read_extra(*store, source, view.results, extra);
        const ExtraChange change = change_extra(std::move(stored), added);
        store->driver().write_fork_row(writes, fork, added, change.merged);
        write_fork(writes, fork);
        write_exact_extra(writes, target, change.merged);
    };
    co_await server_write(std::move(store), std::move(plan), std::move(decide));
}

Task<std::vector<ThreadInfo>> list_threads(ServerStorePtr store) {
    ServerBatch reads;
    reads.add(store->driver().listing_sql());
    auto convert = [](const ServerResults& results) {
        std::vector<ThreadInfo> list;
        for (int row = 0; row < results[0].rows(); ++row) {
            ThreadInfo info;
            info.thread_id = results[0].string(row, 0);
            info.message_count = results[0].integer(row, 1);
            if (!results[0].is_null(row, 2)) info.updated_at = results[0].number(row, 2);
            list.push_back(std::move(info));
        }
        return list;
    };
    return server_read(std::move(store), std::move(reads), std::move(convert));
}

Task<void> delete_thread(ServerStorePtr store, std::string thread_id) {
    ServerPlan plan;
    plan.threads.push_back(thread_id);
    plan.removes = true;
    plan.reads.add("SELECT 1 FROM cubepi_threads WHERE thread_id = $1").text(thread_id);
    auto decide = [store, thread_id](const ServerView& view, ServerBatch& writes) {
        if (view.results[0].rows() == 0) throw_thread_not_found(thread_id);
        // The forks of the thread stay.
        writes
            .add(
                "UPDATE cubepi_threads SET parent_thread_id = NULL, updated_at = updated_at"
                " WHERE parent_thread_id = $1")
            .text(thread_id);
        for (const std::string& table : store->driver().dependent_tables())
            writes.add("DELETE FROM " + table + " WHERE thread_id = $1").text(thread_id);
        writes.add("DELETE FROM cubepi_threads WHERE thread_id = $1").text(thread_id);
    };
    return server_write(store, std::move(plan), std::move(decide));
}

}  // namespace cubepi::detail
