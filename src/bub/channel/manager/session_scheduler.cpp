#include <bub/channel/manager/session_scheduler.hpp>

#include <algorithm>
#include <iterator>
#include <utility>

#include <bub/channel/follows_messages.hpp>
#include <bub/questions.hpp>
#include <cubepi/core/cancellation.hpp>
#include <cubepi/core/error.hpp>
#include <cubepi/core/outcome.hpp>
#include <cubepi/core/support/json_member.hpp>
#include <cubepi/core/support/random_word.hpp>
#include <cubepi/core/timeout.hpp>

namespace bub::detail {

namespace {

void append(Receipts& receipts, const Receipts& more) {
    receipts.insert(receipts.end(), more.begin(), more.end());
}

constexpr std::chrono::milliseconds first_delay{1'000};
constexpr std::chrono::milliseconds longest_delay{30'000};
/// The sender is told after this many failures, i.e. after some ten seconds.
constexpr std::size_t failures_before_notice = 4;
constexpr std::string_view delayed_notice =
    "A technical problem delays the answer. Your message is stored and is processed as soon as "
    "possible.";
constexpr std::string_view held_notice =
    "Your message was not processed because of a technical problem. It is stored until an operator "
    "decides about it.";

constexpr std::string_view incomplete_notice =
    "The answer is incomplete because of a technical problem. What is missing may follow later.";

constexpr std::string_view over_notice = "The turn was over before it could be stopped.";

std::exception_ptr taken_error() {
    return std::make_exception_ptr(SessionTakenError("another gateway processes the message"));
}

std::exception_ptr stopped_error() {
    return std::make_exception_ptr(
        SenderError(cubepi::ErrorCode::unavailable, std::string(stopped_notice)));
}

/// Operators stop every turn, and so does the only user of a chat; other users stop the turns of their messages.
bool may_stop(const Envelope& by, const Envelope& running) {
    const Json* const alone = by.context.if_contains("private_chat");
    return by.is_operator() || (alone && *alone == Json(true)) ||
           (by.channel == running.channel && sender_of(by) == sender_of(running));
}

/// Returns how a message is finished whose turn is stopped. A request to stop has a result of its own (D265).
StopOutcome end_of_stopped(const Envelope& message) {
    return message.rest.contains(stop_key) ? StopOutcome::idle : StopOutcome::stopped;
}

/// Returns the delay after this many failures. Sessions that have failed together do not try again together.
std::chrono::nanoseconds retry_delay(std::size_t failures, cubepi::IdSource& ids) {
    constexpr std::size_t most_doublings = 5;
    const auto doubled = first_delay * (1U << std::min(failures - 1, most_doublings));
    const double part = (1 + cubepi::detail::random_fraction(ids)) / 2;
    return std::chrono::duration_cast<std::chrono::nanoseconds>(
        std::min<std::chrono::milliseconds>(longest_delay, doubled) * part);
}

TurnOutcome outcome_of_turn(cubepi::Outcome<TurnOutcome>& ended) {
    if (ended) return ended.value();
    return ended.cancelled() ? TurnOutcome::cancelled : TurnOutcome::failed;
}

}  // namespace

SessionScheduler::SessionPtr SessionScheduler::find(const std::string& id) const {
    const auto found = sessions_.find(id);
    return found == sessions_.end() ? nullptr : found->second;
}

void SessionScheduler::enqueue(const std::string& session_id, QueuedMessage message) {
    Waiting waiting;
    waiting.queued = std::move(message);
    enqueue(session_id, std::move(waiting));
}

void SessionScheduler::enqueue_outputs(const std::string& session_id,
                                       std::vector<TurnOutput> outputs, Receipts receipts) {
    Waiting waiting;
    waiting.queued.receipts = std::move(receipts);
    waiting.queued.number = ++context_.arrivals;
    waiting.outputs = std::move(outputs);
    enqueue(session_id, std::move(waiting));
}

void SessionScheduler::enqueue_wait(const std::string& session_id,
                                    std::shared_ptr<cubepi::AsyncEvent> sent) {
    Waiting waiting;
    waiting.queued.number = ++context_.arrivals;
    waiting.sent = std::move(sent);
    enqueue(session_id, std::move(waiting));
}

void SessionScheduler::enqueue(const std::string& session_id, Waiting waiting) {
    SessionPtr& session = sessions_[session_id];
    if (!session) {
        session = std::make_shared<Session>();
        session->id = session_id;
    }
    session->waiting.push_back(std::move(waiting));
    context_.add_waiting();
    if (!std::exchange(session->working, true)) context_.spawn(run(session));
}

Task<> SessionScheduler::run(SessionPtr session) {
    const std::shared_ptr<void> alive = context_.keep_alive();
    co_await context_.ready.wait();
    while (!session->waiting.empty() && context_.open && !context_.draining) {
        if (co_await wait_for_retry(session)) continue;
        Waiting next = std::move(session->waiting.front());
        session->waiting.pop_front();
        context_.remove_waiting();
        session->turn = std::make_shared<Turn>();
        session->turn->message = next.queued.message;
        session->turn->receipts = next.queued.receipts;
        session->turn->arrivals = context_.arrivals;
        session->turn->begun_before = next.queued.begun;
        session->answered = std::move(next.queued.receipts);
        session->failure = nullptr;
        const cubepi::Clock::time_point begun = context_.clock().now();
        Waiting message;
        message.queued = next.queued;
        // Messages that wait for an answer would only wait again.
        const bool releases = !message.queued.message || !is_command(*message.queued.message);
        Task<TurnOutcome> turn = run_turn(session, std::move(next));
        // The observers were notified of a failure, which does not affect the next turn.
        cubepi::Outcome<TurnOutcome> ended = co_await cubepi::outcome_of(std::move(turn));
        std::shared_ptr<Turn> over = std::exchange(session->turn, nullptr);
        const TurnOutcome outcome = outcome_of_turn(ended);
        co_await cubepi::shield();
        const bool is_stopped = over->stopped && outcome == TurnOutcome::failed;
        report(*session, message, is_stopped ? TurnOutcome::cancelled : outcome, begun);
        const bool is_put_back = outcome == TurnOutcome::postponed || outcome == TurnOutcome::held;
        if (!is_put_back) session->retry = {};
        if (outcome == TurnOutcome::taken) {
            // This process did not end in the turn. A command is not run again, even so.
            const std::shared_ptr<Envelope>& lost = message.queued.message;
            if (lost && !is_command(*lost)) co_await deliveries_.put_back(session->answered);
            // The messages that steered the turn find out when their turns begin.
            session->answered.clear();
            (void)take_back_steered(*session, true);
        } else if (is_put_back) {
            co_await put_back(session, std::move(over), std::move(message), outcome);
        } else if (outcome == TurnOutcome::unread) {
            co_await keep_unread(session, std::move(message));
            // Those that have steered the run in which this one did not get its place.
            co_await end_turn(session, over, false);
        } else {
            // The remaining outputs are in its record.
            if (outcome == TurnOutcome::cut_off)
                deliveries_.leave_late(std::exchange(session->answered, {}));
            // Turns interrupted by the end of the manager are run again by the next one.
            co_await end_turn(session, over, !context_.open && outcome == TurnOutcome::cancelled);
            if (over->stopped) deliveries_.announce_end(*over->message);
            if (outcome != TurnOutcome::suspended && releases) take_back_unread(*session);
        }
        co_await cubepi::unshield();
    }
    session->working = false;
    const auto found = sessions_.find(session->id);
    const bool idle = session->waiting.empty() && session->unread.empty();
    if (found != sessions_.end() && found->second == session && idle) sessions_.erase(found);
    // Waiting messages are left to other gateways.
    if (context_.draining && !idle) context_.left.pulse();
    context_.changed.pulse();
}

Task<TurnOutcome> SessionScheduler::run_turn(SessionPtr session, Waiting next) {
    if (!next.queued.message) {
        Task<> finishing = finish_stored(session, std::move(next));
        const cubepi::Outcome<> finished = co_await cubepi::outcome_of(std::move(finishing));
        if (is_session_taken(finished.failure())) co_return TurnOutcome::taken;
        if (cause_of(finished.failure()) != FailureCause::turn)
            co_return cut_off(finished.failure());
        finished.rethrow();
        co_return TurnOutcome::answered;
    }
    const std::shared_ptr<Envelope> message = std::move(next.queued.message);
    message->receipts = session->answered;
    const std::shared_ptr<Channel> channel = channels_.find(message->channel);
    auto* const follower = dynamic_cast<FollowsTurns*>(channel.get());
    const bool is_ours = co_await deliveries_.begin(session->answered);
    if (!is_ours) {
        if (follower) follower->end_turn(*message, taken_error());
        co_return TurnOutcome::taken;
    }
    if (follower) follower->begin_turn(*message);
    Task<TurnOutcome> turn = process(session, message);
    cubepi::Outcome<TurnOutcome> ended = co_await cubepi::outcome_of(std::move(turn));
    std::exception_ptr failure = ended.failure();
    session->failure = failure;
    std::optional<TurnOutcome> end;
    if (ended) end = ended.value();
    const std::shared_ptr<Turn> turn_of_message = session->turn;
    if (is_session_taken(failure)) {
        end = TurnOutcome::taken;
    } else if (cause_of(failure) != FailureCause::turn && !session->answered.empty() &&
               !turn_of_message->stopped) {
        // A decision is not interrupted: a message that is held must not be processed again.
        co_await cubepi::shield();
        end = co_await after_failure(session, message, failure);
        co_await cubepi::unshield();
        // The details are for the operator. What is missing of a shared log's answer follows soon, and is read from the records.
        const std::string_view text = end == TurnOutcome::cut_off ? incomplete_notice : held_notice;
        failure = end == TurnOutcome::cut_off && deliveries_.is_shared()
                      ? taken_error()
                      : std::make_exception_ptr(
                            SenderError(cubepi::ErrorCode::unavailable, std::string(text)));
    }
    if (end == TurnOutcome::taken) {
        context_.framework.runtime()->log.write(cubepi::LogLevel::warning, "turn.taken");
        failure = taken_error();
    }
    // The record of a stopped turn is finished: nothing repeats it.
    if (turn_of_message->stopped && end != TurnOutcome::answered && end != TurnOutcome::suspended &&
        end != TurnOutcome::taken) {
        co_await deliveries_.post(notice_to(*message, std::string(stopped_notice), "stopped"));
        failure = stopped_error();
        end.reset();
    } else if (turn_of_message->stopped && end != TurnOutcome::taken) {
        // Nothing else answers the request to stop.
        co_await deliveries_.post(notice_to(*message, std::string(over_notice), "stopped"));
    }
    if (follower && end == TurnOutcome::postponed) {
        follower->postpone_turn(*message);
    } else if (follower) {
        follower->end_turn(*message, failure);
    }
    if (!end) std::rethrow_exception(failure);
    co_return *end;
}

/// Waits until the next turn of a message whose turn has failed. Returns false if there is none.
Task<bool> SessionScheduler::wait_for_retry(SessionPtr session) {
    const cubepi::Clock::time_point next = session->retry.next;
    if (session->retry.failures == 0 || context_.clock().now() >= next) co_return false;
    Task<> dropped = session->dropped.wait();
    (void)co_await cubepi::detail::run_until(context_.clock(), next, std::move(dropped));
    co_return true;
}

/// Decides about a message whose turn failed because of the infrastructure, and tells its sender.
Task<TurnOutcome> SessionScheduler::after_failure(SessionPtr session,
                                                  std::shared_ptr<Envelope> message,
                                                  std::exception_ptr failure) {
    // A log that cannot be read has not recorded that an answer is sent either.
    Task<bool> asking = deliveries_.is_being_answered(session->answered);
    cubepi::Outcome<bool> answered = co_await cubepi::outcome_of(std::move(asking));
    if (answered.cancelled()) answered.rethrow();
    if (answered && answered.value()) {
        if (!deliveries_.is_shared())
            co_await deliveries_.post(
                notice_to(*message, std::string(incomplete_notice), "cut_off"));
        co_return cut_off(failure);
    }
    if (cause_of(failure) == FailureCause::conflict && !session->turn->stopped) {
        // The other writer may be the gateway that has taken the session: this one has read what that one wrote.
        Task<bool> losing = deliveries_.are_taken(session->answered);
        cubepi::Outcome<bool> taken = co_await cubepi::outcome_of(std::move(losing));
        if (taken.cancelled()) taken.rethrow();
        if (taken && taken.value()) co_return TurnOutcome::taken;
    }
    const bool is_first = failing() == 0;
    const cubepi::Clock::time_point now = context_.clock().now();
    Retry& retry = session->retry;
    retry.cause = cause_of(failure);
    if (retry.failures++ == 0) retry.first = now;
    const bool is_over = retry.cause == FailureCause::conflict || is_command(*message) ||
                         now - retry.first >= context_.options.retry_limit;
    if (is_over) {
        context_.warn(
            "turn.held", {{"error", cubepi::logged_error(failure)}},
            "message " + session->answered.front() +
                " is held for the operator, because its turn failed: " + describe(failure));
        co_await deliveries_.post(notice_to(*message, std::string(held_notice), "held"));
        co_return TurnOutcome::held;
    }
    retry.next = now + retry_delay(retry.failures, *context_.framework.runtime()->ids);
    if (is_first) {
        context_.warn("turn.postponed", {{"error", cubepi::logged_error(failure)}},
                      "turns fail and are tried again: " + describe(failure));
    } else {
        context_.framework.runtime()->log.write(
            cubepi::LogLevel::warning, "turn.postponed",
            {{"error", cubepi::logged_error(failure)}, {"failures", retry.failures}});
    }
    if (retry.failures == failures_before_notice)
        co_await deliveries_.post(notice_to(*message, std::string(delayed_notice), "postponed"));
    co_return TurnOutcome::postponed;
}

TurnOutcome SessionScheduler::cut_off(const std::exception_ptr& failure) const {
    context_.warn("turn.cut_off", {{"error", cubepi::logged_error(failure)}},
                  "an answer was sent in part, and the remainder is sent from its record" +
                      std::string(deliveries_.is_shared() ? ": " : " at the next start: ") +
                      describe(failure));
    return TurnOutcome::cut_off;
}

Task<TurnOutcome> SessionScheduler::process(SessionPtr session, std::shared_ptr<Envelope> message) {
    if (session->retry.failures > 0) {
        // A call that records an answer may fail although the answer is stored; it is sent from its record (B18).
        const bool is_answered = co_await deliveries_.is_being_answered(session->answered);
        if (is_answered)
            throw cubepi::CheckpointerError(
                cubepi::ErrorCode::storage,
                "an answer was recorded by a call whose result did not arrive");
    }
    if (context_.options.gate) co_await pass_gate(session, message);
    std::stop_token stop = session->turn->stop.get_token();
    const bool stream = context_.options.stream_output;
    TurnShards* const shards = context_.options.shards.get();
    Task<TurnSummary> turn =
        shards ? shards->run_turn(session->id, message, stream) : run_here(message, stream);
    const TurnSummary ended = co_await cubepi::cancel_on(std::move(stop), std::move(turn));
    const std::shared_ptr<Channel> channel = channels_.find(message->channel);
    auto* const shows = dynamic_cast<ShowsOutcomes*>(channel.get());
    if (shows && ended.answer) shows->show_outcome(*message, *ended.answer);
    if (ended.unread) co_return TurnOutcome::unread;
    co_return ended.suspended ? TurnOutcome::suspended : TurnOutcome::answered;
}

/// Throws if the message gets no turn, after its sender was told so by an output like that of a failed turn.
Task<> SessionScheduler::pass_gate(SessionPtr session, std::shared_ptr<Envelope> message) {
    Envelope asked = *message;
    Task<std::optional<std::string>> asking = context_.options.gate->refuse(std::move(asked));
    const std::optional<std::string> refusal = co_await std::move(asking);
    if (!refusal) co_return;
    TurnOutput output(notice_to(*message, *refusal, "limit"), 0, 1);
    Receipts answered = session->answered;
    Task<bool> sending = deliveries_.send(std::move(output), std::move(answered));
    (void)co_await std::move(sending);
    throw SenderError(cubepi::ErrorCode::limit, *refusal);
}

Task<TurnSummary> SessionScheduler::run_here(std::shared_ptr<Envelope> message, bool stream) {
    const TurnResult result =
        co_await context_.framework.process_inbound(std::move(message), stream);
    co_return summary_of(result);
}

/// Reports the end of the turn of a message.
void SessionScheduler::report(const Session& session, const Waiting& message, TurnOutcome outcome,
                              cubepi::Clock::time_point begun) const {
    const std::shared_ptr<ManagerObserver>& observer = context_.options.observer;
    if (!observer || !message.queued.message) return;
    const cubepi::Clock::time_point now = context_.clock().now();
    const cubepi::Clock::time_point since = message.queued.since;
    EndedTurn turn{*message.queued.message, outcome, session.failure};
    turn.duration = now - begun;
    turn.latency = now - (since == cubepi::Clock::time_point() ? begun : since);
    observer->turn_ended(turn);
}

/// Keeps a message until the question is answered. Its record shows that no turn has processed it.
Task<> SessionScheduler::keep_unread(SessionPtr session, Waiting message) {
    message.queued.receipts = std::exchange(session->answered, {});
    co_await deliveries_.put_back(message.queued.receipts);
    session->unread.push_back(std::move(message));
    context_.add_waiting();
}

/// Puts a message back whose turn has failed; its record shows that no turn has processed it. The record of one that is held shows that
/// it was begun.
Task<> SessionScheduler::put_back(SessionPtr session, std::shared_ptr<Turn> turn, Waiting message,
                                  TurnOutcome end) {
    message.queued.receipts = std::exchange(session->answered, {});
    session->failed = turn;
    if (end == TurnOutcome::held) {
        session->retry = {};
        for (const std::string& receipt : message.queued.receipts) deliveries_.hold(receipt);
    }
    if (end == TurnOutcome::postponed) {
        co_await deliveries_.put_back(message.queued.receipts);
    } else if (!is_command(*message.queued.message)) {
        // It waits for the operator at the next start as well.
        co_await deliveries_.record_hold(message.queued.receipts);
    }
    session->failed = nullptr;
    (void)take_back_steered(*session, true);
    if (turn->stopped) {
        session->retry = {};
        for (const std::string& receipt : message.queued.receipts) deliveries_.unhold(receipt);
        co_await end_stopped(message.queued.message);
        co_return;
    }
    if (end == TurnOutcome::held) {
        take_back_unread(*session);
        co_return;
    }
    session->waiting.push_front(std::move(message));
    context_.add_waiting();
}

void SessionScheduler::take_back_unread(Session& session) {
    session.waiting.insert(session.waiting.begin(), std::make_move_iterator(session.unread.begin()),
                           std::make_move_iterator(session.unread.end()));
    session.unread.clear();
}

/// Finishes what an earlier process has left of a turn.
Task<> SessionScheduler::finish_stored(SessionPtr session, Waiting stored) {
    std::stop_token stop = session->turn->stop.get_token();
    if (stored.sent) {
        co_await cubepi::cancel_on(std::move(stop), stored.sent->wait());
    } else {
        Task<> sending = send_outputs(std::move(stored.outputs));
        co_await cubepi::cancel_on(std::move(stop), std::move(sending));
    }
}

Task<> SessionScheduler::send_outputs(std::vector<TurnOutput> outputs) {
    for (TurnOutput& output : outputs)
        co_await context_.framework.dispatch_outbound(std::move(output));
}

Task<> SessionScheduler::end_turn(SessionPtr session, std::shared_ptr<Turn> turn,
                                  bool interrupted) {
    Receipts over = std::exchange(session->answered, {});
    const std::vector<QueuedMessage> accepted = take_back_steered(*session);
    if (interrupted) {
        co_await deliveries_.put_back(std::move(over));
        co_return;
    }
    for (const QueuedMessage& one : accepted) {
        append(over, one.receipts);
        const std::shared_ptr<Channel> channel = channels_.find(one.message->channel);
        auto* const follower = dynamic_cast<FollowsMessages*>(channel.get());
        if (follower && turn->message) follower->join_turn(*one.message, *turn->message);
    }
    co_await deliveries_.finish(std::move(over));
}

bool SessionScheduler::steer(const std::string& session_id, const QueuedMessage& message,
                             const std::string& reason) {
    const SessionPtr session = find(session_id);
    // Commands and answers must not be passed to the model (B11, B24).
    if (context_.draining || !session || !session->turn || !inbox_ || !is_prompt(*message.message))
        return false;
    Envelope steering = *message.message;
    steering.arrival = message.number;
    steering.receipts = message.receipts;
    if (!reason.empty()) steering.context["steering_reason"] = reason;
    if (context_.options.shards) context_.options.shards->keep_here(steering);
    if (!inbox_->enqueue(session_id, std::move(steering))) return false;
    session->steered.push_back(message);
    return true;
}

/// Requeues messages that the turn did not accept, in order of arrival among the other waiting messages; a message that
/// did not come through the manager (a plugin put it into the inbox) comes last. Returns the messages that the turn accepted; or
/// requeues these as well.
std::vector<QueuedMessage> SessionScheduler::take_back_steered(Session& session,
                                                               bool accepted_too) {
    std::vector<QueuedMessage> accepted = std::exchange(session.steered, {});
    std::vector<QueuedMessage> returned;
    if (inbox_) {
        for (Envelope& message : inbox_->drain(session.id)) {
            QueuedMessage& queued = returned.emplace_back(std::move(message));
            if (queued.number == 0) queued.number = ++context_.arrivals;
            std::erase_if(accepted, [&queued](const QueuedMessage& one) {
                return one.number == queued.number;
            });
        }
    }
    if (accepted_too) {
        std::move(accepted.begin(), accepted.end(), std::back_inserter(returned));
        accepted.clear();
    }
    for (QueuedMessage& queued : returned) {
        Waiting waiting;
        waiting.queued = std::move(queued);
        session.waiting.push_back(std::move(waiting));
        context_.add_waiting();
    }
    std::sort(session.waiting.begin(), session.waiting.end(),
              [](const Waiting& a, const Waiting& b) { return a.queued.number < b.queued.number; });
    return accepted;
}

bool SessionScheduler::is_full(const std::string& session_id, const Envelope& message) const {
    if (message.rest.contains(task_results_key)) return false;
    const SessionPtr session = find(session_id);
    if (message.answer) {
        const auto is_answer = [](const Waiting& one) {
            return one.queued.message && one.queued.message->answer;
        };
        return session && std::count_if(session->waiting.begin(), session->waiting.end(),
                                        is_answer) >= max_waiting_answers;
    }
    return context_.is_full() || (session && session->waiting.size() + session->unread.size() >=
                                                 context_.options.max_waiting);
}

bool SessionScheduler::cancel_turn(const std::string& session_id) {
    const SessionPtr session = find(session_id);
    if (!session || !session->turn) return false;
    session->turn->stop.request_stop();
    return true;
}

SessionScheduler::Stopped SessionScheduler::find_stopped(const std::string& session_id,
                                                         const Envelope& by) const {
    Stopped meant;
    meant.session = find(session_id);
    if (!meant.session) return meant;
    const Session& session = *meant.session;
    meant.turn = session.turn ? session.turn : session.failed;
    const std::string only = cubepi::detail::text_member(by.rest, only_message_key);
    const auto is_meant = [&by, &only](const std::shared_ptr<const Envelope>& message) {
        return message &&
               (only.empty() || (message->inbound_id == only && message->channel == by.channel));
    };
    if (!only.empty() && meant.turn && !is_meant(meant.turn->message)) meant.turn = nullptr;
    if (meant.turn) {
        meant.message = meant.turn->message;
    } else if (!only.empty()) {
        const auto found =
            std::find_if(session.waiting.begin(), session.waiting.end(),
                         [&is_meant](const Waiting& one) { return is_meant(one.queued.message); });
        meant.position = static_cast<std::size_t>(found - session.waiting.begin());
        if (found != session.waiting.end()) meant.message = found->queued.message;
    } else if (!session.waiting.empty() &&
               (session.retry.failures > 0 || session.waiting.front().queued.begun)) {
        meant.message = session.waiting.front().queued.message;
    }
    return meant;
}

StopOutcome SessionScheduler::would_stop(const std::string& session_id, const Envelope& by) const {
    const Stopped meant = find_stopped(session_id, by);
    if (!meant.message) return StopOutcome::idle;
    return may_stop(by, *meant.message) ? StopOutcome::stopped : StopOutcome::refused;
}

bool SessionScheduler::began_after(const std::string& session_id, std::uint64_t number) const {
    const SessionPtr session = find(session_id);
    if (!session) return false;
    const std::shared_ptr<Turn>& turn = session->turn ? session->turn : session->failed;
    return turn && !turn->begun_before && turn->arrivals >= number;
}

Task<StopOutcome> SessionScheduler::stop(std::string session_id, Envelope by) {
    const Stopped meant = find_stopped(session_id, by);
    if (!meant.message) co_return StopOutcome::idle;
    if (!may_stop(by, *meant.message)) co_return StopOutcome::refused;
    if (!meant.turn) {
        co_await take_back(meant.session, meant.position);
        co_return StopOutcome::stopped;
    }
    meant.turn->stopped = true;
    // Before the turn is cancelled: a process that is killed meanwhile must not leave the message to the next one.
    Receipts receipts = meant.turn->receipts;
    const StopOutcome end = end_of_stopped(*meant.message);
    co_await deliveries_.finish(std::move(receipts), end);
    meant.turn->stop.request_stop();
    co_return StopOutcome::stopped;
}

/// Takes a message back that waits for its turn.
Task<> SessionScheduler::take_back(SessionPtr session, std::size_t position) {
    const auto at = session->waiting.begin() + static_cast<std::ptrdiff_t>(position);
    Waiting taken = std::move(*at);
    session->waiting.erase(at);
    context_.remove_waiting();
    // The failures of a turn that runs again are those of its message.
    if (position == 0 && !session->turn) {
        session->retry = {};
        session->dropped.pulse();
    }
    Receipts receipts = std::move(taken.queued.receipts);
    const StopOutcome end = end_of_stopped(*taken.queued.message);
    co_await deliveries_.finish(std::move(receipts), end);
    std::shared_ptr<const Envelope> message = std::move(taken.queued.message);
    co_await end_stopped(std::move(message));
}

/// Tells the sender of a message, and its channel, that no further turn begins on it.
Task<> SessionScheduler::end_stopped(std::shared_ptr<const Envelope> message) {
    co_await deliveries_.post(notice_to(*message, std::string(stopped_notice), "stopped"));
    const std::shared_ptr<Channel> channel = channels_.find(message->channel);
    if (auto* const follower = dynamic_cast<FollowsTurns*>(channel.get()))
        follower->end_turn(*message, stopped_error());
}

bool SessionScheduler::is_running(const std::string& receipt) const {
    return std::any_of(sessions_.begin(), sessions_.end(), [&receipt](const auto& entry) {
        const Session& session = *entry.second;
        const auto has_receipt = [&receipt](const QueuedMessage& one) {
            return std::find(one.receipts.begin(), one.receipts.end(), receipt) !=
                   one.receipts.end();
        };
        return session.turn &&
               (std::find(session.answered.begin(), session.answered.end(), receipt) !=
                    session.answered.end() ||
                std::any_of(session.steered.begin(), session.steered.end(), has_receipt));
    });
}

std::vector<Receipts> SessionScheduler::take_waiting() {
    std::vector<Receipts> all;
    for (auto& [id, session] : sessions_) {
        // Answers of an earlier process are sent before the messages after them are processed.
        const auto waits_here = [](const Waiting& one) { return one.sent && !one.sent->is_set(); };
        if (std::any_of(session->waiting.begin(), session->waiting.end(), waits_here)) continue;
        // A hook may map chats to one session: for the log they are several, of which another process could take one while a turn runs.
        const std::shared_ptr<Turn>& turn = session->turn;
        const std::string here =
            turn && turn->message ? default_session(*turn->message) : std::string();
        const auto is_elsewhere = [&here](const Waiting& one) {
            return !one.queued.message || default_session(*one.queued.message) != here;
        };
        if (turn && std::any_of(session->waiting.begin(), session->waiting.end(), is_elsewhere))
            continue;
        take_back_unread(*session);
        std::map<std::string, Receipts> taken;  // by session of the log
        const std::size_t count = std::erase_if(session->waiting, [&taken](const Waiting& one) {
            if (one.queued.receipts.empty()) return false;
            const std::shared_ptr<Envelope>& message = one.queued.message;
            append(taken[message ? default_session(*message) : std::string()], one.queued.receipts);
            return true;
        });
        if (count == 0) continue;
        context_.remove_waiting(count);
        if (!session->turn) session->retry = {};
        session->dropped.pulse();
        for (auto& [chat, receipts] : taken) all.push_back(std::move(receipts));
    }
    std::erase_if(sessions_, [](const auto& entry) {
        return !entry.second->working && entry.second->waiting.empty();
    });
    return all;
}

Task<> SessionScheduler::drop_waiting(std::string session_id) {
    std::vector<Envelope> steered;
    if (inbox_) steered = inbox_->drain(session_id);
    for (const Envelope& message : steered) announce_drop(message);
    const SessionPtr session = find(session_id);
    if (!session) co_return;
    Receipts dropped;
    for (const QueuedMessage& one : std::exchange(session->steered, {})) {
        append(dropped, one.receipts);
        announce_drop(*one.message);
    }
    take_back_unread(*session);
    for (const Waiting& waiting : session->waiting) {
        append(dropped, waiting.queued.receipts);
        if (waiting.queued.message) announce_drop(*waiting.queued.message);
    }
    context_.remove_waiting(session->waiting.size());
    session->waiting.clear();
    session->retry = {};
    session->dropped.pulse();
    if (!session->working) sessions_.erase(session_id);
    co_await deliveries_.finish(std::move(dropped));
}

void SessionScheduler::announce_drop(const Envelope& message) const {
    const std::shared_ptr<Channel> channel = channels_.find(message.channel);
    if (auto* const follower = dynamic_cast<FollowsTurns*>(channel.get())) follower->drop(message);
}

void SessionScheduler::clear_waiting(Leftover& leftover) {
    for (auto& [id, session] : sessions_) {
        take_back_unread(*session);
        for (const Waiting& waiting : session->waiting)
            if (!waiting.sent) leftover.count(waiting.queued.receipts);
        context_.remove_waiting(session->waiting.size());
        session->waiting.clear();
    }
}

std::size_t SessionScheduler::busy() const {
    const auto works = [](const auto& entry) { return entry.second->working; };
    return static_cast<std::size_t>(std::count_if(sessions_.begin(), sessions_.end(), works));
}

std::size_t SessionScheduler::running() const {
    const auto runs = [](const auto& entry) { return entry.second->turn != nullptr; };
    return static_cast<std::size_t>(std::count_if(sessions_.begin(), sessions_.end(), runs));
}

std::size_t SessionScheduler::failing() const {
    const auto fails = [](const auto& entry) {
        return entry.second->retry.cause == FailureCause::outage;
    };
    return static_cast<std::size_t>(std::count_if(sessions_.begin(), sessions_.end(), fails));
}

std::vector<TurnSnapshot> SessionScheduler::snapshots() const {
    std::vector<TurnSnapshot> all;
    for (const auto& [id, session] : sessions_) all.push_back(snapshot(id));
    std::sort(all.begin(), all.end(), [](const TurnSnapshot& a, const TurnSnapshot& b) {
        return a.session_id < b.session_id;
    });
    return all;
}

Receipts SessionScheduler::receipts_of_turn(const std::optional<std::string>& session_id) const {
    if (!session_id) return {};
    const SessionPtr session = find(*session_id);
    return session ? session->answered : Receipts();
}

TurnSnapshot SessionScheduler::snapshot(const std::string& session_id) const {
    TurnSnapshot turn;
    turn.session_id = session_id;
    if (const SessionPtr session = find(session_id)) {
        turn.is_running = session->turn != nullptr;
        turn.running_count = turn.is_running ? 1 : 0;
        turn.pending_count = session->waiting.size() + session->unread.size();
    }
    if (inbox_) turn.steering_count = inbox_->count(session_id);
    return turn;
}

}  // namespace bub::detail
