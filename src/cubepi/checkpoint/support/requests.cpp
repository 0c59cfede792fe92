#include <cubepi/checkpoint/support/requests.hpp>

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include <cubepi/checkpoint/format/stored_json.hpp>
#include <cubepi/core/error.hpp>
#include <cubepi/schema/parse_json.hpp>
#include <cubepi/schema/python_json.hpp>

namespace cubepi::detail {

namespace {

constexpr double infinite = std::numeric_limits<double>::infinity();

const char* name_of(QuestionOrder order) {
    return order == QuestionOrder::age ? "age" : "deadline";
}

/// A cursor is [order, time, thread, run, question]; the time is null if it is infinite.
InboxKey parse_cursor(const std::string& cursor, QuestionOrder order) {
    const Json json = parse_json(cursor);
    const JsonArray& list = json.as_array();
    if (list.size() != 5 || list[0] != Json(name_of(order)))
        throw Error(ErrorCode::parse, "not of this order");
    const double time = list[1].is_null() ? infinite : list[1].to_number<double>();
    return {time, std::string(list[2].as_string()), std::string(list[3].as_string()),
            std::string(list[4].as_string())};
}

constexpr std::string_view digest_key = "approval_digest";

bool repeats(const SharedRequest& shared, const PendingRow& ours, SameRequest same) {
    if (shared.row.run_id != ours.run_id || shared.row.question_id != ours.question_id)
        return false;
    std::string damage;
    const std::optional<HitlRequest> request = parse_request(ours, damage);
    return !request || same(*shared.request, *request);
}

}  // namespace

InboxKey inbox_key(const QuestionEntry& entry, QuestionOrder order) {
    const double time =
        order == QuestionOrder::age ? entry.created_at : entry.expires_at.value_or(infinite);
    return {time, entry.thread_id, entry.run_id, entry.question_id};
}

std::string write_inbox_cursor(const InboxKey& key, QuestionOrder order) {
    const auto& [time, thread_id, run_id, question_id] = key;
    JsonArray list;
    list.emplace_back(name_of(order));
    list.emplace_back(time == infinite ? Json() : Json(time));
    for (const std::string* text : {&thread_id, &run_id, &question_id}) list.emplace_back(*text);
    return boost::json::serialize(list);
}

InboxKey read_inbox_cursor(const QuestionQuery& query) {
    if (query.limit() == 0) {
        throw Error(ErrorCode::invalid_argument,
                    "the limit of an inbox page is 0; it must be at least 1");
    }
    if (query.after().empty()) return {-infinite, {}, {}, {}};
    try {
        return parse_cursor(query.after(), query.order());
    } catch (const std::exception&) {
        throw Error(ErrorCode::invalid_argument,
                    "'" + query.after() + "' is not a cursor of an inbox in the order of " +
                        name_of(query.order()) + "; pass QuestionPage::next of the page before");
    }
}

QuestionPage inbox_page(std::vector<QuestionEntry> entries, const QuestionQuery& query) {
    const InboxKey after = read_inbox_cursor(query);
    std::vector<std::pair<InboxKey, QuestionEntry>> found;
    for (QuestionEntry& entry : entries) {
        InboxKey key = inbox_key(entry, query.order());
        if (after < key) found.emplace_back(std::move(key), std::move(entry));
    }
    std::sort(found.begin(), found.end(),
              [](const auto& a, const auto& b) { return a.first < b.first; });
    QuestionPage page;
    if (found.size() > query.limit()) {
        found.resize(query.limit());
        page.next = write_inbox_cursor(found.back().first, query.order());
    }
    for (auto& [key, entry] : found) page.entries.push_back(std::move(entry));
    return page;
}

bool has_expired(const PendingRequest& pending, double now) {
    const std::optional<double>& timeout = pending.request.timeout_seconds;
    return pending.expired || (timeout && pending.request.created_at + *timeout <= now);
}

void read_answer_texts(AnswerRecord& record, std::int64_t id, std::string_view request,
                       std::string_view answer) {
    try {
        record.request = hitl_request_from_json(parse_lenient(request));
        record.answer = parse_lenient(answer);
    } catch (const Error& error) {
        record.damage = "row cubepi_native_answers.id=" + std::to_string(id) +
                        " cannot be read: " + error.what();
    }
}

std::int64_t row_limit(std::size_t limit) {
    constexpr std::size_t most = std::numeric_limits<std::int32_t>::max();
    return static_cast<std::int64_t>(std::min(limit, most));
}

void throw_stale_answer(const std::string& thread_id, const AnswerRecord& record) {
    throw CheckpointerError(ErrorCode::stale_answer,
                            "question '" + record.question_id + "' of run '" + record.run_id +
                                "' in thread '" + thread_id +
                                "' is not pending: it was answered, cancelled, or has expired",
                            thread_id, record.run_id);
}

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

PendingRequest to_pending_request(const PendingRow& row, HitlRequest request) {
    PendingRequest pending;
    pending.request = std::move(request);
    pending.run_id = row.run_id;
    pending.expired = row.expired;
    return pending;
}

QuestionEntry to_question_entry(const PendingRow& row, const std::string& row_ref) {
    QuestionEntry entry;
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
    request.request_id.clear();
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
