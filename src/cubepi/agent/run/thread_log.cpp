#include <cubepi/agent/run/thread_log.hpp>

#include <algorithm>

namespace cubepi::detail {

namespace {

/// The end of a history: tool results, and the answer before them.
struct HistoryEnd {
    const AssistantMessage* caller = nullptr;  // null: there is none
    std::size_t results = 0;
};

HistoryEnd end_of(const MessageList& messages) {
    std::size_t end = messages.size();
    while (end > 0 && messages[end - 1].role() == Role::tool_result) --end;
    return HistoryEnd{end > 0 ? messages[end - 1].assistant() : nullptr, messages.size() - end};
}

/// Returns the keys of `now` that differ from `before`: other writers may have saved other keys meanwhile.
JsonObject changes(const JsonObject& before, const JsonObject& now) {
    JsonObject changed;
    for (const auto& [key, value] : now) {
        const Json* old = before.if_contains(key);
        if (!old || *old != value) changed[key] = value;
    }
    return changed;
}

}  // namespace

ThreadLog::ThreadLog(AgentState& state, std::shared_ptr<Checkpointer> store, std::string thread_id)
    : state_(state) {
    if (!store && thread_id.empty()) return;
    thread_ = std::make_unique<Thread>();
    thread_->id = std::move(thread_id);
    thread_->lost = !store || thread_->id.empty();
    if (thread_->lost) return;
    thread_->store = std::move(store);
    thread_->runs = dynamic_cast<RunStore*>(thread_->store.get());
    thread_->index = dynamic_cast<MessageIndex*>(thread_->store.get());
    thread_->questions = dynamic_cast<HitlStore*>(thread_->store.get());
    thread_->question_store = dynamic_cast<QuestionStore*>(thread_->store.get());
    thread_->batches = dynamic_cast<BatchStore*>(thread_->store.get());
}

const std::string& ThreadLog::thread_id() const noexcept {
    static const std::string none;
    return thread_ ? thread_->id : none;
}

Task<void> ThreadLog::load() {
    if (!persistent() || thread_->loaded) co_return;
    auto call = [this] { return thread_->store->load(thread_->id); };
    Task<std::optional<CheckpointData>> loading =
        store_call("load the thread", thread_->id, std::move(call));
    std::optional<CheckpointData> data = co_await std::move(loading);
    thread_->loaded = true;
    if (!data) co_return;
    thread_->position = data->position;
    if (state_.messages.empty()) state_.messages = std::move(data->messages);
    state_.extra = std::move(data->extra);
    thread_->saved_extra = state_.extra;
}

const MessageList& ThreadLog::messages() const noexcept { return state_.messages; }

bool ThreadLog::has_open_calls() const {
    const MessageList& messages = state_.messages;
    if (messages.empty() || messages.back().role() == Role::user) return false;
    const HistoryEnd end = end_of(messages);
    if (!end.caller || !end.caller->has_tool_calls()) return false;
    return end.results == 0 || !open_calls().empty();
}

std::vector<ToolCall> ThreadLog::open_calls() const { return open_tool_calls(state_.messages); }

SharedString ThreadLog::open_calls_run_id() const {
    const AssistantMessage* caller = end_of(state_.messages).caller;
    return caller ? caller->run_id : SharedString();
}

std::string ThreadLog::open_calls_message_id() const {
    const AssistantMessage* caller = end_of(state_.messages).caller;
    return caller ? std::string(caller->id) : std::string();
}

bool ThreadLog::is_legal() {
    if (legal_ > state_.messages.size()) legal_ = 0;
    if (!is_legal_transcript(state_.messages, legal_)) return false;
    legal_ = static_cast<std::uint32_t>(state_.messages.size());
    return true;
}

std::uint32_t ThreadLog::hash_of(const TranscriptRepairs& repairs) noexcept {
    std::size_t hash = repairs.added_results;
    for (const std::size_t count : {repairs.moved_results, repairs.left_out})
        hash = hash * 1'000'003 + count;
    return static_cast<std::uint32_t>(hash);
}

void ThreadLog::append_now(Message message) { state_.messages.push_back(std::move(message)); }

Task<void> ThreadLog::append(Message message) {
    if (persistent()) {
        Thread& thread = *thread_;
        // One object per step: assigning a setter's result to its own object would be a self-move.
        AppendOptions positioned = AppendOptions().expected_position(thread.position);
        const bool with_extra = state_.extra != thread.saved_extra;
        AppendOptions filled =
            with_extra ? std::move(positioned).extra(changes(thread.saved_extra, state_.extra))
                       : std::move(positioned);
        AppendOptions claimed =
            thread.claim_run_id.empty()
                ? std::move(filled)
                : std::move(filled).claim(thread.claim_run_id, thread.claim_owner);
        Settled settled = std::exchange(thread.settled, {});
        if (settled.run_id.empty()) settled.run_id = message.run_id().str();
        AppendOptions options = settled.ids.empty()
                                    ? std::move(claimed)
                                    : std::move(claimed).settle(settled.run_id, settled.ids);
        JsonObject saved = with_extra ? state_.extra : JsonObject();
        MessageList one;
        one.push_back(message);
        auto call = [&thread, &one, &options] {
            return thread.store->append(thread.id, std::move(one), std::move(options));
        };
        Task<std::int64_t> appending = store_call("append a message", thread.id, std::move(call));
        try {
            thread.position = co_await std::move(appending);
        } catch (const StaleAppendError&) {
            thread.superseded = true;
            throw;
        } catch (...) {
            if (!settled.ids.empty()) thread.settled = std::move(settled);
            throw;
        }
        if (with_extra) {
            thread.saved_extra = std::move(saved);
            drop_nulls();
        }
        if (!settled.ids.empty() && !thread.batches)
            co_await forget_questions(settled.run_id, settled.ids);
    }
    append_now(std::move(message));
}

/// Removes the requests of a store that does not settle them with the append. Their answers were removed before the
/// bodies ran.
Task<void> ThreadLog::forget_questions(std::string run_id, std::vector<std::string> ids) {
    Thread& thread = *thread_;
    for (const std::string& id : ids) {
        auto call = [&thread, &run_id, &id] {
            return thread.questions->clear_pending_request(thread.id, run_id, id);
        };
        Task<bool> clearing = store_call("remove an answered request", thread.id, std::move(call));
        (void)co_await std::move(clearing);
    }
    auto call = [&thread, &run_id, &ids] {
        return thread.questions->clear_hitl_answers(thread.id, run_id, ids);
    };
    Task<void> clearing = store_call("remove used answers", thread.id, std::move(call));
    co_await std::move(clearing);
}

Task<void> ThreadLog::remove_answers(std::string run_id) {
    // Those of a run that another process continues are its own (D50).
    if (!persistent() || !thread_->questions || thread_->superseded) co_return;
    Thread& thread = *thread_;
    auto call = [&thread, &run_id] {
        return thread.questions->clear_hitl_answers(thread.id, run_id, {});
    };
    Task<void> removing = store_call("remove used answers", thread.id, std::move(call));
    co_await std::move(removing);
}

Task<void> ThreadLog::mark_batch_started(BatchStart start) {
    Thread& thread = *thread_;
    // An empty list names all answers of the run.
    if (!thread.batches && start.question_ids.empty()) co_return;
    start.owner_id = thread.claim_owner;
    auto call = [&thread, &start] {
        if (thread.batches) return thread.batches->mark_batch_started(thread.id, start);
        return thread.questions->clear_hitl_answers(thread.id, start.run_id, start.question_ids);
    };
    Task<void> marking = store_call("mark tool calls as started", thread.id, std::move(call));
    co_await std::move(marking);
}

Task<void> ThreadLog::save_extra() {
    if (!persistent()) {
        drop_nulls();
        co_return;
    }
    // The extra belongs to the writer that has the thread now (D50).
    if (thread_->superseded || state_.extra == thread_->saved_extra) co_return;
    JsonObject saved = state_.extra;
    JsonObject changed = changes(thread_->saved_extra, saved);
    if (thread_->claim_run_id.empty()) {
        auto call = [this, &changed] {
            return thread_->store->save_extra(thread_->id, std::move(changed));
        };
        Task<void> saving = store_call("save extra", thread_->id, std::move(call));
        co_await std::move(saving);
    } else {
        co_await save_under_claim(std::move(changed));
    }
    thread_->saved_extra = std::move(saved);
    drop_nulls();
}

/// The store checks the claim in the same transaction: a run that was superseded after its last append must not save extra (D50).
Task<void> ThreadLog::save_under_claim(JsonObject changed) {
    Thread& thread = *thread_;
    AppendOptions unclaimed = AppendOptions().extra(std::move(changed));
    AppendOptions options = std::move(unclaimed).claim(thread.claim_run_id, thread.claim_owner);
    auto call = [&thread, &options] {
        return thread.store->append(thread.id, MessageList(), std::move(options));
    };
    Task<std::int64_t> appending = store_call("save extra", thread.id, std::move(call));
    try {
        thread.position = co_await std::move(appending);
    } catch (const StaleAppendError&) {
        thread.superseded = true;
        throw;
    }
}

void ThreadLog::drop_nulls() {
    const auto erase_from = [](JsonObject& object) {
        for (auto it = object.begin(); it != object.end();) {
            it = it->value().is_null() ? object.erase(it) : std::next(it);
        }
    };
    erase_from(state_.extra);
    if (thread_) erase_from(thread_->saved_extra);
}

Task<std::optional<Message>> ThreadLog::find(std::string message_id) {
    std::optional<Message> found;
    for (const Message& message : state_.messages) {
        if (message.id() == message_id) found = message;
    }
    if (!found && thread_ && thread_->index) {
        auto call = [this, &message_id] {
            return thread_->index->find_message(thread_->id, std::move(message_id));
        };
        Task<std::optional<Message>> finding =
            store_call("find a message by its id", thread_->id, std::move(call));
        found = co_await std::move(finding);
    }
    co_return found;
}

void ThreadLog::set_claim(std::string run_id, std::string owner_id) {
    thread_->claim_run_id = std::move(run_id);
    thread_->claim_owner = std::move(owner_id);
}

void ThreadLog::continue_in(std::string thread_id) {
    forget();
    thread_->id = std::move(thread_id);
    thread_->saved_extra = {};
    state_.messages.clear();
    state_.extra = {};
}

void ThreadLog::forget() {
    legal_ = 0;
    last_repairs_ = 0;
    if (!thread_) return;
    thread_->settled = {};
    thread_->loaded = false;
    thread_->superseded = false;
    thread_->position = 0;
}

void throw_store_failure(const std::exception_ptr& failure, std::string_view operation,
                         std::string_view thread_id) {
    const std::string text =
        "the checkpointer failed to " + std::string(operation) + ": " + exception_text(failure);
    try {
        std::rethrow_exception(failure);
    } catch (const CheckpointerError&) {
        throw;
    } catch (const Error& error) {
        std::throw_with_nested(CheckpointerError(error.code(), text, std::string(thread_id)));
    } catch (...) {
        std::throw_with_nested(CheckpointerError(ErrorCode::storage, text, std::string(thread_id)));
    }
}

}  // namespace cubepi::detail
