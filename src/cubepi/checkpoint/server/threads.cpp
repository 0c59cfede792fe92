#include <algorithm>
#include <exception>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include <cubepi/checkpoint/format/message_row.hpp>
#include <cubepi/checkpoint/format/stored_json.hpp>
#include <cubepi/checkpoint/server/schema.hpp>
#include <cubepi/checkpoint/server_checkpointer.hpp>
#include <cubepi/checkpoint/support/store_errors.hpp>
#include <cubepi/checkpoint/tables/rows.hpp>
#include <cubepi/core/error.hpp>
#include <cubepi/schema/python_json.hpp>

// The operations on threads and their messages. Those that check their arguments when they are awaited are coroutines.

namespace cubepi::detail {

namespace {

using SqlStorePtr = std::shared_ptr<SqlThreadStore>;

std::size_t add_extra_reads(SqlBatch& reads, const std::string& thread_id, bool for_update) {
    const std::size_t at = reads.size();
    reads
        .add(std::string("SELECT {text extra}, parent_thread_id FROM cubepi_threads"
                         " WHERE thread_id = $1") +
             (for_update ? " FOR UPDATE" : ""))
        .text(thread_id);
    reads
        .add(
            "SELECT json FROM cubepi_native_exact"
            " WHERE thread_id = $1 AND item = 'extra' AND run_id = '' AND question_id = ''")
        .text(thread_id);
    return at;
}

JsonObject read_extra(const SqlThreadStore& store, const std::string& thread_id,
                      const SqlResults& results, std::size_t at) {
    if (results[at].rows() == 0) return {};
    std::optional<std::string> exact;
    if (results[at + 1].rows() > 0) exact = results[at + 1].string(0, 0);
    std::string why;
    try {
        Json extra = exact_json(parse_lenient(results[at].text(0, 0)), exact);
        if (extra.is_object()) return std::move(extra.get_object());
        why = "not a JSON object";
    } catch (const Error& error) {
        why = error.what();
    }
    store.name().fail_row(thread_id, "cubepi_threads.thread_id=" + thread_id, why);
}

/// Stores the exact text of the extra, or removes it if the column has the value as it is.
void write_exact_extra(SqlBatch& writes, const std::string& thread_id, const JsonObject& extra) {
    if (survives_server_json(Json(extra))) {
        writes.add("DELETE FROM cubepi_native_exact WHERE thread_id = $1 AND item = 'extra'")
            .text(thread_id);
        return;
    }
    writes
        .add(
            "INSERT INTO cubepi_native_exact (thread_id, item, run_id, question_id, json)"
            " VALUES ($1, 'extra', '', '', $2)"
            " {replace thread_id, item, run_id, question_id: json}")
        .text(thread_id)
        .text(to_python_json(extra));
}

void write_extra(const SqlThreadStore& store, SqlBatch& writes, const std::string& thread_id,
                 const ExtraChange& change) {
    store.schema().write_extra(writes, thread_id, change);
    write_exact_extra(writes, thread_id, change.merged);
}

/// Collects the messages of rows with the columns seq, metadata, payload.
class MessageRows final : public SqlRowSink {
public:
    MessageRows(std::shared_ptr<const SqlThreadStore> store, std::string thread_id)
        : store_(std::move(store)), thread_id_(std::move(thread_id)) {}

    void start() noexcept override {
        messages_.clear();
        position_ = 0;
        failure_ = nullptr;
    }
    void receive(const SqlResult& rows, int row) noexcept override {
        if (failure_) return;
        try {
            messages_.push_back(read(rows, row));
            position_ = rows.integer(row, 0);
        } catch (...) {
            failure_ = std::current_exception();
        }
    }

    /// Returns the messages, once. Throws CheckpointCorruptionError that names the first unreadable row.
    MessageList take() {
        if (failure_) std::rethrow_exception(failure_);
        return std::move(messages_);
    }
    /// The number of the last row; 0 if there is none.
    std::int64_t position() const noexcept { return position_; }

private:
    Message read(const SqlResult& rows, int row) {
        std::string why;
        try {
            return reader_.read(rows.text(row, 2), rows.text(row, 1));
        } catch (const Error& error) {
            why = error.what();
        }
        store_->name().fail_row(thread_id_,
                                "cubepi_messages.seq=" + std::to_string(rows.integer(row, 0)), why);
    }

    std::shared_ptr<const SqlThreadStore> store_;
    std::string thread_id_;
    MessageRowReader reader_;
    MessageList messages_;
    std::int64_t position_ = 0;
    std::exception_ptr failure_;
};

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
        plan.locks.push_back(thread_id_);
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
            claims_ =
                add_claim_reads(plan.reads, store_->schema(), thread_id_, options_.claim_run_id());
        if (options_.extra()) extra_ = add_extra_reads(plan.reads, thread_id_, true);
        if (!options_.settled_questions().empty())
            pending_ = PendingRequests::add_reads(plan.reads, store_->schema(), thread_id_, true);
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
            const bool is_known = !rows_.empty() || view.results[extra_].rows() > 0;
            if (!change.empty() || !is_known) write_extra(*store_, writes, thread_id_, change);
        }
        if (!options_.settled_questions().empty())
            settle_questions(writes, store_->schema(), thread_id_, options_, view.results,
                             pending_);
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

/// Adds the SELECT of the messages of a query.
void add_message_read(SqlBatch& reads, const ThreadQuery& query, std::shared_ptr<SqlRowSink> rows) {
    std::string sql =
        "SELECT seq, {text metadata}, payload FROM cubepi_messages WHERE thread_id = $1";
    switch (query.part) {
        case ThreadPart::all: sql += " ORDER BY seq"; break;
        case ThreadPart::message:
            sql +=
                " AND seq = (SELECT seq FROM cubepi_native_message_ids"
                " WHERE thread_id = $1 AND message_id = $2)";
            break;
        case ThreadPart::completed:
            sql +=
                " AND (run_id IS NULL OR run_id IN (SELECT run_id FROM cubepi_runs"
                " WHERE thread_id = $1 AND completion_seq <= (SELECT completion_seq FROM"
                " cubepi_runs WHERE thread_id = $1 AND run_id = $2 AND completed_at IS NOT NULL)))"
                " ORDER BY seq";
            break;
    }
    SqlQuery& read = reads.add(std::move(sql)).text(query.thread_id);
    if (query.part == ThreadPart::message) read.text(server_text(query.id));
    if (query.part == ThreadPart::completed) read.text(query.id);
    read.rows_to(std::move(rows));
}

Task<std::int64_t> change(SqlStorePtr store, std::string thread_id, ThreadAppend wanted) {
    auto append = std::make_shared<Append>(store, std::move(thread_id), wanted.messages,
                                           std::move(wanted.options));
    SqlPlan plan = append->plan();
    auto decide = [append](const SqlView& view, SqlBatch& writes) {
        return append->decide(view, writes);
    };
    co_return co_await server_write(std::move(store), std::move(plan), std::move(decide));
}

Task<std::int64_t> change(SqlStorePtr store, std::string source, ThreadFork wanted) {
    SqlPlan plan;
    plan.locks.push_back(wanted.new_thread_id);
    plan.locks.push_back(source);
    add_cutoff_read(plan.reads, source, wanted.after_run_id);
    plan.reads.add("SELECT 1 FROM cubepi_threads WHERE thread_id = $1").text(wanted.new_thread_id);
    const std::size_t extra = add_extra_reads(plan.reads, source, false);
    auto decide = [store, source, wanted, extra](const SqlView& view, SqlBatch& writes) {
        SqlFork fork;
        fork.source = source;
        fork.target = wanted.new_thread_id;
        fork.cutoff = read_cutoff(view.results[0], source, wanted.after_run_id);
        if (view.results[1].rows() > 0) throw_thread_exists(fork.target);
        JsonObject added;
        if (wanted.metadata) added["fork"] = *wanted.metadata;
        JsonObject stored = read_extra(*store, source, view.results, extra);
        const ExtraChange change = change_extra(std::move(stored), added);
        store->schema().write_fork_row(writes, fork, added, change.merged);
        write_fork(writes, fork);
        write_exact_extra(writes, fork.target, change.merged);
        return std::int64_t{0};
    };
    return server_write(std::move(store), std::move(plan), std::move(decide));
}

Task<std::int64_t> change(SqlStorePtr store, std::string thread_id, ThreadRemoval /*removal*/) {
    SqlPlan plan;
    plan.locks.push_back(thread_id);
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
        for (const std::string& table : store->schema().dependent_tables())
            writes.add("DELETE FROM " + table + " WHERE thread_id = $1").text(thread_id);
        writes.add("DELETE FROM cubepi_threads WHERE thread_id = $1").text(thread_id);
        return std::int64_t{0};
    };
    return server_write(std::move(store), std::move(plan), std::move(decide));
}

}  // namespace

Task<std::optional<CheckpointData>> SqlThreadStore::read_thread(ThreadQuery query) {
    SqlBatch reads;
    if (query.part == ThreadPart::all) (void)add_extra_reads(reads, query.thread_id, false);
    if (query.part == ThreadPart::completed) add_cutoff_read(reads, query.thread_id, query.id);
    const auto rows = std::make_shared<MessageRows>(self(), query.thread_id);
    add_message_read(reads, query, rows);
    auto convert = [store = self(), query, rows](const SqlResults& results) {
        std::optional<CheckpointData> data(std::in_place);
        if (query.part == ThreadPart::completed)
            (void)read_cutoff(results[0], query.thread_id, query.id);
        if (query.part == ThreadPart::all) {
            if (results[0].rows() == 0) return std::optional<CheckpointData>();
            data->extra = read_extra(*store, query.thread_id, results, 0);
            data->parent_thread_id = results[0].optional_string(0, 1);
        }
        data->messages = rows->take();
        data->position = rows->position();
        // A row of the thread alone exists for its runs and requests.
        if (data->messages.empty() && data->extra.empty() && !data->parent_thread_id) data.reset();
        return data;
    };
    return server_read(self(), std::move(reads), std::move(convert));
}

Task<std::int64_t> SqlThreadStore::change_thread(std::string thread_id, ThreadChange wanted) {
    const auto execute = [&](auto& one) {
        return change(self(), std::move(thread_id), std::move(one));
    };
    return std::visit(execute, wanted);
}

Task<std::vector<ThreadInfo>> SqlThreadStore::list_threads() {
    SqlBatch reads;
    reads.add(schema_->listing_sql());
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
    return server_read(self(), std::move(reads), std::move(convert));
}

}  // namespace cubepi::detail

namespace cubepi {

using namespace detail;

SqlCheckpointer::SqlCheckpointer(SqlOptions options, std::shared_ptr<const SqlDriver> driver,
                                 std::shared_ptr<const ThreadSchema> schema)
    : SqlCheckpointer(std::make_shared<SqlThreadStore>(std::move(options), std::move(driver),
                                                       std::move(schema))) {}

SqlCheckpointer::SqlCheckpointer(std::shared_ptr<SqlThreadStore> store)
    : StoredThreads(store), store_(std::move(store)) {}

SqlCheckpointer::~SqlCheckpointer() = default;

Task<void> SqlCheckpointer::open() {
    // Any call connects.
    auto nothing = [](const SqlResults&) {};
    return server_read(store_, SqlBatch(), std::move(nothing));
}

}  // namespace cubepi
