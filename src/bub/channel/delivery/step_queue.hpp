#pragma once

#include <exception>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

namespace bub::detail {

/// Steps of a delivery log on their way to storage. They take effect in the order of enqueue(); those that are queued at the same
/// time are written together. A step has the members `over` and `failure`, which write() sets. Thread-safe.
template <class Step>
class StepQueue {
public:
    using StepPtr = std::shared_ptr<Step>;

    virtual ~StepQueue() = default;

    void enqueue(StepPtr step) {
        const std::lock_guard guard(mutex_);
        queue_.push_back(std::move(step));
    }
    /// Executes the queued steps including `step`, or waits until another thread has. Blocks. Throws the step's failure.
    void complete(const StepPtr& step) {
        const std::lock_guard guard(writing_);
        if (!step->over) write(take());
        if (step->failure) std::rethrow_exception(step->failure);
    }
    /// Does the same without a step.
    void flush() {
        const std::lock_guard guard(writing_);
        write(take());
    }

    /// Calls `work` between two calls of write().
    template <class Work>
    auto exclusively(const Work& work) {
        const std::lock_guard guard(writing_);
        write(take());
        return work();
    }

protected:
    /// Called by one thread at a time; must not throw.
    virtual void write(const std::vector<StepPtr>& steps) = 0;

private:
    std::vector<StepPtr> take() {
        const std::lock_guard guard(mutex_);
        return std::exchange(queue_, {});
    }

    std::mutex writing_;
    std::mutex mutex_;
    std::vector<StepPtr> queue_;
};

}  // namespace bub::detail
