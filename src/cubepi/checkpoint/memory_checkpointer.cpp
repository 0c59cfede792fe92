#include <cubepi/checkpoint/memory_checkpointer.hpp>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <tuple>
#include <unordered_map>
#include <utility>
#include <vector>

#include <cubepi/agent/batch_store.hpp>
#include <cubepi/agent/checkpointer.hpp>
#include <cubepi/agent/question_store.hpp>
#include <cubepi/checkpoint/claim_rules.hpp>
#include <cubepi/checkpoint/common/requests.hpp>
#include <cubepi/checkpoint/common/store_errors.hpp>

namespace cubepi {

namespace {

bool contains(const std::vector<std::string>& list, const std::string& text) {
    return std::find(list.begin(), list.end(), text) != list.end();
}

/// A run of a thread.
struct MemoryRun {
    std::int64_t completion = 0;  ///< order of completion in its thread; 0: open
};

/// A thread in memory.
struct MemoryThread {
    MessageList messages = {};
    std::optional<JsonObject> extra = {};
    std::optional<std::string> parent = {};
    std::int64_t position = 0;
    double updated_at = 0;
    std::unordered_map<std::string, std::size_t> by_message_id = {};
    std::map<std::string, MemoryRun> runs = {};
    std::vector<HeldClaim> claims = {};
    std::vector<PendingRequest> pending = {};
    std::map<std::pair<std::string, std::string>, Json> answers = {};  ///< by run and question
    std::map<std::string, StartedBatch> batches = {};                  ///< by run
    std::vector<AnswerRecord> answer_records = {};

    /// Returns true if the thread can be forked and listed.
    bool known() const { return !messages.empty() || extra || !runs.empty(); }
    bool is_complete(const std::string& run_id) const {
        const auto run = runs.find(run_id);
        return run != runs.end() && run->second.completion > 0;
    }
    void store(const MessageList& added) {
        for (const Message& message : added) {
            if (!message.id().empty()) by_message_id.emplace(message.id(), messages.size());
            messages.push_back(message);
        }
    }
    void merge_extra(const JsonObject& changes) {
        if (!extra) extra.emplace();
        for (const auto& [key, value] : changes) {
            if (value.is_null()) {
                extra->erase(key);
            } else {
                (*extra)[key] = value;
            }
        }
    }
    /// Removes the requests and answers of these questions, the used answers too.
    void settle(const std::string& run_id, const std::vector<std::string>& question_ids) {
        std::erase_if(pending, [&](const PendingRequest& one) {
            return one.run_id == run_id && contains(question_ids, one.request.question_id);
        });
        for (const std::string& question_id : question_ids) answers.erase({run_id, question_id});
        const auto batch = batches.find(run_id);
        if (batch == batches.end()) return;
        std::erase_if(batch->second.used_answers, [&](const HitlAnswer& answer) {
            return contains(question_ids, answer.question_id);
        });
    }
    void mark_started(const BatchStart& start) {
        StartedBatch& batch = batches[start.run_id];
        if (batch.batch_id != start.batch_id) batch = StartedBatch();
        batch.batch_id = start.batch_id;
        for (const std::string& call_id : start.tool_call_ids) {
            if (!contains(batch.tool_call_ids, call_id)) batch.tool_call_ids.push_back(call_id);
        }
        for (const std::string& question_id : start.question_ids) {
            auto stored = answers.extract({start.run_id, question_id});
            if (stored.empty()) continue;
            HitlAnswer answer;
            answer.run_id = start.run_id;
            answer.question_id = question_id;
            answer.answer = std::move(stored.mapped());
            batch.used_answers.push_back(std::move(answer));
        }
    }
    /// Removes the marks and answers of a run that completes.
    void remove_answers_of(const std::string& run_id) {
        std::erase_if(answers, [&](const auto& entry) { return entry.first.first == run_id; });
        batches.erase(run_id);
    }
};

/// The runs and claims of a thread that may not exist yet: it is created by the first change.
class MemoryClaims final : public ClaimTable {
public:
    MemoryClaims(std::map<std::string, MemoryThread>& threads, const std::string& thread_id)
        : threads_(threads), thread_id_(thread_id) {}

    RunState run_state(const std::string& run_id) const override {
        const auto thread = threads_.find(thread_id_);
        if (thread == threads_.end() || !thread->second.runs.contains(run_id))
            return RunState::unknown;
        return thread->second.is_complete(run_id) ? RunState::complete : RunState::open;
    }
    std::vector<HeldClaim> claims() const override {
        const auto thread = threads_.find(thread_id_);
        return thread == threads_.end() ? std::vector<HeldClaim>() : thread->second.claims;
    }
    void open_run(const std::string& run_id) override {
        threads_[thread_id_].runs.try_emplace(run_id);
    }
    void complete_run(const std::string& run_id) override {
        std::map<std::string, MemoryRun>& runs = threads_[thread_id_].runs;
        std::int64_t last = 0;
        for (const auto& [id, run] : runs) last = std::max(last, run.completion);
        runs[run_id].completion = last + 1;
        threads_[thread_id_].remove_answers_of(run_id);
    }
    void put_claim(const HeldClaim& claim) override {
        remove_claim(claim.run_id);
        threads_[thread_id_].claims.push_back(claim);
    }
    void remove_claim(const std::string& run_id) override {
        std::erase_if(threads_[thread_id_].claims,
                      [&](const HeldClaim& claim) { return claim.run_id == run_id; });
    }

private:
    std::map<std::string, MemoryThread>& threads_;
    const std::string& thread_id_;
};

/// Calls `use(entry, pending)` for the requests that have not expired.
template <class Use>
void for_each_request(std::map<std::string, MemoryThread>& threads, Use use) {
    for (auto& [thread_id, thread] : threads) {
        for (PendingRequest& pending : thread.pending) {
            if (!pending.expired) use(detail::inbox_entry(thread_id, pending), pending);
        }
    }
}

/// Returns the messages of a snapshot after `run_id`.
MessageList cut(const MemoryThread* thread, const std::string& thread_id,
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

/// The threads of a store. The mutex protects all members.
struct MemoryCheckpointer::State {
    std::mutex mutex;
    MemoryOptions options;
    std::map<std::string, MemoryThread> threads;
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
        MemoryClaims claims(threads, thread_id);
        ClaimRules rules(claims, thread_id, ClaimTime{now(), options.lease});
        return function(rules);
    }
    /// Returns null if there is no such thread.
    MemoryThread* find(const std::string& thread_id) {
        const auto found = threads.find(thread_id);
        return found == threads.end() ? nullptr : &found->second;
    }
    std::int64_t append(const std::string& thread_id, const MessageList& messages,
                        const AppendOptions& wanted);
};

MemoryCheckpointer::MemoryCheckpointer() : MemoryCheckpointer(MemoryOptions()) {}
MemoryCheckpointer::MemoryCheckpointer(MemoryOptions options)
    : state_(std::make_unique<State>(std::move(options))) {}
MemoryCheckpointer::~MemoryCheckpointer() = default;

std::int64_t MemoryCheckpointer::State::append(const std::string& thread_id,
                                               const MessageList& messages,
                                               const AppendOptions& wanted) {
    MemoryThread* stored = find(thread_id);
    static const MemoryThread none;
    const MemoryThread& before = stored ? *stored : none;
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
    MemoryThread& thread = threads[thread_id];
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
    const MemoryThread* thread = state_->find(thread_id);
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
    MemoryThread& thread = state_->threads[thread_id];
    thread.merge_extra(extra);
    co_return;
}

Task<std::optional<Message>> MemoryCheckpointer::find_message(std::string thread_id,
                                                              std::string message_id) {
    const std::lock_guard lock(state_->mutex);
    std::optional<Message> message;
    if (MemoryThread* thread = state_->find(thread_id)) {
        const auto found = thread->by_message_id.find(message_id);
        if (found != thread->by_message_id.end()) message = thread->messages[found->second];
    }
    co_return message;
}

Task<ClaimResult> MemoryCheckpointer::claim_run(std::string thread_id, std::string run_id,
                                                ClaimOwner owner, ClaimKind kind) {
    const std::lock_guard lock(state_->mutex);
    co_return state_->with_claims(
        thread_id, [&](ClaimRules& rules) { return rules.claim(run_id, owner, kind); });
}

Task<void> MemoryCheckpointer::renew_claim(std::string thread_id, std::string run_id,
                                           std::string owner_id) {
    const std::lock_guard lock(state_->mutex);
    state_->with_claims(thread_id, [&](ClaimRules& rules) { rules.renew(run_id, owner_id); });
    co_return;
}

Task<void> MemoryCheckpointer::release_claim(std::string thread_id, std::string run_id,
                                             std::string owner_id) {
    const std::lock_guard lock(state_->mutex);
    state_->with_claims(thread_id, [&](ClaimRules& rules) { rules.release(run_id, owner_id); });
    co_return;
}

Task<void> MemoryCheckpointer::mark_run_complete(std::string thread_id, std::string run_id) {
    const std::lock_guard lock(state_->mutex);
    state_->with_claims(thread_id, [&](ClaimRules& rules) { rules.mark_complete(run_id); });
    co_return;
}

Task<void> MemoryCheckpointer::complete_run(std::string thread_id, std::string run_id,
                                            std::string owner_id) {
    const std::lock_guard lock(state_->mutex);
    state_->with_claims(thread_id, [&](ClaimRules& rules) { rules.complete(run_id, owner_id); });
    co_return;
}

Task<bool> MemoryCheckpointer::is_run_complete(std::string thread_id, std::string run_id) {
    const std::lock_guard lock(state_->mutex);
    const MemoryThread* thread = state_->find(thread_id);
    co_return thread && thread->is_complete(run_id);
}

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
    if (const MemoryThread* thread = state_->find(thread_id)) pending = thread->pending;
    co_return pending;
}

Task<bool> MemoryCheckpointer::clear_pending_request(std::string thread_id, std::string run_id,
                                                     std::string question_id) {
    const std::lock_guard lock(state_->mutex);
    bool found = false;
    if (MemoryThread* thread = state_->find(thread_id)) {
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
    if (const MemoryThread* thread = state_->find(thread_id)) {
        const auto found = thread->answers.find(std::make_pair(run_id, question_id));
        if (found != thread->answers.end()) answer = found->second;
    }
    co_return answer;
}

Task<void> MemoryCheckpointer::clear_hitl_answers(std::string thread_id, std::string run_id,
                                                  std::vector<std::string> question_ids) {
    const std::lock_guard lock(state_->mutex);
    if (MemoryThread* thread = state_->find(thread_id)) {
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
    if (const MemoryThread* thread = state_->find(thread_id)) {
        const auto found = thread->batches.find(run_id);
        if (found != thread->batches.end()) started = found->second;
    }
    co_return started;
}

Task<QuestionPage> MemoryCheckpointer::list_requests(QuestionQuery query) {
    const std::lock_guard lock(state_->mutex);
    std::vector<QuestionEntry> entries;
    for_each_request(state_->threads, [&](QuestionEntry entry, const PendingRequest&) {
        entries.push_back(std::move(entry));
    });
    co_return detail::inbox_page(std::move(entries), query);
}

Task<std::vector<QuestionEntry>> MemoryCheckpointer::expire_due(double now, std::size_t limit) {
    const std::lock_guard lock(state_->mutex);
    std::vector<std::pair<QuestionEntry, PendingRequest*>> due;
    for_each_request(state_->threads, [&](QuestionEntry entry, PendingRequest& pending) {
        if (entry.expires_at && *entry.expires_at <= now)
            due.emplace_back(std::move(entry), &pending);
    });
    std::sort(due.begin(), due.end(), [](const auto& a, const auto& b) {
        return detail::inbox_key(a.first, QuestionOrder::deadline) <
               detail::inbox_key(b.first, QuestionOrder::deadline);
    });
    if (due.size() > limit) due.erase(due.begin() + static_cast<std::ptrdiff_t>(limit), due.end());
    std::vector<QuestionEntry> expired;
    for (auto& [entry, pending] : due) {
        pending->expired = true;
        expired.push_back(std::move(entry));
    }
    co_return expired;
}

Task<void> MemoryCheckpointer::answer_request(std::string thread_id, AnswerRecord record) {
    const std::lock_guard lock(state_->mutex);
    MemoryThread* thread = state_->find(thread_id);
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
    if (const MemoryThread* thread = state_->find(thread_id)) records = thread->answer_records;
    co_return records;
}

Task<std::size_t> MemoryCheckpointer::discard_requests(std::string thread_id) {
    const std::lock_guard lock(state_->mutex);
    std::size_t count = 0;
    if (MemoryThread* thread = state_->find(thread_id)) {
        count = thread->pending.size();
        thread->pending.clear();
    }
    co_return count;
}

Task<MessageList> MemoryCheckpointer::snapshot(std::string thread_id, std::string after_run_id) {
    const std::lock_guard lock(state_->mutex);
    co_return cut(state_->find(thread_id), thread_id, after_run_id);
}

Task<void> MemoryCheckpointer::fork(std::string source_thread_id, std::string new_thread_id,
                                    std::string after_run_id, std::optional<JsonObject> metadata) {
    const std::lock_guard lock(state_->mutex);
    const MemoryThread* source = state_->find(source_thread_id);
    const MessageList retained = cut(source, source_thread_id, after_run_id);
    const MemoryThread* existing = state_->find(new_thread_id);
    if (existing && existing->known()) detail::throw_thread_exists(new_thread_id);
    MemoryThread copy;
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
