#pragma once

#include <chrono>
#include <memory>

#include <cubepi/checkpoint/stored_threads.hpp>
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
class MemoryCheckpointer final : public StoredThreads {
public:
    MemoryCheckpointer();
    explicit MemoryCheckpointer(MemoryOptions options);
    ~MemoryCheckpointer() override;
    MemoryCheckpointer(const MemoryCheckpointer&) = delete;
    MemoryCheckpointer& operator=(const MemoryCheckpointer&) = delete;

private:
    struct State;
};

}  // namespace cubepi
