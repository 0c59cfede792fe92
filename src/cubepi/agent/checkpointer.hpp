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

/// What a store has of a thread.
struct CheckpointData {
    MessageList messages = {};
    JsonObject extra = {};
    std::optional<std::string> parent_thread_id = {};
    /// Where the next append must say that it continues: opaque, grows with each append.
    std::int64_t position = 0;
};

/// What goes with an append.
class AppendOptions {
public:
    AppendOptions() {}
    /// The thread's position as the caller knows it. When another writer has appended since, nothing is stored and
    /// StaleAppendError is thrown (D20). Absent: append wherever the end is.
    AppendOptions&& expected_position(std::int64_t value) && {
        expected_position_ = value;
        return std::move(*this);
    }
    /// Saved in the same transaction (D49), as by save_extra.
    AppendOptions&& extra(JsonObject value) && {
        extra_ = std::move(value);
        return std::move(*this);
    }
    /// The claim under which the caller writes. When the claim was taken over meanwhile, nothing is stored and
    /// StaleAppendError is thrown (D50).
    AppendOptions&& claim(std::string run_id, std::string owner_id) && {
        claim_run_id_ = std::move(run_id);
        claim_owner_ = std::move(owner_id);
        return std::move(*this);
    }
    const std::optional<std::int64_t>& expected_position() const noexcept {
        return expected_position_;
    }
    const std::optional<JsonObject>& extra() const noexcept { return extra_; }
    const std::string& claim_run_id() const noexcept { return claim_run_id_; }
    const std::string& claim_owner() const noexcept { return claim_owner_; }

private:
    std::optional<std::int64_t> expected_position_;
    std::optional<JsonObject> extra_;
    std::string claim_run_id_;
    std::string claim_owner_;
};

/// An append-only store of conversations. The three functions here are all that a store must have; what else
/// it can do are the small interfaces below, found once by dynamic_cast. Calls come from several executors at once.
/// Failures are CheckpointerErrors. See docs/guides/checkpointing/custom.md.
class Checkpointer {
public:
    virtual ~Checkpointer() = default;
    /// Absent when the thread has neither messages nor extra.
    virtual Task<std::optional<CheckpointData>> load(std::string thread_id) = 0;
    /// Stores all messages or none, and returns the thread's new position. Refuses messages of a completed run
    /// (RunAlreadyCompletedError). Does not complete before they are durable.
    virtual Task<std::int64_t> append(std::string thread_id, MessageList messages,
                                      AppendOptions options) = 0;
    /// Merges at the top level; a null value removes its key (D19).
    virtual Task<void> save_extra(std::string thread_id, JsonObject extra) = 0;
};

/// Who holds a claim (D50).
struct ClaimOwner {
    std::string owner_id =
        {};  ///< unique per process start; empty: a claim of CubePi's, without owner
    std::string host = {};
    std::string boot_id = {};
    std::int64_t pid = 0;
    std::int64_t process_start = 0;  ///< clock ticks since boot
    std::string description = {};    ///< for error texts: "pid 4711 on host"
};

/// What claiming found.
struct ClaimResult {
    /// Set when the claim of a dead or expired owner was taken over.
    std::optional<ClaimOwner> taken_over = {};
    std::string taken_over_run_id = {};
};

/// What a run is claimed for.
enum class ClaimKind : std::uint8_t {
    new_run,       ///< the run must not exist
    continue_run,  ///< the run may be open already: a resumed run keeps its id (D40)
};

/// Optional: runs that are claimed and completed.
class RunStore {
public:
    virtual ~RunStore() = default;
    /// Opens `run_id` for `owner` with a lease. Throws RunAlreadyClaimedError when the run is open (unless it
    /// is continued), or when another live owner has any run open on this thread; RunAlreadyCompletedError.
    virtual Task<ClaimResult> claim_run(std::string thread_id, std::string run_id, ClaimOwner owner,
                                        ClaimKind kind) = 0;
    /// Extends the lease; throws StaleAppendError when the claim was taken over.
    virtual Task<void> renew_claim(std::string thread_id, std::string run_id,
                                   std::string owner_id) = 0;
    /// Gives the claim up without completing the run: the run stays open in CubePi's eyes, but no owner holds it.
    virtual Task<void> release_claim(std::string thread_id, std::string run_id,
                                     std::string owner_id) = 0;
    /// Idempotent. Throws RunNotClaimedError.
    virtual Task<void> mark_run_complete(std::string thread_id, std::string run_id) = 0;
    /// As mark_run_complete, by the owner of the run's claim: throws StaleAppendError when an open run's claim was
    /// taken over meanwhile (D50). Look and mark are one step, also between processes. A store that does not
    /// override it marks without looking.
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

/// A question to a person that has no answer yet.
struct PendingRequest {
    HitlRequest request = {};
    std::string run_id = {};  ///< empty only in rows of old files
};

/// A person's answer, as it is stored until its run goes on.
struct HitlAnswer {
    std::string run_id = {};
    std::string question_id = {};
    Json answer = {};
};

/// Optional: requests to people that wait, and their answers. The table that CubePi reads holds the first pending
/// request of a thread; the others are kept in a table of ours (D18, D21).
class HitlStore {
public:
    virtual ~HitlStore() = default;
    virtual Task<void> save_pending_request(std::string thread_id, std::string run_id,
                                            HitlRequest request) = 0;
    /// In the order they were made.
    virtual Task<std::vector<PendingRequest>> load_pending_requests(std::string thread_id) = 0;
    /// Removes the request only if question and run still match (D18); false when they do not.
    virtual Task<bool> clear_pending_request(std::string thread_id, std::string run_id,
                                             std::string question_id) = 0;
    virtual Task<void> save_hitl_answer(std::string thread_id, HitlAnswer answer) = 0;
    virtual Task<std::optional<Json>> load_hitl_answer(std::string thread_id, std::string run_id,
                                                       std::string question_id) = 0;
    /// Removes the named answers of a run, or all of it when `question_ids` is empty.
    virtual Task<void> clear_hitl_answers(std::string thread_id, std::string run_id,
                                          std::vector<std::string> question_ids) = 0;
};

/// Optional: looking at and branching a thread as of a completed run.
class ForkStore {
public:
    virtual ~ForkStore() = default;
    /// The messages without run and those of runs completed no later than `after_run_id`, in order. Throws
    /// ThreadNotFoundError, RunNotCompletedError.
    virtual Task<MessageList> snapshot(std::string thread_id, std::string after_run_id) = 0;
    /// Copies that snapshot, its runs and extra into a new thread, atomically. `metadata` replaces
    /// `extra.fork` when given. Throws also ThreadAlreadyExistsError.
    virtual Task<void> fork(std::string source_thread_id, std::string new_thread_id,
                            std::string after_run_id, std::optional<JsonObject> metadata) = 0;
};

/// One thread in a listing.
struct ThreadInfo {
    std::string thread_id = {};
    std::int64_t message_count = 0;
    std::optional<double> updated_at = {};  ///< Unix seconds
};

/// Optional: listing threads, and deleting one on a person's explicit command (D47).
class ThreadStore {
public:
    virtual ~ThreadStore() = default;
    virtual Task<std::vector<ThreadInfo>> list_threads() = 0;
    virtual Task<void> delete_thread(std::string thread_id) = 0;
};

}  // namespace cubepi
