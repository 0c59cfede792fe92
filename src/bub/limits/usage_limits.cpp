#include <bub/limits/usage_limits.hpp>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include <boost/asio/post.hpp>

#include <bub/channel/debounce.hpp>
#include <bub/questions.hpp>
#include <bub/schedule/schedule.hpp>
#include <cubepi/core/cancellation.hpp>
#include <cubepi/core/outcome.hpp>
#include <cubepi/core/stream_event.hpp>
#include <cubepi/core/support/json_member.hpp>
#include <cubepi/provider/cost.hpp>

namespace bub {

using cubepi::Outcome;
using cubepi::outcome_of;

namespace {

constexpr double micros_of_usd = 1e6;
constexpr std::string_view user_scope = "user";
constexpr std::string_view chat_scope = "chat";

UsageAmounts amounts_of(const cubepi::Usage& usage, const std::optional<double>& cost) {
    constexpr double most = 1e15;
    UsageAmounts amounts;
    for (const cubepi::TokenCount& tokens : {usage.input_tokens, usage.cache_read_tokens,
                                             usage.cache_write_tokens, usage.output_tokens})
        amounts += UsageAmounts{0, tokens.value_or(0), 0};
    if (cost && *cost > 0)
        amounts.micros = std::max(1LL, std::llround(std::min(*cost * micros_of_usd, most)));
    return amounts;
}

/// Returns the part of a record's id that is the same for all processes that take it.
std::string stable_record(const std::string& receipt) {
    return receipt.substr(0, receipt.find('.'));
}

std::string limit_text(const UsageLimit& limit, UsageKind kind) {
    switch (kind) {
        case UsageKind::messages: return std::to_string(limit.messages.value_or(0)) + " messages";
        case UsageKind::tokens: return std::to_string(limit.tokens.value_or(0)) + " tokens";
        case UsageKind::money: break;
    }
    return cubepi::money_text(usd_of(limit.micros.value_or(0)));
}

}  // namespace

/// Charges that are not stored yet. Thread-safe.
struct UsageLimits::Pending {
    /// Returns true if no write of it was announced.
    bool add(const std::vector<std::string>& counters, const UsageAmounts& used) {
        const std::lock_guard lock(mutex);
        for (const std::string& counter : counters) amounts[counter] += used;
        return !std::exchange(is_announced, true);
    }
    void put_back(const UsageByCounter& taken) {
        const std::lock_guard lock(mutex);
        for (const auto& [counter, used] : taken) amounts[counter] += used;
    }
    UsageByCounter take() {
        const std::lock_guard lock(mutex);
        is_announced = false;
        return std::exchange(amounts, {});
    }
    bool empty() {
        const std::lock_guard lock(mutex);
        return amounts.empty();
    }
    /// Returns true the first time.
    bool note_unknown_price() {
        const std::lock_guard lock(mutex);
        return !std::exchange(has_unknown_price, true);
    }

    std::mutex mutex;
    UsageByCounter amounts;
    bool is_announced = false;
    bool has_unknown_price = false;
};

UsageLimits::UsageLimits(UsageLimitOptions options, std::shared_ptr<UsageStore> store,
                         std::shared_ptr<const cubepi::Runtime> runtime, cubepi::Executor executor,
                         WarningHandler on_warning, std::function<bool()> admits_outage)
    : options_(std::move(options)),
      on_warning_(std::move(on_warning)),
      admits_outage_(std::move(admits_outage)),
      store_(std::move(store)),
      runtime_(std::move(runtime)),
      executor_(executor),
      pending_(std::make_shared<Pending>()),
      work_(std::move(executor)) {}

UsageLimits::~UsageLimits() = default;

std::vector<LimitedCounter> UsageLimits::counters_of(const std::string& channel,
                                                     const std::string& chat,
                                                     const std::string& user) const {
    std::vector<LimitedCounter> counters;
    if (options_.per_user.any())
        counters.push_back(
            {counter_name(user_scope, channel, user.empty() ? chat : user), options_.per_user});
    if (options_.per_chat.any())
        counters.push_back({counter_name(chat_scope, channel, chat), options_.per_chat});
    if (options_.total.any()) counters.push_back({std::string(total_counter), options_.total});
    return counters;
}

UsageLimit UsageLimits::limit_of(const std::string& counter) const {
    if (counter == total_counter) return options_.total;
    return counter.starts_with(chat_scope) ? options_.per_chat : options_.per_user;
}

std::string UsageLimits::refusal_text(const LimitedCounter& counter, UsageKind kind,
                                      std::int64_t end) const {
    const std::string owner = counter.name == total_counter          ? "this service"
                              : counter.name.starts_with(chat_scope) ? "each chat"
                                                                     : "each user";
    return "The message was not processed: the limit of " + limit_text(counter.limit, kind) +
           " a day for " + owner + " is reached. It is reset at " +
           instant_text(end, options_.zone.empty() ? system_zone() : options_.zone) + ".";
}

Task<std::optional<std::string>> UsageLimits::refuse(Envelope message) {
    const std::shared_ptr<UsageLimits> self = shared_from_this();
    std::optional<std::string> refusal;
    // Neither calls a model.
    const bool ends = message.answer && message.answer->action == AnswerAction::abandon;
    if (ends || is_command(message)) co_return refusal;
    UsageAdmission turn;
    turn.counters =
        counters_of(message.channel.value_or(""), message.chat_id.value_or(""), sender_of(message));
    if (turn.counters.empty()) co_return refusal;
    if (options_.exempts_operators && message.is_operator())
        for (LimitedCounter& counter : turn.counters) counter.limit = UsageLimit();
    // An answer continues a turn whose message was counted, and the results of sub-agents are not messages of the user.
    turn.counts_records = !message.answer && (!message.rest.contains(task_results_key) ||
                                              message.rest.contains(scheduled_key));
    for (const std::string& receipt : message.receipts)
        turn.records.push_back(stable_record(receipt));
    std::sort(turn.records.begin(), turn.records.end());
    turn.records.erase(std::unique(turn.records.begin(), turn.records.end()), turn.records.end());
    turn.unrecorded = turn.counts_records && turn.records.empty() ? 1 : 0;
    // A store that does not answer must not delay each turn: the retry asks it.
    if (fails_ && admits_outage_ && admits_outage_()) {
        admit_unchecked(turn);
        co_return refusal;
    }
    Task<std::optional<std::string>> checking = check(turn);
    Outcome<std::optional<std::string>> checked = co_await outcome_of(std::move(checking));
    if (checked) co_return std::move(checked).value();
    if (checked.cancelled() || cause_of(checked.failure()) != FailureCause::outage ||
        !admits_outage_ || !admits_outage_())
        checked.rethrow();
    admit_unchecked(turn);
    co_return refusal;
}

/// Returns the text for a message that is refused.
Task<std::optional<std::string>> UsageLimits::check(UsageAdmission turn) {
    std::optional<std::string> refusal;
    co_await flush();
    const std::int64_t now = co_await store_->now();
    const LocalDay day = local_day(now, options_.zone);
    turn.day = day.date;
    std::vector<LimitedCounter> counters = turn.counters;
    Task<std::optional<ReachedLimit>> admitting = store_->admit(std::move(turn));
    const std::optional<ReachedLimit> reached = co_await std::move(admitting);
    if (reached) refusal = refusal_text(counters.at(reached->counter), reached->kind, day.end);
    co_return refusal;
}

/// Counts the messages of a turn as soon as the store can be used. One that is tried again counts again.
void UsageLimits::admit_unchecked(const UsageAdmission& turn) {
    if (!std::exchange(unchecked_, true) && on_warning_)
        on_warning_(
            "the counters of gateway.limits cannot be used; until then turns begin without limits");
    const std::int64_t messages = turn.messages(turn.records.size());
    if (messages == 0) return;
    std::vector<std::string> names;
    for (const LimitedCounter& counter : turn.counters) names.push_back(counter.name);
    if (pending_->add(names, UsageAmounts{messages, 0, 0}) && !writing_ && !retry_waits_)
        begin_write();
}

cubepi::BoundModel UsageLimits::metered(const cubepi::BoundModel& model,
                                        const JsonObject& origin) const {
    using cubepi::detail::text_member;
    std::vector<std::string> names;
    for (LimitedCounter& counter :
         counters_of(text_member(origin, "channel"), text_member(origin, "chat"),
                     text_member(origin, "user")))
        names.push_back(std::move(counter.name));
    if (names.empty()) return model;
    const bool has_money = options_.has_money();
    auto charge = [pending = pending_, limits = std::weak_ptr(weak_from_this()),
                   executor = executor_, names = std::move(names), has_money, warn = on_warning_,
                   id = model.spec().id](const cubepi::Usage& usage,
                                         const std::optional<double>& cost) {
        if (has_money && !cost && pending->note_unknown_price() && warn)
            warn("calls of the model '" + id +
                 "' do not count toward the limits of money, because its price is unknown");
        if (!pending->add(names, amounts_of(usage, cost))) return;
        boost::asio::post(executor, [limits] {
            const std::shared_ptr<const UsageLimits> here = limits.lock();
            if (here && !here->writing_ && !here->retry_waits_)
                std::const_pointer_cast<UsageLimits>(here)->begin_write();
        });
    };
    return metered_model(model, std::move(charge));
}

void UsageLimits::begin_write() {
    writing_ = true;
    failure_ = nullptr;
    work_.spawn(write(shared_from_this()));
}

Task<> UsageLimits::store(UsageByCounter amounts) {
    if (amounts.empty()) co_return;
    const std::int64_t now = co_await store_->now();
    std::string day = local_day(now, options_.zone).date;
    Task<> adding = store_->add(std::move(day), std::move(amounts));
    co_await std::move(adding);
}

/// Stores what is pending. Not cancelled with a caller of flush(), so that nothing is stored twice.
Task<> UsageLimits::write(std::shared_ptr<UsageLimits> self) {
    const UsageByCounter amounts = self->pending_->take();
    Task<> storing = self->store(amounts);
    const Outcome<> stored = co_await outcome_of(std::move(storing));
    self->writing_ = false;
    ++self->attempts_;
    self->failure_ = stored.failure();
    if (!stored) self->pending_->put_back(amounts);
    self->written_.pulse();
    if (stored.cancelled()) stored.rethrow();
    if (!stored) {
        if (!std::exchange(self->fails_, true) && self->on_warning_)
            self->on_warning_("the use of models could not be counted yet: " +
                              describe(stored.failure()));
        if (!std::exchange(self->retry_waits_, true))
            self->work_.spawn(retry(self, self->runtime_));
        co_return;
    }
    self->fails_ = false;
    self->unchecked_ = false;
    if (!self->pending_->empty()) self->begin_write();
}

Task<> UsageLimits::retry(std::weak_ptr<UsageLimits> limits,
                          std::shared_ptr<const cubepi::Runtime> runtime) {
    co_await runtime->clock->sleep_for(std::chrono::seconds(1));
    const std::shared_ptr<UsageLimits> self = limits.lock();
    if (!self) co_return;
    self->retry_waits_ = false;
    if (!self->writing_ && !self->pending_->empty()) self->begin_write();
}

Task<> UsageLimits::flush() {
    const std::shared_ptr<UsageLimits> self = shared_from_this();
    // An attempt that began before the call does not have all, and may have failed because of what has ended since.
    if (writing_) co_await attempt_ended();
    // Later use is not waited for: with many calls of models, there is always more.
    if (!writing_ && pending_->empty()) co_return;
    if (!writing_) begin_write();
    co_await attempt_ended();
    if (failure_) std::rethrow_exception(failure_);
}

Task<> UsageLimits::attempt_ended() {
    const std::uint64_t before = attempts_;
    while (attempts_ == before) co_await written_.wait();
}

Task<UsageReport> UsageLimits::report(std::size_t most, std::string search) {
    const std::shared_ptr<UsageLimits> self = shared_from_this();
    Task<> flushing = flush();
    (void)co_await outcome_of(std::move(flushing));
    const std::int64_t now = co_await store_->now();
    UsageReport report;
    report.day = local_day(now, options_.zone);
    std::string day = report.day.date;
    Task<std::vector<std::pair<std::string, UsageAmounts>>> listing =
        store_->list(std::move(day), most, std::move(search));
    const std::vector<std::pair<std::string, UsageAmounts>> used = co_await std::move(listing);
    for (const auto& [counter, amounts] : used)
        report.used.push_back({counter, amounts, limit_of(counter)});
    co_return report;
}

// A model whose calls are charged.

namespace {

using cubepi::BoundModel;
using cubepi::MessageStream;
using cubepi::ModelRequest;
using cubepi::StreamEvent;
using cubepi::Task;

/// One call, which is charged once.
class MeteredCall final : public cubepi::StreamSource {
public:
    MeteredCall(MessageStream stream, cubepi::Model asked, ChargeCall charge)
        : stream_(std::move(stream)), asked_(std::move(asked)), charge_(std::move(charge)) {}
    MeteredCall(const MeteredCall&) = delete;
    MeteredCall& operator=(const MeteredCall&) = delete;
    ~MeteredCall() override { charge(); }

    Task<StreamEvent> next() override {
        std::optional<StreamEvent> event = co_await stream_.next();
        if (!event) cubepi::throw_cancelled();
        note(*event);
        co_return std::move(*event);
    }
    std::optional<StreamEvent> ready() override {
        std::optional<StreamEvent> event = stream_.ready();
        if (event) note(*event);
        return event;
    }
    bool honors_stop_token() const noexcept override { return stream_.honors_stop_token(); }

private:
    void note(const StreamEvent& event) {
        if (event.partial) answer_ = event.partial;
        if (event.is_terminal()) charge();
    }
    void charge() noexcept {
        const ChargeCall charge = std::exchange(charge_, nullptr);
        if (!charge || !answer_) return;
        try {
            const cubepi::AssistantMessage answer = answer_.get();
            answer_ = cubepi::PartialMessage();
            if (answer.usage) charge(*answer.usage, cubepi::cost_of(answer, asked_));
        } catch (...) {
            // A call does not depend on what is counted of it.
        }
    }

    MessageStream stream_;
    const cubepi::Model asked_;
    ChargeCall charge_;
    cubepi::PartialMessage answer_;
};

/// Appears as a chain of one model, so that prices, limits and observers are those of the model.
class MeteredProvider final : public cubepi::Provider {
public:
    MeteredProvider(BoundModel model, ChargeCall charge)
        : model_(std::move(model)), charge_(std::move(charge)) {}

    MessageStream stream(ModelRequest request) override {
        cubepi::Model asked = request.model;
        return MessageStream(std::make_unique<MeteredCall>(
            model_.provider()->call(std::move(request)), std::move(asked), charge_));
    }
    const std::string& provider_id() const noexcept override {
        return model_.provider()->provider_id();
    }
    bool takes_response_format(const cubepi::Model& model) const override {
        return model_.provider()->takes_response_format(model);
    }
    std::vector<BoundModel> inner_models() const override {
        const std::vector<BoundModel> inner = model_.provider()->inner_models();
        return inner.empty() ? std::vector<BoundModel>(1, model_) : inner;
    }

private:
    const BoundModel model_;
    const ChargeCall charge_;
};

}  // namespace

BoundModel metered_model(const BoundModel& model, ChargeCall charge) {
    if (!model.provider()) return model;
    return BoundModel(std::make_shared<MeteredProvider>(model, std::move(charge)),
                      model.shared_spec());
}

}  // namespace bub
