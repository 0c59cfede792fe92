#include <bub/channel/channel_manager.hpp>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <utility>
#include <vector>

#include <bub/channel/manager/admission_queue.hpp>
#include <bub/channel/manager/manager_context.hpp>
#include <bub/channel/manager/recovery.hpp>
#include <bub/channel/manager/session_scheduler.hpp>
#include <bub/channel/turn_shards.hpp>
#include <cubepi/core/cancellation.hpp>
#include <cubepi/core/error.hpp>
#include <cubepi/core/outcome.hpp>
#include <cubepi/core/support/trimmed.hpp>
#include <cubepi/core/timeout.hpp>

namespace bub {

namespace detail {

namespace {

using cubepi::Clock;
using cubepi::Error;
using cubepi::ErrorCode;

bool has(const std::vector<std::string>& names, const std::string& name) {
    return std::find(names.begin(), names.end(), name) != names.end();
}

/// The channels that ChannelManagerOptions::channels selects.
class Selection {
public:
    explicit Selection(const std::vector<std::string>& words) {
        for (const std::string& word : words)
            add(std::string(cubepi::detail::trimmed(word, " \t")));
    }
    bool excludes(const Channel& channel) const {
        return !channel.enabled() || has(excluded_, channel.name());
    }
    bool includes(const Channel& channel) const {
        return !excludes(channel) && includes(channel.name(), channel.role());
    }
    bool includes(const std::string& name, ChannelRole role) const {
        if (has(excluded_, name)) return false;
        return has(named_, name) || (all_ && role == ChannelRole::service);
    }

private:
    void add(const std::string& name) {
        if (name.empty()) return;
        if (name == "all") {
            all_ = true;
        } else if (name.starts_with('!')) {
            excluded_.emplace_back(
                cubepi::detail::trimmed(std::string_view(name).substr(1), " \t"));
        } else {
            named_.push_back(name);
        }
    }

    bool all_ = false;
    std::vector<std::string> named_;
    std::vector<std::string> excluded_;
};

Task<> stop_channel(std::shared_ptr<Channel> channel, cubepi::Clock& clock,
                    std::chrono::nanoseconds limit) {
    std::string what = "stop of channel " + channel->name();
    Task<> stopping = channel->stop();
    co_await cubepi::with_timeout(clock, limit, std::move(stopping), std::move(what));
}

Task<> wait_for_cancellation() {
    cubepi::AsyncEvent never;
    co_await never.wait();
}

}  // namespace

Task<std::vector<std::shared_ptr<Channel>>> ChannelSet::enabled(MessageHandler handler) {
    if (!provided_) provided_ = co_await context_.framework.collect_channels(std::move(handler));
    const Selection selection(context_.options.channels);
    std::vector<std::shared_ptr<Channel>> chosen;
    bool serves = false;
    for (const ProvidedChannel& provided : *provided_) {
        if (!selection.includes(*provided.channel)) continue;
        chosen.push_back(provided.channel);
        serves = serves || provided.channel->role() != ChannelRole::lifecycle;
    }
    // Lifecycle channels are started along with channels that have messages.
    for (const ProvidedChannel& provided : *provided_) {
        const Channel& channel = *provided.channel;
        if (!serves || channel.role() != ChannelRole::lifecycle || selection.excludes(channel))
            continue;
        if (std::find(chosen.begin(), chosen.end(), provided.channel) == chosen.end())
            chosen.push_back(provided.channel);
    }
    co_return chosen;
}

void ChannelSet::serve(const std::vector<std::shared_ptr<Channel>>& channels) {
    for (const std::shared_ptr<Channel>& channel : channels) serving_[channel->name()] = channel;
}

Task<> ChannelSet::start(std::shared_ptr<Channel> channel) {
    std::string what = "start of channel " + channel->name();
    Task<> starting = channel->start(stop_.get_token());
    co_await cubepi::with_timeout(context_.clock(), context_.options.start_limit,
                                  std::move(starting), std::move(what));
    started_.push_back(std::move(channel));
}

Task<> ChannelSet::stop() {
    while (!started_.empty()) {
        const std::shared_ptr<Channel> channel = std::move(started_.back());
        started_.pop_back();
        Task<> stopping = stop_channel(channel, context_.clock(), context_.options.stop_limit);
        const cubepi::Outcome<> stopped = co_await cubepi::outcome_of(std::move(stopping));
        if (!stopped) {
            context_.warn(
                "channel.stop_failed",
                {{"channel", channel->name()}, {"error", cubepi::logged_error(stopped.failure())}},
                "channel " + channel->name() + " did not stop: " + describe(stopped.failure()));
        }
        serving_.erase(channel->name());
    }
    serving_.clear();
}

void ChannelSet::announce_drain() const {
    for (const auto& [name, channel] : serving_)
        if (auto* const follower = dynamic_cast<FollowsTurns*>(channel.get())) follower->drain();
}

std::vector<std::string> ChannelSet::names() const {
    std::vector<std::string> names;
    for (const auto& [name, channel] : serving_) names.push_back(name);
    return names;
}

std::shared_ptr<Channel> ChannelSet::find(const std::optional<std::string>& name) const {
    if (!name) return nullptr;
    const auto found = serving_.find(*name);
    return found == serving_.end() ? nullptr : found->second;
}

std::shared_ptr<Channel> ChannelSet::find_output(const Envelope& message) const {
    return find(message.output_channel ? message.output_channel : message.channel);
}

Envelope notice_to(const Envelope& message, std::string text, std::string_view mark) {
    Envelope notice(std::move(text));
    notice.session_id = message.session_id;
    notice.channel = message.channel;
    notice.chat_id = message.chat_id;
    notice.inbound_id = message.inbound_id;
    notice.output_channel = message.output_channel;
    notice.kind = std::string(envelope_kind::error);
    notice.context[mark] = true;
    return notice;
}

/// The parts of a manager and their lifecycle; the manager as seen by the framework.
class ManagerCore final : public OutboundChannelRouter,
                          public std::enable_shared_from_this<ManagerCore> {
public:
    ManagerCore(Framework& framework, ChannelManagerOptions options);

    Task<> run(std::stop_token stop);
    void request_stop() { stop_.request_stop(); }
    Task<> started();
    Task<std::size_t> drain(std::chrono::nanoseconds limit);
    Task<std::vector<std::shared_ptr<Channel>>> enabled_channels();
    Task<> prepare();
    Task<> receive(Envelope message) { return admission_.receive(std::move(message)); }
    bool is_ready() const noexcept { return context_.ready.is_set(); }
    Task<StopOutcome> stop_turn(Envelope by);
    Task<std::optional<FoundMessage>> find_message(std::string channel, std::string inbound_id);
    Task<bool> has_unfinished(Envelope address);
    Task<> abort_session(std::string session_id);
    TurnSnapshot snapshot(const std::string& session_id) const {
        return sessions_.snapshot(session_id);
    }
    std::vector<TurnSnapshot> sessions() const { return sessions_.snapshots(); }
    std::size_t busy_sessions() const { return sessions_.busy() + admission_.busy(); }
    std::string problem() const;
    Task<> idle();
    Task<HeldMessages> held();
    Task<> release_held(std::string id);
    Task<> discard_held(std::string id);

    EventStream wrap_stream(const Envelope& message, EventStream stream) override;
    Task<> plan_outputs(std::string session_id, std::vector<TurnOutput> outputs) override;
    Task<bool> dispatch_output(TurnOutput output) override;
    Task<std::optional<AdmitDecision>> admit_message(std::string session_id,
                                                     const Envelope& message,
                                                     TurnSnapshot turn) override;
    Task<> quit(std::string session_id) override;
    bool cancel_turn(const std::string& session_id) override;

private:
    /// Serves the channels until `stop` or request_stop(), and ends everything.
    Task<> serve_until(std::stop_token stop, std::vector<std::shared_ptr<Channel>> channels);
    Task<> serve(std::vector<std::shared_ptr<Channel>> channels);
    Task<> shut_down();
    Task<> wait_for_turns();

    ManagerContext context_;
    ChannelSet channels_;
    Deliveries deliveries_;
    SessionScheduler sessions_;
    AdmissionQueue admission_;
    Recovery recovery_;
    std::stop_source stop_;
    bool ran_ = false;
    bool over_ = false;  ///< run() has ended
};

ManagerCore::ManagerCore(Framework& framework, ChannelManagerOptions options)
    : context_(framework, std::move(options)),
      channels_(context_),
      deliveries_(context_, channels_),
      sessions_(context_, channels_, deliveries_),
      admission_(context_, channels_, deliveries_, sessions_, *this),
      recovery_(context_, channels_, deliveries_, sessions_, admission_) {}

Task<std::vector<std::shared_ptr<Channel>>> ManagerCore::enabled_channels() {
    context_.owner = weak_from_this();
    return channels_.enabled(admission_.handler());
}

Task<> ManagerCore::prepare() {
    const std::shared_ptr<ManagerCore> self = shared_from_this();
    const std::vector<std::shared_ptr<Channel>> channels = co_await enabled_channels();
    for (const std::shared_ptr<Channel>& channel : channels) {
        std::string what = "start of channel " + channel->name();
        Task<> preparing = channel->prepare();
        co_await cubepi::with_timeout(context_.clock(), context_.options.start_limit,
                                      std::move(preparing), std::move(what));
    }
}

Task<> ManagerCore::run(std::stop_token stop) {
    const std::shared_ptr<ManagerCore> self = shared_from_this();
    if (std::exchange(ran_, true))
        throw Error(ErrorCode::invalid_state, "a channel manager runs once; create another one");
    std::vector<std::shared_ptr<Channel>> channels = co_await enabled_channels();
    if (channels.empty()) {
        throw Error(ErrorCode::not_found,
                    "no channel is enabled: name one that is configured (cubepi hooks lists them)");
    }
    const cubepi::Executor executor = co_await cubepi::this_executor;
    context_.work = std::make_unique<cubepi::BackgroundScope>(
        executor, [this](const std::exception_ptr& failure) {
            context_.warn("channel.task_failed", {{"error", cubepi::logged_error(failure)}},
                          describe(failure));
        });
    context_.framework.bind_router(self);
    Task<> serving = serve_until(std::move(stop), std::move(channels));
    Task<> running = context_.framework.running(std::move(serving));
    const cubepi::Outcome<> ran = co_await cubepi::outcome_of(std::move(running));
    over_ = true;
    context_.changed.pulse();
    context_.framework.bind_router(nullptr);
    ran.rethrow();
}

Task<> ManagerCore::serve_until(std::stop_token stop,
                                std::vector<std::shared_ptr<Channel>> channels) {
    cubepi::Outcome<> served{std::exception_ptr()};
    {
        const std::stop_callback forward(std::move(stop), [this] { stop_.request_stop(); });
        Task<> serving = cubepi::cancel_on(stop_.get_token(), serve(std::move(channels)));
        served = co_await cubepi::outcome_of(std::move(serving));
    }
    co_await cubepi::shield();
    const bool was_requested = stop_.stop_requested() && served.cancelled();
    co_await shut_down();
    if (context_.options.shards) co_await context_.options.shards->unbind();
    co_await cubepi::unshield();
    if (!was_requested) served.rethrow();
}

Task<> ManagerCore::serve(std::vector<std::shared_ptr<Channel>> channels) {
    const std::shared_ptr<SteeringInbox> inbox = co_await context_.framework.steering_inbox();
    sessions_.set_inbox(inbox);
    if (context_.options.shards) co_await context_.options.shards->bind(shared_from_this(), inbox);
    // A channel may submit its first message from inside start().
    channels_.serve(channels);
    context_.open = true;
    co_await recovery_.begin();
    for (const std::shared_ptr<Channel>& channel : channels) co_await channels_.start(channel);
    context_.ready.set();
    context_.changed.pulse();
    co_await wait_for_cancellation();
}

Task<> ManagerCore::shut_down() {
    context_.open = false;
    channels_.announce_stop();
    Leftover leftover;
    admission_.clear(leftover);
    sessions_.clear_waiting(leftover);
    if (leftover.dropped > 0)
        context_.warn("channel.messages_dropped", {{"messages", leftover.dropped}},
                      "messages dropped at shutdown: " + std::to_string(leftover.dropped));
    if (leftover.recorded > 0)
        context_.warn(
            "channel.messages_postponed", {{"messages", leftover.recorded}},
            "messages to be delivered at the next start: " + std::to_string(leftover.recorded));
    co_await context_.work->close();
    admission_.forget();
    sessions_.forget();
    // The router is still bound, so that final messages of a channel can be shown.
    co_await channels_.stop();
    co_await deliveries_.release();
    // After the release, so that other gateways need not wait for a store that does not answer.
    if (context_.options.gate) {
        Task<> flushing =
            cubepi::with_timeout(context_.clock(), context_.options.stop_limit,
                                 context_.options.gate->flush(), "counting of the last turns");
        const cubepi::Outcome<> flushed = co_await cubepi::outcome_of(std::move(flushing));
        if (!flushed)
            context_.warn("channel.gate_store_failed",
                          {{"error", cubepi::logged_error(flushed.failure())}},
                          "what the last turns have used could not be counted: " +
                              describe(flushed.failure()));
    }
    context_.changed.pulse();
}

Task<> ManagerCore::started() {
    const std::shared_ptr<ManagerCore> self = shared_from_this();
    while (!context_.ready.is_set() && !over_) co_await context_.changed.wait();
    if (!context_.ready.is_set())
        throw Error(ErrorCode::unavailable, "the channel manager has ended before it served");
}

Task<> ManagerCore::wait_for_turns() {
    while (context_.open && !stop_.stop_requested() && sessions_.running() > 0)
        co_await context_.changed.wait();
}

Task<std::size_t> ManagerCore::drain(std::chrono::nanoseconds limit) {
    const std::shared_ptr<ManagerCore> self = shared_from_this();
    context_.draining = true;
    channels_.announce_drain();
    recovery_.look();
    const Clock::time_point deadline = cubepi::deadline_after(context_.clock().now(), limit);
    Task<> waiting = wait_for_turns();
    (void)co_await cubepi::detail::run_until(context_.clock(), deadline, std::move(waiting));
    const std::size_t cancelled = sessions_.running();
    stop_.request_stop();
    co_return cancelled;
}

std::string ManagerCore::problem() const {
    constexpr std::chrono::seconds remembered{30};
    const auto& failed = context_.storing_failed;
    if (failed && context_.clock().now() - *failed < remembered) return "messages cannot be stored";
    const std::size_t failing = sessions_.failing();
    if (failing == 0 || !context_.partial_outage().empty()) return {};
    return std::to_string(failing) + (failing == 1 ? " session waits" : " sessions wait") +
           ", because storage or descriptors fail";
}

Task<> ManagerCore::idle() {
    const std::shared_ptr<ManagerCore> self = shared_from_this();
    // The records of an earlier process count as work as well.
    while (busy_sessions() > 0 || (context_.open && !context_.ready.is_set()))
        co_await context_.changed.wait();
}

Task<HeldMessages> ManagerCore::held() {
    const std::shared_ptr<ManagerCore> self = shared_from_this();
    HeldMessages all = co_await deliveries_.held();
    co_return all;
}

Task<> ManagerCore::release_held(std::string id) {
    const std::shared_ptr<ManagerCore> self = shared_from_this();
    co_await recovery_.release_held(std::move(id));
}

Task<> ManagerCore::discard_held(std::string id) {
    const std::shared_ptr<ManagerCore> self = shared_from_this();
    co_await deliveries_.discard_held(std::move(id));
}

EventStream ManagerCore::wrap_stream(const Envelope& message, EventStream stream) {
    const std::shared_ptr<Channel> channel = channels_.find_output(message);
    return channel ? channel->stream_events(message, std::move(stream)) : std::move(stream);
}

Task<> ManagerCore::plan_outputs(std::string session_id, std::vector<TurnOutput> outputs) {
    const std::shared_ptr<ManagerCore> self = shared_from_this();
    Receipts answered = sessions_.receipts_of_turn(session_id);
    Task<> planning =
        deliveries_.plan(std::move(session_id), std::move(outputs), std::move(answered));
    co_await std::move(planning);
}

Task<bool> ManagerCore::dispatch_output(TurnOutput output) {
    const std::shared_ptr<ManagerCore> self = shared_from_this();
    Receipts answered = sessions_.receipts_of_turn(output.message.session_id);
    Task<bool> sending = deliveries_.send(std::move(output), std::move(answered));
    co_return co_await std::move(sending);
}

Task<std::optional<AdmitDecision>> ManagerCore::admit_message(std::string session_id,
                                                              const Envelope& message,
                                                              TurnSnapshot turn) {
    const std::shared_ptr<Channel> channel = channels_.find(message.channel);
    std::optional<AdmitDecision> decision;
    if (channel)
        decision = co_await channel->admit_message(std::move(session_id), message, std::move(turn));
    co_return decision;
}

Task<> ManagerCore::quit(std::string session_id) {
    const std::shared_ptr<ManagerCore> self = shared_from_this();
    co_await sessions_.drop_waiting(std::move(session_id));
}

Task<StopOutcome> ManagerCore::stop_turn(Envelope by) {
    const std::shared_ptr<ManagerCore> self = shared_from_this();
    Task<StopOutcome> stopping = admission_.stop_once(std::move(by));
    co_return co_await std::move(stopping);
}

Task<std::optional<FoundMessage>> ManagerCore::find_message(std::string channel,
                                                            std::string inbound_id) {
    const std::shared_ptr<ManagerCore> self = shared_from_this();
    Task<std::optional<KnownInbound>> finding =
        deliveries_.find(std::move(channel), std::move(inbound_id));
    std::optional<KnownInbound> known = co_await std::move(finding);
    std::optional<FoundMessage> found;
    if (!known) co_return found;
    found.emplace();
    found->message = std::move(known->message);
    auto message = std::make_shared<Envelope>(found->message);
    found->session_id = co_await context_.framework.resolve_session(std::move(message));
    if (known->id.empty()) co_return found;
    const bool runs = known->runs_elsewhere || sessions_.is_running(known->id);
    found->progress = runs                             ? MessageProgress::running
                      : deliveries_.is_held(known->id) ? MessageProgress::held
                                                       : MessageProgress::pending;
    co_return found;
}

Task<bool> ManagerCore::has_unfinished(Envelope address) {
    const std::shared_ptr<ManagerCore> self = shared_from_this();
    co_return co_await deliveries_.has_unfinished(std::move(address));
}

Task<> ManagerCore::abort_session(std::string session_id) {
    const std::shared_ptr<ManagerCore> self = shared_from_this();
    co_await sessions_.drop_waiting(session_id);
    admission_.cancel(session_id);
    sessions_.cancel_turn(session_id);
}

bool ManagerCore::cancel_turn(const std::string& session_id) {
    return sessions_.cancel_turn(session_id);
}

}  // namespace detail

std::string_view to_string(TurnOutcome outcome) noexcept {
    switch (outcome) {
        case TurnOutcome::answered: return "answered";
        case TurnOutcome::suspended: return "suspended";
        case TurnOutcome::unread: return "unread";
        case TurnOutcome::failed: return "failed";
        case TurnOutcome::postponed: return "postponed";
        case TurnOutcome::held: return "held";
        case TurnOutcome::cut_off: return "cut_off";
        case TurnOutcome::taken: return "taken";
        case TurnOutcome::cancelled: return "cancelled";
    }
    return "failed";
}

ChannelManager::ChannelManager(Framework& framework, ChannelManagerOptions options)
    : core_(std::make_shared<detail::ManagerCore>(framework, std::move(options))) {}

ChannelManager::~ChannelManager() = default;

Task<std::vector<std::shared_ptr<Channel>>> ChannelManager::enabled_channels() {
    return core_->enabled_channels();
}

Task<> ChannelManager::prepare() { return core_->prepare(); }

bool selects_service(const std::vector<std::string>& words, const std::string& name) {
    return detail::Selection(words).includes(name, ChannelRole::service);
}

Task<> ChannelManager::run(std::stop_token stop) { return core_->run(std::move(stop)); }

void ChannelManager::request_stop() { core_->request_stop(); }

Task<> ChannelManager::started() { return core_->started(); }

Task<std::size_t> ChannelManager::drain(std::chrono::nanoseconds limit) {
    return core_->drain(limit);
}

std::vector<TurnSnapshot> ChannelManager::sessions() const { return core_->sessions(); }

Task<> ChannelManager::receive(Envelope message) {
    // The records of the last process are read meanwhile: a message that was stored now would be among them.
    if (!core_->is_ready())
        throw SenderError(cubepi::ErrorCode::unavailable, "the channel manager is not ready yet");
    return core_->receive(std::move(message));
}

bool ChannelManager::cancel_turn(const std::string& session_id) {
    return core_->cancel_turn(session_id);
}

Task<StopOutcome> ChannelManager::stop_turn(Envelope by) { return core_->stop_turn(std::move(by)); }

Task<std::optional<FoundMessage>> ChannelManager::find_message(std::string channel,
                                                               std::string inbound_id) {
    return core_->find_message(std::move(channel), std::move(inbound_id));
}

Task<bool> ChannelManager::has_unfinished(Envelope address) {
    return core_->has_unfinished(std::move(address));
}

Task<> ChannelManager::abort_session(std::string session_id) {
    return core_->abort_session(std::move(session_id));
}

TurnSnapshot ChannelManager::snapshot(const std::string& session_id) const {
    return core_->snapshot(session_id);
}

std::size_t ChannelManager::busy_sessions() const { return core_->busy_sessions(); }

std::string ChannelManager::problem() const { return core_->problem(); }

Task<> ChannelManager::idle() { return core_->idle(); }

Task<HeldMessages> ChannelManager::held() { return core_->held(); }

Task<> ChannelManager::release_held(std::string id) { return core_->release_held(std::move(id)); }

Task<> ChannelManager::discard_held(std::string id) { return core_->discard_held(std::move(id)); }

}  // namespace bub
