#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include <cubepi/agent/question_store.hpp>

// The parts of QuestionStore that are the same in all stores.
//
// The table cubepi_native_pending of the stores with SQL, and the row of CubePi that repeats its first request.
//
// Python CubePi has one pending request per thread. Ours are all in cubepi_native_pending, and theirs repeats the first of
// them. If theirs is not the first of ours, CubePi has worked on the thread since, and theirs is right: the requests before
// it are answered, and if it is none of ours, or there is none, no other is pending. An unreadable row of theirs is taken for
// the repetition that it normally is, as long as there are rows of ours.

namespace cubepi::detail {

/// The place of a request in an inbox: time (creation or deadline), thread, run, question. Unique, and independent of the
/// other requests.
using InboxKey = std::tuple<double, std::string, std::string, std::string>;

/// The time of a request without a deadline is infinite.
InboxKey inbox_key(const QuestionEntry& entry, QuestionOrder order);
std::string write_inbox_cursor(const InboxKey& key, QuestionOrder order);
/// Returns the place before all requests if the query has no cursor. Throws Error(invalid_argument) for a cursor of another
/// form or order, and for the limit 0.
InboxKey read_inbox_cursor(const QuestionQuery& query);

/// Returns the page of the query. `entries` may be in any order, and contains those of the page and the next one, if any.
QuestionPage inbox_page(std::vector<QuestionEntry> entries, const QuestionQuery& query);

bool has_expired(const PendingRequest& pending, double now);
/// Reads the texts of a row of cubepi_native_answers. An unreadable row gets `damage`, which names its id.
void read_answer_texts(AnswerRecord& record, std::int64_t id, std::string_view request,
                       std::string_view answer);
/// Returns the limit of a query as databases accept it.
std::int64_t row_limit(std::size_t limit);
[[noreturn]] void throw_stale_answer(const std::string& thread_id, const AnswerRecord& record);

/// A row of a pending request. The times are those of the request, in columns with indexes.
struct PendingRow {
    std::int64_t id = 0;  ///< 0: in CubePi's table only
    std::string thread_id = {};
    std::string run_id = {};
    std::string question_id = {};  ///< empty in an unreadable row of CubePi's
    std::string request_json = {};
    std::string approval_digest = {};
    double created_at = 0;
    double expires_at = std::numeric_limits<double>::infinity();  ///< infinite: does not expire
    bool expired = false;
};

/// CubePi's row of a thread.
struct SharedRequest {
    PendingRow row = {};
    std::optional<HitlRequest> request = {};  ///< absent if it is unreadable
};

/// Returns a row of the request, without id. Throws CheckpointerError(invalid_argument) if it is nested too deeply.
PendingRow make_pending_row(const std::string& thread_id, const std::string& run_id,
                            const HitlRequest& request);
/// Sets the columns of the times.
void set_times(PendingRow& row, const HitlRequest& request);
/// Reads `shared.row.request_json`, and sets the columns that follow from it.
void read_shared_request(SharedRequest& shared);

/// Returns nothing and sets `damage` if the request is unreadable.
std::optional<HitlRequest> parse_request(const PendingRow& row, std::string& damage);
/// Returns the request of a row, which parse_request() has read.
PendingRequest to_pending_request(const PendingRow& row, HitlRequest request);
/// An unreadable request becomes an entry with `damage`, which names `row_ref`.
QuestionEntry to_question_entry(const PendingRow& row, const std::string& row_ref);
/// Returns the request as CubePi knows it, without the keys of ours.
JsonObject shared_request_json(HitlRequest request);

/// Compares a request in CubePi's row with one of ours.
using SameRequest = bool (*)(const HitlRequest& shared, const HitlRequest& ours);

/// Returns the pending requests of a thread in order, by both tables. `ours` is in the order of the ids.
std::vector<PendingRow> pending_by_both(std::optional<SharedRequest> shared,
                                        std::vector<PendingRow> ours, SameRequest same);

}  // namespace cubepi::detail
