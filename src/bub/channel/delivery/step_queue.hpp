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
        (barriers_ > 0 ? later_ : queue_).push_back(std::move(step));
    }
    /// Executes the queued steps including `step`, or waits until another thread has. Blocks. Throws the step's failure.
    void complete(const StepPtr& step) {
        const std::lock_guard guard(writing_);
        if (!step->over) write(take());
        // Behind the barrier of work that is given up, or of other work.
        if (!step->over) write(take_later());
        if (step->failure) std::rethrow_exception(step->failure);
    }
    /// Does the same without a step.
    void flush() {
        const std::lock_guard guard(writing_);
        write(take());
    }

    /// Steps that are enqueued during its life are written after the work of exclusively().
    class Barrier {
    public:
        explicit Barrier(std::shared_ptr<StepQueue> queue) : queue_(std::move(queue)) {
            const std::lock_guard guard(queue_->mutex_);
            ++queue_->barriers_;
        }
        ~Barrier() { remove(); }
        Barrier(const Barrier&) = delete;
        Barrier& operator=(const Barrier&) = delete;

        void remove() {
            const std::lock_guard guard(queue_->mutex_);
            if (std::exchange(is_removed_, true) || --queue_->barriers_ > 0) return;
            for (StepPtr& step : queue_->later_) queue_->queue_.push_back(std::move(step));
            queue_->later_.clear();
        }

    private:
        const std::shared_ptr<StepQueue> queue_;
        bool is_removed_ = false;
    };

    /// Calls `work` between two calls of write(), and removes the barrier.
    template <class Work>
    auto exclusively(const std::shared_ptr<Barrier>& barrier, const Work& work) {
        const std::lock_guard guard(writing_);
        write(take());
        const std::shared_ptr<void> removal(nullptr, [&barrier](void*) { barrier->remove(); });
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

    std::vector<StepPtr> take_later() {
        const std::lock_guard guard(mutex_);
        return std::exchange(later_, {});
    }

    std::mutex writing_;
    std::mutex mutex_;
    std::vector<StepPtr> queue_;
    std::vector<StepPtr> later_;  // behind a barrier
    int barriers_ = 0;
};

}  // namespace bub::detail
