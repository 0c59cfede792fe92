#pragma once

#include <exception>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include <bub/tape/checkpointer/side_state.hpp>
#include <bub/tape/entry/message_entries.hpp>
#include <bub/tape/tape_checkpointer.hpp>
#include <bub/tape/turn_transaction.hpp>
#include <cubepi/checkpoint/thread_states.hpp>

namespace bub {

/// The extra of a tape: its newest complete record, and the changes since.
struct StoredExtra {
    StoredExtra() = default;
    /// Reads it from the events that record it, of which both may be absent.
    StoredExtra(const std::optional<TapeEntry>& complete, const std::optional<TapeEntry>& changed);

    bool exists = false;
    JsonObject value = {};
    JsonObject changes = {};  ///< since the complete record
    std::size_t written = 0;  ///< bytes of changes since then
};

struct TapeCheckpointer::State final : cubepi::ThreadStates {
    State(std::shared_ptr<TapeStore> tapes, TapeCheckpointerOptions given);

    std::shared_ptr<TapeStore> store;
    TapeMediaStore* media = nullptr;
    TurnClaims* turn = nullptr;  ///< null: appends reach the tape immediately
    TapeCheckpointerOptions options;

    /// The calls of each tape's last answer that wait for results, as of a position.
    struct Batch {
        std::int64_t position = -1;
        detail::MessageEntries entries;
    };
    std::mutex mutex;
    std::map<std::string, Batch> batches;
    /// Those that this object has claimed as new ones, and that it has not completed.
    std::set<std::string> fresh_runs;

    cubepi::ClaimTime time() const;

    Task<std::optional<cubepi::CheckpointData>> read_thread(cubepi::ThreadQuery query) override;
    Task<std::int64_t> change_thread(std::string tape, cubepi::ThreadChange change) override;
    Task<std::vector<cubepi::ThreadInfo>> list_threads() override;
    Task<cubepi::ClaimResult> change_claim(std::string tape, cubepi::ClaimChange change) override;
    Task<bool> is_run_complete(std::string tape, std::string run_id) override;
    Task<std::size_t> change_questions(std::string tape, cubepi::QuestionChange change) override;
    Task<std::vector<cubepi::AnswerRecord>> load_answer_records(std::string tape,
                                                                std::string run_id) override;
    Task<Json> edit_state(std::string tape, std::function<Json(JsonObject& state)> edit) override;
    Task<void> read_state(std::string tape, std::function<void(const JsonObject&)> read) override;
    Task<cubepi::QuestionPage> list_requests(cubepi::QuestionQuery query) override;
    void require_claim(const JsonObject& state, const std::string& tape, const std::string& run_id,
                       const std::string& owner_id) const override;
    void throw_damaged(const cubepi::QuestionEntry& request) const override;
    bool is_nested() const override { return options.nested; }

    Task<std::optional<cubepi::CheckpointData>> load(std::string tape);
    Task<cubepi::MessageList> find_message(std::string tape, std::string message_id);
    Task<cubepi::MessageList> snapshot(std::string tape, std::string after_run_id);
    Task<std::int64_t> change(std::string tape, cubepi::ThreadAppend append);
    Task<std::int64_t> change(std::string tape, cubepi::ThreadFork fork);
    Task<std::int64_t> change(std::string tape, cubepi::ThreadRemoval removal);
    /// Edits the side state at the end of the turn if the store is a turn's fork, otherwise immediately.
    Task<void> edit_at_end(std::string tape, std::function<void(JsonObject& state)> edit);
    Task<std::vector<TapeEntry>> read_context(std::string tape);
    Task<std::vector<TapeEntry>> read_newest(std::string tape, TapeQuery query);
    /// Claims a run that is not complete.
    Task<cubepi::ClaimResult> claim(std::string tape, cubepi::ClaimChange change);
    /// Marks a run as complete and removes its claims. With an owner: only if that owner holds the run's claim (D50).
    Task<void> complete(std::string tape, std::string run_id, std::optional<std::string> owner_id);
    /// Appends the event that the run is complete. With an owner: only if that owner holds the run's claim.
    Task<void> append_completion(std::string tape, std::string run_id,
                                 std::optional<std::string> owner_id);
    /// Returns true, once, for a run that this object has claimed as a new one: no other has completed it under its claim.
    bool forget_fresh_run(const std::string& run_id);
    /// Releases the new claim on a run and throws RunAlreadyCompletedError if the run is complete.
    Task<void> check_still_open(std::string tape, std::string run_id, std::string owner_id);
    /// Removes the requests and answers of AppendOptions::settle(), unless the append would be rejected.
    Task<void> settle(std::string tape, cubepi::AppendOptions options);
    /// Moves the records of answers from the side state to the sidecar `answers` if they are many.
    Task<void> archive_records(std::string tape);
    /// Empties that sidecar.
    Task<void> remove_records(std::string tape);
    /// Returns true if the run is complete and not open again.
    Task<bool> is_closed_run(std::string tape, std::string run_id);
    /// Returns true for a write that was refused because another process has written or superseded a claim, and not because the session
    /// was taken.
    static bool is_stale(const std::exception_ptr& failure);
    Task<std::vector<TapeEntry>> entries_of(std::string tape, cubepi::MessageList messages);
    /// Moves images to the media store and replaces them by references; restore_media() reverses that.
    Task<void> put_media_aside(std::vector<TapeEntry>& entries);
    Task<void> restore_media(std::vector<TapeEntry>& entries);
    void forget_batch(const std::string& tape);
    void note_position(const std::string& tape, std::int64_t position);
};

}  // namespace bub
