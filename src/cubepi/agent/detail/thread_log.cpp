#include <cubepi/agent/detail/thread_log.hpp>

#include <algorithm>
#include <utility>

#include <cubepi/agent/transcript.hpp>

namespace cubepi::detail {

ThreadLog::ThreadLog(AgentState& state, std::shared_ptr<Checkpointer> store, std::string thread_id)
    : state_(state), thread_id_(std::move(thread_id)) {
    for (const Message& message : state_.messages) note(message);
    if (!store || thread_id_.empty()) return;
    store_ = std::move(store);
    runs_ = dynamic_cast<RunStore*>(store_.get());
    index_ = dynamic_cast<MessageIndex*>(store_.get());
}

Task<void> ThreadLog::load() {
    if (!store_ || loaded_) co_return;
    std::optional<CheckpointData> data = co_await store_->load(thread_id_);
    loaded_ = true;
    if (!data) co_return;
    position_ = data->position;
    if (state_.messages.empty()) state_.messages = std::move(data->messages);
    open_calls_ = open_tool_calls(state_.messages);
    if (!open_calls_.empty()) {
        const auto caller =
            std::find_if(std::make_reverse_iterator(state_.messages.end()),
                         std::make_reverse_iterator(state_.messages.begin()),
                         [](const Message& m) { return m.role() == Role::assistant; });
        open_calls_run_id_ = caller->run_id();
    }
    state_.extra = std::move(data->extra);
    saved_extra_ = state_.extra;
}

void ThreadLog::note(const Message& message) {
    if (const AssistantMessage* assistant = message.assistant()) {
        open_calls_.clear();
        for (const ToolCall* call : assistant->tool_calls()) open_calls_.push_back(*call);
        if (!open_calls_.empty()) open_calls_run_id_ = assistant->run_id;
    } else if (const ToolResultMessage* result = message.tool_result()) {
        const auto found =
            std::find_if(open_calls_.begin(), open_calls_.end(),
                         [&](const ToolCall& call) { return call.id == result->tool_call_id; });
        if (found != open_calls_.end()) open_calls_.erase(found);
    }
}

bool ThreadLog::is_legal() {
    if (legal_ > state_.messages.size()) legal_ = 0;
    if (!is_legal_transcript(state_.messages, legal_)) return false;
    legal_ = state_.messages.size();
    return true;
}

void ThreadLog::append_now(Message message) {
    note(message);
    state_.messages.push_back(std::move(message));
}

Task<void> ThreadLog::append(Message message) {
    if (store_) {
        // One object per step: a setter's result assigned to its own object would be a move onto itself.
        AppendOptions positioned = AppendOptions().expected_position(position_);
        const bool with_extra = state_.extra != saved_extra_;
        AppendOptions filled =
            with_extra ? std::move(positioned).extra(state_.extra) : std::move(positioned);
        AppendOptions options = claim_run_id_.empty()
                                    ? std::move(filled)
                                    : std::move(filled).claim(claim_run_id_, claim_owner_);
        JsonObject saved = with_extra ? state_.extra : JsonObject();
        MessageList one;
        one.push_back(message);
        position_ = co_await store_->append(thread_id_, std::move(one), std::move(options));
        if (with_extra) {
            saved_extra_ = std::move(saved);
            drop_nulls();
        }
    }
    append_now(std::move(message));
}

Task<void> ThreadLog::save_extra() {
    if (!store_) {
        drop_nulls();
        co_return;
    }
    if (state_.extra == saved_extra_) co_return;
    JsonObject saved = state_.extra;
    co_await store_->save_extra(thread_id_, saved);
    saved_extra_ = std::move(saved);
    drop_nulls();
}

void ThreadLog::drop_nulls() {
    if (state_.extra.empty() && saved_extra_.empty()) return;
    const auto erase_from = [](JsonObject& object) {
        for (auto it = object.begin(); it != object.end();) {
            it = it->value().is_null() ? object.erase(it) : std::next(it);
        }
    };
    erase_from(state_.extra);
    erase_from(saved_extra_);
}

Task<std::optional<Message>> ThreadLog::find(std::string message_id) {
    std::optional<Message> found;
    for (const Message& message : state_.messages) {
        if (message.id() == message_id) found = message;
    }
    if (!found && index_) found = co_await index_->find_message(thread_id_, std::move(message_id));
    co_return found;
}

void ThreadLog::set_claim(std::string run_id, std::string owner_id) {
    claim_run_id_ = std::move(run_id);
    claim_owner_ = std::move(owner_id);
}

void ThreadLog::forget() {
    loaded_ = false;
    legal_ = 0;
    position_ = 0;
    open_calls_.clear();
}

}  // namespace cubepi::detail
