#include <algorithm>
#include <memory>
#include <string>
#include <utility>

#include <cubepi/checkpoint/common/store_errors.hpp>
#include <cubepi/checkpoint/format/message_row.hpp>
#include <cubepi/checkpoint/format/stored_json.hpp>
#include <cubepi/checkpoint/server/driver.hpp>
#include <cubepi/checkpoint/server/operations.hpp>

namespace cubepi::detail {

namespace {

/// An append, encoded once and executed as often as the transaction has to be repeated.
class Append {
public:
    Append(SqlStorePtr store, std::string thread_id, const MessageList& messages,
           AppendOptions options)
        : store_(std::move(store)), thread_id_(std::move(thread_id)), options_(std::move(options)) {
        for (const Message& message : messages) {
            rows_.push_back(to_message_row(thread_id_, message));
            const std::string& run_id = rows_.back().run_id;
            if (!run_id.empty() && std::find(runs_.begin(), runs_.end(), run_id) == runs_.end())
                runs_.push_back(run_id);
        }
        if (options_.extra()) refuse_too_deep(thread_id_, "extra", *options_.extra());
    }

    SqlPlan plan() {
        SqlPlan plan;
        plan.threads.push_back(thread_id_);
        plan.reads
            .add(
                // ORDER BY and LIMIT, because max() and min() are planned twice.
                "SELECT coalesce((SELECT seq FROM cubepi_messages WHERE thread_id = $1"
                " ORDER BY seq DESC LIMIT 1), 0),"
                " (SELECT run_id FROM cubepi_runs WHERE thread_id = $1 AND run_id {any $2}"
                " AND completed_at IS NOT NULL ORDER BY run_id LIMIT 1)")
            .text(thread_id_)
            .texts(runs_);
        if (!options_.claim_owner().empty())
            claims_ = add_claim_reads(plan.reads, thread_id_, options_.claim_run_id());
        if (options_.extra()) extra_ = add_extra_reads(plan.reads, thread_id_, true);
        if (!options_.settled_questions().empty())
            pending_ = PendingRequests::add_reads(plan.reads, thread_id_, true);
        return plan;
    }

    std::int64_t decide(const SqlView& view, SqlBatch& writes) const {
        if (claims_ > 0) {
            ClaimSheet claims = read_claims(view.results, claims_);
            ClaimRules(claims, thread_id_)
                .require_claim(options_.claim_run_id(), options_.claim_owner());
        }
        const SqlResult& state = view.results[0];
        if (!state.is_null(0, 1)) throw_run_completed(thread_id_, state.string(0, 1));
        std::int64_t position = state.integer(0, 0);
        const std::optional<std::int64_t>& expected = options_.expected_position();
        if (expected && *expected != position) throw_stale_append(thread_id_, *expected, position);
        if (!rows_.empty()) write_thread(writes);
        for (const MessageRow& row : rows_) write_message(writes, row, ++position);
        if (options_.extra()) {
            JsonObject stored = read_extra(*store_, thread_id_, view.results, extra_);
            const ExtraChange change = change_extra(std::move(stored), *options_.extra());
            if (!change.empty()) write_extra(*store_, writes, thread_id_, change);
        }
        if (!options_.settled_questions().empty()) settle(view, writes);
        return position;
    }

private:
    void write_thread(SqlBatch& writes) const {
        writes
            .add(
                "INSERT INTO cubepi_threads (thread_id) VALUES ($1)"
                " {replace thread_id: thread_id}, updated_at = now()")
            .text(thread_id_);
    }

    void write_message(SqlBatch& writes, const MessageRow& row, std::int64_t seq) const {
        writes
            .add(
                "INSERT INTO cubepi_messages (thread_id, seq, role, metadata, payload, run_id)"
                " VALUES ($1, $2, $3, $4, $5, $6)")
            .text(thread_id_)
            .integer(seq)
            .text(row.role)
            .json(row.metadata)
            .bytes(row.payload)
            .text_or_null(row.run_id);
        if (row.message_id.empty()) return;
        writes
            .add(
                "INSERT INTO cubepi_native_message_ids (thread_id, message_id, seq)"
                " VALUES ($1, $2, $3) {skip}")
            .text(thread_id_)
            .text(row.message_id)
            .integer(seq);
    }

    /// Removes the requests and answers of the questions, the used answers too.
    void settle(const SqlView& view, SqlBatch& writes) const {
        const std::string& run_id = options_.settled_run_id();
        const std::vector<std::string>& questions = options_.settled_questions();
        remove_answers(writes, thread_id_, run_id, questions);
        writes
            .add(
                "DELETE FROM cubepi_native_used_answers WHERE thread_id = $1 AND run_id = $2"
                " AND question_id {any $3}")
            .text(thread_id_)
            .text(run_id)
            .texts(questions);
        PendingRequests pending(thread_id_, view.results, pending_);
        for (const std::string& question : questions) (void)pending.remove(run_id, question);
        pending.write(writes);
    }

    SqlStorePtr store_;
    std::string thread_id_;
    AppendOptions options_;
    std::vector<MessageRow> rows_;
    std::vector<std::string> runs_;
    // The places of the results; the first result is the state of the thread.
    std::size_t claims_ = 0;
    std::size_t extra_ = 0;
    std::size_t pending_ = 0;
};

/// Selects one row if the thread exists, with the position of the run in the order of completion.
void add_cutoff_read(SqlBatch& reads, const std::string& thread_id, const std::string& run_id) {
    reads
        .add(
            "SELECT (SELECT completion_seq FROM cubepi_runs WHERE thread_id = $1 AND run_id = $2"
            " AND completed_at IS NOT NULL) FROM cubepi_threads WHERE thread_id = $1")
        .text(thread_id)
        .text(run_id);
}

std::int64_t read_cutoff(const SqlResult& rows, const std::string& thread_id,
                         const std::string& run_id) {
    if (rows.rows() == 0) throw_thread_not_found(thread_id);
    if (rows.is_null(0, 0)) throw_run_not_completed(thread_id, run_id);
    return rows.integer(0, 0);
}

// Copies the stored rows, because some values are read only approximately.
void write_fork(SqlBatch& writes, const SqlFork& fork) {
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

Task<std::optional<CheckpointData>> load_thread(SqlStorePtr store, std::string thread_id) {
    SqlBatch reads;
    const std::size_t extra = add_extra_reads(reads, thread_id, false);
    const auto rows = std::make_shared<MessageRows>(store, thread_id);
    reads
        .add(
            "SELECT seq, {text metadata}, payload FROM cubepi_messages WHERE thread_id = $1"
            " ORDER BY seq")
        .text(thread_id)
        .rows_to(rows);
    const SqlResults results = co_await store->read(std::move(reads));
    std::optional<CheckpointData> data;
    if (results[extra].rows() == 0) co_return data;
    data.emplace();
    data->extra = read_extra(*store, thread_id, results, extra);
    data->parent_thread_id = results[extra].optional_string(0, 1);
    data->messages = rows->take();
    data->position = rows->position();
    // A row of the thread alone exists for its runs and requests.
    if (data->messages.empty() && data->extra.empty() && !data->parent_thread_id) data.reset();
    co_return data;
}

Task<std::int64_t> append_messages(SqlStorePtr store, std::string thread_id, MessageList messages,
                                   AppendOptions options) {
    auto append =
        std::make_shared<Append>(store, std::move(thread_id), messages, std::move(options));
    SqlPlan plan = append->plan();
    auto decide = [append](const SqlView& view, SqlBatch& writes) {
        return append->decide(view, writes);
    };
    co_return co_await server_write(std::move(store), std::move(plan), std::move(decide));
}

Task<void> save_extra(SqlStorePtr store, std::string thread_id, JsonObject extra) {
    refuse_too_deep(thread_id, "extra", extra);
    SqlPlan plan;
    plan.threads.push_back(thread_id);
    (void)add_extra_reads(plan.reads, thread_id, true);
    auto decide = [store, thread_id, extra](const SqlView& view, SqlBatch& writes) {
        const bool is_known = view.results[0].rows() > 0;
        JsonObject stored = read_extra(*store, thread_id, view.results, 0);
        const ExtraChange change = change_extra(std::move(stored), extra);
        if (!change.empty() || !is_known) write_extra(*store, writes, thread_id, change);
    };
    co_await server_write(std::move(store), std::move(plan), std::move(decide));
}

Task<std::optional<Message>> find_message(SqlStorePtr store, std::string thread_id,
                                          std::string message_id) {
    SqlBatch reads;
    const auto rows = std::make_shared<MessageRows>(store, thread_id);
    reads
        .add(
            "SELECT seq, {text metadata}, payload FROM cubepi_messages WHERE thread_id = $1"
            " AND seq = (SELECT seq FROM cubepi_native_message_ids"
            " WHERE thread_id = $1 AND message_id = $2)")
        .text(thread_id)
        .text(server_text(message_id))
        .rows_to(rows);
    (void)co_await store->read(std::move(reads));
    const MessageList messages = rows->take();
    std::optional<Message> message;
    if (!messages.empty()) message = messages.front();
    co_return message;
}

Task<MessageList> snapshot_thread(SqlStorePtr store, std::string thread_id,
                                  std::string after_run_id) {
    SqlBatch reads;
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
    const SqlResults results = co_await store->read(std::move(reads));
    (void)read_cutoff(results[0], thread_id, after_run_id);
    co_return rows->take();
}

Task<void> fork_thread(SqlStorePtr store, std::string source, std::string target,
                       std::string after_run_id, std::optional<JsonObject> metadata) {
    SqlPlan plan;
    plan.threads.push_back(target);
    plan.threads.push_back(source);
    add_cutoff_read(plan.reads, source, after_run_id);
    plan.reads.add("SELECT 1 FROM cubepi_threads WHERE thread_id = $1").text(target);
    const std::size_t extra = add_extra_reads(plan.reads, source, false);
    auto decide = [=](const SqlView& view, SqlBatch& writes) {
        SqlFork fork;
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

Task<std::vector<ThreadInfo>> list_threads(SqlStorePtr store) {
    SqlBatch reads;
    reads.add(store->driver().listing_sql());
    auto convert = [](const SqlResults& results) {
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

Task<void> delete_thread(SqlStorePtr store, std::string thread_id) {
    SqlPlan plan;
    plan.threads.push_back(thread_id);
    plan.removes = true;
    plan.reads.add("SELECT 1 FROM cubepi_threads WHERE thread_id = $1").text(thread_id);
    auto decide = [store, thread_id](const SqlView& view, SqlBatch& writes) {
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
