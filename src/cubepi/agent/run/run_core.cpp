#include <cubepi/agent/run/run_core.hpp>

#include <algorithm>
#include <chrono>
#include <iterator>

#include <cubepi/agent/run/prompt_settings.hpp>
#include <cubepi/agent/run/prompt_work.hpp>
#include <cubepi/agent/run/tool_output.hpp>
#include <cubepi/agent/transcript.hpp>
#include <cubepi/core/detail/scope_core.hpp>
#include <cubepi/core/support/error_with_text.hpp>
#include <cubepi/provider/cost.hpp>

namespace cubepi::detail {

namespace {

RunInfo info_of(const RunParts& parts, const SharedString& run_id, RunOrigin origin) {
    RunInfo info;
    info.run_id = run_id;
    info.attempt_id = parts.runtime->ids->next();
    info.thread_id = parts.log->thread_id();
    info.origin = std::move(origin);
    info.created = parts.runtime->clock->now();
    info.created_wall = parts.runtime->clock->wall();
    return info;
}

/// Returns the hooks that decide about the calls of sub-agents; null if there are none.
std::shared_ptr<const HookSet> hooks_about_calls(const HookSet& all) {
    if (!all.before_tool_call) return nullptr;
    auto hooks = std::make_shared<HookSet>();
    hooks->before_tool_call = all.before_tool_call;
    return hooks;
}

/// Returns the sum in USD; empty if one of the two is unknown.
std::optional<double> sum_of(std::optional<double> one, std::optional<double> other) {
    if (!one || !other) return std::nullopt;
    return *one + *other;
}

}  // namespace

std::string HookFailed::text() const {
    return "hook " + std::string(hook) + " failed: " + exception_text(cause);
}

RunCore::RunCore(const RunParts& parts, SharedString run_id, std::stop_token stop, RunOrigin origin,
                 std::shared_ptr<RunAccount> budget)
    : parts_(parts),
      run_id_(std::move(run_id)),
      stop_(std::move(stop)),
      account_(std::make_shared<RunAccount>(info_of(parts, run_id_, std::move(origin)),
                                            std::move(budget), parts.channel,
                                            hooks_about_calls(*parts.hooks))),
      repeated_calls_(parts.limits.max_repeated_calls) {
    account_->set_max_spend(parts.limits.max_spend);
    event_.run = std::shared_ptr<const RunInfo>(account_, &account_->info());
}

ToolList RunCore::added_tools() const {
    return parts_.takes_added_tools ? account_->added_tools() : ToolList();
}

ToolList RunCore::begin_call(const BoundModel& model) {
    ToolList own = answer_task_ ? answer_task_->begin_call(model) : parts_.tools;
    // Hidden ones change no request; calls find them in the account.
    std::vector<AgentTool> added;
    const ToolList all_added = added_tools();
    for (const AgentTool& tool : all_added) {
        if (tool.expose_to_model && !own.find(tool.name)) added.push_back(tool);
    }
    if (added.empty()) return own;
    // An unchanged list is the same object, so that it is not compared tool by tool.
    if (added.size() == added_tools_ && own.definitions() == own_tools_.definitions())
        return all_tools_;
    added_tools_ = added.size();
    std::vector<AgentTool> all(own.begin(), own.end());
    all.insert(all.end(), added.begin(), added.end());
    all_tools_ = ToolList(std::move(all));
    own_tools_ = std::move(own);
    return all_tools_;
}

void RunCore::start_with(const PriorSpending& spending) {
    turns_before_ = static_cast<std::uint32_t>(spending.turns);
    prior_ = {spending.usage, spending.cost};
    account_->set_earlier_spending(prior_);
}

void RunCore::continue_with(std::optional<double> cost, std::optional<double> in_history) {
    earlier_cost_ = cost;
    stored_cost_ = in_history;
    if (cost && in_history) stored_cost_ = std::min(*cost, *in_history);
    account_->set_earlier_spending({prior_.usage, sum_of(prior_.cost, cost)});
}

Spending RunCore::spending() const {
    Spending sum = account_->own_spending();
    sum.usage += prior_.usage;
    sum.cost = sum_of(prior_.cost, sum.cost);
    return sum;
}

std::optional<double> RunCore::cost_of_attempts() const {
    return sum_of(earlier_cost_, account_->own_spending().cost);
}

std::optional<double> RunCore::count(const AssistantMessage& answer, const Model& asked,
                                     std::optional<double> reserved) {
    // An answer that failed before any usage was reported is not billed. Whether that holds without a price is unknown.
    const bool failed = answer.stop_reason == stop_reason::error;
    if (failed && !answer.usage && price_of(asked)) return 0.0;
    std::optional<double> cost = cost_of(answer, asked);
    const bool aborted = answer.stop_reason == stop_reason::aborted;
    if (!cost && aborted) cost = reserved;
    account_->count(answer.usage.value_or(Usage()), cost);
    return cost;
}

double RunCore::wall_seconds() const {
    const auto since_epoch = runtime().clock->wall().time_since_epoch();
    return std::chrono::duration<double>(since_epoch).count();
}

void RunCore::note(const ToolExecutionStartEvent& event) {
    std::vector<SharedString>& pending = state().pending_tool_calls;
    const auto less = [](const SharedString& a, const SharedString& b) {
        return a.str() < b.str();
    };
    pending.insert(std::upper_bound(pending.begin(), pending.end(), event.tool_call_id, less),
                   event.tool_call_id);
}

void RunCore::note(const ToolExecutionEndEvent& event) {
    std::vector<SharedString>& pending = state().pending_tool_calls;
    const auto found = std::find(pending.begin(), pending.end(), event.tool_call_id);
    if (found != pending.end()) pending.erase(found);
    if (pending.empty()) pending = std::vector<SharedString>();
}

void RunCore::note(const TurnEndEvent& event) {
    const AssistantMessage* message = event.message.assistant();
    if (message && !message->error_message.empty()) {
        state().error_message = message->error_message;
    }
}

MaybeTask<> RunCore::deliver_update(StreamEvent&& event) {
    const SerialSection here(parts_.serial);
    state().streaming_message = event.partial;
    auto* last = std::get_if<MessageUpdateEvent>(&event_.body);
    if (!last || parts_.hub->busy()) {
        MessageUpdateEvent update;
        update.stream_event = std::move(event);
        return deliver(std::move(update));
    }
    last->stream_event = std::move(event);
    event_.seq = ++seq_;
    return deliver_event();
}

/// A listener is busy with an event still: this one waits for its turn.
MaybeTask<> RunCore::deliver_later(AgentEvent::Body body) {
    invalidate_timestamp();
    AgentEvent event;
    event.body = std::move(body);
    event.run = event_.run;
    event.turn = event_.turn;
    event.seq = seq_;
    event.timestamp = runtime().clock->now();
    return deliver_in_turn(std::move(event), parts_.hub->queue_up());
}

Task<void> RunCore::deliver_in_turn(AgentEvent event, EventHub::Turn turn) {
    co_await parts_.hub->wait_turn(turn);
    MaybeTask<> delivery;
    {
        const SerialSection here(parts_.serial);
        delivery = parts_.hub->deliver(event, stop_);
    }
    if (delivery.is_pending()) co_await std::move(delivery).task();
}

Message RunCore::stamped(Message message) const {
    if (message.id().empty()) message = message.with_id(runtime().ids->next());
    if (message.run_id().empty()) message = message.with_run_id(run_id_);
    return message;
}

/// Records the cost of a run that has a limit with its messages, so that the limit holds after a kill (D222): that of answers, and of
/// what tools and hooks have charged.
Message RunCore::with_cost(Message message) {
    if (!account_->has_limit() || !stored_cost_) return message;
    const std::optional<double> all = cost_of_attempts();
    const std::optional<double> before = std::exchange(stored_cost_, all);
    if (!all) return with_recorded_cost(message, std::nullopt);
    const double added = std::max(0.0, *all - *before);
    return added > 0 || message.assistant() ? with_recorded_cost(message, added) : message;
}

Task<void> RunCore::announce(Message message) {
    message = stamped(std::move(message));
    // Only the results of a call may follow it (D1).
    if (message.role() != Role::tool_result && has_open_calls()) {
        co_await close_open_calls();
    }
    MessageStartEvent start;
    start.message = message;
    MaybeTask<> delivery = deliver(std::move(start));
    if (delivery.is_pending()) co_await std::move(delivery).task();
    co_await finish(std::move(message));
}

Task<void> RunCore::finish(Message message) {
    message = stamped(std::move(message));
    if (parts_.log->persistent()) {
        message = with_cost(std::move(message));
        co_await parts_.log->append(message);
        invalidate_timestamp();
    } else {
        const SerialSection here(parts_.serial);
        parts_.log->append_now(message);
    }
    new_messages_.push_back(message);
    state().streaming_message = PartialMessage();
    MessageEndEvent end;
    end.message = std::move(message);
    MaybeTask<> delivery = deliver(std::move(end));
    if (delivery.is_pending()) co_await std::move(delivery).task();
}

Task<void> RunCore::discard(const Message& message) {
    AssistantMessage answer = *message.assistant();
    for (std::size_t i = answer.content.size(); i > 0; --i) {
        const auto at = answer.content.begin() + static_cast<std::ptrdiff_t>(i - 1);
        if (std::holds_alternative<ToolCall>(*at)) answer.content.erase(at);
    }
    state().streaming_message = PartialMessage();
    MessageEndEvent end;
    end.message = Message(std::move(answer));
    return emit(std::move(end));
}

Task<void> RunCore::close_open_calls() {
    const std::vector<ToolCall> open = parts_.log->open_calls();
    const SharedString caller = parts_.log->open_calls_run_id();
    for (const ToolCall& call : open) {
        Message result = interrupted_tool_result(call, caller, wall_seconds());
        co_await announce(std::move(result));
    }
    if (!open.empty() && !caller.empty()) co_await parts_.log->remove_answers(caller.str());
}

void RunCore::put_back(std::vector<Input> inputs) {
    // A prompt has no receipt: its caller gets the failure and may prompt again.
    std::erase_if(inputs, [](const Input& input) { return !input.receipt; });
    parts_.inputs->put_back(std::move(inputs));
}

Task<void> RunCore::take_in(std::vector<Input> inputs) {
    std::size_t next = 0;
    std::exception_ptr failure;
    try {
        for (; next < inputs.size(); ++next) {
            const Input& input = inputs[next];
            if (input.identified) {
                const std::optional<Message> known = co_await parts_.log->find(input.message.id());
                invalidate_timestamp();
                if (known) {
                    input.mark(ReceiptState::committed);
                    continue;
                }
            }
            const std::size_t before = state().messages.size();
            try {
                Message clean = sanitized(input.message);
                co_await announce(std::move(clean));
            } catch (...) {
                // Committed before a listener of its message_end threw: it must not be added again.
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
    put_back(std::move(rest));
    std::rethrow_exception(failure);
}

Task<void> RunCore::notice(Notice notice) {
    log_notice(parts_.runtime->log, notice, run_id_);
    NoticeEvent event;
    event.notice = std::move(notice);
    return emit(std::move(event));
}

void RunCore::throw_hook_failure(std::string_view name, const std::exception_ptr& failure) const {
    if (stopped() && is_cancellation(failure)) std::rethrow_exception(failure);
    throw HookFailed{name, failure};
}

Task<void> RunCore::report_replaced(std::vector<ReplacedHook> replaced) {
    for (const ReplacedHook& one : replaced) {
        co_await notice(one.notice());
    }
}

HookContext RunCore::hook_context() {
    return HookContext{parts_.system_prompt,
                       state().messages,
                       state().extra,
                       event_.run->run_id,
                       event_.run->thread_id,
                       event_.turn,
                       stop_,
                       parts_.runtime,
                       account_,
                       request_};
}

bool has_failed(const AssistantMessage& answer) {
    return answer.stop_reason == stop_reason::error || answer.stop_reason == stop_reason::aborted;
}

Message failure_message(const RunCore& core, const std::string& text, bool aborted) {
    AssistantMessage message;
    message.content.emplace_back(TextContent{});
    message.id = core.runtime().ids->next();
    message.stop_reason = stop_reason::shared(aborted ? stop_reason::aborted : stop_reason::error);
    message.error_message = text;
    message.timestamp = core.wall_seconds();
    message.run_id = core.run_id();
    return message;
}

std::shared_ptr<const Error> error_of(const AssistantMessage& answer) {
    if (answer.stop_reason == stop_reason::aborted) {
        return std::make_shared<const Error>(ErrorCode::cancelled, std::string(aborted_text));
    }
    const std::string text =
        answer.error_message.empty() ? "the model's answer failed" : answer.error_message.str();
    if (!answer.error) return std::make_shared<const Error>(ErrorCode::provider, text);
    const ErrorInfo& info = *answer.error;
    if (info.code == ErrorCode::limit && info.provider_code == max_answer_bytes_name) {
        return std::make_shared<const LimitReachedError>(std::string(max_answer_bytes_name), text);
    }
    try {
        throw_provider_error(info, text);
    } catch (const ProviderError&) {
        return error_with_text(std::current_exception(), text);
    }
}

Task<void> abort_when_cancelled(Task<void> run, std::function<void()> abort) {
    const auto before = co_await this_cancellation;
    if (!before.slot().is_connected()) {
        co_await std::move(run);
        co_return;
    }
    const Executor executor = co_await this_executor;
    std::exception_ptr failure;
    ScopeCore scope(executor, false);
    scope.spawn(std::move(run), &failure);
    if (scope.live() > 0) {
        const bool throws = co_await throws_when_cancelled;
        co_await throw_when_cancelled(false);
        co_await scope.join_failure(std::move(abort));
        co_await throw_when_cancelled(throws);
    }
    const auto after = co_await this_cancellation;
    if (after.cancelled() != boost::asio::cancellation_type::none) throw_cancelled();
    if (failure) std::rethrow_exception(failure);
}

}  // namespace cubepi::detail
