#include <cubepi/checkpoint/memory/state.hpp>

#include <algorithm>
#include <utility>

#include <cubepi/checkpoint/inbox/inbox_cursor.hpp>

namespace cubepi {

namespace {

/// Calls `use(entry, pending)` for the requests that have not expired.
template <class Use>
void for_each_request(std::map<std::string, detail::MemoryThread>& threads, Use use) {
    for (auto& [thread_id, thread] : threads) {
        for (PendingRequest& pending : thread.pending) {
            if (!pending.expired) use(detail::inbox_entry(thread_id, pending), pending);
        }
    }
}

}  // namespace

Task<InboxPage> MemoryCheckpointer::list_requests(InboxQuery query) {
    const std::lock_guard lock(state_->mutex);
    std::vector<InboxEntry> entries;
    for_each_request(state_->threads, [&](InboxEntry entry, const PendingRequest&) {
        entries.push_back(std::move(entry));
    });
    co_return detail::inbox_page(std::move(entries), query);
}

Task<std::vector<InboxEntry>> MemoryCheckpointer::expire_due(double now, std::size_t limit) {
    const std::lock_guard lock(state_->mutex);
    std::vector<std::pair<InboxEntry, PendingRequest*>> due;
    for_each_request(state_->threads, [&](InboxEntry entry, PendingRequest& pending) {
        if (entry.expires_at && *entry.expires_at <= now)
            due.emplace_back(std::move(entry), &pending);
    });
    std::sort(due.begin(), due.end(), [](const auto& a, const auto& b) {
        return detail::inbox_key(a.first, InboxOrder::deadline) <
               detail::inbox_key(b.first, InboxOrder::deadline);
    });
    if (due.size() > limit) due.erase(due.begin() + static_cast<std::ptrdiff_t>(limit), due.end());
    std::vector<InboxEntry> expired;
    for (auto& [entry, pending] : due) {
        pending->expired = true;
        expired.push_back(std::move(entry));
    }
    co_return expired;
}

Task<void> MemoryCheckpointer::answer_request(std::string thread_id, AnswerRecord record) {
    const std::lock_guard lock(state_->mutex);
    detail::MemoryThread* thread = state_->find(thread_id);
    if (!thread) detail::throw_stale_answer(thread_id, record);
    const auto found = std::find_if(
        thread->pending.begin(), thread->pending.end(), [&](const PendingRequest& one) {
            return one.run_id == record.run_id && one.request.question_id == record.question_id;
        });
    if (found == thread->pending.end() || detail::has_expired(*found, record.answered_at))
        detail::throw_stale_answer(thread_id, record);
    record.request = std::move(found->request);
    thread->pending.erase(found);
    thread->answers.insert_or_assign({record.run_id, record.question_id}, record.answer);
    thread->answer_records.push_back(std::move(record));
    co_return;
}

Task<std::vector<AnswerRecord>> MemoryCheckpointer::load_answer_records(std::string thread_id) {
    const std::lock_guard lock(state_->mutex);
    std::vector<AnswerRecord> records;
    if (const detail::MemoryThread* thread = state_->find(thread_id))
        records = thread->answer_records;
    co_return records;
}

Task<std::size_t> MemoryCheckpointer::discard_requests(std::string thread_id) {
    const std::lock_guard lock(state_->mutex);
    std::size_t count = 0;
    if (detail::MemoryThread* thread = state_->find(thread_id)) {
        count = thread->pending.size();
        thread->pending.clear();
    }
    co_return count;
}

}  // namespace cubepi
