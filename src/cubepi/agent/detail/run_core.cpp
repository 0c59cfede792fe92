#include <cubepi/agent/detail/run_core.hpp>

#include <chrono>
#include <iterator>
#include <utility>

#include <cubepi/agent/transcript.hpp>
#include <cubepi/provider/cost.hpp>

namespace cubepi::detail {

RunCore::RunCore(const RunParts& parts, std::string run_id, std::stop_token stop)
    : parts_(parts), run_id_(run_id), stop_(std::move(stop)) {
    auto info = std::make_shared<RunInfo>();
    info->run_id = std::move(run_id);
    info->attempt_id = parts_.runtime->ids->next();
    info->thread_id = parts_.log->thread_id();
    event_.run = std::move(info);
}

void RunCore::count(const AssistantMessage& answer) {
    if (answer.usage) usage_ += *answer.usage;
    // An answer that failed before anything was counted is not billed either.
    const bool failed = answer.stop_reason == stop_reason::error;
    if (!spent_ || (failed && !answer.usage)) return;
    const std::optional<double> cost = cost_of(answer, parts_.model.spec());
    spent_ = cost ? std::optional<double>(*spent_ + *cost) : std::nullopt;
}

double RunCore::wall_seconds() const {
    const auto since_epoch = runtime().clock->wall().time_since_epoch();
    return std::chrono::duration<double>(since_epoch).count();
}

void RunCore::update_state(const AgentEvent::Body& body) {
    if (const auto* update = std::get_if<MessageUpdateEvent>(&body)) {
        state().streaming_message = update->stream_event.partial;
    } else if (const auto* start = std::get_if<ToolExecutionStartEvent>(&body)) {
        state().pending_tool_calls.insert(start->tool_call_id);
    } else if (const auto* end = std::get_if<ToolExecutionEndEvent>(&body)) {
        state().pending_tool_calls.erase(end->tool_call_id);
    } else if (const auto* turn = std::get_if<TurnEndEvent>(&body)) {
        const AssistantMessage* message = turn->message.assistant();
        if (message && !message->error_message.empty()) {
            state().error_message = message->error_message.str();
        }
    }
}

std::optional<Task<void>> RunCore::emit(AgentEvent::Body body) {
    update_state(body);
    ++event_.seq;
    if (parts_.hub->busy()) {
        AgentEvent event;
        event.body = std::move(body);
        event.run = event_.run;
        event.turn = event_.turn;
        event.seq = event_.seq;
        event.timestamp = runtime().clock->now();
        return emit_later(std::move(event));
    }
    event_.body = std::move(body);
    event_.timestamp = runtime().clock->now();
    return parts_.hub->deliver(event_, stop_);
}

Task<void> RunCore::emit_later(AgentEvent event) {
    co_await parts_.hub->wait_turn();
    if (auto rest = parts_.hub->deliver(event, stop_)) co_await std::move(*rest);
}

Message RunCore::stamped(Message message) const {
    if (message.id().empty()) message = message.with_id(runtime().ids->next());
    if (message.run_id().empty()) message = message.with_run_id(run_id_);
    return message;
}

Task<void> RunCore::announce(Message message) {
    message = stamped(std::move(message));
    if (message.role() != Role::tool_result) co_await close_open_calls();
    MessageStartEvent start;
    start.message = message;
    if (auto rest = emit(std::move(start))) co_await std::move(*rest);
    if (auto rest = finish(std::move(message))) co_await std::move(*rest);
}

std::optional<Task<void>> RunCore::finish(Message message) {
    message = stamped(std::move(message));
    if (parts_.log->persistent()) return finish_stored(std::move(message));
    parts_.log->append_now(message);
    new_messages_.push_back(message);
    state().streaming_message = PartialMessage();
    MessageEndEvent end;
    end.message = std::move(message);
    return emit(std::move(end));
}

Task<void> RunCore::finish_stored(Message message) {
    co_await parts_.log->append(message);
    new_messages_.push_back(message);
    state().streaming_message = PartialMessage();
    MessageEndEvent end;
    end.message = std::move(message);
    if (auto rest = emit(std::move(end))) co_await std::move(*rest);
}

Task<void> RunCore::close_open_calls() {
    if (parts_.log->open_calls().empty()) co_return;
    const std::vector<ToolCall> open = parts_.log->open_calls();
    const SharedString caller = parts_.log->open_calls_run_id();
    for (const ToolCall& call : open) {
        Message result = interrupted_tool_result(call, caller, wall_seconds());
        co_await announce(std::move(result));
    }
}

Task<void> RunCore::take_in(std::vector<Input> inputs, bool steering) {
    std::size_t next = 0;
    std::exception_ptr failure;
    try {
        for (; next < inputs.size(); ++next) {
            const Input& input = inputs[next];
            if (input.identified) {
                const std::optional<Message> known = co_await parts_.log->find(input.message.id());
                if (known) {
                    input.mark(ReceiptState::committed);
                    continue;
                }
            }
            const std::size_t before = state().messages.size();
            try {
                co_await announce(input.message);
            } catch (...) {
                // Committed before a listener of its message_end threw: it must not come again.
                const bool committed = state().messages.size() > before &&
                                       state().messages.back().id() == input.message.id();
                if (committed) {
                    input.mark(ReceiptState::committed);
                    ++next;
                }
                throw;
            }
            input.mark(ReceiptState::committed);
        }
    } catch (...) {
        failure = std::current_exception();
    }
    if (!failure) co_return;
    std::vector<Input> rest(
        std::make_move_iterator(inputs.begin() + static_cast<std::ptrdiff_t>(next)),
        std::make_move_iterator(inputs.end()));
    // A prompt has no receipt: whoever awaits it gets the failure and may prompt again.
    std::erase_if(rest, [](const Input& input) { return !input.receipt; });
    if (steering) {
        parts_.inputs->put_back_steering(std::move(rest));
    } else {
        parts_.inputs->put_back_follow_ups(std::move(rest));
    }
    std::rethrow_exception(failure);
}

Task<void> RunCore::notice(Notice notice) {
    NoticeEvent event;
    event.notice = std::move(notice);
    if (auto rest = emit(std::move(event))) co_await std::move(*rest);
}

HookContext RunCore::hook_context() {
    return HookContext{state().system_prompt, state().messages, state().extra, event_.run->run_id,
                       event_.run->thread_id, event_.turn,      stop_,         parts_.runtime};
}

}  // namespace cubepi::detail
