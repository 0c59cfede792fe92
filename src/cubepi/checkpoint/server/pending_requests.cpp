#include <algorithm>
#include <utility>

#include <cubepi/checkpoint/format/server_json.hpp>
#include <cubepi/checkpoint/server/rows.hpp>
#include <cubepi/core/error.hpp>
#include <cubepi/schema/python_json.hpp>

namespace cubepi::detail {

const char* const pending_columns =
    "id, thread_id, run_id, question_id, request_json, approval_digest, created_at, expires_at,"
    " expired";

namespace {

bool same_request(const HitlRequest& shared, const HitlRequest& ours) {
    return is_server_json_of(shared_request_json(shared), shared_request_json(ours));
}

std::optional<SharedRequest> read_shared(const std::string& thread_id, const ServerResult& thread) {
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

void insert_row(ServerBatch& writes, const PendingRow& row) {
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

}  // namespace

PendingRow read_pending_row(const ServerResult& rows, int row) {
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

std::string pending_row_ref(const PendingRow& row) {
    if (row.id == 0) return "cubepi_threads.thread_id=" + row.thread_id;
    return "cubepi_native_pending.id=" + std::to_string(row.id);
}

PendingRequest to_pending_request(const ServerStore& store, const PendingRow& row) {
    std::string damage;
    std::optional<HitlRequest> request = parse_request(row, damage);
    if (!request) {
        store.fail_row(row.thread_id, pending_row_ref(row), damage,
                       "discard the requests of the thread with HitlInbox::discard_requests()");
    }
    PendingRequest pending;
    pending.request = std::move(*request);
    pending.run_id = row.run_id;
    pending.expired = row.expired;
    return pending;
}

std::size_t PendingRequests::add_reads(ServerBatch& reads, const std::string& thread_id,
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

PendingRequests::PendingRequests(std::string thread_id, const ServerResults& results,
                                 std::size_t at)
    : thread_id_(std::move(thread_id)), shared_(read_shared(thread_id_, results[at])) {
    const ServerResult& ours = results[at + 1];
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

void PendingRequests::write_first(ServerBatch& writes) const {
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

void PendingRequests::write(ServerBatch& writes) const {
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
