#pragma once

#include <chrono>
#include <cstddef>
#include <exception>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include <cubepi/agent/checkpointer.hpp>
#include <cubepi/agent/hitl_channel.hpp>
#include <cubepi/core/clock.hpp>
#include <cubepi/core/thread_queue.hpp>

namespace cubepi::detail {

/// Assigns question ids as CubePi does (D61): the tool call id for `approve`, and for `confirm` if one is given; otherwise
/// a digest of the question and a counter of equal questions. Not thread-safe.
class QuestionIds {
public:
    std::string next(const HitlPayload& payload, const HitlOptions& options);

private:
    std::map<std::string, std::size_t> asked_;  // by digest
};

/// An answer and its origin, if that was recorded.
struct StoredAnswer {
    Json value = {};
    std::string request_id = {};  ///< of the request that was answered
    AnswerOrigin origin = {};
};

/// Where a durable channel stores its requests and their answers. Used on the executor of the run that asks, except for
/// store_answer(), which may be called on any executor.
class RequestStorage {
public:
    virtual ~RequestStorage() = default;
    /// Returns the unused answer to the request, which was asked earlier in the same run (D62).
    virtual Task<std::optional<StoredAnswer>> find_answer(std::string run_id,
                                                          HitlRequest request) = 0;
    /// Stores the request and returns it. In a continued run it may be stored already: returns the stored one, with its
    /// age.
    virtual Task<PendingRequest> save(std::string run_id, bool continued, HitlRequest request) = 0;
    /// Removes the request, because it ended without an answer.
    virtual Task<> clear(std::string run_id, HitlRequest request) = 0;
    virtual Task<> store_answer(std::string run_id, HitlRequest request, Json answer,
                                AnswerOrigin origin) = 0;
};

/// The requests of a channel that wait for an answer, and the way of a request from the question to its end. Both
/// channels consist of it; the one that stores its requests adds a RequestStorage. Thread-safe except for ask().
class RequestTable {
public:
    struct Settings {
        std::chrono::nanoseconds default_timeout = std::chrono::nanoseconds::zero();
        std::optional<std::string> thread_id = {};
        std::shared_ptr<Clock> clock = {};  ///< null: the system clock
    };
    /// `storage` may be null.
    RequestTable(Settings settings, std::shared_ptr<RequestStorage> storage);

    /// Asks and waits for the answer. `run` may be null.
    static Task<Json> ask(std::shared_ptr<RequestTable> table, std::shared_ptr<HitlRun> run,
                          HitlPayload payload, HitlOptions options);

    std::vector<HitlRequest> pending() const;
    HitlRequestStream subscribe() { return feed_.subscribe(); }
    static Task<> answer(std::shared_ptr<RequestTable> table, std::string question_id, Json value,
                         AnswerOrigin origin);
    void cancel(const std::string& question_id, std::string reason);
    /// Cancels all requests and ends the streams.
    void close(const std::string& reason);
    /// Question ids are counted from 0 again (D61).
    void restart_ids();

private:
    /// A request that waits. The fields are guarded by the mutex; the result is written before the signal is set.
    struct Waiting {
        HitlRequest request = {};
        std::string run_id = {};
        bool being_answered = false;  ///< its answer is being stored
        std::optional<Json> answer = {};
        AnswerOrigin origin = {};
        std::exception_ptr failure = {};
        ThreadSignal ended = {};
    };
    struct Withdrawal;

    /// One question on its way through the table.
    struct Question {
        std::shared_ptr<HitlRun> run;  ///< may be null
        HitlRequest request = {};
        std::string asking_call = {};
        AnswerOrigin origin = {};  ///< of its answer
    };

    Question make_question(std::shared_ptr<HitlRun> run, HitlPayload payload, HitlOptions options);
    std::shared_ptr<Waiting> add(const Question& question);
    /// Removes the request if it is pending. The lock is held.
    void remove(const std::shared_ptr<Waiting>& one) { std::erase(pending_, one); }
    /// Returns the pending request with this `request_id` or `question_id`; throws Error(stale_answer). The lock is held.
    std::shared_ptr<Waiting> find(const std::string& name) const;
    Task<Json> ask_stored(Question question);
    Task<Json> ask_and_wait(Question question);
    /// Waits until the request has ended, or its time is over and answers to it are stale.
    Task<> wait_for_end(std::shared_ptr<Waiting> one);
    /// Ends the request in the storage and for the run.
    Task<> conclude(Question question, HitlEnd how, Json answer);
    std::optional<std::chrono::nanoseconds> time_left(const HitlRequest& request) const;

    const Settings settings_;
    const std::shared_ptr<RequestStorage> storage_;
    mutable std::mutex mutex_;
    QuestionIds ids_;
    std::vector<std::shared_ptr<Waiting>> pending_;  // oldest first
    HitlRequestFeed feed_;
};

}  // namespace cubepi::detail
