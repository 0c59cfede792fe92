#include <bub/channel/manager/manager_core.hpp>

#include <algorithm>
#include <utility>

#include <cubepi/core/cancellation.hpp>
#include <cubepi/core/error.hpp>

// The path of a message to its session: lane, debounce, admission. manager_turns.cpp continues from there.

namespace bub::detail {

using cubepi::Error;
using cubepi::ErrorCode;

std::string lane_key(const Envelope& message) {
    if (message.session_id && !message.session_id->empty()) return *message.session_id;
    return message.channel.value_or("default") + ":" + message.chat_id.value_or("default");
}

namespace {

void check_open(bool open) {
    if (!open)
        throw Error(ErrorCode::invalid_state, "the channel manager takes no messages (any more)");
}

Error no_room() {
    return Error(ErrorCode::limit, "too many messages are waiting; this one was refused");
}

}  // namespace

Task<> ManagerCore::receive(Envelope message) {
    const std::shared_ptr<ManagerCore> self = shared_from_this();
    check_open(open_);
    const std::shared_ptr<Channel> channel = find_channel(message.channel);
    if (!channel) {
        throw Error(ErrorCode::not_found, "a message from a channel that does not run: " +
                                              message.channel.value_or("(none)"));
    }
    retired_.clear();
    const std::string key = lane_key(message);
    const bool collects = channel->needs_debounce() && !is_command(message);
    if (collects && !is_wanted(key, message)) {
        // The debouncer, if there is one, records that the conversation is over.
        const std::shared_ptr<Lane> lane = find_lane(key);
        if (lane && lane->debouncer) lane->debouncer->add(std::move(message));
        co_return;
    }
    if (!collects && is_full(key)) {
        co_await tell_refused(std::move(message));
        throw no_room();
    }
    Receipts receipts;
    if (is_recorded(*channel)) {
        Task<std::optional<std::string>> storing = options_.deliveries->receive(message);
        const std::optional<std::string> receipt = co_await std::move(storing);
        // The platform delivered a message again that is already stored.
        if (!receipt) co_return;
        receipts.push_back(*receipt);
        check_open(open_);
    }
    const cubepi::Executor executor = co_await cubepi::this_executor;
    const std::shared_ptr<Lane> lane = lane_of(message);
    if (collects) {
        Receipts dropped = collect(lane, std::move(message), std::move(receipts), executor);
        co_await note_over(std::move(dropped));
        co_return;
    }
    Arrival arrival;
    arrival.message = std::make_shared<Envelope>(std::move(message));
    arrival.receipts = std::move(receipts);
    const std::shared_ptr<Admission> admission = submit(lane, std::move(arrival));
    co_await admission->over.wait();
    if (admission->failure) std::rethrow_exception(admission->failure);
}

/// Passes the message to the lane's debouncer; returns the receipts if the debouncer does not accept it.
Receipts ManagerCore::collect(const std::shared_ptr<Lane>& lane, Envelope message,
                              Receipts receipts, const cubepi::Executor& executor) {
    if (!lane->debouncer) {
        std::weak_ptr<Lane> weak = lane;
        Debouncer::Flush flush = [this, weak](Envelope merged) {
            on_debounced(weak, std::move(merged));
        };
        Debouncer::Idle idle = [this, weak] {
            const std::shared_ptr<Lane> here = weak.lock();
            if (!here) return;
            here->debouncer_done = true;
            forget_idle(here);
        };
        lane->debouncer =
            std::make_unique<Debouncer>(*framework_.runtime()->clock, executor, options_.debounce,
                                        std::move(flush), std::move(idle));
    }
    lane->debouncer_done = false;
    // Before the message is added, because it may be flushed immediately.
    lane->collected.insert(lane->collected.end(), receipts.begin(), receipts.end());
    if (lane->debouncer->add(std::move(message))) return {};
    lane->collected.resize(lane->collected.size() - receipts.size());
    return receipts;
}

std::shared_ptr<Lane> ManagerCore::find_lane(const std::string& key) const {
    const auto found = lanes_.find(key);
    return found == lanes_.end() ? nullptr : found->second;
}

std::shared_ptr<Lane> ManagerCore::lane_of(const Envelope& message) {
    std::shared_ptr<Lane>& lane = lanes_[lane_key(message)];
    if (!lane) {
        lane = std::make_shared<Lane>();
        lane->key = lane_key(message);
    }
    return lane;
}

bool ManagerCore::is_full(const std::string& key) const {
    const std::shared_ptr<Lane> lane = find_lane(key);
    return waiting_ >= options_.max_waiting_in_all ||
           (lane && lane->arrivals.size() >= options_.max_waiting);
}

bool ManagerCore::is_wanted(const std::string& key, const Envelope& message) const {
    const std::shared_ptr<Lane> lane = find_lane(key);
    return lane && lane->debouncer ? lane->debouncer->wants(message) : message.is_active;
}

std::shared_ptr<Admission> ManagerCore::submit(const std::shared_ptr<Lane>& lane, Arrival arrival) {
    arrival.admission = std::make_shared<Admission>();
    arrival.number = ++arrivals_;
    std::shared_ptr<Admission> admission = arrival.admission;
    lane->arrivals.push_back(std::move(arrival));
    ++waiting_;
    if (!std::exchange(lane->working, true)) work_->spawn(admit_all(lane));
    return admission;
}

void ManagerCore::on_debounced(std::weak_ptr<Lane> weak, Envelope message) {
    const std::shared_ptr<Lane> lane = weak.lock();
    if (!lane || !open_) return;
    Arrival arrival;
    arrival.receipts = std::exchange(lane->collected, {});
    if (is_full(lane->key)) {
        work_->spawn(refuse_collected(std::move(message), std::move(arrival.receipts)));
        return;
    }
    arrival.message = std::make_shared<Envelope>(std::move(message));
    submit(lane, std::move(arrival));
}

Task<> ManagerCore::refuse_collected(Envelope message, Receipts receipts) {
    co_await tell_refused(std::move(message));
    co_await note_over(std::move(receipts));
}

Task<> ManagerCore::admit_all(std::shared_ptr<Lane> lane) {
    const std::shared_ptr<ManagerCore> self = shared_from_this();
    while (!lane->arrivals.empty()) {
        Arrival arrival = std::move(lane->arrivals.front());
        lane->arrivals.pop_front();
        if (waiting_ > 0) --waiting_;
        const std::shared_ptr<Admission> admission = arrival.admission;
        lane->admitting = std::stop_source();
        try {
            co_await cubepi::cancel_on(lane->admitting.get_token(),
                                       admit(lane, std::move(arrival)));
        } catch (...) {
            admission->failure = std::current_exception();
        }
        admission->over.set();
        if (!open_) break;
    }
    lane->working = false;
    forget_idle(lane);
}

void ManagerCore::forget_idle(const std::shared_ptr<Lane>& lane) {
    if (!lane->working && lane->arrivals.empty() && (!lane->debouncer || lane->debouncer_done)) {
        const auto found = lanes_.find(lane->key);
        if (found != lanes_.end() && found->second == lane) {
            retired_.push_back(std::move(found->second));
            lanes_.erase(found);
        }
    }
    changed();
}

Task<> ManagerCore::admit(std::shared_ptr<Lane> lane, Arrival arrival) {
    lane->session_id.clear();
    const std::shared_ptr<Envelope> message = arrival.message;
    std::string stage = "resolve_session";
    std::exception_ptr failure;
    AdmitDecision decision;
    try {
        std::string id = co_await framework_.resolve_session(message);
        message->session_id = id;
        lane->session_id = std::move(id);
        stage = "admit_message";
        decision = co_await decide(lane, message);
    } catch (...) {
        failure = std::current_exception();
    }
    if (failure) {
        const bool cancelled = cubepi::is_cancellation(failure);
        // A message that is not admitted is rejected (B8), and the observers are notified.
        if (!cancelled) co_await framework_.notify_error(std::move(stage), failure, message);
        if (cancelled) co_await cubepi::shield();
        // Messages interrupted by the end of the manager are delivered again.
        if (open_) co_await note_over(std::move(arrival.receipts));
        if (cancelled) co_await cubepi::unshield();
        std::rethrow_exception(failure);
    }
    co_await place(std::move(arrival), std::move(decision));
}

Task<AdmitDecision> ManagerCore::decide(std::shared_ptr<Lane> lane,
                                        std::shared_ptr<Envelope> message) {
    TurnSnapshot turn = snapshot(lane->session_id);
    const std::optional<AdmitDecision> decision =
        co_await framework_.admit_message(lane->session_id, *message, std::move(turn));
    co_return decision.value_or(AdmitDecision());
}

Task<> ManagerCore::place(Arrival arrival, AdmitDecision decision) {
    const std::string id = arrival.message->session_id.value_or(std::string());
    if (decision.action == AdmitAction::drop) {
        co_await note_over(std::move(arrival.receipts));
        co_return;
    }
    const std::shared_ptr<SessionQueue> there = find_session(id);
    // A command must not be passed to the model (B11).
    const bool steers = decision.action == AdmitAction::steer && there && there->turn && inbox_ &&
                        !is_command(*arrival.message);
    if (steers) {
        Envelope steering = *arrival.message;
        steering.arrival = arrival.number;
        if (!decision.reason.empty()) steering.context["steering_reason"] = decision.reason;
        if (inbox_->enqueue(id, std::move(steering))) {
            Steered given;
            given.number = arrival.number;
            given.receipts = std::move(arrival.receipts);
            there->steered.push_back(std::move(given));
            co_return;
        }
    }
    const bool full = (there && there->waiting.size() >= options_.max_waiting) ||
                      waiting_ >= options_.max_waiting_in_all;
    if (full && !arrival.comes_again) {
        co_await note_over(std::move(arrival.receipts));
        co_await tell_refused(std::move(*arrival.message));
        throw no_room();
    }
    Waiting waiting;
    waiting.message = std::move(arrival.message);
    waiting.number = arrival.number;
    waiting.receipts = std::move(arrival.receipts);
    enqueue(id, std::move(waiting));
}

/// Notifies the sender that the queue is full (B14).
Task<> ManagerCore::tell_refused(Envelope message) {
    Envelope answer(
        "Too many messages are waiting here. The last one was not taken: please send it again "
        "when this is answered.");
    answer.session_id = message.session_id;
    answer.channel = message.channel;
    answer.chat_id = message.chat_id;
    answer.output_channel = message.output_channel;
    answer.kind = std::string(envelope_kind::error);
    std::exception_ptr failure;
    try {
        const bool told = co_await dispatch_output(std::move(answer));
        if (!told) warn("a message was refused, and nobody could be told");
    } catch (...) {
        failure = std::current_exception();
    }
    if (cubepi::is_cancellation(failure)) std::rethrow_exception(failure);
    if (failure) warn("a message was refused, and its sender not told: " + describe(failure));
}

}  // namespace bub::detail
