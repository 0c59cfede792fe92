#include <cubepi/provider/fallback.hpp>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <exception>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include <cubepi/core/cancellation.hpp>
#include <cubepi/core/clock.hpp>
#include <cubepi/core/error.hpp>
#include <cubepi/provider/error_classification.hpp>
#include <cubepi/provider/message_assembler.hpp>
#include <cubepi/provider/wire/user_hook.hpp>
#include <cubepi/provider/wire/wire_protocol.hpp>

namespace cubepi {

namespace {

using detail::EventQueue;
using detail::is_hook_error;

/// Runs of which a chain remembers the model. The oldest is forgotten first; it then starts at the first model again.
constexpr std::size_t remembered_runs = 10'000;

constexpr std::chrono::hours longest_server_delay(1);

std::size_t bytes_of(const Message& message) {
    std::size_t bytes = 0;
    const auto add = [&bytes](const auto& content) {
        for (const auto& block : content) {
            if (const auto* text = std::get_if<TextContent>(&block)) bytes += text->text.size();
        }
    };
    if (const UserMessage* user = message.user()) add(user->content);
    if (const ToolResultMessage* result = message.tool_result()) add(result->content);
    if (const AssistantMessage* answer = message.assistant()) {
        add(answer->content);
        for (const ToolCall* call : answer->tool_calls())
            bytes += call->name.size() + boost::json::serialize(call->arguments).size();
    }
    return bytes;
}

/// Estimates the tokens of the text of the request as a quarter of its bytes.
std::int64_t estimate_request_tokens(const ModelRequest& request) {
    std::size_t bytes = request.system_prompt.size();
    for (const Message& message : request.messages) bytes += bytes_of(message);
    if (request.tools) {
        for (const ToolDefinition& tool : *request.tools) {
            bytes += tool.name.size() + tool.description.size();
            if (tool.parameters) bytes += boost::json::serialize(*tool.parameters).size();
        }
    }
    return static_cast<std::int64_t>(bytes / 4);
}

/// "provider/model"
std::string name_of(const Model& model) {
    return model.provider_id.empty() ? model.id : model.provider_id + "/" + model.id;
}

AssistantMessage head_of(const ModelRequest& request) {
    AssistantMessage head;
    head.id = request.options.message_id();
    head.provider_id = request.model.provider_id;
    head.model_id = request.model.id;
    const auto wall = request.options.runtime()->clock->wall().time_since_epoch();
    head.timestamp = std::chrono::duration<double>(wall).count();
    return head;
}

JsonObject json_of(const Model& model) {
    JsonObject object;
    object["provider_id"] = model.provider_id;
    object["model_id"] = model.id;
    return object;
}

Notice notice_of(const Failover& failover) {
    Notice notice;
    notice.code = "failover";
    notice.text = name_of(failover.from);
    notice.text += failover.cause == Failover::Cause::failed
                       ? " " + plain_failure(failover.error, failover.reason)
                       : ": " + failover.reason;
    notice.text += failover.to ? "; continuing with " + name_of(*failover.to)
                               : std::string("; no model is left");
    notice.details["cause"] = to_string(failover.cause);
    notice.details["from"] = json_of(failover.from);
    notice.details["to"] = failover.to ? Json(json_of(*failover.to)) : Json(nullptr);
    notice.details["reason"] = failover.reason;
    notice.details["error_type"] = failover.error.type;
    if (failover.error.status_code) notice.details["status_code"] = *failover.error.status_code;
    return notice;
}

/// Reads the notice of a repetition, which may come from a provider of the user.
ModelRetry retry_of(const Model& model, const Notice& notice) {
    ModelRetry retry;
    retry.model = model;
    retry.reason = notice.text;
    if (const Json* attempt = notice.details.if_contains("attempt"); attempt && attempt->is_int64())
        retry.attempt = static_cast<int>(attempt->get_int64());
    if (const Json* delay = notice.details.if_contains("delay_ms"); delay && delay->is_int64())
        retry.delay = std::chrono::milliseconds(delay->get_int64());
    return retry;
}

/// The common part of all failures, for code that branches on it.
ErrorInfo common_info(const std::vector<ErrorInfo>& all) {
    const bool same = std::all_of(all.begin(), all.end(), [&](const ErrorInfo& info) {
        return info.code == all.front().code;
    });
    ErrorInfo common;
    if (same) {
        common = all.back();
    } else {
        common.code = ErrorCode::unavailable;
        common.type = error_type_of(common.code);
    }
    common.retry_after.reset();
    // The window of one model is not that of the others.
    if (all.size() > 1) common.context_window.reset();
    // The error text lists the messages of all models. Of these, notices have reported the earlier ones.
    if (!same)
        common.message =
            "no model answered; the last one " + plain_failure(all.back(), all.back().message);
    for (const ErrorInfo& info : all) {
        if (!info.retry_after) continue;
        common.retry_after =
            std::min(*info.retry_after, common.retry_after.value_or(*info.retry_after));
    }
    return common;
}

/// State shared by the runs over one chain. Any thread may call any member.
class FallbackChain {
public:
    FallbackChain(std::vector<BoundModel> legs, FallbackOptions options);

    const std::vector<BoundModel>& legs() const noexcept { return legs_; }
    const FallbackOptions& options() const noexcept { return options_; }
    bool triggers(const ErrorInfo& error) const;

    /// The leg that worked for this run, if one did.
    std::optional<std::size_t> leg_of(const std::string& run_id) const;
    void worked(std::size_t leg, const std::string& run_id);
    void failed(std::size_t leg, const ErrorInfo& error, const std::string& text,
                Clock::time_point now);

    struct CoolDown {
        Clock::time_point until = {};
        std::string why = {};
        ErrorInfo error = {};
    };
    /// Empty if the leg is not cooling down.
    std::optional<CoolDown> cooling(std::size_t leg, Clock::time_point now) const;

private:
    const std::vector<BoundModel> legs_;
    const FallbackOptions options_;
    mutable std::mutex mutex_;
    std::vector<CoolDown> cool_downs_;
    std::unordered_map<std::string, std::size_t> leg_of_run_;
    std::deque<std::string> runs_;  ///< keys of leg_of_run_, oldest first
};

FallbackChain::FallbackChain(std::vector<BoundModel> legs, FallbackOptions options)
    : legs_(std::move(legs)), options_(std::move(options)), cool_downs_(legs_.size()) {}

bool FallbackChain::triggers(const ErrorInfo& error) const {
    const std::set<ErrorCode>& set = options_.trigger_errors;
    if (error.code == ErrorCode::cancelled || is_hook_error(error)) return false;
    if (set.contains(error.code)) return true;
    return set.contains(ErrorCode::unavailable) &&
           error_type_of(error.code) == error_type_of(ErrorCode::unavailable);
}

std::optional<std::size_t> FallbackChain::leg_of(const std::string& run_id) const {
    if (run_id.empty()) return std::nullopt;
    const std::lock_guard lock(mutex_);
    const auto known = leg_of_run_.find(run_id);
    if (known == leg_of_run_.end()) return std::nullopt;
    return known->second;
}

void FallbackChain::worked(std::size_t leg, const std::string& run_id) {
    const std::lock_guard lock(mutex_);
    cool_downs_[leg] = CoolDown();
    if (run_id.empty()) return;
    const auto known = leg_of_run_.find(run_id);
    if (known != leg_of_run_.end()) {
        known->second = leg;
        return;
    }
    if (runs_.size() >= remembered_runs) {
        leg_of_run_.erase(runs_.front());
        runs_.pop_front();
    }
    leg_of_run_.emplace(run_id, leg);
    runs_.push_back(run_id);
}

void FallbackChain::failed(std::size_t leg, const ErrorInfo& error, const std::string& text,
                           Clock::time_point now) {
    if (options_.cool_down <= std::chrono::nanoseconds::zero()) return;
    // Another prompt may fit, and an error that is not a trigger says nothing about the health of the endpoint.
    if (error.code == ErrorCode::context_length || !triggers(error)) return;
    std::chrono::nanoseconds time = options_.cool_down;
    if (error.retry_after) {
        const std::chrono::duration<double> asked(std::min(
            *error.retry_after, std::chrono::duration<double>(longest_server_delay).count()));
        time = std::max(time, std::chrono::duration_cast<std::chrono::nanoseconds>(asked));
    }
    const std::lock_guard lock(mutex_);
    CoolDown& cool_down = cool_downs_[leg];
    cool_down.until = std::max(cool_down.until, deadline_after(now, time));
    cool_down.why = plain_failure(error, text);
    cool_down.error = error;
}

std::optional<FallbackChain::CoolDown> FallbackChain::cooling(std::size_t leg,
                                                              Clock::time_point now) const {
    const std::lock_guard lock(mutex_);
    const CoolDown& cool_down = cool_downs_[leg];
    if (cool_down.until <= now) return std::nullopt;
    return cool_down;
}

/// One call over a chain: calls one leg after the other until one of them produces content.
class FallbackSource final : public StreamSource {
public:
    FallbackSource(std::shared_ptr<FallbackChain> chain, ModelRequest request);

    std::optional<StreamEvent> ready() override;
    Task<StreamEvent> next() override;

private:
    /// A leg that failed in this call or was skipped permanently.
    struct Failed {
        std::size_t leg = 0;
        std::string text = {};
        ErrorInfo error = {};
    };

    struct Unreported {
        std::size_t leg = 0;
        Failover failover = {};
    };

    bool stopped() const noexcept { return request_.options.stop_token().stop_requested(); }
    Clock::time_point now() const { return request_.options.runtime()->clock->now(); }

    Task<> next_leg();
    void choose();
    std::optional<std::size_t> take_candidate();
    bool too_small(std::size_t leg);
    void pass_over(std::size_t leg, Failover::Cause cause, std::string reason, ErrorInfo error);
    template <class Observer, class Seen>
    Task<> notify(Observer observer, Seen seen, const char* name);
    void ask(std::size_t leg);

    void take(StreamEvent event);
    void take_failure(StreamEvent event);
    void accept_leg();
    void end_aborted();
    void end_exhausted();
    StreamEvent with_history(StreamEvent event) const;
    std::string list_of_failures() const;

    std::shared_ptr<FallbackChain> chain_;
    ModelRequest request_;
    EventQueue queue_;
    std::optional<MessageStream> stream_;  ///< of the leg that is being called
    std::size_t leg_ = 0;
    std::uint32_t attempts_ = 0;        ///< models called
    std::optional<ModelRetry> retry_;   ///< on_retry is to be called with it
    std::optional<StreamEvent> start_;  ///< held back until the leg has produced content

    std::vector<std::size_t> order_;     ///< remaining legs, last one first
    std::vector<std::size_t> deferred_;  ///< those in their cool-down
    std::vector<Failed> failures_;
    std::vector<Unreported> unreported_;
    std::optional<std::size_t> chosen_;
    std::optional<StreamEvent> last_failure_;
    std::int64_t largest_refused_ =
        0;  ///< window of a leg whose endpoint rejected the prompt as too long
    std::optional<std::int64_t> tokens_;
    std::optional<std::size_t> own_;  ///< the leg that worked for this run before
    bool begun_ = false;
    bool has_chosen_ = false;
    bool is_accepted_ = false;
    bool over_ = false;
};

FallbackSource::FallbackSource(std::shared_ptr<FallbackChain> chain, ModelRequest request)
    : chain_(std::move(chain)), request_(std::move(request)) {}

std::optional<StreamEvent> FallbackSource::ready() {
    while (queue_.empty()) {
        if (over_ || !stream_ || retry_) return std::nullopt;
        std::optional<StreamEvent> event = stream_->ready();
        if (!event) return std::nullopt;
        take(std::move(*event));
    }
    return queue_.pop();
}

Task<StreamEvent> FallbackSource::next() {
    for (;;) {
        std::optional<StreamEvent> event = ready();
        if (event) co_return std::move(*event);
        if (retry_) {
            ModelRetry retry = std::move(*retry_);
            retry_.reset();
            co_await notify(*chain_->options().on_retry, std::move(retry), "on_retry");
            continue;
        }
        if (!stream_) {
            co_await next_leg();
            continue;
        }
        std::optional<StreamEvent> arrived = co_await stream_->next();
        if (arrived) {
            take(std::move(*arrived));
        } else {
            ErrorInfo info;
            info.code = ErrorCode::protocol;
            info.type = error_type_of(info.code);
            MessageAssembler assembler(head_of(request_));
            take(assembler.error("the provider's stream ended without done or error", info));
        }
    }
}

// Which leg is next.

Task<> FallbackSource::next_leg() {
    if (!has_chosen_ && !stopped()) choose();
    while (!unreported_.empty() && !stopped()) {
        Failover failover = std::move(unreported_.front().failover);
        unreported_.erase(unreported_.begin());
        queue_.push(MessageAssembler::notice(notice_of(failover)));
        const auto& observer = chain_->options().on_failover;
        if (observer) co_await notify(*observer, std::move(failover), "on_failover");
    }
    // The consumer sees the notices before anything is sent, and may abort.
    if (!queue_.empty()) co_return;
    if (stopped()) {
        end_aborted();
    } else if (chosen_) {
        has_chosen_ = false;
        ask(*chosen_);
    } else {
        end_exhausted();
    }
}

void FallbackSource::choose() {
    const std::size_t count = chain_->legs().size();
    if (!begun_) {
        begun_ = true;
        if (chain_->options().sticky_within_run)
            own_ = chain_->leg_of(request_.options.run_id().str());
        const std::size_t first = own_.value_or(0);
        for (std::size_t i = count; i-- > 0;) order_.push_back((first + i) % count);
    }
    chosen_ = take_candidate();
    has_chosen_ = true;
    if (!chosen_) return;
    // A model that is asked in its cool-down after all was not passed over.
    std::erase_if(unreported_, [this](const Unreported& unreported) {
        return unreported.leg == *chosen_ &&
               unreported.failover.cause == Failover::Cause::cooling_down;
    });
    for (Unreported& unreported : unreported_)
        unreported.failover.to = chain_->legs()[*chosen_].spec();
}

std::optional<std::size_t> FallbackSource::take_candidate() {
    while (!order_.empty()) {
        const std::size_t leg = order_.back();
        order_.pop_back();
        if (too_small(leg)) continue;
        const std::optional<FallbackChain::CoolDown> rest = chain_->cooling(leg, now());
        // The model that worked for this run is asked again, whatever other runs have seen of it.
        if (!rest || leg == own_) return leg;
        deferred_.push_back(leg);
        const auto left = std::chrono::ceil<std::chrono::seconds>(rest->until - now());
        pass_over(leg, Failover::Cause::cooling_down,
                  "not called for another " + std::to_string(left.count()) + " s, because it " +
                      rest->why,
                  rest->error);
    }
    if (deferred_.empty()) return std::nullopt;
    // Better a model that failed a moment ago than none: the one whose cool-down ends first.
    const auto earliest =
        std::min_element(deferred_.begin(), deferred_.end(), [&](std::size_t a, std::size_t b) {
            const auto end = [&](std::size_t leg) {
                const auto rest = chain_->cooling(leg, now());
                return rest ? rest->until : Clock::time_point::min();
            };
            return end(a) < end(b);
        });
    const std::size_t leg = *earliest;
    deferred_.erase(earliest);
    return leg;
}

/// Passes a leg over whose window does not take the request.
bool FallbackSource::too_small(std::size_t leg) {
    const std::optional<std::int64_t>& window = chain_->legs()[leg].spec().context_window;
    if (!window) return false;
    if (!tokens_) tokens_ = estimate_request_tokens(request_);
    const bool refused = *window <= largest_refused_;
    if (*tokens_ <= *window && !refused) return false;
    ErrorInfo info;
    info.code = ErrorCode::context_length;
    info.type = error_type_of(info.code);
    info.tokens_in = tokens_;
    info.context_window = window;
    std::string reason =
        "its context window of " + std::to_string(*window) + " tokens is too small";
    reason +=
        refused ? " (a larger one was)" : " for the request of about " + std::to_string(*tokens_);
    Failed failed;
    failed.leg = leg;
    failed.text = reason;
    failed.error = info;
    failures_.push_back(std::move(failed));
    pass_over(leg, Failover::Cause::context_window, std::move(reason), std::move(info));
    return true;
}

void FallbackSource::pass_over(std::size_t leg, Failover::Cause cause, std::string reason,
                               ErrorInfo error) {
    Unreported unreported;
    unreported.leg = leg;
    unreported.failover.cause = cause;
    unreported.failover.from = chain_->legs()[leg].spec();
    unreported.failover.reason = std::move(reason);
    unreported.failover.error = std::move(error);
    unreported_.push_back(std::move(unreported));
}

template <class Observer, class Seen>
Task<> FallbackSource::notify(Observer observer, Seen seen, const char* name) {
    std::exception_ptr failure;
    try {
        MaybeTask<> outcome = observer(seen);
        if (outcome.is_pending()) {
            std::stop_token token = request_.options.stop_token();
            Task<> notifying = std::move(outcome).task();
            co_await cancel_on(std::move(token), std::move(notifying));
        }
    } catch (...) {
        failure = std::current_exception();
    }
    if (!failure) co_return;
    if (is_cancellation(failure)) {
        if (stopped()) co_return;
        std::rethrow_exception(failure);
    }
    Notice notice;
    notice.code = "observer_failed";
    notice.text = "The " + std::string(name) + " callback threw: " + exception_text(failure);
    queue_.push(MessageAssembler::notice(std::move(notice)));
}

void FallbackSource::ask(std::size_t leg) {
    leg_ = leg;
    const BoundModel& bound = chain_->legs()[leg];
    ModelRequest request = request_;
    // A caller may have changed the model that it was given, which is the first one.
    const bool callers = leg == 0 && request.model.id == bound.spec().id;
    if (!callers) {
        request.model = bound.spec();
        // A limit of the answer that the caller has changed is for each model: it may be the last money of a run (D120).
        const std::optional<std::int64_t> limit = request_.model.max_tokens;
        if (limit && limit != chain_->legs().front().spec().max_tokens)
            request.model.max_tokens = std::min(*limit, request.model.max_tokens.value_or(*limit));
    }
    request.options = std::move(request.options).attempt(++attempts_);
    try {
        stream_.emplace(bound.provider()->call(std::move(request)));
    } catch (...) {
        const std::exception_ptr failure = std::current_exception();
        MessageAssembler assembler(head_of(request_));
        take(assembler.error(exception_text(failure), classify_exception(failure)));
    }
}

// The events of a leg.

void FallbackSource::take(StreamEvent event) {
    switch (event.type) {
        case StreamEventType::notice:
            if (chain_->options().on_retry && event.notice->code == "retry")
                retry_ = retry_of(chain_->legs()[leg_].spec(), *event.notice);
            queue_.push(std::move(event));
            break;
        case StreamEventType::start: start_ = std::move(event); break;
        case StreamEventType::error: take_failure(std::move(event)); break;
        case StreamEventType::done:
            accept_leg();
            over_ = true;
            queue_.push(std::move(event));
            break;
        default: accept_leg(); queue_.push(std::move(event));
    }
}

/// From here on it is this leg's answer, whatever comes (D15).
void FallbackSource::accept_leg() {
    if (is_accepted_) return;
    is_accepted_ = true;
    chain_->worked(leg_, request_.options.run_id().str());
    if (start_) queue_.push(std::move(*start_));
    start_.reset();
}

void FallbackSource::take_failure(StreamEvent event) {
    const Message message = event.partial.message();
    const AssistantMessage& answer = *message.assistant();
    const bool aborted = answer.stop_reason == stop_reason::aborted;
    const ErrorInfo error = answer.error ? *answer.error : ErrorInfo();
    if (!aborted) chain_->failed(leg_, error, answer.error_message.str(), now());
    if (is_accepted_ || aborted || !chain_->triggers(error)) {
        over_ = true;
        if (start_) queue_.push(std::move(*start_));
        start_.reset();
        queue_.push(is_accepted_ || aborted ? std::move(event) : with_history(std::move(event)));
        return;
    }
    if (error.code == ErrorCode::context_length) {
        const auto& window = chain_->legs()[leg_].spec().context_window;
        largest_refused_ = std::max(largest_refused_, window.value_or(0));
    }
    Failed failed;
    failed.leg = leg_;
    failed.text = answer.error_message.str();
    failed.error = error;
    pass_over(leg_, Failover::Cause::failed, failed.text, error);
    failures_.push_back(std::move(failed));
    last_failure_ = std::move(event);
    start_.reset();
    stream_.reset();
}

// The end.

void FallbackSource::end_aborted() {
    over_ = true;
    MessageAssembler assembler(head_of(request_));
    queue_.push(assembler.aborted());
}

std::string FallbackSource::list_of_failures() const {
    std::string list;
    for (const Failed& failed : failures_) {
        list += "\n- ";
        if (!failed.text.starts_with('['))
            list += name_of(chain_->legs()[failed.leg].spec()) + ": ";
        list += failed.text;
    }
    return list;
}

/// An error that ends the call although there are models left, with what went before.
StreamEvent FallbackSource::with_history(StreamEvent event) const {
    if (failures_.empty()) return event;
    AssistantMessage message = event.partial.get();
    const std::string earlier = "\nBefore that:" + list_of_failures();
    message.error_message = message.error_message.str() + earlier;
    return MessageAssembler::finish(StreamEventType::error, std::move(message));
}

void FallbackSource::end_exhausted() {
    over_ = true;
    if (chain_->legs().size() == 1 && last_failure_) {
        queue_.push(std::move(*last_failure_));
        return;
    }
    AssistantMessage message = last_failure_ ? last_failure_->partial.get() : head_of(request_);
    message.stop_reason = stop_reason::shared(stop_reason::error);
    message.error_message = "No model of the fallback chain could answer:" + list_of_failures();
    std::vector<ErrorInfo> errors;
    for (const Failed& failed : failures_) errors.push_back(failed.error);
    message.error = SharedValue<ErrorInfo>(common_info(errors));
    queue_.push(MessageAssembler::finish(StreamEventType::error, std::move(message)));
}

class FallbackProvider final : public Provider {
public:
    FallbackProvider(std::vector<BoundModel> chain, FallbackOptions options)
        : chain_(std::make_shared<FallbackChain>(std::move(chain), std::move(options))) {}

    MessageStream stream(ModelRequest request) override {
        return MessageStream(std::make_unique<FallbackSource>(chain_, std::move(request)));
    }
    const std::string& provider_id() const noexcept override {
        return legs().front().provider()->provider_id();
    }
    std::vector<BoundModel> inner_models() const override { return legs(); }
    bool takes_response_format(const Model&) const override {
        return std::all_of(legs().begin(), legs().end(), [](const BoundModel& leg) {
            return leg.provider()->takes_response_format(leg.spec());
        });
    }
    const std::vector<BoundModel>& legs() const noexcept { return chain_->legs(); }

private:
    std::shared_ptr<FallbackChain> chain_;
};

std::shared_ptr<Provider> make_chain(std::vector<BoundModel> chain, FallbackOptions options) {
    if (chain.empty()) {
        throw Error(ErrorCode::invalid_argument,
                    "FallbackBoundModel: the chain is empty; give it at least one model");
    }
    for (const BoundModel& leg : chain) {
        if (leg) continue;
        throw Error(ErrorCode::invalid_argument,
                    "FallbackBoundModel: model '" + leg.spec().id +
                        "' has no provider: take it from one (provider.model(\"" + leg.spec().id +
                        "\"))");
    }
    return std::make_shared<FallbackProvider>(std::move(chain), std::move(options));
}

Model first_spec(const std::vector<BoundModel>& chain) {
    return chain.empty() ? Model() : chain.front().spec();
}

}  // namespace

std::string_view to_string(Failover::Cause cause) noexcept {
    switch (cause) {
        case Failover::Cause::failed: return "failed";
        case Failover::Cause::cooling_down: return "cooling_down";
        case Failover::Cause::context_window: return "context_window";
    }
    return "failed";
}

FallbackBoundModel::FallbackBoundModel(std::vector<BoundModel> chain, FallbackOptions options)
    : BoundModel([&chain, &options]() {
          Model first = first_spec(chain);
          return BoundModel(make_chain(std::move(chain), std::move(options)), std::move(first));
      }()) {}

const std::vector<BoundModel>& FallbackBoundModel::chain() const noexcept {
    return static_cast<const FallbackProvider&>(*provider()).legs();
}

}  // namespace cubepi
