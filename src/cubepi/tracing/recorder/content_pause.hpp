#pragma once

#include <mutex>

namespace cubepi::detail {

/// Releases a lock for its own lifetime, in which the user's `redact` may be called: it may be slow, and may use the agent.
class ContentPause {
public:
    /// `lock` is null if no content is recorded; the lock is held then.
    explicit ContentPause(std::unique_lock<std::mutex>* lock) : lock_(lock) {
        if (lock_) lock_->unlock();
    }
    ~ContentPause() {
        if (lock_) lock_->lock();
    }
    ContentPause(const ContentPause&) = delete;
    ContentPause& operator=(const ContentPause&) = delete;

private:
    std::unique_lock<std::mutex>* lock_;
};

}  // namespace cubepi::detail
