#include <bub/channel/manager/deliveries.hpp>

#include <algorithm>
#include <string_view>
#include <utility>

#include <bub/channel/sent_file.hpp>
#include <cubepi/core/error.hpp>
#include <cubepi/core/outcome.hpp>
#include <cubepi/core/timeout.hpp>

namespace bub::detail {

namespace {

using cubepi::Error;
using cubepi::ErrorCode;
using cubepi::Outcome;
using cubepi::outcome_of;

// As coroutines, so that an exception of the call itself is part of the outcome.

template <class Ids>
Task<> write(DeliveryLog& log, Task<> (DeliveryLog::*record)(Ids), Ids ids) {
    co_await (log.*record)(std::move(ids));
}

Task<> write_note(DeliveryLog& log, DeliveryNote note, Receipts ids) {
    std::string nothing;
    co_await log.record(note, std::move(ids), std::move(nothing));
}

Task<> write_finished(DeliveryLog& log, Receipts ids, StopOutcome stop) {
    co_await log.finish_stop(std::move(ids), stop);
}

Task<> write_failed(DeliveryLog& log, std::string id, std::string reason) {
    co_await log.failed(std::move(id), std::move(reason));
}

/// Awaits `writing`, which a cancellation does not interrupt.
Task<Outcome<>> uncancelled(Task<> writing) {
    co_await cubepi::shield();
    Outcome<> written = co_await outcome_of(std::move(writing));
    co_await cubepi::unshield();
    co_return written;
}

}  // namespace

UnsettledPolicy policy_of(const Channel& channel) {
    if (const auto* settles = dynamic_cast<const SettlesDeliveries*>(&channel))
        return settles->unsettled_policy();
    return channel.role() == ChannelRole::user_interface ? UnsettledPolicy::none
                                                         : UnsettledPolicy::hold;
}

/// Warns that a step of a delivery is not in the log.
void Deliveries::not_recorded(std::string_view step, const std::exception_ptr& failure,
                              const std::string& text) const {
    context_.warn("delivery.record_failed",
                  {{"step", step}, {"error", cubepi::logged_error(failure)}},
                  text + ": " + describe(failure));
}

bool Deliveries::records(const Channel& channel) const {
    return context_.options.deliveries && policy_of(channel) != UnsettledPolicy::none;
}

Task<std::optional<std::string>> Deliveries::receive(Envelope message) {
    return log().receive(std::move(message));
}

/// Records the ends of turns that could not be recorded before: otherwise one process would count twice.
Task<> Deliveries::put_back_late(Receipts receipts) {
    std::erase_if(receipts, [this](const std::string& id) { return not_put_back_.erase(id) == 0; });
    co_await put_back(std::move(receipts));
}

Task<bool> Deliveries::begin(Receipts receipts) {
    if (receipts.empty()) co_return true;
    co_await put_back_late(receipts);
    for (;;) {
        Receipts messages = receipts;
        Task<> writing = write(log(), &DeliveryLog::begin, std::move(messages));
        const Outcome<> written = co_await outcome_of(std::move(writing));
        if (written.cancelled()) written.rethrow();
        if (is_session_taken(written.failure())) co_return false;
        if (written) co_return true;
        not_recorded("begin", written.failure(), "could not record the start of a turn");
        // Of a log that processes share, another one may have taken the messages meanwhile.
        if (!is_shared()) co_return true;
        co_await context_.clock().sleep_for(std::chrono::seconds(1));
    }
}

Task<> Deliveries::finish(Receipts receipts, StopOutcome stop) {
    if (receipts.empty()) co_return;
    for (const std::string& id : receipts) not_put_back_.erase(id);
    Receipts finished = receipts;
    Task<> writing = write_finished(log(), std::move(finished), stop);
    const Outcome<> written = co_await uncancelled(std::move(writing));
    if (written) co_return;
    not_recorded("finish", written.failure(),
                 "could not record that a message is finished; it may be delivered again");
    if (repeats(written.failure())) late_finished_.emplace_back(std::move(receipts), stop);
}

bool Deliveries::repeats(const std::exception_ptr& failure) const {
    return is_shared() && !is_session_taken(failure);
}

void Deliveries::record_late() {
    if (is_writing_late_ || (late_sent_.empty() && late_finished_.empty() && late_notes_.empty()))
        return;
    is_writing_late_ = true;
    context_.spawn(write_late());
}

Task<> Deliveries::write_late() {
    const std::shared_ptr<void> alive = context_.keep_alive();
    std::vector<std::string> sent = std::exchange(late_sent_, {});
    auto finished = std::exchange(late_finished_, {});
    auto notes = std::exchange(late_notes_, {});
    // The records of some may have failed together with those of their messages, which must not be finished or left first (D272).
    if (!finished.empty() || !notes.empty())
        sent.insert(sent.end(), soon_sent_.begin(), soon_sent_.end());
    for (std::string& id : sent) co_await note_sent(std::move(id));
    for (auto& [receipts, stop] : finished) co_await finish(std::move(receipts), stop);
    for (auto& [note, ids] : notes) {
        remove_retaken(note, ids);
        if (ids.empty()) continue;
        if (late_sent_.empty()) {
            co_await write_soon(note, std::move(ids));
        } else {
            late_notes_.emplace_back(note, std::move(ids));
        }
    }
    retaken_.clear();
    is_writing_late_ = false;
}

/// A message that was taken again is processed here, with the same fence: it must not be left.
void Deliveries::remove_retaken(DeliveryNote note, Receipts& ids) const {
    if (note == DeliveryNote::left)
        std::erase_if(ids, [this](const std::string& id) { return retaken_.contains(id); });
}

/// Each session by itself: one that another gateway has taken must not prevent the others (D206).
void Deliveries::leave(std::vector<Receipts> all) {
    for (const std::string& id : std::exchange(held_, {})) all.emplace_back(1, id);
    for (Receipts& receipts : all)
        context_.spawn(write_soon(DeliveryNote::left, std::move(receipts)));
}

void Deliveries::leave_late(Receipts receipts) {
    if (is_shared() && !receipts.empty())
        late_notes_.emplace_back(DeliveryNote::left, std::move(receipts));
}

void Deliveries::note_taken(const std::vector<StoredInbound>& taken) {
    if (is_writing_late_)
        for (const StoredInbound& one : taken) retaken_.insert(one.id);
    for (auto& [note, ids] : late_notes_) {
        if (note != DeliveryNote::left) continue;
        std::erase_if(ids, [&taken](const std::string& id) {
            return std::any_of(taken.begin(), taken.end(),
                               [&id](const StoredInbound& one) { return one.id == id; });
        });
    }
    std::erase_if(late_notes_, [](const auto& one) { return one.second.empty(); });
}

void Deliveries::hold_answer(std::string id) {
    if (is_shared()) context_.spawn(write_soon(DeliveryNote::answer_held, Receipts(1, id)));
    held_answers_.insert(std::move(id));
}

/// Records a note of a log that processes share, in the background.
Task<> Deliveries::write_soon(DeliveryNote note, Receipts ids) {
    const std::shared_ptr<void> alive = context_.keep_alive();
    co_await put_back_late(ids);
    Task<> writing = write_note(log(), note, ids);
    const Outcome<> written = co_await outcome_of(std::move(writing));
    // At the end of the manager release() leaves all of them.
    if (written.cancelled()) written.rethrow();
    remove_retaken(note, ids);
    if (!written && !ids.empty() && repeats(written.failure()))
        late_notes_.emplace_back(note, std::move(ids));
}

Task<> Deliveries::put_back(Receipts receipts) {
    if (receipts.empty()) co_return;
    Receipts back = receipts;
    Task<> writing = write(log(), &DeliveryLog::put_back, std::move(back));
    const Outcome<> written = co_await uncancelled(std::move(writing));
    if (written) co_return;
    not_recorded("put_back", written.failure(), "could not record the end of an interrupted turn");
    not_put_back_.insert(receipts.begin(), receipts.end());
}

Task<> Deliveries::record_hold(Receipts receipts) {
    if (receipts.empty()) co_return;
    Task<> writing = write(log(), &DeliveryLog::hold, std::move(receipts));
    const Outcome<> written = co_await uncancelled(std::move(writing));
    if (!written)
        not_recorded("hold", written.failure(),
                     "could not record that a message is held; the next start may process it");
}

Task<> Deliveries::note_sent(std::string id) {
    std::string sent = id;
    Task<> writing = write(log(), &DeliveryLog::sent, std::move(sent));
    const Outcome<> written = co_await uncancelled(std::move(writing));
    check_sent(written, std::move(id));
}

Task<> Deliveries::note_sent_soon(Task<> writing, std::string id) {
    const std::shared_ptr<void> alive = context_.keep_alive();
    const Outcome<> written = co_await outcome_of(std::move(writing));
    // At the end of the manager release() records it.
    if (written.cancelled()) written.rethrow();
    soon_sent_.erase(id);
    check_sent(written, std::move(id));
}

void Deliveries::check_sent(const Outcome<>& written, std::string id) {
    if (written) return;
    not_recorded("sent", written.failure(),
                 "could not record that an answer was sent; it may be sent again");
    if (repeats(written.failure())) late_sent_.push_back(std::move(id));
}

Task<> Deliveries::plan(std::string session_id, std::vector<TurnOutput> outputs,
                        Receipts answered) {
    if (!context_.options.deliveries || answered.empty()) co_return;
    std::erase_if(outputs, [&](const TurnOutput& output) {
        const Envelope& message = output.message;
        const std::shared_ptr<Channel> channel = channels_.find_output(message);
        // Only for recorded messages is it known later whether they were sent.
        return !channel || !records(*channel) || message.session_id != session_id ||
               message.kind == envelope_kind::error;
    });
    if (!outputs.empty()) co_await log().plan(std::move(outputs), std::move(answered));
}

Task<bool> Deliveries::send(TurnOutput output, Receipts answered) {
    // Keeps the channel alive while it sends.
    const std::shared_ptr<Channel> channel = channels_.find_output(output.message);
    if (!channel) co_return false;
    const bool is_file = output.message.kind == envelope_kind::file;
    if (is_file && !dynamic_cast<SendsFiles*>(channel.get())) co_return false;
    if (records(*channel)) {
        co_await send_recorded(channel, std::move(output), std::move(answered));
    } else {
        co_await channel->send(std::move(output.message));
    }
    co_return true;
}

Task<> Deliveries::send_recorded(std::shared_ptr<Channel> channel, TurnOutput output,
                                 Receipts answered) {
    Task<std::string> writing = log().intend_output(output, std::move(answered));
    std::string id = co_await std::move(writing);
    Task<> delivering = deliver(channel, std::move(output.message), std::move(id));
    co_await std::move(delivering);
}

/// Sends a message. A channel that lets it wait records that, if the message has an id.
Task<> Deliveries::send_tracked(std::shared_ptr<Channel> channel, Envelope message, std::string id,
                                SendProgress::State state) const {
    auto* const tracks = dynamic_cast<TracksSending*>(channel.get());
    if (tracks && !id.empty()) {
        auto progress =
            std::make_shared<SendProgress>(context_.options.deliveries, std::move(id), state);
        co_await tracks->send_tracked(std::move(message), std::move(progress));
    } else {
        co_await channel->send(std::move(message));
    }
}

/// Sends a message, and records the result if the message has an id.
Task<> Deliveries::deliver(std::shared_ptr<Channel> channel, Envelope message, std::string id) {
    Task<> sending = send_tracked(channel, std::move(message), id, SendProgress::State::fresh);
    const Outcome<> sent = co_await outcome_of(std::move(sending));
    // After a cancellation during the call, the delivery state is unknown: if this process does not end, its operator decides.
    if (sent.cancelled() && context_.open && !id.empty()) hold_answer(id);
    if (sent.cancelled() || id.empty()) sent.rethrow();
    if (id.empty()) co_return;
    if (sent && context_.open && is_shared()) {
        // The turn ends at once, and its end is recorded in the same transaction (D272).
        Task<> writing = log().sent_soon(id);
        soon_sent_.insert(id);
        context_.spawn(note_sent_soon(std::move(writing), std::move(id)));
        co_return;
    }
    if (sent) {
        co_await note_sent(std::move(id));
        co_return;
    }
    Task<> writing = write_failed(log(), id, describe(sent.failure()));
    const Outcome<> written = co_await outcome_of(std::move(writing));
    if (!written && context_.open) hold_answer(std::move(id));
    if (!written)
        not_recorded("failed", written.failure(), "could not record that an answer was not sent");
    sent.rethrow();
}

Task<> Deliveries::post(Envelope notice) {
    const std::shared_ptr<Channel> channel = channels_.find_output(notice);
    if (!channel) co_return;
    std::string id;
    if (records(*channel)) {
        Task<std::string> writing = log().intend(notice, Receipts());
        Outcome<std::string> written = co_await outcome_of(std::move(writing));
        if (written.cancelled()) written.rethrow();
        // Storage that fails may be what the notice is about.
        if (written) id = std::move(written).value();
    }
    context_.spawn(deliver_notice(channel, std::move(notice), std::move(id)));
}

Task<> Deliveries::deliver_notice(std::shared_ptr<Channel> channel, Envelope notice,
                                  std::string id) {
    const std::shared_ptr<void> alive = context_.keep_alive();
    Task<> delivering = deliver(channel, std::move(notice), std::move(id));
    const Outcome<> sent = co_await outcome_of(std::move(delivering));
    if (sent.cancelled()) sent.rethrow();
    if (!sent)
        context_.framework.runtime()->log.write(cubepi::LogLevel::warning, "turn.notice_failed",
                                                {{"error", cubepi::logged_error(sent.failure())}});
}

Task<> Deliveries::resend(std::shared_ptr<Channel> channel, Delivery delivery, bool waits) {
    using State = SendProgress::State;
    const State state = delivery.waits ? State::waits : State::may_have_arrived;
    for (bool is_recorded = delivery.waits; !is_recorded;) {
        Task<> recording = log().resend(delivery.id);
        const Outcome<> recorded = co_await outcome_of(std::move(recording));
        is_recorded = recorded.ok();
        if (!is_recorded && (!waits || cause_of(recorded.failure()) != FailureCause::outage))
            recorded.rethrow();
        if (!is_recorded) co_await context_.clock().sleep_for(std::chrono::seconds(1));
    }
    if (!delivery.waits) delivery.message.context["resent"] = true;
    co_await send_tracked(channel, std::move(delivery.message), delivery.id, state);
    co_await note_sent(std::move(delivery.id));
}

Task<> Deliveries::release() {
    if (!context_.options.deliveries) co_return;
    Task<> releasing = cubepi::with_timeout(context_.clock(), context_.options.stop_limit,
                                            log().release(), "release of the delivery log");
    const Outcome<> released = co_await outcome_of(std::move(releasing));
    if (!released)
        not_recorded("release", released.failure(),
                     "other gateways take the remaining messages a little later");
}

Task<std::optional<KnownInbound>> Deliveries::find(std::string channel, std::string inbound_id) {
    std::optional<KnownInbound> found;
    if (context_.options.deliveries)
        found = co_await log().find(std::move(channel), std::move(inbound_id));
    co_return found;
}

Task<bool> Deliveries::has_unfinished(Envelope address) {
    bool found = false;
    if (context_.options.deliveries) found = co_await log().has_unfinished(std::move(address));
    co_return found;
}

Task<bool> Deliveries::is_being_answered(Receipts receipts) {
    const std::vector<StoredInbound> all = co_await log().unfinished_of(std::move(receipts));
    co_return std::any_of(all.begin(), all.end(),
                          [](const StoredInbound& one) { return one.answered; });
}

Task<bool> Deliveries::are_taken(Receipts receipts) {
    if (!is_shared()) co_return false;
    const std::vector<StoredInbound> ours = co_await log().unfinished_of(std::move(receipts));
    co_return ours.empty();
}

Task<HeldMessages> Deliveries::held() {
    HeldMessages held;
    if (!context_.options.deliveries || (held_.empty() && held_answers_.empty())) co_return held;
    held.inbounds = co_await log().unfinished();
    held.answers = co_await log().unsettled();
    std::erase_if(held.inbounds, [this](const auto& one) { return !held_.contains(one.id); });
    std::erase_if(held.answers,
                  [this](const auto& one) { return !held_answers_.contains(one.id); });
    co_return held;
}

Task<> Deliveries::discard_held(std::string id) {
    const HeldMessages all = co_await held();
    const auto has_id = [&id](const auto& message) { return message.id == id; };
    if (std::any_of(all.answers.begin(), all.answers.end(), has_id)) {
        std::string reason = "discarded by the operator";
        co_await log().failed(id, std::move(reason));
    } else if (std::any_of(all.inbounds.begin(), all.inbounds.end(), has_id)) {
        Receipts ids(1, id);
        co_await log().finish(std::move(ids));
    } else {
        throw Error(ErrorCode::not_found, "no held message or answer has the id " + id);
    }
    unhold(id);
}

}  // namespace bub::detail
