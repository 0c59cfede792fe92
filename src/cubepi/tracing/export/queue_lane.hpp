#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>

#include <cubepi/tracing/export/export_thread.hpp>

namespace cubepi::detail {

/// A lane that takes batches from a queue to which any thread adds.
class QueueLane : public ExportLane {
public:
    using ExportLane::ExportLane;

protected:
    /// Returns whether the queue has something, and whether it has a complete batch. Any thread.
    virtual bool has_some() const noexcept = 0;
    virtual bool has_batch() const noexcept = 0;

    /// Must be called after something was added. Wakes the export thread if it waits for this. Any thread, takes no lock.
    void wake_if_due() noexcept;
    /// Waits until a batch is complete, the first of it has waited for `delay`, or a flush or the end is requested.
    Task<> wait_for_batch(ClockTimer& timer, std::chrono::milliseconds delay);
    /// Waits a moment for the thread that adds the next entry.
    Task<> wait_for_entry(ClockTimer& timer);

private:
    enum class Awaited : std::uint8_t { nothing, first, batch };
    std::atomic<Awaited> awaited_ = Awaited::first;
};

}  // namespace cubepi::detail
