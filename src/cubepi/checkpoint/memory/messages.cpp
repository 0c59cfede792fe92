#include <cubepi/checkpoint/memory/state.hpp>

#include <utility>

#include <cubepi/checkpoint/claims/store_errors.hpp>

namespace cubepi {

std::int64_t MemoryCheckpointer::State::append(const std::string& thread_id,
                                               const MessageList& messages,
                                               const AppendOptions& wanted) {
    detail::MemoryThread* stored = find(thread_id);
    static const detail::MemoryThread none;
    const detail::MemoryThread& before = stored ? *stored : none;
    if (!wanted.claim_owner().empty()) {
        with_claims(thread_id, [&](const ClaimRules& rules) {
            rules.require_claim(wanted.claim_run_id(), wanted.claim_owner());
        });
    }
    for (const Message& message : messages) {
        if (!message.run_id().empty() && before.is_complete(message.run_id().str())) {
            detail::throw_run_completed(thread_id, message.run_id().str());
        }
    }
    if (wanted.expected_position() && *wanted.expected_position() != before.position) {
        detail::throw_stale_append(thread_id, *wanted.expected_position(), before.position);
    }
    const bool settles = !wanted.settled_questions().empty();
    if (messages.empty() && !wanted.extra() && !settles) return before.position;
    detail::MemoryThread& thread = threads[thread_id];
    if (settles) thread.settle(wanted.settled_run_id(), wanted.settled_questions());
    thread.store(messages);
    if (wanted.extra()) thread.merge_extra(*wanted.extra());
    thread.updated_at = now();
    if (!messages.empty()) thread.position = ++last_position;
    return thread.position;
}

Task<std::optional<CheckpointData>> MemoryCheckpointer::load(std::string thread_id) {
    const std::lock_guard lock(state_->mutex);
    std::optional<CheckpointData> data;
    const detail::MemoryThread* thread = state_->find(thread_id);
    if (thread && (!thread->messages.empty() || thread->extra)) {
        data.emplace();
        // A list of its own: two lists that share storage must not both grow, and the callers' threads differ.
        data->messages = MessageList(thread->messages.begin(), thread->messages.end());
        if (thread->extra) data->extra = *thread->extra;
        data->parent_thread_id = thread->parent;
        data->position = thread->position;
    }
    co_return data;
}

Task<std::int64_t> MemoryCheckpointer::append(std::string thread_id, MessageList messages,
                                              AppendOptions options) {
    const std::lock_guard lock(state_->mutex);
    co_return state_->append(thread_id, messages, options);
}

Task<void> MemoryCheckpointer::save_extra(std::string thread_id, JsonObject extra) {
    const std::lock_guard lock(state_->mutex);
    detail::MemoryThread& thread = state_->threads[thread_id];
    thread.merge_extra(extra);
    co_return;
}

Task<std::optional<Message>> MemoryCheckpointer::find_message(std::string thread_id,
                                                              std::string message_id) {
    const std::lock_guard lock(state_->mutex);
    std::optional<Message> message;
    if (detail::MemoryThread* thread = state_->find(thread_id)) {
        const auto found = thread->by_message_id.find(message_id);
        if (found != thread->by_message_id.end()) message = thread->messages[found->second];
    }
    co_return message;
}

}  // namespace cubepi
