#include <cubepi/checkpoint/tables/check.hpp>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <optional>
#include <set>
#include <utility>

#include <cubepi/agent/claim_owner.hpp>
#include <cubepi/agent/transcript.hpp>
#include <cubepi/checkpoint/support/requests.hpp>
#include <cubepi/checkpoint/tables/rows.hpp>
#include <cubepi/core/error.hpp>
#include <cubepi/schema/python_json.hpp>

// The store may be in use: what several rows say together is read in one snapshot, and what looks interrupted is read again.

namespace cubepi::detail {

namespace {

constexpr std::int64_t page = 500;
constexpr int most_orphans = 100;

std::string of_thread(const std::string& thread_id) { return "thread '" + thread_id + "'"; }

std::string number_of(std::size_t count, const std::string& one, const std::string& several) {
    return std::to_string(count) + " " + (count == 1 ? one : several);
}

std::string seconds_text(double seconds) {
    return std::to_string(static_cast<std::int64_t>(std::llround(std::min(seconds, 1e15)))) + " s";
}

/// Rows that refer to a run that is not open.
struct OrphanRows {
    const char* table;
    const char* what;
    StoreFinding::Kind kind;
    const char* condition;
    const char* remedy;
};

constexpr const char* no_open_run = "r.run_id IS NULL OR r.completed_at IS NOT NULL";

constexpr OrphanRows orphan_rows[] = {
    {"", "an answer without an open run", StoreFinding::Kind::note, no_open_run,
     "nothing uses it; it is deleted with its thread"},
    {"cubepi_native_started", "a started call without an open run", StoreFinding::Kind::note,
     no_open_run, "nothing uses it; it is deleted with its thread"},
    {"cubepi_native_used_answers", "a used answer without an open run", StoreFinding::Kind::note,
     no_open_run, "nothing uses it; it is deleted with its thread"},
    {"cubepi_native_claims", "a claim without an open run", StoreFinding::Kind::repair, no_open_run,
     "the next claim on the thread supersedes it once its lease has ended"},
    {"cubepi_native_pending", "a request of a completed run", StoreFinding::Kind::damage,
     "r.completed_at IS NOT NULL", "nothing waits for its answer; delete the row"},
};

class StoreCheck {
public:
    StoreCheck(CheckedStore store, std::shared_ptr<StoreReport> report)
        : store_(std::move(store)), owned_(std::move(report)), report_(*owned_) {}

    Task<void> run() {
        co_await check_threads();
        co_await check_orphans();
        co_await check_claims();
        co_await check_requests();
        co_await check_answers();
        for (const std::string& column : store_.json_columns) co_await check_json(column);
    }

private:
    Task<void> check_threads() {
        const std::vector<ThreadInfo> threads = co_await store_.threads->list_threads();
        report_.count("threads", static_cast<std::int64_t>(threads.size()));
        report_.count("messages", 0);
        for (const ThreadInfo& thread : threads) {
            const std::string thread_id = thread.thread_id;
            co_await check_thread(thread_id);
            if (store_.has_positions) co_await check_positions(thread_id);
        }
    }

    /// Returns nothing, and reports the row, if the thread cannot be read.
    Task<std::optional<MessageList>> load(std::string thread_id) {
        std::optional<MessageList> messages;
        std::string damage;
        try {
            std::optional<CheckpointData> data = co_await store_.messages->load(thread_id);
            messages = data ? std::move(data->messages) : MessageList();
        } catch (const CheckpointCorruptionError& error) {
            damage = error.what();
        }
        if (!messages)
            report_.damage(of_thread(thread_id), damage, "rows after it were not checked");
        co_return messages;
    }

    Task<void> check_thread(std::string thread_id) {
        const std::optional<MessageList> messages = co_await load(thread_id);
        if (!messages) co_return;
        report_.count("messages", static_cast<std::int64_t>(messages->size()));
        if (!check_conversation(*messages, of_thread(thread_id), report_)) co_return;
        SqlBatch reads;
        reads
            .add("SELECT 1 FROM " + words_.runs +
                 " WHERE thread_id = $1 AND completed_at IS NULL LIMIT 1")
            .text(thread_id);
        const SqlResults results = co_await store_.tables->read(std::move(reads));
        if (results[0].rows() > 0) co_return;
        // The run may have ended between the two reads.
        const std::optional<MessageList> later = co_await load(thread_id);
        if (later) report_interrupted(*later, of_thread(thread_id), report_);
    }

    Task<void> check_positions(std::string thread_id) {
        SqlBatch reads;
        reads
            .add(
                "SELECT {integer count(*)}, {integer coalesce(min(seq), 1)},"
                " {integer coalesce(max(seq), 0)} FROM cubepi_messages WHERE thread_id = $1")
            .text(thread_id);
        // A fork has the positions of its source, without those of other runs.
        reads.add("SELECT forked_at_seq IS NOT NULL FROM cubepi_threads WHERE thread_id = $1")
            .text(thread_id);
        reads
            .add(
                "SELECT {integer count(*)} FROM cubepi_native_message_ids AS i WHERE thread_id = $1"
                " AND NOT EXISTS (SELECT 1 FROM cubepi_messages AS m WHERE m.thread_id = $1"
                " AND m.seq = i.seq)")
            .text(thread_id);
        const SqlResults results = co_await store_.tables->read(std::move(reads));
        const SqlResult& seq = results[0];
        const bool is_fork = results[1].rows() > 0 && results[1].boolean(0, 0);
        const std::int64_t last = seq.integer(0, 2);
        const std::int64_t missing = last - seq.integer(0, 0);
        if (!is_fork && (missing != 0 || seq.integer(0, 1) != 1)) {
            report_.damage(of_thread(thread_id),
                           std::to_string(missing) + " of the positions 1 to " +
                               std::to_string(last) + " have no message",
                           "restore the rows of cubepi_messages from a backup; the others are "
                           "used as they are");
        }
        if (const std::int64_t ids = results[2].integer(0, 0); ids > 0) {
            report_.damage(
                of_thread(thread_id),
                std::to_string(ids) + " rows of cubepi_native_message_ids have no message",
                "restore the messages from a backup, or delete these rows");
        }
    }

    Task<void> check_orphans() {
        for (const OrphanRows& rows : orphan_rows) {
            const std::string table = *rows.table ? std::string(rows.table) : words_.answers;
            SqlBatch reads;
            reads.add("SELECT o.thread_id, o.run_id FROM " + table + " AS o LEFT JOIN " +
                      words_.runs +
                      " AS r ON r.thread_id = o.thread_id AND r.run_id = o.run_id WHERE " +
                      rows.condition + " ORDER BY o.thread_id, o.run_id LIMIT " +
                      std::to_string(most_orphans));
            const SqlResults results = co_await store_.tables->read(std::move(reads));
            for (int row = 0; row < results[0].rows(); ++row) {
                report_.add(rows.kind, of_thread(results[0].string(row, 0)),
                            table + ": " + rows.what + " ('" + results[0].string(row, 1) + "')",
                            rows.remedy);
            }
        }
        if (!store_.has_orphans) co_return;
        SqlBatch reads;
        reads.add(
            "SELECT m.thread_id, {integer count(*)} FROM cubepi_messages AS m LEFT JOIN"
            " cubepi_threads AS t ON t.thread_id = m.thread_id WHERE t.thread_id IS NULL"
            " GROUP BY m.thread_id ORDER BY m.thread_id LIMIT " +
            std::to_string(most_orphans));
        const SqlResults results = co_await store_.tables->read(std::move(reads));
        for (int row = 0; row < results[0].rows(); ++row) {
            report_.damage(of_thread(results[0].string(row, 0)),
                           std::to_string(results[0].integer(row, 1)) +
                               " messages without a row in cubepi_threads",
                           "insert that row, or delete the messages");
        }
    }

    Task<void> check_claims() {
        SqlBatch reads;
        reads.add(
            "SELECT c.run_id, c.owner_id, c.host, c.boot_id, c.pid, c.process_start,"
            " c.description, c.lease_until, c.thread_id, " +
            store_.now + " FROM cubepi_native_claims AS c JOIN " + words_.runs +
            " AS r ON r.thread_id = c.thread_id AND r.run_id = c.run_id"
            " WHERE r.completed_at IS NULL ORDER BY c.thread_id, c.run_id");
        const SqlResults results = co_await store_.tables->read(std::move(reads));
        const SqlResult& rows = results[0];
        report_.count("claimed runs", rows.rows());
        for (int row = 0; row < rows.rows(); ++row) {
            report_expired(read_claim(rows, row), rows.number(row, 9),
                           of_thread(rows.string(row, 8)), report_);
        }
    }

    Task<void> check_requests() {
        report_.count("pending requests", 0);
        for (std::int64_t after = 0;;) {
            SqlBatch reads;
            reads
                .add(
                    "SELECT id, thread_id, run_id, question_id, request_json"
                    " FROM cubepi_native_pending WHERE id > $1 ORDER BY id LIMIT $2")
                .integer(after)
                .integer(page);
            const SqlResults results = co_await store_.tables->read(std::move(reads));
            const SqlResult& rows = results[0];
            for (int row = 0; row < rows.rows(); ++row) {
                PendingRow pending;
                pending.id = rows.integer(row, 0);
                pending.thread_id = rows.string(row, 1);
                pending.request_json = rows.string(row, 4);
                after = pending.id;
                std::string damage;
                if (parse_request(pending, damage)) continue;
                report_.damage(
                    of_thread(pending.thread_id),
                    "row cubepi_native_pending.id=" + std::to_string(pending.id) + ": " + damage,
                    "discard the request (cubepi inbox), or repair the row");
            }
            report_.count("pending requests", rows.rows());
            if (rows.rows() < page) co_return;
        }
    }

    Task<void> check_answers() {
        for (std::int64_t after = 0;;) {
            SqlBatch reads;
            reads
                .add(
                    "SELECT id, thread_id, request_json, answer_json FROM cubepi_native_answers"
                    " WHERE id > $1 ORDER BY id LIMIT $2")
                .integer(after)
                .integer(page);
            const SqlResults results = co_await store_.tables->read(std::move(reads));
            const SqlResult& rows = results[0];
            for (int row = 0; row < rows.rows(); ++row) {
                after = rows.integer(row, 0);
                AnswerRecord record;
                read_answer_texts(record, after, rows.text(row, 2), rows.text(row, 3));
                if (record.damage.empty()) continue;
                report_.damage(of_thread(rows.string(row, 1)), record.damage,
                               "the record of this answer is lost; delete the row");
            }
            if (rows.rows() < page) co_return;
        }
    }

    Task<void> check_json(std::string name) {
        const std::size_t dot = name.find('.');
        SqlBatch reads;
        reads.add("SELECT thread_id, " + name.substr(dot + 1) + " FROM " + name.substr(0, dot));
        const SqlResults results = co_await store_.tables->read(std::move(reads));
        for (int row = 0; row < results[0].rows(); ++row) {
            std::string damage;
            try {
                (void)parse_lenient(results[0].text(row, 1));
            } catch (const Error& error) {
                damage = error.what();
            }
            if (!damage.empty())
                report_.damage(of_thread(results[0].string(row, 0)), name + ": " + damage,
                               "repair or delete that row");
        }
    }

    const CheckedStore store_;
    const TableWords words_ = store_.tables->run_schema()->words();
    const std::shared_ptr<StoreReport> owned_;
    StoreReport& report_;
};

}  // namespace

bool check_conversation(const MessageList& messages, const std::string& where,
                        StoreReport& report) {
    if (is_legal_transcript(messages)) return false;
    const std::size_t open = open_tool_calls(messages).size();
    const TranscriptRepairs repairs = repair_request(messages).repairs;
    if (repairs.left_out > 0)
        report.repair(where, number_of(repairs.left_out, "result has", "results have") + " no call",
                      "requests to the model leave it out");
    if (repairs.moved_results > 0)
        report.repair(where,
                      number_of(repairs.moved_results, "result is", "results are") +
                          " not directly after its call",
                      "requests to the model move it there");
    if (repairs.added_results > open)
        report.repair(
            where, number_of(repairs.added_results - open, "call has", "calls have") + " no result",
            "requests to the model get an error result for it");
    return open > 0;
}

void report_interrupted(const MessageList& messages, const std::string& where,
                        StoreReport& report) {
    const std::size_t open = open_tool_calls(messages).size();
    if (open == 0) return;
    report.repair(
        where, number_of(open, "call has", "calls have") + " no result, and no run is in progress",
        "the next prompt stores an error result for each");
}

void report_expired(const HeldClaim& claim, double now, const std::string& where,
                    StoreReport& report) {
    const bool is_dead = is_dead_owner(claim.owner);
    const bool has_expired = claim.lease_until < now;
    if (!has_expired && !is_dead) return;
    const ClaimOwner& owner = claim.owner;
    std::string who = owner.description;
    if (who.empty()) who = owner.owner_id.empty() ? "CubePi" : owner.owner_id;
    std::string text = "run '" + claim.run_id + "' belongs to " + who;
    if (has_expired)
        text += ", whose lease ended " + seconds_text(now - claim.lease_until) + " ago";
    if (is_dead)
        text += has_expired ? ", and whose process has ended" : ", whose process has ended";
    report.note(where, std::move(text), "the next prompt or answer supersedes the claim");
}

Task<void> check_store(CheckedStore store, std::shared_ptr<StoreReport> report) {
    const auto check = std::make_shared<StoreCheck>(std::move(store), std::move(report));
    co_await check->run();
}

}  // namespace cubepi::detail
