#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <cubepi/agent/agent.hpp>
#include <cubepi/agent/checkpointer.hpp>
#include <cubepi/agent/transcript.hpp>

namespace cubepi::detail {

/// The history of one agent: in memory, and in the store first when there is one (D20). Knows which calls at
/// its end have no result yet.
class ThreadLog {
public:
    /// `state` outlives the log. Without a store, or without a thread id, nothing is persisted.
    ThreadLog(AgentState& state, std::shared_ptr<Checkpointer> store, std::string thread_id);

    bool persistent() const noexcept { return thread_ && thread_->store; }
    RunStore* runs() const noexcept { return thread_ ? thread_->runs : nullptr; }
    const std::string& thread_id() const noexcept;
    /// There is a store without a thread id, or the reverse (D46), and nobody was told.
    bool lost_persistence() const noexcept { return thread_ && thread_->lost; }
    void forget_loss() noexcept { thread_->lost = false; }

    /// Restores history and extra, once, when memory is empty.
    Task<void> load();
    /// Stores the message, then adds it to memory. Only call append_now() when not persistent.
    Task<void> append(Message message);
    void append_now(Message message);
    /// Saves what changed in `extra` since the last time; null values remove their keys, also in memory.
    Task<void> save_extra();
    /// Whether a message of that id is in the thread: looked up in memory, then in the store's index.
    Task<std::optional<Message>> find(std::string message_id);

    /// Whether the history is legal (D1). Looks only at what came since the last time.
    bool is_legal();
    /// Whether these repairs of a request differ from the last ones; remembers them. A defect in the history is
    /// repaired in every request and reported once.
    bool is_new_repair(const TranscriptRepairs& repairs) noexcept {
        const std::uint32_t hash = hash_of(repairs);
        return std::exchange(last_repairs_, hash) != hash;
    }
    /// Whether calls at the end have no result yet.
    bool has_open_calls() const;
    std::vector<ToolCall> open_calls() const;
    /// The run of the answer that made these calls.
    SharedString open_calls_run_id() const;

    /// Under which claim appends are made (D50); empty: none.
    void set_claim(std::string run_id, std::string owner_id);
    /// Forgets what is in memory; the next load() restores it.
    void forget();

    /// Takes the keys with null values out of `extra`.
    void drop_nulls();

private:
    /// Only where there is a thread id or a store.
    struct Thread {
        std::shared_ptr<Checkpointer> store;
        RunStore* runs = nullptr;
        MessageIndex* index = nullptr;
        std::string id;
        std::int64_t position = 0;
        bool loaded = false;
        bool lost = false;
        bool overtaken = false;  ///< another writer has continued the thread
        JsonObject saved_extra;
        std::string claim_run_id;
        std::string claim_owner;
    };

    static std::uint32_t hash_of(const TranscriptRepairs& repairs) noexcept;

    AgentState& state_;
    std::unique_ptr<Thread> thread_;
    // A process may have many idle agents: both fit into one word.
    std::uint32_t legal_ = 0;         // so many messages were found to be legal
    std::uint32_t last_repairs_ = 0;  // a hash; 0: none
};

}  // namespace cubepi::detail
