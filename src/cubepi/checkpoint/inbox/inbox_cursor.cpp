#include <cubepi/checkpoint/inbox/inbox_cursor.hpp>

#include <algorithm>
#include <limits>
#include <utility>

#include <cubepi/core/error.hpp>
#include <cubepi/schema/parse_json.hpp>

namespace cubepi::detail {

namespace {

constexpr double infinite = std::numeric_limits<double>::infinity();

const char* name_of(InboxOrder order) { return order == InboxOrder::age ? "age" : "deadline"; }

/// A cursor is [order, time, thread, run, question]; the time is null if it is infinite.
InboxKey parse_cursor(const std::string& cursor, InboxOrder order) {
    const Json json = parse_json(cursor);
    const JsonArray& list = json.as_array();
    if (list.size() != 5 || list[0] != Json(name_of(order)))
        throw Error(ErrorCode::parse, "not of this order");
    const double time = list[1].is_null() ? infinite : list[1].to_number<double>();
    return {time, std::string(list[2].as_string()), std::string(list[3].as_string()),
            std::string(list[4].as_string())};
}

}  // namespace

InboxEntry inbox_entry(const std::string& thread_id, const PendingRequest& pending) {
    InboxEntry entry;
    entry.thread_id = thread_id;
    entry.run_id = pending.run_id;
    entry.question_id = pending.request.question_id;
    entry.created_at = pending.request.created_at;
    if (pending.request.timeout_seconds)
        entry.expires_at = pending.request.created_at + *pending.request.timeout_seconds;
    entry.request = pending.request;
    return entry;
}

InboxKey inbox_key(const InboxEntry& entry, InboxOrder order) {
    const double time =
        order == InboxOrder::age ? entry.created_at : entry.expires_at.value_or(infinite);
    return {time, entry.thread_id, entry.run_id, entry.question_id};
}

std::string write_inbox_cursor(const InboxKey& key, InboxOrder order) {
    const auto& [time, thread_id, run_id, question_id] = key;
    JsonArray list;
    list.emplace_back(name_of(order));
    list.emplace_back(time == infinite ? Json() : Json(time));
    for (const std::string* text : {&thread_id, &run_id, &question_id}) list.emplace_back(*text);
    return boost::json::serialize(list);
}

InboxKey read_inbox_cursor(const InboxQuery& query) {
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
                        name_of(query.order()) + "; pass InboxPage::next of the page before");
    }
}

InboxPage inbox_page(std::vector<InboxEntry> entries, const InboxQuery& query) {
    const InboxKey after = read_inbox_cursor(query);
    std::vector<std::pair<InboxKey, InboxEntry>> found;
    for (InboxEntry& entry : entries) {
        InboxKey key = inbox_key(entry, query.order());
        if (after < key) found.emplace_back(std::move(key), std::move(entry));
    }
    std::sort(found.begin(), found.end(),
              [](const auto& a, const auto& b) { return a.first < b.first; });
    InboxPage page;
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

void throw_stale_answer(const std::string& thread_id, const AnswerRecord& record) {
    throw CheckpointerError(ErrorCode::stale_answer,
                            "question '" + record.question_id + "' of run '" + record.run_id +
                                "' in thread '" + thread_id +
                                "' is not pending: it was answered, cancelled, or has expired",
                            thread_id, record.run_id);
}

}  // namespace cubepi::detail
