#pragma once

#include <memory>
#include <optional>
#include <string>
#include <utility>

#include <cubepi/checkpoint/memory_checkpointer.hpp>

namespace cubepi::agent_test {

/// A store that forwards to a MemoryCheckpointer: base class of stores that fail.
class ForwardingStore : public Checkpointer, public RunStore, public MessageIndex {
public:
    explicit ForwardingStore(MemoryOptions options = {}) : memory(std::move(options)) {}

    Task<std::optional<CheckpointData>> load(std::string thread_id) override {
        return memory.load(std::move(thread_id));
    }
    Task<std::int64_t> append(std::string thread_id, MessageList messages,
                              AppendOptions options) override {
        return memory.append(std::move(thread_id), std::move(messages), std::move(options));
    }
    Task<void> save_extra(std::string thread_id, JsonObject extra) override {
        return memory.save_extra(std::move(thread_id), std::move(extra));
    }
    Task<ClaimResult> claim_run(std::string thread_id, std::string run_id, ClaimOwner owner,
                                ClaimKind kind) override {
        return memory.claim_run(std::move(thread_id), std::move(run_id), std::move(owner), kind);
    }
    Task<void> renew_claim(std::string thread_id, std::string run_id,
                           std::string owner_id) override {
        return memory.renew_claim(std::move(thread_id), std::move(run_id), std::move(owner_id));
    }
    Task<void> release_claim(std::string thread_id, std::string run_id,
                             std::string owner_id) override {
        return memory.release_claim(std::move(thread_id), std::move(run_id), std::move(owner_id));
    }
    Task<void> mark_run_complete(std::string thread_id, std::string run_id) override {
        return memory.mark_run_complete(std::move(thread_id), std::move(run_id));
    }
    Task<void> complete_run(std::string thread_id, std::string run_id,
                            std::string owner_id) override {
        return memory.complete_run(std::move(thread_id), std::move(run_id), std::move(owner_id));
    }
    Task<bool> is_run_complete(std::string thread_id, std::string run_id) override {
        return memory.is_run_complete(std::move(thread_id), std::move(run_id));
    }
    Task<std::optional<Message>> find_message(std::string thread_id,
                                              std::string message_id) override {
        return memory.find_message(std::move(thread_id), std::move(message_id));
    }

    MemoryCheckpointer memory;
};

}  // namespace cubepi::agent_test
