#include <bub/channel/manager/admission_queue.hpp>

#include <algorithm>
#include <utility>

#include <bub/channel/follows_messages.hpp>
#include <bub/questions.hpp>
#include <cubepi/core/cancellation.hpp>
#include <cubepi/core/error.hpp>
#include <cubepi/core/outcome.hpp>
#include <cubepi/core/support/error_code_of.hpp>
#include <cubepi/core/support/json_member.hpp>

namespace bub::detail {

using cubepi::ErrorCode;
using cubepi::Outcome;
using cubepi::outcome_of;

namespace {

void check_open(bool open) {
    if (!open)
        throw SenderError(ErrorCode::invalid_state, "the channel manager does not accept messages");
}

constexpr std::string_view full_notice =
    "Too many messages are waiting. Your last message was not accepted: send it again after this "
    "one is answered.";

/// `queue` exists as long as its manager.
Task<> receive_by(std::shared_ptr<void> manager, AdmissionQueue* queue, Envelope message) {
    if (!manager)
        throw cubepi::Error(ErrorCode::invalid_state, "the channel manager was destroyed");
    co_await queue->receive(std::move(message));
}

/// Identifies a request to stop in all processes.
std::string stop_name(const Envelope& by) {
    return by.channel.value_or("") + "\n" + by.inbound_id.value_or("");
}

SenderError queue_full() {
    return SenderError(ErrorCode::limit, "too many messages are waiting; this one was rejected");
}

}  // namespace

std::string lane_key(const Envelope& message) {
    if (message.session_id && !message.session_id->empty()) return *message.session_id;
    return default_session(message);
}

AdmissionQueue::AdmissionQueue(ManagerContext& context, const ChannelSet& channels,
                               Deliveries& deliveries, SessionScheduler& sessions,
                               OutboundChannelRouter& router)
    : context_(context),
      channels_(channels),
      deliveries_(deliveries),
      sessions_(sessions),
      router_(router) {}

MessageHandler AdmissionQueue::handler() {
    // Channels hold the handler, and the manager holds the channels.
    return [this, manager = context_.owner](Envelope message) {
        return receive_by(manager.lock(), this, std::move(message));
    };
}

Task<> AdmissionQueue::receive(Envelope message) {
    const std::shared_ptr<void> alive = context_.keep_alive();
    check_open(context_.open);
    message.note_arrival(context_.clock().wall());
    note_answer(message);
    const std::shared_ptr<Channel> channel = channels_.find(message.channel);
    if (!channel) {
        throw SenderError(ErrorCode::not_found, "the message's channel is not running: " +
                                                    message.channel.value_or("(none)"));
    }
    if (context_.draining && !deliveries_.records(*channel)) {
        throw SenderError(ErrorCode::unavailable,
                          "the channel manager is shutting down; send the message again later");
    }
    const bool was_stop = is_stop(message) && (message.is_active || !channel->needs_debounce());
    if (was_stop) {
        // Recorded first: a platform that delivers it again must not stop a later turn. Storage that fails does not prevent the stop.
        std::optional<std::string> known;
        message.arrival = 0;
        message.receipts.clear();
        if (deliveries_.records(*channel)) {
            Task<std::optional<std::string>> storing = deliveries_.receive(withdrawal_of(message));
            Outcome<std::optional<std::string>> stored = co_await outcome_of(std::move(storing));
            if (stored.cancelled()) stored.rethrow();
            const bool is_stored = stored.ok();
            if (is_stored) known = std::move(stored).value();
            if (is_stored && !known) context_.left.pulse();
            if (is_stored && !known) co_return;
            // The manager has ended meanwhile, and the next one processes the stored message.
            if (is_stored && !context_.open) co_return;
        }
        Task<StopOutcome> stopping = stop(message);
        const StopOutcome stopped = co_await std::move(stopping);
        message = withdrawal_of(std::move(message));
        if (known) message.receipts.push_back(std::move(*known));
        if (stopped != StopOutcome::idle) {
            co_await deliveries_.finish(std::move(message.receipts), stopped);
            co_return;
        }
    }
    const bool is_recorded = was_stop && !message.receipts.empty();
    retired_.clear();
    const std::string key = lane_key(message);
    const bool collects = channel->needs_debounce() && is_prompt(message) && !message.held;
    if (collects && !is_wanted(key, message)) {
        // The debouncer, if there is one, records that the conversation is over.
        const LanePtr lane = find(key);
        if (lane && lane->debouncer) lane->debouncer->add(std::move(message));
        co_return;
    }
    if (!collects && is_full(key, message)) {
        if (is_recorded) co_await deliveries_.finish(std::move(message.receipts));
        announce_rejection(std::move(message), full_notice);
        throw queue_full();
    }
    message.arrival = 0;
    if (!is_recorded) message.receipts.clear();
    if (!is_recorded && deliveries_.records(*channel)) {
        Task<std::optional<std::string>> storing = deliveries_.receive(message);
        Outcome<std::optional<std::string>> stored = co_await outcome_of(std::move(storing));
        context_.storing_failed.reset();
        if (cubepi::detail::error_code_of(stored.failure()) == ErrorCode::limit) {
            check_open(context_.open);
            announce_rejection(std::move(message), full_notice);
            throw queue_full();
        }
        // After the end of the manager the framework may be gone.
        if (!stored && !stored.cancelled() && context_.open && context_.partial_outage().empty())
            context_.storing_failed = context_.clock().now();
        std::optional<std::string> receipt = std::move(stored).value();
        // The platform delivered a message again that is already stored, or another process works on its session.
        if (!receipt) context_.left.pulse();
        if (!receipt) co_return;
        message.receipts.push_back(std::move(*receipt));
        // The manager has ended meanwhile, and the next one processes the stored message.
        if (!context_.open) co_return;
    }
    if (message.held) {
        message.held->accept();
        context_.spawn(submit_later(std::move(message)));
        co_return;
    }
    if (context_.options.observer) context_.options.observer->received(message);
    const LanePtr lane = find_or_add(key);
    if (collects) {
        co_await collect(lane, std::move(message));
        co_return;
    }
    const AdmissionPtr admission = submit(lane, QueuedMessage(std::move(message)));
    co_await admission->done.wait();
    if (admission->failure) std::rethrow_exception(admission->failure);
}

Task<StopOutcome> AdmissionQueue::stop(Envelope by) {
    const std::string key = lane_key(by);
    auto message = std::make_shared<Envelope>(by);
    std::string session_id = co_await context_.framework.resolve_session(std::move(message));
    by.session_id = session_id;
    StopOutcome outcome = co_await sessions_.stop(session_id, by);
    bool was_collected = false;
    if (outcome == StopOutcome::idle && !by.rest.contains(only_message_key))
        was_collected = co_await drop_collected(key, by);
    if (was_collected) outcome = StopOutcome::stopped;
    if (outcome == StopOutcome::refused) {
        announce_rejection(std::move(by), stop_refusal);
    }
    co_return outcome;
}

Task<StopOutcome> AdmissionQueue::stop_once(Envelope by) {
    const std::shared_ptr<Channel> channel = channels_.find(by.channel);
    const bool is_recorded = channel && deliveries_.records(*channel) &&
                             !by.inbound_id.value_or("").empty() &&
                             !by.rest.contains(only_message_key);
    Receipts receipts;
    std::string session_id;
    // Its place among the messages: a turn that begins while it is being stored is not meant.
    const std::uint64_t number = ++context_.arrivals;
    if (is_recorded) {
        auto message = std::make_shared<Envelope>(by);
        session_id = co_await context_.framework.resolve_session(std::move(message));
        if (sessions_.would_stop(session_id, by) == StopOutcome::stopped) {
            Task<std::optional<std::string>> storing = deliveries_.receive(withdrawal_of(by));
            Outcome<std::optional<std::string>> stored = co_await outcome_of(std::move(storing));
            if (stored.cancelled()) stored.rethrow();
            // Storage that fails does not prevent the stop.
            const bool is_stored = stored.ok();
            std::optional<std::string> id;
            if (is_stored) id = std::move(stored).value();
            if (is_stored && !id) {
                const std::optional<StopOutcome> earlier = co_await earlier_stop(by);
                if (earlier) co_return *earlier;
                // The gateway that takes the record finishes it.
                context_.left.pulse();
            }
            if (id) receipts.push_back(std::move(*id));
            note_stop(by);
        }
    }
    StopOutcome outcome = StopOutcome::idle;
    if (session_id.empty() || !sessions_.began_after(session_id, number)) {
        Task<StopOutcome> stopping = stop(by);
        Outcome<StopOutcome> stopped = co_await outcome_of(std::move(stopping));
        if (!stopped) forget_stop(by);
        outcome = std::move(stopped).value();
    }
    if (outcome != StopOutcome::stopped) forget_stop(by);
    if (outcome == StopOutcome::idle && !receipts.empty()) {
        // The turn has ended meanwhile, and the stored request withdraws the questions of the session, as receive() does.
        outcome = StopOutcome::stopped;
        Envelope withdrawal = withdrawal_of(std::move(by));
        withdrawal.arrival = 0;
        withdrawal.receipts = std::move(receipts);
        if (context_.open) {
            outcome = StopOutcome::idle;
            const std::string key = lane_key(withdrawal);
            submit(find_or_add(key), QueuedMessage(std::move(withdrawal)));
        }
        co_return outcome;
    }
    co_await deliveries_.finish(std::move(receipts), outcome);
    co_return outcome;
}

/// Returns the result of a request that was executed before: its message is finished, or this process has acted on it.
Task<std::optional<StopOutcome>> AdmissionQueue::earlier_stop(Envelope by) {
    std::optional<StopOutcome> earlier;
    if (has_stopped(by)) earlier = StopOutcome::stopped;
    if (earlier) co_return earlier;
    Task<std::optional<KnownInbound>> finding =
        deliveries_.find(by.channel.value_or(""), by.inbound_id.value_or(""));
    Outcome<std::optional<KnownInbound>> found = co_await outcome_of(std::move(finding));
    if (found.cancelled()) found.rethrow();
    // Meanwhile the same request may have been executed.
    if (has_stopped(by)) earlier = StopOutcome::stopped;
    if (earlier || !found || !found.value() || !found.value()->id.empty()) co_return earlier;
    const std::string result = cubepi::detail::text_member(found.value()->message.rest, stop_key);
    earlier = StopOutcome::idle;
    for (const StopOutcome one : {StopOutcome::stopped, StopOutcome::refused})
        if (result == stop_record(one)) earlier = one;
    co_return earlier;
}

bool AdmissionQueue::has_stopped(const Envelope& by) const {
    return std::find(stops_.begin(), stops_.end(), stop_name(by)) != stops_.end();
}

void AdmissionQueue::note_stop(const Envelope& by) {
    constexpr std::size_t most_stops = 1'000;
    if (!has_stopped(by)) stops_.push_back(stop_name(by));
    if (stops_.size() > most_stops) stops_.pop_front();
}

void AdmissionQueue::forget_stop(const Envelope& by) { std::erase(stops_, stop_name(by)); }

/// Drops the messages of this user that no turn has got yet, because more may follow.
Task<bool> AdmissionQueue::drop_collected(std::string key, Envelope by) {
    const LanePtr lane = find(key);
    if (!lane || !lane->debouncer || !lane->debouncer->collects_from(sender_of(by)))
        co_return false;
    Receipts receipts;
    for (const Envelope& message : lane->debouncer->drain()) {
        receipts.insert(receipts.end(), message.receipts.begin(), message.receipts.end());
        sessions_.announce_drop(message);
    }
    lane->debouncer_done = true;
    forget_if_idle(lane);
    co_await deliveries_.finish(std::move(receipts));
    Envelope notice = notice_to(by, std::string(stopped_notice), "stopped");
    co_await deliveries_.post(std::move(notice));
    co_return true;
}

/// Passes the message to the lane's debouncer.
Task<> AdmissionQueue::collect(LanePtr lane, Envelope message) {
    const cubepi::Executor executor = co_await cubepi::this_executor;
    if (!lane->debouncer) add_debouncer(lane, executor);
    lane->debouncer_done = false;
    Receipts receipts = message.receipts;
    const bool accepted = lane->debouncer->add(std::move(message));
    if (!accepted) co_await deliveries_.finish(std::move(receipts));
}

void AdmissionQueue::add_debouncer(const LanePtr& lane, const cubepi::Executor& executor) {
    std::weak_ptr<Lane> weak = lane;
    Debouncer::Flush flush = [this, weak](Envelope merged) {
        const LanePtr here = weak.lock();
        if (here && context_.open) on_debounced(here, std::move(merged));
    };
    Debouncer::Idle idle = [this, weak] {
        const LanePtr here = weak.lock();
        if (!here) return;
        here->debouncer_done = true;
        forget_if_idle(here);
    };
    lane->debouncer = std::make_unique<Debouncer>(
        context_.clock(), executor, context_.options.debounce, std::move(flush), std::move(idle));
}

void AdmissionQueue::on_debounced(const LanePtr& lane, Envelope message) {
    QueuedMessage queued(std::move(message));
    if (is_full(lane->key, *queued.message)) {
        context_.spawn(reject(std::move(queued)));
    } else {
        submit(lane, std::move(queued));
    }
}

Task<> AdmissionQueue::reject(QueuedMessage message) {
    const std::shared_ptr<void> alive = context_.keep_alive();
    co_await deliveries_.finish(std::move(message.receipts));
    announce_rejection(std::move(*message.message), full_notice);
}

AdmissionQueue::LanePtr AdmissionQueue::find(const std::string& key) const {
    const auto found = lanes_.find(key);
    return found == lanes_.end() ? nullptr : found->second;
}

AdmissionQueue::LanePtr AdmissionQueue::find_or_add(const std::string& key) {
    LanePtr& lane = lanes_[key];
    if (!lane) {
        lane = std::make_shared<Lane>();
        lane->key = key;
    }
    return lane;
}

bool AdmissionQueue::is_full(const std::string& key, const Envelope& message) const {
    if (message.rest.contains(task_results_key)) return false;
    const LanePtr lane = find(key);
    if (message.answer) {
        const auto is_answer = [](const Arrival& one) {
            return one.queued.message->answer.has_value();
        };
        return lane && std::count_if(lane->arrivals.begin(), lane->arrivals.end(), is_answer) >=
                           max_waiting_answers;
    }
    return context_.is_full() || (lane && lane->arrivals.size() >= context_.options.max_waiting);
}

bool AdmissionQueue::is_wanted(const std::string& key, const Envelope& message) const {
    const LanePtr lane = find(key);
    return lane && lane->debouncer ? lane->debouncer->wants(message) : message.is_active;
}

void AdmissionQueue::resubmit(QueuedMessage message) {
    const LanePtr lane = find_or_add(lane_key(*message.message));
    // Those that are collected arrived before one that another gateway has stored (D205), but after one whose turn has begun.
    if (lane->debouncer && !message.begun) lane->debouncer->flush();
    submit(lane, std::move(message));
}

void AdmissionQueue::flush() {
    // A lane may be removed meanwhile.
    const auto lanes = lanes_;
    for (const auto& [key, lane] : lanes)
        if (lane->debouncer) lane->debouncer->flush();
}

AdmissionQueue::AdmissionPtr AdmissionQueue::submit(const LanePtr& lane, QueuedMessage message) {
    auto admission = std::make_shared<Admission>();
    message.number = ++context_.arrivals;
    message.since = context_.clock().now();
    Arrival arrival;
    arrival.queued = std::move(message);
    arrival.admission = admission;
    lane->arrivals.push_back(std::move(arrival));
    context_.add_waiting();
    if (!std::exchange(lane->working, true)) context_.spawn(admit_all(lane));
    return admission;
}

/// Its record is that of an unfinished message, so no other process serves the session meanwhile, and the next one gets the message if this
/// one ends.
Task<> AdmissionQueue::submit_later(Envelope message) {
    const std::shared_ptr<void> alive = context_.keep_alive();
    const std::shared_ptr<HeldTurn> held = std::exchange(message.held, nullptr);
    co_await held->wait();
    if (!context_.open) co_return;
    if (held->is_dropped()) {
        co_await deliveries_.finish(std::move(message.receipts));
        co_return;
    }
    if (context_.options.observer) context_.options.observer->received(message);
    const LanePtr lane = find_or_add(lane_key(message));
    submit(lane, QueuedMessage(std::move(message)));
}

Task<> AdmissionQueue::admit_all(LanePtr lane) {
    const std::shared_ptr<void> alive = context_.keep_alive();
    while (!lane->arrivals.empty()) {
        Arrival arrival = std::move(lane->arrivals.front());
        lane->arrivals.pop_front();
        context_.remove_waiting();
        lane->admitting = std::stop_source();
        Task<> admitting =
            cubepi::cancel_on(lane->admitting.get_token(), admit(lane, std::move(arrival.queued)));
        const Outcome<> admitted = co_await outcome_of(std::move(admitting));
        arrival.admission->failure = admitted.failure();
        arrival.admission->done.set();
        if (!context_.open) break;
    }
    lane->working = false;
    forget_if_idle(lane);
}

void AdmissionQueue::forget_if_idle(const LanePtr& lane) {
    if (!lane->working && lane->arrivals.empty() && (!lane->debouncer || lane->debouncer_done)) {
        const auto found = lanes_.find(lane->key);
        if (found != lanes_.end() && found->second == lane) {
            retired_.push_back(std::move(found->second));
            lanes_.erase(found);
        }
    }
    context_.changed.pulse();
}

Task<> AdmissionQueue::admit(LanePtr lane, QueuedMessage message) {
    lane->session_id.clear();
    // A channel reads from it whether the message outlives the process.
    message.message->receipts = message.receipts;
    const std::shared_ptr<Channel> channel = channels_.find(message.message->channel);
    if (auto* const follower = dynamic_cast<FollowsMessages*>(channel.get()))
        follower->accept(*message.message);
    Task<AdmitDecision> deciding = decide(lane, message.message);
    Outcome<AdmitDecision> decision = co_await outcome_of(std::move(deciding));
    message.message->receipts.clear();
    if (decision) {
        co_await apply(std::move(message), std::move(decision).value());
        co_return;
    }
    // A message that is not admitted is rejected (B8), and the observers are notified.
    if (!decision.cancelled()) {
        std::string stage = lane->session_id.empty() ? "resolve_session" : "admit_message";
        co_await context_.framework.notify_error(std::move(stage), decision.failure(),
                                                 message.message);
    }
    co_await cubepi::shield();
    // Messages interrupted by the end of the manager are delivered again, and so they are accepted.
    const bool is_accepted = !context_.open && !message.receipts.empty();
    if (context_.open) co_await deliveries_.finish(std::move(message.receipts));
    co_await cubepi::unshield();
    // No handler waits for one that was accepted before.
    if (context_.open && message.redelivered) sessions_.announce_drop(*message.message);
    if (!is_accepted) decision.rethrow();
}

Task<AdmitDecision> AdmissionQueue::decide(LanePtr lane, std::shared_ptr<Envelope> message) {
    std::string id = co_await context_.framework.resolve_session(message);
    message->session_id = id;
    lane->session_id = std::move(id);
    TurnSnapshot turn = sessions_.snapshot(lane->session_id);
    const std::optional<AdmitDecision> decision =
        co_await context_.framework.admit_message(lane->session_id, *message, std::move(turn));
    co_return decision.value_or(AdmitDecision());
}

Task<> AdmissionQueue::apply(QueuedMessage message, AdmitDecision decision) {
    const std::string id = message.message->session_id.value_or(std::string());
    if (decision.action == AdmitAction::drop) {
        sessions_.announce_drop(*message.message);
        co_await deliveries_.finish(std::move(message.receipts));
        co_return;
    }
    // Another gateway has received it (D253), or a process that has ended before it acted.
    if (message.redelivered && message.message->rest.contains(stop_key)) {
        StopOutcome stopped = StopOutcome::idle;
        if (has_stopped(*message.message)) {
            stopped = StopOutcome::stopped;
        } else if (!sessions_.began_after(id, message.number)) {
            // A message that waited when it was asked for follows, as it does where it waits.
            Task<StopOutcome> stopping = stop(*message.message);
            stopped = co_await std::move(stopping);
        }
        if (stopped != StopOutcome::idle) {
            co_await deliveries_.finish(std::move(message.receipts), stopped);
            message.message->rest[stop_key] = stop_record(stopped);
            sessions_.announce_drop(*message.message);
            co_return;
        }
    }
    bool steers = decision.action == AdmitAction::steer;
    // A message that is refused gets the reason instead of its own turn.
    if (steers && context_.options.gate) steers = co_await passes_gate(message);
    if (steers && sessions_.steer(id, message, decision.reason)) co_return;
    if (sessions_.is_full(id, *message.message) && !message.redelivered) {
        co_await deliveries_.finish(std::move(message.receipts));
        announce_rejection(std::move(*message.message), full_notice);
        throw queue_full();
    }
    sessions_.enqueue(id, std::move(message));
}

/// Returns false also if the gate fails, which the turn of the message reports.
Task<bool> AdmissionQueue::passes_gate(const QueuedMessage& message) {
    Envelope asked = *message.message;
    asked.receipts = message.receipts;
    Task<std::optional<std::string>> asking = context_.options.gate->refuse(std::move(asked));
    Outcome<std::optional<std::string>> refusal = co_await outcome_of(std::move(asking));
    if (refusal.cancelled()) refusal.rethrow();
    co_return refusal && !refusal.value();
}

/// Notifies the sender that the queue is full (B14), or that the turn is not theirs to stop, without delaying the messages of others: the channel may be slow to send. A sender
/// who has not received the last notice yet gets no further one.
void AdmissionQueue::announce_rejection(Envelope message, std::string_view text) {
    std::string sender = lane_key(message);
    if (notified_.insert(sender).second)
        context_.spawn(notify_rejected(std::move(message), std::move(sender), text));
}

Task<> AdmissionQueue::notify_rejected(Envelope message, std::string sender,
                                       std::string_view text) {
    const std::shared_ptr<void> alive = context_.keep_alive();
    const std::string channel = message.channel.value_or("");
    TurnOutput output(notice_to(message, std::string(text), "rejected"));
    Task<bool> sending = router_.dispatch_output(std::move(output));
    Outcome<bool> sent = co_await outcome_of(std::move(sending));
    notified_.erase(sender);
    if (sent.cancelled()) sent.rethrow();
    if (!sent) {
        context_.warn("channel.rejection_failed",
                      {{"channel", channel}, {"error", cubepi::logged_error(sent.failure())}},
                      "a message was rejected because too many are waiting; its sender could not "
                      "be notified: " +
                          describe(sent.failure()));
    } else if (!sent.value()) {
        context_.warn("channel.rejection_failed", {{"channel", channel}, {"error", "not_found"}},
                      "a message was rejected because too many are waiting; its sender was not "
                      "notified, because the channel is not running");
    }
}

void AdmissionQueue::cancel(const std::string& session_id) {
    for (const auto& [key, lane] : lanes_) {
        if (lane->working && (key == session_id || lane->session_id == session_id))
            lane->admitting.request_stop();
    }
}

void AdmissionQueue::clear(Leftover& leftover) {
    for (auto& [key, lane] : lanes_) {
        if (lane->debouncer) {
            for (const Envelope& message : lane->debouncer->drain())
                leftover.count(message.receipts);
        }
        for (Arrival& arrival : lane->arrivals) {
            leftover.count(arrival.queued.receipts);
            if (arrival.queued.receipts.empty())
                arrival.admission->failure = cubepi::make_cancelled();
            arrival.admission->done.set();
        }
        context_.remove_waiting(lane->arrivals.size());
        lane->arrivals.clear();
    }
}

std::size_t AdmissionQueue::busy() const {
    const auto is_busy = [](const auto& entry) {
        const Lane& lane = *entry.second;
        return lane.working || (lane.debouncer && lane.debouncer->waiting() > 0);
    };
    return static_cast<std::size_t>(std::count_if(lanes_.begin(), lanes_.end(), is_busy));
}

}  // namespace bub::detail
