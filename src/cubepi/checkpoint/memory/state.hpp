#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include <cubepi/checkpoint/memory/claims.hpp>
#include <cubepi/checkpoint/memory/thread.hpp>
#include <cubepi/checkpoint/memory_checkpointer.hpp>

namespace cubepi {

/// The threads of a store. The mutex protects all members.
struct MemoryCheckpointer::State {
    std::mutex mutex;
    MemoryOptions options;
    std::map<std::string, detail::MemoryThread> threads;
    std::int64_t last_position = 0;

    explicit State(MemoryOptions given) : options(std::move(given)) {
        if (!options.clock) options.clock = std::make_shared<SystemClock>();
    }
    double now() const {
        return std::chrono::duration<double>(options.clock->wall().time_since_epoch()).count();
    }
    /// Calls `function` with the claim rules of a thread.
    template <class F>
    auto with_claims(const std::string& thread_id, F function) {
        detail::MemoryClaims claims(threads, thread_id);
        ClaimRules rules(claims, thread_id, ClaimTime{now(), options.lease});
        return function(rules);
    }
    /// Returns null if there is no such thread.
    detail::MemoryThread* find(const std::string& thread_id) {
        const auto found = threads.find(thread_id);
        return found == threads.end() ? nullptr : &found->second;
    }
    std::int64_t append(const std::string& thread_id, const MessageList& messages,
                        const AppendOptions& wanted);
};

}  // namespace cubepi
