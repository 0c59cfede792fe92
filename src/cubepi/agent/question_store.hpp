#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <cubepi/agent/checkpointer.hpp>
#include <cubepi/core/hitl_request.hpp>
#include <cubepi/core/json.hpp>
#include <cubepi/core/task.hpp>

namespace cubepi {

/// The order of pending requests.
enum class QuestionOrder : std::uint8_t {
    age,       ///< oldest first
    deadline,  ///< the next to expire first; requests without a timeout last
};

/// The options of QuestionStore::list_requests().
class QuestionQuery {
public:
    QuestionQuery() {}
    QuestionQuery&& order(QuestionOrder value) && {
        order_ = value;
        return std::move(*this);
    }
    /// Sets the largest number of requests on a page. At least 1.
    QuestionQuery&& limit(std::size_t value) && {
        limit_ = value;
        return std::move(*this);
    }
    /// Continues after the page whose `next` this is. The order must be the same.
    QuestionQuery&& after(std::string cursor) && {
        after_ = std::move(cursor);
        return std::move(*this);
    }
    QuestionOrder order() const noexcept { return order_; }
    std::size_t limit() const noexcept { return limit_; }
    const std::string& after() const noexcept { return after_; }

private:
    QuestionOrder order_ = QuestionOrder::age;
    std::size_t limit_ = 50;
    std::string after_;
};

/// A pending request in a QuestionStore.
struct QuestionEntry {
    std::string thread_id = {};
    std::string run_id = {};  ///< empty only in rows of old files
    std::string question_id = {};
    double created_at = 0;                    ///< Unix seconds
    std::optional<double> expires_at = {};    ///< Unix seconds; absent: does not expire
    std::optional<HitlRequest> request = {};  ///< absent if the stored request is unreadable
    std::string damage = {};                  ///< the reason why the stored request is unreadable
};

struct QuestionPage {
    std::vector<QuestionEntry> entries = {};
    /// The cursor of the next page. Empty: this is the last one.
    std::string next = {};
};

/// An answer with its origin.
struct AnswerRecord {
    std::string run_id = {};
    std::string question_id = {};
    Json answer = {};
    double answered_at = 0;    ///< Unix seconds, by the clock of the runtime
    std::string user = {};     ///< who answered, as the caller identifies users
    std::string channel = {};  ///< where the answer came from: "terminal", "telegram:42"
    /// What was asked. Set by the store; absent if the stored record is unreadable.
    std::optional<HitlRequest> request = {};
    std::string damage = {};  ///< the reason why the stored record is unreadable. Set by the store
};

/// Optional, for a store that is also a HitlStore: the pending requests of all its threads, and the record of their
/// answers.
class QuestionStore {
public:
    virtual ~QuestionStore() = default;
    /// Returns a page of the requests that are pending: neither answered, nor cleared, nor expired by expire_due(). A
    /// request that is pending while all pages are read is on exactly one of them, whatever happens to others in
    /// between. An unreadable request is listed with its `damage` and does not prevent the listing. Throws
    /// Error(invalid_argument) if the cursor is not one of this store and order, or the limit is 0.
    virtual Task<QuestionPage> list_requests(QuestionQuery query) = 0;
    /// Expires at most `limit` requests whose `created_at + timeout_seconds` is not later than `now`, the earliest first,
    /// and returns them. Fewer than `limit`: no other request is due. An expired request is not listed and cannot be
    /// answered any more; load_pending_requests() returns it with PendingRequest::expired until its run continues and
    /// clears it (D65). Expiry is final: a clock that is set back does not reopen a request.
    virtual Task<std::vector<QuestionEntry>> expire_due(double now, std::size_t limit) = 0;
    /// Stores the answer with its origin and removes the request, in one write. Of several processes that answer a
    /// question, exactly one succeeds. Throws CheckpointerError(stale_answer) if the request is not pending in this run, or
    /// has expired by `answered_at`; nothing is stored then. Does not check the answer: see check_answer().
    virtual Task<void> answer_request(std::string thread_id, AnswerRecord record) = 0;
    /// Returns the answers to requests of the thread, oldest first. They stay when runs complete. `run_id`: only those of this run, which is
    /// the last one whose requests were answered; others may be left out. Empty: of all runs, which may be many.
    virtual Task<std::vector<AnswerRecord>> load_answer_records(std::string thread_id,
                                                                std::string run_id) = 0;
    /// Removes all requests of the thread, unreadable ones too, and returns their number. For threads whose requests
    /// cannot be loaded (CheckpointCorruptionError).
    virtual Task<std::size_t> discard_requests(std::string thread_id) = 0;
};

}  // namespace cubepi
