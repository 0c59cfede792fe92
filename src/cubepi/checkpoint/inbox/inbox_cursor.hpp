#pragma once

#include <string>
#include <tuple>
#include <vector>

#include <cubepi/agent/hitl_inbox.hpp>

// The parts of HitlInbox that are the same in all stores.

namespace cubepi::detail {

/// The place of a request in an inbox: time (creation or deadline), thread, run, question. Unique, and independent of the
/// other requests.
using InboxKey = std::tuple<double, std::string, std::string, std::string>;

InboxEntry inbox_entry(const std::string& thread_id, const PendingRequest& pending);
/// The time of a request without a deadline is infinite.
InboxKey inbox_key(const InboxEntry& entry, InboxOrder order);
std::string write_inbox_cursor(const InboxKey& key, InboxOrder order);
/// Returns the place before all requests if the query has no cursor. Throws Error(invalid_argument) for a cursor of another
/// form or order, and for the limit 0.
InboxKey read_inbox_cursor(const InboxQuery& query);

/// Returns the page of the query. `entries` may be in any order, and contains those of the page and the next one, if any.
InboxPage inbox_page(std::vector<InboxEntry> entries, const InboxQuery& query);

bool has_expired(const PendingRequest& pending, double now);
[[noreturn]] void throw_stale_answer(const std::string& thread_id, const AnswerRecord& record);

}  // namespace cubepi::detail
