#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <cubepi/agent/agent.hpp>
#include <cubepi/agent/checkpointer.hpp>

namespace cubepi::detail {

/// The history of one agent: in memory, and in the store first when there is one (D20). Knows which calls at
/// its end have no result yet.
class ThreadLog {
public:
    /// `state` outlives the log. Without a store, or without a thread id, nothing is persisted.
    ThreadLog(AgentState& state, std::shared_ptr<Checkpointer> store, std::string thread_id);

    bool persistent() const noexcept { return store_ != nullptr; }
    Checkpointer* store() const noexcept { return store_.get(); }
    RunStore* runs() const noexcept { return runs_; }
    const std::string& thread_id() const noexcept { return thread_id_; }

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
    /// The calls at the end that have no result yet.
    const std::vector<ToolCall>& open_calls() const noexcept { return open_calls_; }
    const SharedString& open_calls_run_id() const noexcept { return open_calls_run_id_; }

    /// Under which claim appends are made (D50); empty: none.
    void set_claim(std::string run_id, std::string owner_id);
    /// Forgets what is in memory; the next load() restores it.
    void forget();

    /// Takes the keys with null values out of `extra`.
    void drop_nulls();

private:
    void note(const Message& message);

    AgentState& state_;
    std::shared_ptr<Checkpointer> store_;
    RunStore* runs_ = nullptr;
    MessageIndex* index_ = nullptr;
    std::string thread_id_;
    std::int64_t position_ = 0;
    bool loaded_ = false;
    std::size_t legal_ = 0;  // so many messages were found to be legal
    JsonObject saved_extra_;
    std::vector<ToolCall> open_calls_;
    SharedString open_calls_run_id_;
    std::string claim_run_id_;
    std::string claim_owner_;
};

}  // namespace cubepi::detail
