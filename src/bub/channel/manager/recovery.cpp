#include <bub/channel/manager/recovery.hpp>

#include <algorithm>
#include <iterator>
#include <map>
#include <string_view>
#include <utility>

#include <bub/channel/gateway_peers.hpp>
#include <bub/channel/manager/admission_queue.hpp>
#include <bub/channel/manager/session_scheduler.hpp>
#include <cubepi/core/error.hpp>
#include <cubepi/core/outcome.hpp>
#include <cubepi/core/timeout.hpp>

namespace bub::detail {

namespace {

using cubepi::Error;
using cubepi::ErrorCode;
using cubepi::Outcome;
using cubepi::outcome_of;

/// A turn that ended the process twice would probably do so again. One whose process lives, and has only lost the session, says nothing.
constexpr std::uint64_t max_turns = 2;
/// An answer that was resent this often is held.
constexpr std::uint64_t max_resends = 3;

/// Describes the origin of a message without its content (B13).
std::string origin_of(const std::string& id, const Envelope& message, const std::string& date) {
    const std::optional<std::string>& channel =
        message.output_channel ? message.output_channel : message.channel;
    return id + " (" + channel.value_or("no channel") + ", chat " +
           message.chat_id.value_or("unknown") + (date.empty() ? "" : ", " + date) + ")";
}

template <class Record>
std::string origin_of(const Record& record) {
    return origin_of(record.id, record.message, record.date);
}

/// The first few items of a list, for a warning.
class TruncatedList {
public:
    void add(const std::string& item) {
        if (++count_ > limit) return;
        text_ += (text_.empty() ? "" : ", ") + item;
    }
    /// Reports the items, if there are any.
    void warn(const ManagerContext& context, std::string_view event,
              const std::string& what) const {
        if (count_ == 0) return;
        context.warn(
            event, {{"count", count_}},
            what + " (" + std::to_string(count_) + "): " + text_ + (count_ > limit ? ", ..." : ""));
    }

private:
    static constexpr std::size_t limit = 10;
    std::size_t count_ = 0;
    std::string text_;
};

/// A gateway that was cut off long before a decision does not return.
constexpr std::chrono::hours longest_outage{1};
/// Messages that are held are looked at in one of so many polls.
constexpr int polls_between_looks = 5;

/// A command that was begun may have had its effect; only its operator may run it again.
bool needs_decision(const StoredInbound& inbound) {
    return inbound.begun >= max_turns + inbound.outlived ||
           (inbound.begun > 0 && is_command(inbound.message));
}

std::vector<StoredInbound> begun_first(std::vector<StoredInbound> inbounds) {
    std::vector<StoredInbound> begun;
    std::vector<StoredInbound> others;
    for (StoredInbound& inbound : inbounds)
        (inbound.begun > 0 ? begun : others).push_back(std::move(inbound));
    begun.insert(begun.end(), std::make_move_iterator(others.begin()),
                 std::make_move_iterator(others.end()));
    return begun;
}

/// Returns the turn that a message belongs to: that of the first of the messages that were merged.
const std::string& turn_of(const StoredInbound& inbound) {
    return inbound.turn.empty() ? inbound.id : inbound.turn;
}

}  // namespace

Recovery::Recovery(ManagerContext& context, const ChannelSet& channels, Deliveries& deliveries,
                   SessionScheduler& sessions, AdmissionQueue& admission)
    : context_(context),
      channels_(channels),
      deliveries_(deliveries),
      sessions_(sessions),
      admission_(admission) {}

Task<> Recovery::begin() {
    const std::shared_ptr<DeliveryLog>& log = context_.options.deliveries;
    if (!log) co_return;
    const auto interval = log->poll_interval();
    log->serve(channels_.names());
    log->limit_waiting(context_.options.max_waiting);
    Task<> recovering = recover();
    const Outcome<> recovered = co_await outcome_of(std::move(recovering));
    // A database that cannot be reached yet prevents no start (D90): the records are taken when it can.
    if (!interval || !recovered.failure() || cause_of(recovered.failure()) != FailureCause::outage)
        recovered.rethrow();
    if (recovered.failure()) note_failure(recovered.failure());
    if (!interval) co_return;
    context_.spawn(poll(*interval));
    if (std::shared_ptr<GatewayPeers> peers = log->peers()) context_.spawn(watch(std::move(peers)));
}

Task<> Recovery::recover() {
    // No turn begins while the manager drains: others take these records, and this call only renews the lease.
    if (context_.draining) {
        context_.options.deliveries->serve({});
        if (context_.options.deliveries->poll_interval()) leave_waiting();
    }
    UnfinishedRecords records = co_await context_.options.deliveries->take();
    fails_ = false;
    deliveries_.note_taken(records.inbounds);
    deliveries_.record_late();
    resume_deliveries(std::move(records.answers));
    std::vector<StoredInbound> others = resume_outputs(std::move(records.inbounds));
    sort_out(std::move(others));
    if (!context_.draining) co_await release_outlived();
}

/// Delivers messages that are held because gateways had ended in their turns: one that was only cut off, and has returned since, did not
/// end.
Task<> Recovery::release_outlived() {
    const cubepi::Clock::time_point now = context_.clock().now();
    if (now >= held_until_) held_turns_.clear();
    if (held_turns_.empty() || now < next_look_) co_return;
    const auto interval =
        context_.options.deliveries->poll_interval().value_or(std::chrono::seconds(1));
    next_look_ = now + polls_between_looks * interval;
    Receipts ids(held_turns_.begin(), held_turns_.end());
    // One of several databases that does not answer must not delay take(), which renews the leases.
    Task<std::vector<StoredInbound>> reading = cubepi::with_timeout(
        context_.clock(), interval, context_.options.deliveries->unfinished_of(std::move(ids)),
        "reading of held messages");
    Outcome<std::vector<StoredInbound>> read = co_await outcome_of(std::move(reading));
    if (read.cancelled()) read.rethrow();
    if (!read) co_return;
    std::vector<StoredInbound> held = std::move(read).value();
    std::erase_if(held, [this](const StoredInbound& inbound) {
        return !deliveries_.is_held(inbound.id) || inbound.answered || needs_decision(inbound) ||
               !channels_.find(inbound.message.channel);
    });
    for (const StoredInbound& inbound : held) {
        deliveries_.unhold(inbound.id);
        held_turns_.erase(inbound.id);
    }
    resubmit(std::move(held));
}

Task<> Recovery::poll(std::chrono::nanoseconds interval) {
    const std::shared_ptr<void> alive = context_.keep_alive();
    // A session that is busy elsewhere may be free a moment later.
    const std::chrono::nanoseconds soon = interval / 20;
    for (;;) {
        bool was_left = false;
        if (!woken_) {
            Task<> leaving = context_.left.wait();
            const auto next = cubepi::deadline_after(context_.clock().now(), interval);
            was_left =
                co_await cubepi::detail::run_until(context_.clock(), next, std::move(leaving));
        }
        if (was_left && !woken_) co_await context_.clock().sleep_for(soon);
        woken_ = false;
        Task<> recovering = recover();
        const Outcome<> recovered = co_await outcome_of(std::move(recovering));
        if (recovered.cancelled()) recovered.rethrow();
        if (recovered.failure()) note_failure(recovered.failure());
    }
}

Task<> Recovery::watch(std::shared_ptr<GatewayPeers> peers) {
    const std::shared_ptr<void> alive = context_.keep_alive();
    for (;;) {
        co_await peers->wait();
        look();
    }
}

void Recovery::look() {
    woken_ = true;
    context_.left.pulse();
}

void Recovery::leave_waiting() {
    deliveries_.leave(sessions_.take_waiting());
    // The queues are not full any more.
    admission_.flush();
    deliveries_.leave(sessions_.take_waiting());
}

void Recovery::note_failure(const std::exception_ptr& failure) {
    context_.storing_failed = context_.clock().now();
    if (std::exchange(fails_, true)) return;
    context_.warn(
        "recovery.take_failed", {{"error", cubepi::logged_error(failure)}},
        "the records of messages cannot be read, which is tried again: " + describe(failure));
}

bool Recovery::is_served(const StoredInbound& inbound) const {
    return std::all_of(inbound.planned.begin(), inbound.planned.end(),
                       [this](const TurnOutput& output) {
                           return channels_.find_output(output.message) != nullptr;
                       });
}

/// Queues the remaining outputs of turns; returns the messages of other turns.
std::vector<StoredInbound> Recovery::resume_outputs(std::vector<StoredInbound> inbounds) {
    struct Remainder {
        std::vector<TurnOutput> outputs;
        Receipts receipts;
    };
    std::map<std::string, Remainder> remainders;  // by turn
    std::set<std::string> postponed;
    TruncatedList unserved;
    for (StoredInbound& inbound : inbounds) {
        if (inbound.planned.empty()) continue;
        if (is_served(inbound)) {
            remainders[inbound.id].outputs = std::move(inbound.planned);
        } else {
            unserved.add(origin_of(inbound));
            postponed.insert(inbound.id);
        }
    }
    unserved.warn(context_, "recovery.answers_postponed",
                  "partly sent answers wait for channels that are not running");
    std::vector<StoredInbound> others;
    for (StoredInbound& inbound : inbounds) {
        if (postponed.contains(turn_of(inbound))) continue;
        const auto remainder = remainders.find(turn_of(inbound));
        if (remainder == remainders.end()) {
            others.push_back(std::move(inbound));
        } else {
            remainder->second.receipts.push_back(inbound.id);
        }
    }
    for (auto& [turn, remainder] : remainders) {
        const std::string session_id =
            remainder.outputs.front().message.session_id.value_or(std::string());
        sessions_.enqueue_outputs(session_id, std::move(remainder.outputs),
                                  std::move(remainder.receipts));
    }
    return others;
}

/// Decides about messages without planned outputs.
void Recovery::sort_out(std::vector<StoredInbound> inbounds) {
    std::set<std::string> complete;  // turns whose last output was sent
    for (const StoredInbound& inbound : inbounds) {
        if (inbound.answered && inbound.all_sent) complete.insert(inbound.id);
    }
    std::vector<StoredInbound> again;
    std::map<std::string, Receipts> over;  // by session
    TruncatedList cut_off;
    TruncatedList held;
    TruncatedList unserved;
    for (StoredInbound& inbound : inbounds) {
        if (inbound.answered) {
            // Accepting it again would produce a second answer.
            if (!complete.contains(turn_of(inbound))) cut_off.add(origin_of(inbound));
            over[lane_key(inbound.message)].push_back(inbound.id);
        } else if (needs_decision(inbound)) {
            deliveries_.hold(inbound.id);
            held.add(origin_of(inbound));
            held_turns_.insert(inbound.id);
            held_until_ = context_.clock().now() + longest_outage;
        } else if (!channels_.find(inbound.message.channel)) {
            unserved.add(origin_of(inbound));
        } else {
            again.push_back(std::move(inbound));
        }
    }
    cut_off.warn(context_, "recovery.answers_cut_off",
                 "the process ended while these turns were being answered; their answers may be "
                 "incomplete");
    held.warn(context_, "recovery.messages_held",
              "messages held for the operator, because the process ended in their turns");
    unserved.warn(context_, "recovery.messages_postponed",
                  "messages wait for channels that are not running");
    // A database that does not answer must not delay take(), which renews the leases in the others, nor the messages (D258). Nor must a
    // session that another gateway has taken prevent the ends of others (D206).
    for (auto& [session, receipts] : over) context_.spawn(finish_answered(std::move(receipts)));
    resubmit(std::move(again));
}

Task<> Recovery::finish_answered(Receipts receipts) {
    const std::shared_ptr<void> alive = context_.keep_alive();
    co_await deliveries_.finish(std::move(receipts));
}

void Recovery::restore(Channel& channel, Envelope& message) const {
    auto* settles = dynamic_cast<SettlesDeliveries*>(&channel);
    if (!settles) return;
    try {
        settles->restore(message);
    } catch (...) {
        context_.warn("recovery.restore_failed",
                      {{"channel", channel.name()},
                       {"error", cubepi::logged_error(std::current_exception())}},
                      "channel " + channel.name() +
                          " could not restore a message, which is delivered as it was stored: " +
                          describe(std::current_exception()));
    }
}

/// Delivers messages again, those first whose turns had begun: others may have been kept until their end (B24). Otherwise in
/// order; those that a debounced channel would have merged are merged.
void Recovery::resubmit(std::vector<StoredInbound> inbounds) {
    struct Group {
        std::string turn;
        std::vector<Envelope> messages;

        /// The messages on which a turn had begun are one message (D42), also if their senders differ: no others are merged with them.
        bool takes(const StoredInbound& inbound) const {
            return turn == inbound.turn &&
                   (!turn.empty() || sender_of(messages.front()) == sender_of(inbound.message));
        }
    };
    std::vector<Group> groups;
    std::map<std::string, std::size_t> last_of_chat;
    for (StoredInbound& inbound : begun_first(std::move(inbounds))) {
        Envelope& message = inbound.message;
        const std::shared_ptr<Channel> channel = channels_.find(message.channel);
        message.receipts.assign(1, inbound.id);
        restore(*channel, message);
        message.context[redelivered_key] = true;
        const std::string chat = lane_key(message);
        const bool merges = channel->needs_debounce() && is_prompt(message);
        const auto last = last_of_chat.find(chat);
        const bool joins = (merges || !inbound.turn.empty()) && last != last_of_chat.end() &&
                           groups[last->second].takes(inbound);
        if (!joins) groups.emplace_back().turn = inbound.turn;
        const std::size_t place = joins ? last->second : groups.size() - 1;
        groups[place].messages.push_back(std::move(message));
        // A message that is not merged, in particular a command, keeps its position among the others.
        if (merges || !inbound.turn.empty()) {
            last_of_chat[chat] = place;
        } else {
            last_of_chat.erase(chat);
        }
    }
    for (Group& group : groups) {
        QueuedMessage message(merge_messages(std::move(group.messages)));
        message.redelivered = true;
        message.begun = !group.turn.empty();
        admission_.resubmit(std::move(message));
    }
}

/// The answers of a session that are sent again before its turns begin.
struct Recovery::Resends {
    std::size_t remaining = 0;
    const std::shared_ptr<cubepi::AsyncEvent> done = std::make_shared<cubepi::AsyncEvent>();
};

void Recovery::resume_deliveries(std::vector<Delivery> all) {
    TruncatedList held;
    std::map<std::shared_ptr<Channel>, std::vector<Resend>> resends;
    std::map<std::string, std::shared_ptr<Resends>> sessions;
    for (Delivery& delivery : all) {
        const std::shared_ptr<Channel> channel = channels_.find_output(delivery.message);
        const bool is_resent = channel && !delivery.is_held &&
                               (delivery.waits || (policy_of(*channel) == UnsettledPolicy::resend &&
                                                   delivery.resent < max_resends));
        if (!is_resent) {
            deliveries_.hold_answer(delivery.id);
            held.add(origin_of(delivery));
            continue;
        }
        std::shared_ptr<Resends>& session = sessions[lane_key(delivery.message)];
        if (!session) session = std::make_shared<Resends>();
        ++session->remaining;
        resends[channel].emplace_back(std::move(delivery), session);
    }
    held.warn(context_, "recovery.answers_held",
              "answers held for the operator, because they may or may not have been sent");
    for (const auto& [id, session] : sessions) sessions_.enqueue_wait(id, session->done);
    for (auto& [channel, answers] : resends)
        context_.spawn(resend_all(channel, std::move(answers)));
}

/// One after the other, so that an answer that ends the process does not count as an attempt for the others.
Task<> Recovery::resend_all(std::shared_ptr<Channel> channel, std::vector<Resend> answers) {
    const std::shared_ptr<void> alive = context_.keep_alive();
    co_await context_.ready.wait();
    for (auto& [answer, session] : answers) {
        const std::string origin = origin_of(answer);
        const std::string id = answer.id;
        Task<> sending = deliveries_.resend(channel, std::move(answer), true);
        const Outcome<> sent = co_await cubepi::outcome_of(std::move(sending));
        if (sent.cancelled()) sent.rethrow();
        // The delivery state is still unknown.
        if (!sent) {
            deliveries_.hold_answer(id);
            context_.warn(
                "recovery.resend_failed",
                {{"channel", channel->name()}, {"error", cubepi::logged_error(sent.failure())}},
                "answer " + origin + " could not be sent again: " + describe(sent.failure()));
        }
        if (--session->remaining == 0) session->done->set();
    }
}

Task<> Recovery::release_held(std::string id) {
    HeldMessages all = co_await deliveries_.held();
    for (Delivery& delivery : all.answers) {
        if (delivery.id != id) continue;
        const std::shared_ptr<Channel> channel = channels_.find_output(delivery.message);
        if (!channel)
            throw Error(ErrorCode::not_found, "the channel of answer " + id + " is not running");
        // So that it is not left to another gateway meanwhile.
        deliveries_.unhold(id);
        Task<> sending = deliveries_.resend(channel, std::move(delivery), false);
        const Outcome<> sent = co_await outcome_of(std::move(sending));
        if (!sent) deliveries_.hold_answer(id);
        sent.rethrow();
        co_return;
    }
    const auto wanted = std::find_if(all.inbounds.begin(), all.inbounds.end(),
                                     [&id](const auto& one) { return one.id == id; });
    if (wanted == all.inbounds.end())
        throw Error(ErrorCode::not_found, "no held message or answer has the id " + id);
    if (!context_.open || !channels_.find(wanted->message.channel))
        throw Error(ErrorCode::not_found, "the channel of message " + id + " is not running");
    // Messages that formed one message in the interrupted turn stay together.
    const std::string turn = wanted->turn;
    std::vector<StoredInbound> released;
    std::vector<std::string> ids;
    bool is_answered = false;
    for (StoredInbound& inbound : all.inbounds) {
        if (inbound.id != id && (turn.empty() || inbound.turn != turn)) continue;
        deliveries_.unhold(inbound.id);
        is_answered = is_answered || inbound.answered;
        ids.push_back(inbound.id);
        released.push_back(std::move(inbound));
    }
    // The answer was recorded after all: another turn would be a second one.
    if (is_answered) {
        co_await deliveries_.finish(std::move(ids));
    } else {
        resubmit(std::move(released));
    }
}

}  // namespace bub::detail
