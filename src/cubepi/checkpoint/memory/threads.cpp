#include <cubepi/checkpoint/memory/state.hpp>

#include <algorithm>
#include <functional>
#include <tuple>
#include <utility>

#include <cubepi/checkpoint/claims/store_errors.hpp>

namespace cubepi {

namespace {

/// Returns the messages of a snapshot after `run_id`.
MessageList cut(const detail::MemoryThread* thread, const std::string& thread_id,
                const std::string& run_id) {
    if (!thread || !thread->known()) detail::throw_thread_not_found(thread_id);
    if (!thread->is_complete(run_id)) detail::throw_run_not_completed(thread_id, run_id);
    const std::int64_t cutoff = thread->runs.at(run_id).completion;
    MessageList retained;
    for (const Message& message : thread->messages) {
        const auto run = thread->runs.find(message.run_id().str());
        const bool complete_by_then = run != thread->runs.end() && run->second.completion > 0 &&
                                      run->second.completion <= cutoff;
        if (message.run_id().empty() || complete_by_then) retained.push_back(message);
    }
    return retained;
}

}  // namespace

Task<MessageList> MemoryCheckpointer::snapshot(std::string thread_id, std::string after_run_id) {
    const std::lock_guard lock(state_->mutex);
    co_return cut(state_->find(thread_id), thread_id, after_run_id);
}

Task<void> MemoryCheckpointer::fork(std::string source_thread_id, std::string new_thread_id,
                                    std::string after_run_id, std::optional<JsonObject> metadata) {
    const std::lock_guard lock(state_->mutex);
    const detail::MemoryThread* source = state_->find(source_thread_id);
    const MessageList retained = cut(source, source_thread_id, after_run_id);
    const detail::MemoryThread* existing = state_->find(new_thread_id);
    if (existing && existing->known()) detail::throw_thread_exists(new_thread_id);
    detail::MemoryThread copy;
    copy.store(retained);
    const std::int64_t cutoff = source->runs.at(after_run_id).completion;
    for (const auto& [run_id, run] : source->runs) {
        if (run.completion > 0 && run.completion <= cutoff) copy.runs.emplace(run_id, run);
    }
    copy.extra = source->extra ? *source->extra : JsonObject();
    if (metadata) (*copy.extra)["fork"] = std::move(*metadata);
    copy.parent = source_thread_id;
    copy.updated_at = state_->now();
    if (!retained.empty()) copy.position = ++state_->last_position;
    state_->threads.insert_or_assign(new_thread_id, std::move(copy));
    co_return;
}

Task<std::vector<ThreadInfo>> MemoryCheckpointer::list_threads() {
    const std::lock_guard lock(state_->mutex);
    std::vector<ThreadInfo> list;
    for (const auto& [thread_id, thread] : state_->threads) {
        if (thread.messages.empty() && !thread.extra) continue;
        ThreadInfo info;
        info.thread_id = thread_id;
        info.message_count = static_cast<std::int64_t>(thread.messages.size());
        if (!thread.messages.empty()) info.updated_at = thread.updated_at;
        list.push_back(std::move(info));
    }
    std::sort(list.begin(), list.end(), [](const ThreadInfo& a, const ThreadInfo& b) {
        return std::make_tuple(-a.updated_at.value_or(0), std::cref(a.thread_id)) <
               std::make_tuple(-b.updated_at.value_or(0), std::cref(b.thread_id));
    });
    co_return list;
}

Task<void> MemoryCheckpointer::delete_thread(std::string thread_id) {
    const std::lock_guard lock(state_->mutex);
    if (state_->threads.erase(thread_id) == 0) detail::throw_thread_not_found(thread_id);
    co_return;
}

}  // namespace cubepi
