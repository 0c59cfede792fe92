#include <cubepi/checkpoint/memory/state.hpp>

#include <algorithm>
#include <utility>

namespace cubepi {

Task<void> MemoryCheckpointer::save_pending_request(std::string thread_id, std::string run_id,
                                                    HitlRequest request) {
    const std::lock_guard lock(state_->mutex);
    std::vector<PendingRequest>& pending = state_->threads[thread_id].pending;
    PendingRequest entry;
    entry.request = std::move(request);
    entry.run_id = std::move(run_id);
    const auto same = std::find_if(pending.begin(), pending.end(), [&](const PendingRequest& one) {
        return one.run_id == entry.run_id && one.request.question_id == entry.request.question_id;
    });
    if (same != pending.end()) {
        *same = std::move(entry);
    } else {
        pending.push_back(std::move(entry));
    }
    co_return;
}

Task<std::vector<PendingRequest>> MemoryCheckpointer::load_pending_requests(std::string thread_id) {
    const std::lock_guard lock(state_->mutex);
    std::vector<PendingRequest> pending;
    if (const detail::MemoryThread* thread = state_->find(thread_id)) pending = thread->pending;
    co_return pending;
}

Task<bool> MemoryCheckpointer::clear_pending_request(std::string thread_id, std::string run_id,
                                                     std::string question_id) {
    const std::lock_guard lock(state_->mutex);
    bool found = false;
    if (detail::MemoryThread* thread = state_->find(thread_id)) {
        found = std::erase_if(thread->pending, [&](const PendingRequest& one) {
                    return one.run_id == run_id && one.request.question_id == question_id;
                }) > 0;
    }
    co_return found;
}

Task<void> MemoryCheckpointer::save_hitl_answer(std::string thread_id, HitlAnswer answer) {
    const std::lock_guard lock(state_->mutex);
    auto key = std::make_pair(std::move(answer.run_id), std::move(answer.question_id));
    state_->threads[thread_id].answers.insert_or_assign(std::move(key), std::move(answer.answer));
    co_return;
}

Task<std::optional<Json>> MemoryCheckpointer::load_hitl_answer(std::string thread_id,
                                                               std::string run_id,
                                                               std::string question_id) {
    const std::lock_guard lock(state_->mutex);
    std::optional<Json> answer;
    if (const detail::MemoryThread* thread = state_->find(thread_id)) {
        const auto found = thread->answers.find(std::make_pair(run_id, question_id));
        if (found != thread->answers.end()) answer = found->second;
    }
    co_return answer;
}

Task<void> MemoryCheckpointer::clear_hitl_answers(std::string thread_id, std::string run_id,
                                                  std::vector<std::string> question_ids) {
    const std::lock_guard lock(state_->mutex);
    if (detail::MemoryThread* thread = state_->find(thread_id)) {
        std::erase_if(thread->answers, [&](const auto& entry) {
            const bool named =
                question_ids.empty() || std::find(question_ids.begin(), question_ids.end(),
                                                  entry.first.second) != question_ids.end();
            return entry.first.first == run_id && named;
        });
    }
    co_return;
}

Task<void> MemoryCheckpointer::mark_batch_started(std::string thread_id, BatchStart start) {
    const std::lock_guard lock(state_->mutex);
    if (!start.owner_id.empty()) {
        state_->with_claims(thread_id, [&](const ClaimRules& rules) {
            rules.require_claim(start.run_id, start.owner_id);
        });
    }
    state_->threads[thread_id].mark_started(start);
    co_return;
}

Task<std::optional<StartedBatch>> MemoryCheckpointer::load_started_batch(std::string thread_id,
                                                                         std::string run_id) {
    const std::lock_guard lock(state_->mutex);
    std::optional<StartedBatch> started;
    if (const detail::MemoryThread* thread = state_->find(thread_id)) {
        const auto found = thread->batches.find(run_id);
        if (found != thread->batches.end()) started = found->second;
    }
    co_return started;
}

}  // namespace cubepi
