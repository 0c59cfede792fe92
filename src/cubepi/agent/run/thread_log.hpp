#pragma once

#include <cstdint>
#include <exception>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include <cubepi/agent/agent.hpp>
#include <cubepi/agent/batch_store.hpp>
#include <cubepi/agent/checkpointer.hpp>
#include <cubepi/agent/question_store.hpp>
#include <cubepi/agent/transcript.hpp>
#include <cubepi/core/cancellation.hpp>
#include <cubepi/core/error.hpp>
#include <cubepi/core/task.hpp>

namespace cubepi::detail {

/// Throws the failure of a store as a CheckpointerError (D35), with the original exception nested unless it is one
/// already. `operation` completes the sentence "the checkpointer failed to ...". An Error keeps its code.
[[noreturn]] void throw_store_failure(const std::exception_ptr& failure, std::string_view operation,
                                      std::string_view thread_id);

/// Awaits `call()`, a function of a store. Any exception is thrown as a CheckpointerError, except for the cancellation
/// of the awaiting coroutine.
template <class F>
std::invoke_result_t<F&> store_call(std::string_view operation, std::string_view thread_id,
                                    F call) {
    std::exception_ptr failure;
    try {
        auto pending = call();
        co_return co_await std::move(pending);
    } catch (...) {
        failure = std::current_exception();
    }
    const auto state = co_await this_cancellation;
    const bool cancelled = state.cancelled() != boost::asio::cancellation_type::none;
    if (cancelled && is_cancellation(failure)) std::rethrow_exception(failure);
    throw_store_failure(failure, operation, thread_id);
}

/// The history of one agent: in memory and, if there is a store, first in the store (D20). Tracks the calls at its end
/// that have no result yet.
class ThreadLog {
public:
    /// `state` must outlive the log. Without a store or a thread id, nothing is persisted.
    ThreadLog(AgentState& state, std::shared_ptr<Checkpointer> store, std::string thread_id);

    bool persistent() const noexcept { return thread_ && thread_->store; }
    RunStore* runs() const noexcept { return thread_ ? thread_->runs : nullptr; }
    /// The interfaces of the store for questions to the user; null: it has none.
    HitlStore* questions() const noexcept { return thread_ ? thread_->questions : nullptr; }
    QuestionStore* question_store() const noexcept {
        return thread_ ? thread_->question_store : nullptr;
    }
    BatchStore* batches() const noexcept { return thread_ ? thread_->batches : nullptr; }
    const std::string& thread_id() const noexcept;
    /// Returns true if there is a store without a thread id, or the reverse (D46), and no notice was emitted.
    bool lost_persistence() const noexcept { return thread_ && thread_->lost; }
    void forget_loss() noexcept { thread_->lost = false; }

    /// Restores history and extra, once, if memory is empty.
    Task<void> load();
    /// Stores the message, then adds it to memory. Only call append_now() if not persistent.
    Task<void> append(Message message);
    void append_now(Message message);
    /// Records that the bodies of these calls are about to run (D62), before they do.
    Task<void> mark_batch_started(BatchStart start);
    /// Removes the answers and notes of a run that no process continues.
    Task<void> remove_answers(std::string run_id);
    /// The next append() removes the requests and answers of these questions, whose result it stores (D62).
    /// If it fails, the one after it does.
    void settle_with_next(std::vector<std::string> question_ids) {
        std::vector<std::string>& ids = thread_->settled.ids;
        for (std::string& id : question_ids) ids.push_back(std::move(id));
    }
    /// Saves changes of `extra` since the last call; null values remove their keys, also in memory. Throws StaleAppendError if
    /// the claim has been superseded.
    Task<void> save_extra();
    /// Nothing is stored for the run any more: another owner has its claim.
    void set_superseded() noexcept { thread_->superseded = true; }
    /// Returns the message with that id from memory, else from the store's index.
    Task<std::optional<Message>> find(std::string message_id);

    /// Returns true if the history is legal (D1). Checks only messages added since the last call.
    bool is_legal();
    /// Returns true if these repairs of a request differ from the previous ones; remembers them. A defect in the
    /// history is repaired in every request and reported once.
    bool is_new_repair(const TranscriptRepairs& repairs) noexcept {
        const std::uint32_t hash = hash_of(repairs);
        return std::exchange(last_repairs_, hash) != hash;
    }
    const MessageList& messages() const noexcept;
    /// Returns true if calls at the end have no result yet.
    bool has_open_calls() const;
    std::vector<ToolCall> open_calls() const;
    /// Returns the run of the answer that made these calls.
    SharedString open_calls_run_id() const;
    /// Returns the id of that answer.
    std::string open_calls_message_id() const;

    /// Sets the claim under which appends are made (D50); empty: none.
    void set_claim(std::string run_id, std::string owner_id);
    Checkpointer* store() const noexcept { return thread_ ? thread_->store.get() : nullptr; }
    /// Continues in another thread of the store, which the next load() reads.
    void continue_in(std::string thread_id);
    /// Clears the memory; the next load() restores it.
    void forget();

    /// Removes the keys with null values from `extra`.
    void drop_nulls();

private:
    /// The answered questions of a run.
    struct Settled {
        std::string run_id = {};  ///< empty: that of the next message
        std::vector<std::string> ids = {};
    };
    /// Allocated only if there is a thread id or a store.
    struct Thread {
        std::shared_ptr<Checkpointer> store;
        RunStore* runs = nullptr;
        MessageIndex* index = nullptr;
        HitlStore* questions = nullptr;
        QuestionStore* question_store = nullptr;
        BatchStore* batches = nullptr;
        Settled settled;  // by the next append that succeeds
        std::string id;
        std::int64_t position = 0;
        bool loaded = false;
        bool lost = false;
        bool superseded = false;  ///< another writer has continued the thread
        JsonObject saved_extra;
        std::string claim_run_id;
        std::string claim_owner;
    };

    Task<void> save_under_claim(JsonObject changed);
    Task<void> forget_questions(std::string run_id, std::vector<std::string> ids);
    static std::uint32_t hash_of(const TranscriptRepairs& repairs) noexcept;

    AgentState& state_;
    std::unique_ptr<Thread> thread_;
    // A process may have many idle agents: both fit into one word.
    std::uint32_t legal_ = 0;         // so many messages were found to be legal
    std::uint32_t last_repairs_ = 0;  // a hash; 0: none
};

}  // namespace cubepi::detail
