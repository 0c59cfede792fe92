#include <cubepi/checkpoint/inbox/pending_row.hpp>

#include <algorithm>
#include <cmath>
#include <utility>

#include <cubepi/checkpoint/format/stored_json.hpp>
#include <cubepi/core/error.hpp>
#include <cubepi/schema/python_json.hpp>

namespace cubepi::detail {

namespace {

constexpr std::string_view digest_key = "approval_digest";

bool repeats(const SharedRequest& shared, const PendingRow& ours, SameRequest same) {
    if (shared.row.run_id != ours.run_id || shared.row.question_id != ours.question_id)
        return false;
    std::string damage;
    const std::optional<HitlRequest> request = parse_request(ours, damage);
    return !request || same(*shared.request, *request);
}

}  // namespace

PendingRow make_pending_row(const std::string& thread_id, const std::string& run_id,
                            const HitlRequest& request) {
    PendingRow row;
    row.thread_id = thread_id;
    row.run_id = run_id;
    row.question_id = request.question_id;
    set_times(row, request);
    HitlRequest stored = request;
    const Json* digest = stored.extra.if_contains(digest_key);
    if (digest && digest->is_string()) {
        row.approval_digest = std::string(digest->get_string());
        stored.extra.erase(digest_key);
    }
    const JsonObject json = to_json(stored);
    refuse_too_deep(thread_id, "a request", json);
    row.request_json = to_python_json(json);
    return row;
}

void set_times(PendingRow& row, const HitlRequest& request) {
    row.created_at = std::isfinite(request.created_at) ? request.created_at : 0;
    row.expires_at = row.created_at + request.timeout_seconds.value_or(INFINITY);
    if (std::isnan(row.expires_at)) row.expires_at = INFINITY;
}

void read_shared_request(SharedRequest& shared) {
    std::string damage;
    shared.request = parse_request(shared.row, damage);
    if (!shared.request) return;
    shared.row.question_id = shared.request->question_id;
    set_times(shared.row, *shared.request);
}

std::optional<HitlRequest> parse_request(const PendingRow& row, std::string& damage) {
    std::optional<HitlRequest> request;
    try {
        request = hitl_request_from_json(parse_lenient(row.request_json));
    } catch (const Error& error) {
        damage = error.what();
        return request;
    }
    if (!row.approval_digest.empty()) request->extra[digest_key] = row.approval_digest;
    return request;
}

InboxEntry to_inbox_entry(const PendingRow& row, const std::string& row_ref) {
    InboxEntry entry;
    entry.thread_id = row.thread_id;
    entry.run_id = row.run_id;
    entry.question_id = row.question_id;
    entry.created_at = row.created_at;
    if (std::isfinite(row.expires_at)) entry.expires_at = row.expires_at;
    std::string damage;
    entry.request = parse_request(row, damage);
    if (!entry.request) entry.damage = "row " + row_ref + " cannot be read: " + damage;
    return entry;
}

JsonObject shared_request_json(HitlRequest request) {
    request.extra.clear();
    return to_json(request);
}

std::vector<PendingRow> pending_by_both(std::optional<SharedRequest> shared,
                                        std::vector<PendingRow> ours, SameRequest same) {
    if (!shared) return {};
    if (!shared->request && !ours.empty()) return ours;
    const auto first = std::find_if(ours.begin(), ours.end(), [&](const PendingRow& one) {
        return repeats(*shared, one, same);
    });
    if (first != ours.end()) {
        ours.erase(ours.begin(), first);
    } else {
        ours.clear();
        ours.push_back(std::move(shared->row));
    }
    return ours;
}

}  // namespace cubepi::detail
