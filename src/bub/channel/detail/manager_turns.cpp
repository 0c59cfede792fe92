#include <bub/channel/detail/manager_core.hpp>

#include <algorithm>
#include <utility>

#include <cubepi/core/cancellation.hpp>
#include <cubepi/core/error.hpp>

// The way of a message: lane, admission, session, turn.

namespace bub::detail {

using cubepi::Error;
using cubepi::ErrorCode;

namespace {

/// The session as far as the message tells it; hooks may say otherwise.
std::string lane_key(const Envelope& message) {
    if (message.session_id && !message.session_id->empty()) return *message.session_id;
    return message.channel.value_or("default") + ":" + message.chat_id.value_or("default");
}

}  // namespace

Task<> ManagerCore::receive(Envelope message) {
    const std::shared_ptr<ManagerCore> self = shared_from_this();
    if (!open_)
        throw Error(ErrorCode::invalid_state, "the channel manager takes no messages (any more)");
    Channel* channel = find_channel(message.channel);
    if (!channel) {
        throw Error(ErrorCode::not_found, "a message from a channel that does not run: " +
                                              message.channel.value_or("(none)"));
    }
    retired_.clear();
    const std::shared_ptr<Lane> lane = lane_of(message);
    if (channel->needs_debounce()) {
        if (!lane->debouncer) {
            const cubepi::Executor executor = co_await cubepi::this_executor;
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
                std::make_unique<Debouncer>(*framework_.runtime()->clock, executor,
                                            options_.debounce, std::move(flush), std::move(idle));
        }
        lane->debouncer_done = false;
        lane->debouncer->add(std::move(message));
        co_return;
    }
    const std::shared_ptr<Admission> admission = submit(lane, message);
    if (!admission) {
        forget_idle(lane);
        co_await refuse(std::move(message));
    }
    co_await admission->over.wait();
    if (admission->failure) std::rethrow_exception(admission->failure);
}

std::shared_ptr<Lane> ManagerCore::lane_of(const Envelope& message) {
    std::shared_ptr<Lane>& lane = lanes_[lane_key(message)];
    if (!lane) {
        lane = std::make_shared<Lane>();
        lane->key = lane_key(message);
    }
    return lane;
}

/// Null when too much waits already.
std::shared_ptr<Admission> ManagerCore::submit(const std::shared_ptr<Lane>& lane,
                                               Envelope message) {
    if (lane->arrivals.size() >= options_.max_waiting || waiting_ >= options_.max_waiting_in_all)
        return nullptr;
    Arrival arrival;
    arrival.message = std::make_shared<Envelope>(std::move(message));
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
    if (!submit(lane, message)) work_->spawn(refuse_quietly(std::move(message)));
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
        // Not admitted is refused (B8), and somebody is told.
        if (!cubepi::is_cancellation(failure))
            co_await framework_.notify_error(std::move(stage), failure, message);
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
    if (decision.action == AdmitAction::drop) co_return;
    const std::shared_ptr<SessionQueue> there = find_session(id);
    // A command is not something to tell the model (B11).
    const bool steers = decision.action == AdmitAction::steer && there && there->turn && inbox_ &&
                        !is_command(*arrival.message);
    if (steers) {
        Envelope steering = *arrival.message;
        if (!decision.reason.empty()) steering.context["steering_reason"] = decision.reason;
        if (inbox_->enqueue(id, std::move(steering))) {
            there->steered.push_back(arrival.number);
            co_return;
        }
    }
    const bool full = (there && there->waiting.size() >= options_.max_waiting) ||
                      waiting_ >= options_.max_waiting_in_all;
    if (full) co_await refuse(std::move(*arrival.message));
    Waiting waiting;
    waiting.message = std::move(arrival.message);
    waiting.number = arrival.number;
    enqueue(id, std::move(waiting));
}

/// Tells the sender that there is no room (B14), then throws.
Task<> ManagerCore::refuse(Envelope message) {
    co_await refuse_quietly(std::move(message));
    throw Error(ErrorCode::limit, "too many messages are waiting; this one was refused");
}

Task<> ManagerCore::refuse_quietly(Envelope message) {
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

std::shared_ptr<SessionQueue> ManagerCore::find_session(const std::string& id) const {
    const auto found = sessions_.find(id);
    return found == sessions_.end() ? nullptr : found->second;
}

std::shared_ptr<SessionQueue> ManagerCore::session(const std::string& id) {
    std::shared_ptr<SessionQueue>& session = sessions_[id];
    if (!session) {
        session = std::make_shared<SessionQueue>();
        session->id = id;
    }
    return session;
}

void ManagerCore::enqueue(const std::string& session_id, Waiting waiting) {
    const std::shared_ptr<SessionQueue> queue = session(session_id);
    queue->waiting.push_back(std::move(waiting));
    ++waiting_;
    if (!std::exchange(queue->working, true)) work_->spawn(run_session(queue));
}

Task<> ManagerCore::run_session(std::shared_ptr<SessionQueue> session) {
    const std::shared_ptr<ManagerCore> self = shared_from_this();
    while (!session->waiting.empty() && open_) {
        std::shared_ptr<Envelope> message = std::move(session->waiting.front().message);
        session->waiting.pop_front();
        if (waiting_ > 0) --waiting_;
        session->turn.emplace();
        try {
            Task<TurnResult> turn =
                framework_.process_inbound(std::move(message), options_.stream_output);
            const TurnResult result =
                co_await cubepi::cancel_on(session->turn->get_token(), std::move(turn));
        } catch (...) {
            // The observers were told; the next turn is not concerned.
        }
        session->turn.reset();
        take_back_steered(*session);
    }
    session->working = false;
    const auto found = sessions_.find(session->id);
    if (found != sessions_.end() && found->second == session && session->waiting.empty())
        sessions_.erase(found);
    changed();
}

/// What the turn did not take in waits for a turn of its own, in its place among those that came meanwhile.
void ManagerCore::take_back_steered(SessionQueue& session) {
    if (!inbox_) return;
    std::vector<Envelope> left = inbox_->drain(session.id);
    while (session.steered.size() > left.size()) session.steered.pop_front();
    for (Envelope& message : left) {
        Waiting waiting;
        waiting.message = std::make_shared<Envelope>(std::move(message));
        if (!session.steered.empty()) {
            waiting.number = session.steered.front();
            session.steered.pop_front();
        }
        session.waiting.push_back(std::move(waiting));
        ++waiting_;
    }
    std::sort(session.waiting.begin(), session.waiting.end(),
              [](const Waiting& a, const Waiting& b) { return a.number < b.number; });
}

bool ManagerCore::cancel_turn(const std::string& session_id) {
    const std::shared_ptr<SessionQueue> session = find_session(session_id);
    if (!session || !session->turn) return false;
    session->turn->request_stop();
    return true;
}

Task<> ManagerCore::quit(std::string session_id) {
    const std::shared_ptr<SessionQueue> session = find_session(session_id);
    if (inbox_) (void)inbox_->drain(session_id);
    if (session) {
        waiting_ -= std::min(waiting_, session->waiting.size());
        session->waiting.clear();
        session->steered.clear();
    }
    co_return;
}

Task<> ManagerCore::abort_session(std::string session_id) {
    co_await quit(session_id);
    for (const auto& [key, lane] : lanes_) {
        if (lane->working && (key == session_id || lane->session_id == session_id))
            lane->admitting.request_stop();
    }
    cancel_turn(session_id);
}

TurnSnapshot ManagerCore::snapshot(const std::string& session_id) const {
    TurnSnapshot turn;
    turn.session_id = session_id;
    const std::shared_ptr<SessionQueue> session = find_session(session_id);
    if (session) {
        turn.is_running = session->turn.has_value();
        turn.running_count = turn.is_running ? 1 : 0;
        turn.pending_count = session->waiting.size();
    }
    if (inbox_) turn.steering_count = inbox_->count(session_id);
    return turn;
}

std::size_t ManagerCore::working_lanes() const {
    return static_cast<std::size_t>(
        std::count_if(lanes_.begin(), lanes_.end(), [](const auto& entry) {
            return entry.second->working ||
                   (entry.second->debouncer && entry.second->debouncer->waiting() > 0);
        }));
}

Task<> ManagerCore::idle() {
    const std::shared_ptr<ManagerCore> self = shared_from_this();
    while (busy_sessions() > 0) co_await idle_.wait();
}

}  // namespace bub::detail
