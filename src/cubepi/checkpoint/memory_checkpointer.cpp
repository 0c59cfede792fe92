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

#include <cubepi/agent/checkpointer.hpp>
#include <cubepi/checkpoint/claim_rules.hpp>
#include <cubepi/checkpoint/support/question_state.hpp>
#include <cubepi/checkpoint/support/requests.hpp>
#include <cubepi/checkpoint/support/store_errors.hpp>
#include <cubepi/checkpoint/thread_states.hpp>
#include <cubepi/core/error.hpp>

namespace cubepi {

namespace {

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
    JsonObject state = {};  ///< requests, answers and batches: thread_states.cpp

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
    void merge_extra(JsonObject changes) {
        if (!extra) extra.emplace();
        for (auto& member : changes) {
            if (member.value().is_null()) {
                extra->erase(member.key());
            } else {
                (*extra)[member.key()] = std::move(member.value());
            }
        }
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
        detail::remove_answers_of_run(threads_[thread_id_].state, run_id);
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
struct MemoryCheckpointer::State final : ThreadStates {
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
    /// Returns null if there is no such thread.
    MemoryThread* find(const std::string& thread_id) {
        const auto found = threads.find(thread_id);
        return found == threads.end() ? nullptr : &found->second;
    }
    std::int64_t change(const std::string& thread_id, ThreadAppend& append);
    std::int64_t change(const std::string& thread_id, const ThreadFork& fork);
    std::int64_t change(const std::string& thread_id, const ThreadRemoval& removal);

    Task<std::optional<CheckpointData>> read_thread(ThreadQuery query) override;
    Task<std::int64_t> change_thread(std::string thread_id, ThreadChange wanted) override {
        const std::lock_guard lock(mutex);
        const auto execute = [&](auto& one) { return change(thread_id, one); };
        co_return std::visit(execute, wanted);
    }
    Task<std::vector<ThreadInfo>> list_threads() override;
    Task<ClaimResult> change_claim(std::string thread_id, ClaimChange change) override {
        const std::lock_guard lock(mutex);
        MemoryClaims claims(threads, thread_id);
        co_return ClaimRules(claims, thread_id, ClaimTime{now(), options.lease}).apply(change);
    }
    Task<bool> is_run_complete(std::string thread_id, std::string run_id) override {
        const std::lock_guard lock(mutex);
        const MemoryThread* const thread = find(thread_id);
        co_return thread && thread->is_complete(run_id);
    }
    Task<Json> edit_state(std::string thread_id, std::function<Json(JsonObject&)> edit) override {
        const std::lock_guard lock(mutex);
        // In place: the object has all answers of the thread.
        if (MemoryThread* const thread = find(thread_id)) co_return edit(thread->state);
        JsonObject created;
        Json result = edit(created);
        if (!created.empty()) threads[thread_id].state = std::move(created);
        co_return result;
    }
    Task<void> read_state(std::string thread_id,
                          std::function<void(const JsonObject&)> read) override {
        const std::lock_guard lock(mutex);
        const MemoryThread* const thread = find(thread_id);
        read(thread ? thread->state : JsonObject());
        co_return;
    }
    Task<QuestionPage> list_requests(QuestionQuery query) override {
        const std::lock_guard lock(mutex);
        std::vector<QuestionEntry> entries;
        for (const auto& [thread_id, thread] : threads) {
            for (QuestionEntry& entry : detail::pending_requests(thread_id, thread.state))
                entries.push_back(std::move(entry));
        }
        co_return detail::inbox_page(std::move(entries), query);
    }
    void require_claim(const JsonObject& /*state*/, const std::string& thread_id,
                       const std::string& run_id, const std::string& owner_id) const override {
        const auto thread = threads.find(thread_id);
        const bool held =
            thread != threads.end() &&
            std::any_of(thread->second.claims.begin(), thread->second.claims.end(),
                        [&](const HeldClaim& claim) {
                            return claim.run_id == run_id && claim.owner.owner_id == owner_id;
                        });
        if (!held) detail::throw_claim_lost(thread_id, run_id);
    }
    void throw_damaged(const QuestionEntry& request) const override {
        throw CheckpointCorruptionError("a pending request is damaged: " + request.damage,
                                        request.thread_id, "memory", request.question_id);
    }
};

MemoryCheckpointer::MemoryCheckpointer() : MemoryCheckpointer(MemoryOptions()) {}
MemoryCheckpointer::MemoryCheckpointer(MemoryOptions options)
    : StoredThreads(std::make_shared<State>(std::move(options))) {}
MemoryCheckpointer::~MemoryCheckpointer() = default;

std::int64_t MemoryCheckpointer::State::change(const std::string& thread_id, ThreadAppend& append) {
    auto& [messages, wanted] = append;
    MemoryThread* stored = find(thread_id);
    static const MemoryThread none;
    const MemoryThread& before = stored ? *stored : none;
    if (!wanted.claim_owner().empty()) {
        require_claim({}, thread_id, wanted.claim_run_id(), wanted.claim_owner());
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
    if (settles) detail::remove_settled(thread.state, wanted);
    thread.store(messages);
    if (std::optional<JsonObject> extra = wanted.take_extra())
        thread.merge_extra(std::move(*extra));
    if (messages.empty()) return thread.position;
    thread.updated_at = now();
    return thread.position = ++last_position;
}

std::int64_t MemoryCheckpointer::State::change(const std::string& thread_id,
                                               const ThreadFork& fork) {
    const MemoryThread* source = find(thread_id);
    const MessageList retained = cut(source, thread_id, fork.after_run_id);
    const MemoryThread* existing = find(fork.new_thread_id);
    if (existing && existing->known()) detail::throw_thread_exists(fork.new_thread_id);
    MemoryThread copy;
    copy.store(retained);
    const std::int64_t cutoff = source->runs.at(fork.after_run_id).completion;
    for (const auto& [run_id, run] : source->runs) {
        if (run.completion > 0 && run.completion <= cutoff) copy.runs.emplace(run_id, run);
    }
    copy.extra = source->extra ? *source->extra : JsonObject();
    if (fork.metadata) (*copy.extra)["fork"] = *fork.metadata;
    copy.parent = thread_id;
    copy.updated_at = now();
    if (!retained.empty()) copy.position = ++last_position;
    threads.insert_or_assign(fork.new_thread_id, std::move(copy));
    return 0;
}

std::int64_t MemoryCheckpointer::State::change(const std::string& thread_id,
                                               const ThreadRemoval& /*removal*/) {
    if (threads.erase(thread_id) == 0) detail::throw_thread_not_found(thread_id);
    return 0;
}

Task<std::optional<CheckpointData>> MemoryCheckpointer::State::read_thread(ThreadQuery query) {
    const std::lock_guard lock(mutex);
    std::optional<CheckpointData> data(std::in_place);
    const MemoryThread* const thread = find(query.thread_id);
    switch (query.part) {
        case ThreadPart::all:
            if (!thread || (thread->messages.empty() && !thread->extra)) co_return std::nullopt;
            // A list of its own: two lists that share storage must not both grow, and the callers' threads differ.
            data->messages = MessageList(thread->messages.begin(), thread->messages.end());
            if (thread->extra) data->extra = *thread->extra;
            data->parent_thread_id = thread->parent;
            data->position = thread->position;
            break;
        case ThreadPart::message: {
            if (!thread) break;
            const auto found = thread->by_message_id.find(query.id);
            if (found != thread->by_message_id.end())
                data->messages.push_back(thread->messages[found->second]);
            break;
        }
        case ThreadPart::completed: data->messages = cut(thread, query.thread_id, query.id); break;
    }
    co_return data;
}

Task<std::vector<ThreadInfo>> MemoryCheckpointer::State::list_threads() {
    const std::lock_guard lock(mutex);
    std::vector<ThreadInfo> list;
    for (const auto& [thread_id, thread] : threads) {
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

}  // namespace cubepi
