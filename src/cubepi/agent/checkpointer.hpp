#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <cubepi/core/hitl_request.hpp>
#include <cubepi/core/json.hpp>
#include <cubepi/core/message_list.hpp>
#include <cubepi/core/task.hpp>

namespace cubepi {

/// A thread as loaded from a store.
struct CheckpointData {
    MessageList messages = {};
    JsonObject extra = {};
    std::optional<std::string> parent_thread_id = {};
    /// The position to pass to the next append as `expected_position`: opaque, increases with each append.
    std::int64_t position = 0;
};

/// The options of an append.
class AppendOptions {
public:
    AppendOptions() {}
    /// Sets the thread's position as known to the caller. If another writer has appended since, nothing is stored and
    /// StaleAppendError is thrown (D20). Absent: append at the current end.
    AppendOptions&& expected_position(std::int64_t value) && {
        expected_position_ = value;
        return std::move(*this);
    }
    /// Saves extra in the same transaction (D49), like save_extra().
    AppendOptions&& extra(JsonObject value) && {
        extra_ = std::move(value);
        return std::move(*this);
    }
    /// Sets the claim under which the caller writes. If the claim has been superseded, nothing is stored and
    /// StaleAppendError is thrown (D50).
    AppendOptions&& claim(std::string run_id, std::string owner_id) && {
        claim_run_id_ = std::move(run_id);
        claim_owner_ = std::move(owner_id);
        return std::move(*this);
    }
    /// Removes the pending requests and the answers of these questions of a run in the same transaction, because the
    /// appended messages are their results (D62). Only a BatchStore honors it.
    AppendOptions&& settle(std::string run_id, std::vector<std::string> question_ids) && {
        settled_run_id_ = std::move(run_id);
        settled_questions_ = std::move(question_ids);
        return std::move(*this);
    }
    const std::optional<std::int64_t>& expected_position() const noexcept {
        return expected_position_;
    }
    const std::optional<JsonObject>& extra() const noexcept { return extra_; }
    /// Moves extra out, for the store that saves it.
    std::optional<JsonObject> take_extra() noexcept { return std::exchange(extra_, std::nullopt); }
    const std::string& claim_run_id() const noexcept { return claim_run_id_; }
    const std::string& claim_owner() const noexcept { return claim_owner_; }
    const std::string& settled_run_id() const noexcept { return settled_run_id_; }
    const std::vector<std::string>& settled_questions() const noexcept {
        return settled_questions_;
    }

private:
    std::optional<std::int64_t> expected_position_;
    std::optional<JsonObject> extra_;
    std::string claim_run_id_;
    std::string claim_owner_;
    std::string settled_run_id_;
    std::vector<std::string> settled_questions_;
};

/// An append-only store of conversations. The three functions here are the minimum of a store; optional capabilities
/// are the small interfaces below and in batch_store.hpp and question_store.hpp, detected once by dynamic_cast. Calls may
/// come from several executors at once. Failures are CheckpointerErrors. See docs/guides/checkpointing/custom.md.
class Checkpointer {
public:
    virtual ~Checkpointer() = default;
    /// Returns nothing if the thread has neither messages nor extra.
    virtual Task<std::optional<CheckpointData>> load(std::string thread_id) = 0;
    /// Stores all messages or none, and returns the thread's new position. Rejects messages of a completed run
    /// (RunAlreadyCompletedError). Does not complete before they are durable. Without messages it saves the extra of the options
    /// under their claim.
    virtual Task<std::int64_t> append(std::string thread_id, MessageList messages,
                                      AppendOptions options) = 0;
    /// Merges at the top level; a null value removes its key (D19).
    virtual Task<void> save_extra(std::string thread_id, JsonObject extra) = 0;
};

/// The owner of a claim (D50).
struct ClaimOwner {
    std::string owner_id =
        {};  ///< unique per process start; empty: a claim of CubePi, without owner
    std::string host = {};
    std::string boot_id = {};
    std::int64_t pid = 0;
    std::int64_t process_start = 0;  ///< clock ticks since boot
    std::string description = {};    ///< for error messages: "pid 4711 on host"
};

/// The result of claim_run().
struct ClaimResult {
    /// The dead or expired owner whose claim was superseded, if any.
    std::optional<ClaimOwner> superseded = {};
    std::string superseded_run_id = {};
};

/// The purpose of a claim.
enum class ClaimKind : std::uint8_t {
    new_run,       ///< the run must not exist
    fresh_run,     ///< the same; its id was just made, so no store has to look for it
    continue_run,  ///< the run may be open already: a resumed run keeps its id (D40)
};

/// Optional: claims and completes runs.
class RunStore {
public:
    virtual ~RunStore() = default;
    /// Opens `run_id` for `owner` with a lease. Throws RunAlreadyClaimedError if the run is open (unless it is
    /// continued), or if another live owner has any run open on this thread; RunAlreadyCompletedError.
    virtual Task<ClaimResult> claim_run(std::string thread_id, std::string run_id, ClaimOwner owner,
                                        ClaimKind kind) = 0;
    /// Extends the lease; throws StaleAppendError if the claim has been superseded.
    virtual Task<void> renew_claim(std::string thread_id, std::string run_id,
                                   std::string owner_id) = 0;
    /// Releases the claim without completing the run: the run stays open for CubePi, but has no owner.
    virtual Task<void> release_claim(std::string thread_id, std::string run_id,
                                     std::string owner_id) = 0;
    /// Marks the run as complete. Idempotent. Throws RunNotClaimedError.
    virtual Task<void> mark_run_complete(std::string thread_id, std::string run_id) = 0;
    /// Does the same as mark_run_complete() for the owner of the run's claim: throws StaleAppendError if an open run's
    /// claim has been superseded (D50). The check and the mark are one atomic step, also between processes. A store
    /// that does not override it marks without the check.
    virtual Task<void> complete_run(std::string thread_id, std::string run_id,
                                    std::string /*owner_id*/) {
        return mark_run_complete(std::move(thread_id), std::move(run_id));
    }
    virtual Task<bool> is_run_complete(std::string thread_id, std::string run_id) = 0;
};

/// Optional: finds a message by its id without scanning (D42).
class MessageIndex {
public:
    virtual ~MessageIndex() = default;
    virtual Task<std::optional<Message>> find_message(std::string thread_id,
                                                      std::string message_id) = 0;
};

/// A question to the user that has not been answered.
struct PendingRequest {
    HitlRequest request = {};
    std::string run_id = {};  ///< empty only in rows of old files
    bool expired = false;     ///< by QuestionStore::expire_due()
};

/// A user's answer, stored until its run resumes.
struct HitlAnswer {
    std::string run_id = {};
    std::string question_id = {};
    Json answer = {};
};

/// Optional: stores pending requests to the user, and their answers. The table that CubePi reads holds the first
/// pending request of a thread; the others are stored in a separate table of this library (D18, D21).
class HitlStore {
public:
    virtual ~HitlStore() = default;
    virtual Task<void> save_pending_request(std::string thread_id, std::string run_id,
                                            HitlRequest request) = 0;
    /// Returns the requests in the order in which they were saved.
    virtual Task<std::vector<PendingRequest>> load_pending_requests(std::string thread_id) = 0;
    /// Removes the request only if question and run still match (D18); returns false otherwise.
    virtual Task<bool> clear_pending_request(std::string thread_id, std::string run_id,
                                             std::string question_id) = 0;
    virtual Task<void> save_hitl_answer(std::string thread_id, HitlAnswer answer) = 0;
    virtual Task<std::optional<Json>> load_hitl_answer(std::string thread_id, std::string run_id,
                                                       std::string question_id) = 0;
    /// Removes the named answers of a run, or all of them if `question_ids` is empty.
    virtual Task<void> clear_hitl_answers(std::string thread_id, std::string run_id,
                                          std::vector<std::string> question_ids) = 0;
};

/// Optional: reads and forks a thread as of a completed run.
class ForkStore {
public:
    virtual ~ForkStore() = default;
    /// Returns the messages without a run and those of runs completed no later than `after_run_id`, in order. Throws
    /// ThreadNotFoundError, RunNotCompletedError.
    virtual Task<MessageList> snapshot(std::string thread_id, std::string after_run_id) = 0;
    /// Copies that snapshot, its runs and extra into a new thread, atomically. `metadata`, if given, replaces
    /// `extra.fork`. Also throws ThreadAlreadyExistsError.
    virtual Task<void> fork(std::string source_thread_id, std::string new_thread_id,
                            std::string after_run_id, std::optional<JsonObject> metadata) = 0;
};

/// A thread as listed by list_threads().
struct ThreadInfo {
    std::string thread_id = {};
    std::int64_t message_count = 0;
    std::optional<double> updated_at = {};  ///< Unix seconds
};

/// Optional: lists threads, and deletes a thread on an explicit command of the user (D47).
class ThreadStore {
public:
    virtual ~ThreadStore() = default;
    virtual Task<std::vector<ThreadInfo>> list_threads() = 0;
    virtual Task<void> delete_thread(std::string thread_id) = 0;
};

}  // namespace cubepi
