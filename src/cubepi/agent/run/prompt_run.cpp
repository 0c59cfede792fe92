#include <cubepi/agent/run/prompt_run.hpp>

#include <algorithm>
#include <utility>

#include <cubepi/agent/claim_owner.hpp>
#include <cubepi/agent/run/run_core.hpp>
#include <cubepi/agent/run/thread_log.hpp>
#include <cubepi/core/cancellation.hpp>
#include <cubepi/core/outcome.hpp>

namespace cubepi::detail {

namespace {

LastOutcome last_outcome(RunOutcome outcome) noexcept {
    switch (outcome) {
        case RunOutcome::completed:
        case RunOutcome::limited: return LastOutcome::complete;
        case RunOutcome::suspended: return LastOutcome::suspended;
        case RunOutcome::aborted:
        case RunOutcome::failed: break;
    }
    return LastOutcome::abandoned;
}

void set_aborted(RunResult& result) {
    result.outcome = RunOutcome::aborted;
    result.failure = std::make_shared<const Error>(ErrorCode::cancelled, std::string(aborted_text));
}

RunParts parts_of(Agent::Impl& impl, const PromptScope* prompt) {
    RunParts parts = impl.parts();
    if (prompt) prompt->apply(parts);
    return parts;
}

/// The lease of a claim, which is the default of stores.
constexpr std::chrono::seconds lease(60);
constexpr std::chrono::seconds renewal_interval(20);
/// After a failed renewal: eight more attempts before the lease expires.
constexpr std::chrono::seconds retry_interval(5);

}  // namespace

bool is_claim_refusal(const std::exception_ptr& failure) {
    if (!failure) return false;
    try {
        std::rethrow_exception(failure);
    } catch (const RunAlreadyClaimedError&) {
        return true;
    } catch (const RunAlreadyCompletedError&) {
        return true;
    } catch (...) {
        return false;
    }
}

PromptRun::PromptRun(Agent::Impl& impl, SharedString run_id, std::stop_token token,
                     const PromptOptions& options)
    : impl_(impl),
      prompt_(PromptScope::enter(impl, options)),
      parts_(parts_of(impl, prompt_.get())),
      core_(parts_, std::move(run_id), std::move(token), options.origin(), options.budget()) {
    if (prompt_) core_.set_answer_task(prompt_->answer_task());
}

std::chrono::milliseconds PromptRun::max_duration() const {
    const std::chrono::milliseconds of_agent = parts_.limits.max_duration;
    return prompt_ ? prompt_->max_duration(of_agent, impl_.runtime->clock->now()) : of_agent;
}

Task<void> PromptRun::claim(ClaimKind kind) {
    RunStore* runs = impl_.log.runs();
    if (!runs) co_return;
    claim_ = std::make_unique<LeaseRenewer>(
        *runs, *impl_.runtime->clock, impl_.log.thread_id(), core_.run_id().str(),
        core_.info().attempt_id, [this](Notice notice) { return report(std::move(notice)); });
    Outcome<ClaimResult> claimed = co_await outcome_of(claim_->claim(kind));
    if (!claimed.ok()) claim_.reset();
    ClaimResult result = std::move(claimed).value();
    if (result.superseded)
        superseded_claim_ = std::make_unique<const ClaimResult>(std::move(result));
    impl_.log.set_claim(core_.run_id().str(), claim_->owner_id());
}

Task<void> PromptRun::release() {
    if (!claim_) co_return;
    impl_.log.set_claim({}, {});
    co_await claim_->release();
    claim_.reset();
}

/// Delivers a notice outside the loop. An exception of a listener is rethrown at the end of the run.
Task<void> PromptRun::report(Notice notice) {
    try {
        co_await core_.notice(std::move(notice));
    } catch (const ListenerFailed&) {
        listener_failure_ = impl_.hub.take_failure();
    }
}

/// Stores what is to be stored when the outcome is known (D19). A completed run is marked before agent_end.
Task<void> PromptRun::finish(RunOutcome outcome) {
    agent_destroyed_ = impl_.destroyed;
    if (agent_destroyed_ && outcome == RunOutcome::completed) outcome = RunOutcome::aborted;
    if (impl_.log.persistent()) {
        co_await store_outcome(outcome);
    } else {
        impl_.log.drop_nulls();
    }
    impl_.state.last_outcome = last_outcome(outcome);
}

Task<void> PromptRun::store_outcome(RunOutcome outcome) {
    if (claim_) co_await claim_->stop_renewing();
    if (claim_ && claim_->is_lost()) impl_.log.set_superseded();
    co_await impl_.log.save_extra();
    if (outcome == RunOutcome::suspended) {
        co_await release();
        impl_.state.active_run_id = {};
        co_return;
    }
    const bool complete = outcome == RunOutcome::completed || outcome == RunOutcome::limited;
    if (complete && claim_) {
        // If that fails, further appends are fenced as well.
        co_await claim_->complete();
        impl_.log.set_claim({}, {});
        claim_.reset();
    }
    // No other process continues it.
    if (!complete && parts_.channel && parts_.channel->is_durable() && !impl_.log.has_open_calls())
        co_await impl_.log.remove_answers(core_.run_id().str());
}

Task<void> PromptRun::announce_circumstances() {
    if (impl_.log.lost_persistence()) {
        impl_.log.forget_loss();
        Notice notice;
        notice.code = "no_persistence";
        notice.text =
            "Nothing is stored: a checkpointer needs a thread_id, and a thread_id a checkpointer.";
        co_await core_.notice(std::move(notice));
    }
    if (superseded_claim_) {
        Notice notice;
        notice.code = "claim_taken_over";
        const std::string& holder = superseded_claim_->superseded->description;
        notice.text =
            holder == current_process_owner().description
                ? "An earlier run of this conversation did not finish, because its store failed; "
                  "the conversation continues."
                : "An earlier run of this conversation did not finish: its process (" + holder +
                      ") has ended or does not respond. The conversation continues in this one.";
        notice.details["run_id"] = superseded_claim_->superseded_run_id;
        notice.details["owner"] = superseded_claim_->superseded->description;
        co_await core_.notice(std::move(notice));
    }
    if (impl_.own_settings) {
        auto replaced = std::exchange(impl_.own_settings->hooks.replaced, {});
        co_await core_.report_replaced(std::move(replaced));
    }
}

Task<RunResult> PromptRun::run(std::vector<Input> prompts,
                               std::optional<std::string> continued_input) {
    RunPlan plan;
    plan.prompts = std::move(prompts);
    plan.continued_input = std::move(continued_input);
    return run(std::move(plan));
}

Task<RunResult> PromptRun::continue_run(OpenCalls open_calls, std::string input_id) {
    RunPlan plan;
    plan.open_calls = std::move(open_calls);
    plan.continued_input = std::move(input_id);
    return run(std::move(plan));
}

Task<RunResult> PromptRun::run(RunPlan plan) {
    Executor executor;
    const std::chrono::milliseconds limit = max_duration();
    if (limit.count() != 0 || parts_.channel) {
        executor = co_await this_executor;
        std::function<void()> abort = [this] { impl_.input_queue.abort(); };
        duration_limit_.start(*impl_.runtime, executor, limit, std::move(abort));
    }
    plan.duration_limit = &duration_limit_;
    plan.store_outcome = [this](RunOutcome outcome) { return finish(outcome); };
    const bool replaced = !impl_.settings().hooks.replaced.empty();
    if (impl_.log.lost_persistence() || superseded_claim_ || replaced) {
        plan.opening = [this] { return announce_circumstances(); };
    }
    Task<RunResult> turns = parts_.channel ? run_connected(std::move(plan), std::move(executor))
                                           : run_turns(core_, std::move(plan));
    Outcome<RunResult> ended = co_await outcome_of(std::move(turns));
    RunResult result = std::move(ended).value();
    if (listener_failure_) std::rethrow_exception(listener_failure_);
    if (agent_destroyed_ && result.outcome == RunOutcome::completed) set_aborted(result);
    co_return result;
}

/// Runs the turns with the agent's channel connected.
Task<RunResult> PromptRun::run_connected(RunPlan plan, Executor executor) {
    const bool continued = plan.open_calls.has_value();
    const auto questions =
        std::make_shared<RunQuestions>(core_, *parts_.channel, std::move(executor), continued);
    questions->on_waiting = [this](bool waiting) { duration_limit_.set_waiting(waiting); };
    const ChannelConnection connection(parts_.channel, questions);
    core_.set_questions(questions.get());
    const QuestionsOfRun registered(*impl_.settings().active_questions, questions);
    RunResult result = co_await run_turns(core_, std::move(plan));
    co_return result;
}

Task<RunResult> PromptRun::abandon() {
    impl_.state.error_message = aborted_text;
    bool threw = false;
    try {
        co_await core_.emit(AgentStartEvent());
    } catch (const ListenerFailed&) {
        threw = true;
    }
    RunResult result;
    set_aborted(result);
    const Spending spending = core_.spending();
    result.usage = spending.usage;
    result.cost = spending.cost;
    AgentEndEvent end;
    end.outcome = result.outcome;
    end.error = result.failure;
    end.cost = 0.0;
    try {
        co_await core_.emit(std::move(end));
    } catch (const ListenerFailed&) {
        threw = true;
    }
    if (threw) std::rethrow_exception(impl_.hub.take_failure());
    result.run_id = core_.run_id().str();
    result.attempt_id = core_.info().attempt_id;
    co_return result;
}

// The settings of the prompt.

std::unique_ptr<PromptScope> PromptScope::enter(Agent::Impl& impl, const PromptOptions& options) {
    const std::shared_ptr<const PromptSettings>& settings = PromptAccess::settings(options);
    return settings ? std::make_unique<PromptScope>(impl, settings) : nullptr;
}

PromptScope::PromptScope(Agent::Impl& impl, std::shared_ptr<const PromptSettings> settings)
    : impl_(impl), settings_(std::move(settings)) {
    if (settings_->answer) {
        const BoundModel model =
            settings_->model ? settings_->model : BoundModel(impl.provider, impl.state.model);
        const ToolList& tools = settings_->tools ? *settings_->tools : impl.state.tools;
        const auto& reasoning = settings_->reasoning ? settings_->reasoning : impl.state.reasoning;
        answer_ = settings_->make_answer_task(*settings_, model, tools, reasoning);
    }
    if (settings_->stop_token.stop_possible()) {
        std::function<void()> abort = [&impl] { impl.input_queue.abort(); };
        forward_.emplace(settings_->stop_token, std::move(abort));
    }
    // Last: the destructor restores it.
    if (settings_->model || settings_->temperature) replace_model();
}

void PromptScope::replace_model() {
    BoundModel own(impl_.provider, impl_.state.model);
    BoundModel model = settings_->model ? settings_->model : own;
    if (settings_->temperature) {
        auto spec = std::make_shared<Model>(model.spec());
        spec->temperature = settings_->temperature;
        model = BoundModel(model.provider(), std::shared_ptr<const Model>(std::move(spec)));
    }
    replaced_ = std::move(own);
    model_ = model.shared_spec();
    impl_.provider = model.provider();
    impl_.state.model = model_;
}

PromptScope::~PromptScope() {
    forward_.reset();
    // set_model() during the run has replaced both.
    if (!model_ || impl_.state.model != model_) return;
    impl_.provider = replaced_.provider();
    impl_.state.model = replaced_.shared_spec();
}

void PromptScope::apply(RunParts& parts) const {
    if (settings_->system_prompt) parts.system_prompt = *settings_->system_prompt;
    if (settings_->tools) {
        parts.tools = *settings_->tools;
        // The tools of the prompt are all, unless middleware that adds others is among them.
        const std::vector<SharedString>& owned = impl_.settings().middleware_tools;
        parts.takes_added_tools = std::any_of(
            owned.begin(), owned.end(),
            [&parts](const SharedString& name) { return parts.tools.find(name) != nullptr; });
    }
    if (settings_->reasoning) parts.reasoning = settings_->reasoning;
    parts.prompt = settings_.get();
}

std::chrono::milliseconds PromptScope::max_duration(
    std::chrono::milliseconds of_agent, std::chrono::steady_clock::time_point now) const {
    const std::chrono::milliseconds limit = settings_->max_duration.value_or(of_agent);
    if (!settings_->deadline) return limit;
    // A deadline that has passed ends the run as soon as it can be ended.
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(*settings_->deadline - now);
    const auto positive = std::max(left, std::chrono::milliseconds(1));
    return limit.count() != 0 ? std::min(limit, positive) : positive;
}

// The claim.

LeaseRenewer::LeaseRenewer(RunStore& store, Clock& clock, std::string thread_id, std::string run_id,
                           std::string attempt_id, Report report)
    : store_(store),
      clock_(clock),
      thread_id_(std::move(thread_id)),
      run_id_(std::move(run_id)),
      owner_(current_process_owner()),
      report_(std::move(report)) {
    // Two agents of one process are different owners.
    owner_.owner_id += "/" + attempt_id;
}

LeaseRenewer::~LeaseRenewer() {
    if (!may_hold_) return;
    try {
        note_ended_owner(owner_.owner_id);
    } catch (...) {
        // Without memory the lease has to expire.
    }
}

Task<ClaimResult> LeaseRenewer::claim(ClaimKind kind) {
    const Executor executor = co_await this_executor;
    renewed_at_ = clock_.now();
    // Also if the call fails: its answer may have been lost.
    may_hold_ = true;
    auto call = [this, kind] { return store_.claim_run(thread_id_, run_id_, owner_, kind); };
    Task<ClaimResult> claiming = store_call("claim the run", thread_id_, std::move(call));
    Outcome<ClaimResult> claimed = co_await outcome_of(std::move(claiming));
    if (is_claim_refusal(claimed.failure())) may_hold_ = false;
    ClaimResult result = std::move(claimed).value();
    renewals_.emplace(executor, [](const std::exception_ptr&) {});
    timer_ = clock_.timer(executor);
    renew_after(renewal_interval);
    co_return result;
}

std::chrono::nanoseconds LeaseRenewer::lease_left() const {
    return renewed_at_ + lease - clock_.now();
}

void LeaseRenewer::renew_after(std::chrono::nanoseconds delay) {
    timer_->expires_after(delay, [this] { renewals_->spawn(renew()); });
}

Task<void> LeaseRenewer::renew() {
    const Clock::time_point asked = clock_.now();
    // The lease may also expire while the store does not respond.
    timer_->expires_at(renewed_at_ + lease, [this] { renewals_->spawn(report_lease_end()); });
    std::exception_ptr failure;
    bool lost = false;
    try {
        co_await store_.renew_claim(thread_id_, run_id_, owner_.owner_id);
    } catch (const StaleAppendError&) {
        lost = true;
    } catch (const RunAlreadyCompletedError&) {
        lost = true;
    } catch (...) {
        failure = std::current_exception();
    }
    if (!timer_) co_return;
    if (lost) {
        is_lost_ = true;
        timer_->cancel();
        co_await report_loss();
    } else if (failure) {
        const std::chrono::nanoseconds left = lease_left();
        const bool ended = left.count() <= 0;
        renew_after(ended ? retry_interval
                          : std::min<std::chrono::nanoseconds>(left, retry_interval));
        if (ended) co_await report_lease_end();
    } else {
        renewed_at_ = asked;
        lease_end_reported_ = false;
        renew_after(renewal_interval);
    }
}

Task<void> LeaseRenewer::report_lease_end() {
    if (std::exchange(lease_end_reported_, true)) co_return;
    Notice notice;
    notice.code = "claim_lease_ended";
    notice.text = "The claim of this run was not renewed for " + std::to_string(lease.count()) +
                  " s, because the checkpointer failed or did not answer. Another process may take "
                  "the thread "
                  "over; then the next append of this run fails. Renewal is still retried.";
    notice.details["run_id"] = run_id_;
    co_await report_(std::move(notice));
}

Task<void> LeaseRenewer::report_loss() {
    Notice notice;
    notice.code = "claim_lost";
    notice.text = "Another process has taken the thread over; the next append of this run fails.";
    notice.details["run_id"] = run_id_;
    co_await report_(std::move(notice));
}

Task<void> LeaseRenewer::stop_renewing() {
    timer_.reset();
    if (renewals_ && renewals_->live() != 0) co_await renewals_->idle();
    renewals_.reset();
}

Task<void> LeaseRenewer::complete() {
    co_await stop_renewing();
    auto call = [this] { return store_.complete_run(thread_id_, run_id_, owner_.owner_id); };
    Task<void> completing = store_call("complete the run", thread_id_, std::move(call));
    co_await std::move(completing);
    may_hold_ = false;
}

Task<void> LeaseRenewer::release() {
    co_await stop_renewing();
    try {
        co_await store_.release_claim(thread_id_, run_id_, owner_.owner_id);
        may_hold_ = false;
    } catch (...) {
        if (is_cancellation(std::current_exception())) throw;
    }
}

}  // namespace cubepi::detail
