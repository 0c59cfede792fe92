#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <cubepi/agent/checkpointer.hpp>
#include <cubepi/checkpoint/stored_runs.hpp>
#include <cubepi/core/clock.hpp>

namespace cubepi {

struct MemoryOptions {
    /// The time after which a claim expires unless it is renewed.
    std::chrono::seconds lease{60};
    /// The clock that leases go by. Null: the system clock.
    std::shared_ptr<Clock> clock = {};
};

/// Keeps threads in memory, for tests and for programs that need no persistence. It has value semantics: a stored object
/// and the object of the caller are independent (D22). Its functions never suspend, and may be called on any thread.
class MemoryCheckpointer final : public Checkpointer,
                                 public MessageIndex,
                                 public StoredRuns,
                                 public ForkStore,
                                 public ThreadStore {
public:
    MemoryCheckpointer();
    explicit MemoryCheckpointer(MemoryOptions options);
    ~MemoryCheckpointer() override;
    MemoryCheckpointer(const MemoryCheckpointer&) = delete;
    MemoryCheckpointer& operator=(const MemoryCheckpointer&) = delete;

    Task<std::optional<CheckpointData>> load(std::string thread_id) override;
    Task<std::int64_t> append(std::string thread_id, MessageList messages,
                              AppendOptions options) override;
    Task<void> save_extra(std::string thread_id, JsonObject extra) override;

    Task<std::optional<Message>> find_message(std::string thread_id,
                                              std::string message_id) override;

    Task<MessageList> snapshot(std::string thread_id, std::string after_run_id) override;
    Task<void> fork(std::string source_thread_id, std::string new_thread_id,
                    std::string after_run_id, std::optional<JsonObject> metadata) override;

    Task<std::vector<ThreadInfo>> list_threads() override;
    Task<void> delete_thread(std::string thread_id) override;

private:
    struct State;
    explicit MemoryCheckpointer(std::shared_ptr<State> state);

    const std::shared_ptr<State> state_;
};

}  // namespace cubepi
