#include <bub/channel/manager/manager_core.hpp>

#include <algorithm>
#include <utility>

#include <cubepi/core/cancellation.hpp>
#include <cubepi/core/error.hpp>

// The manager and its delivery log: recovery of an earlier process's records, and recording of this one's messages
// (B18).

namespace bub::detail {

using cubepi::Error;
using cubepi::ErrorCode;

namespace {

/// A turn that ended the process twice would probably do so again.
constexpr std::uint64_t max_turns = 2;
/// An answer that was resent this often is held.
constexpr std::uint64_t max_resends = 3;

UnsettledPolicy policy_of(const Channel& channel) {
    if (const auto* settles = dynamic_cast<const SettlesDeliveries*>(&channel))
        return settles->unsettled_policy();
    return channel.role() == ChannelRole::user_interface ? UnsettledPolicy::none
                                                         : UnsettledPolicy::hold;
}

/// Describes the origin of a message without its content (B13).
std::string place_of(const std::string& id, const Envelope& message, const std::string& date) {
    const std::optional<std::string>& channel =
        message.output_channel ? message.output_channel : message.channel;
    return id + " (" + channel.value_or("no channel") + ", chat " +
           message.chat_id.value_or("unknown") + (date.empty() ? "" : ", " + date) + ")";
}

/// The first few items of a list.
class Listing {
public:
    void add(std::string item) {
        if (++count_ > most) return;
        text_ += (text_.empty() ? ": " : ", ") + item;
    }
    std::size_t count() const noexcept { return count_; }
    std::string text() const { return text_ + (count_ > most ? ", ..." : ""); }

private:
    static constexpr std::size_t most = 10;
    std::size_t count_ = 0;
    std::string text_;
};

/// A command that was begun may have had its effect; only its operator may run it again.
bool needs_decision(const StoredInbound& inbound) {
    return inbound.begun >= max_turns || (inbound.begun > 0 && is_command(inbound.message));
}

}  // namespace

bool ManagerCore::is_recorded(const Channel& channel) const {
    return options_.deliveries && policy_of(channel) != UnsettledPolicy::none;
}

Task<> ManagerCore::take_up_inbounds() {
    if (!options_.deliveries) co_return;
    std::vector<StoredInbound> all = co_await options_.deliveries->unfinished();
    all = take_up_rests(std::move(all));
    std::set<std::string> whole;  // turns with no remaining output
    for (const StoredInbound& inbound : all) {
        if (inbound.answered && inbound.said_all) whole.insert(inbound.id);
    }
    std::vector<StoredInbound> again;
    Receipts over;
    Listing held;
    Listing cut_off;
    Listing elsewhere;
    for (StoredInbound& inbound : all) {
        std::string place = place_of(inbound.id, inbound.message, inbound.date);
        if (inbound.answered) {
            // Accepting it again would produce a second answer.
            if (!whole.contains(inbound.turn.empty() ? inbound.id : inbound.turn))
                cut_off.add(std::move(place));
            over.push_back(inbound.id);
        } else if (needs_decision(inbound)) {
            held_.insert(inbound.id);
            held.add(std::move(place));
        } else if (!find_channel(inbound.message.channel)) {
            elsewhere.add(std::move(place));
        } else {
            again.push_back(std::move(inbound));
        }
    }
    if (cut_off.count() > 0)
        warn(std::to_string(cut_off.count()) +
             " turns ended while they were being answered; if they had more to say, it is lost" +
             cut_off.text());
    if (held.count() > 0)
        warn(std::to_string(held.count()) +
             " messages are held, because the process ended in their turns" + held.text());
    if (elsewhere.count() > 0)
        warn(std::to_string(elsewhere.count()) + " messages wait for channels that do not run" +
             elsewhere.text());
    co_await note_over(std::move(over));
    hand_in_again(std::move(again));
}

std::vector<StoredInbound> ManagerCore::take_up_rests(std::vector<StoredInbound> inbounds) {
    std::map<std::string, Waiting> rests;  // by the message that has the plan
    Listing elsewhere;
    std::set<std::string> left;
    for (StoredInbound& inbound : inbounds) {
        if (inbound.planned.empty()) continue;
        const auto is_served = [this](const PlannedAnswer& part) {
            return output_channel(part.message) != nullptr;
        };
        if (!std::all_of(inbound.planned.begin(), inbound.planned.end(), is_served)) {
            elsewhere.add(place_of(inbound.id, inbound.message, inbound.date));
            left.insert(inbound.id);
            continue;
        }
        Waiting& rest = rests[inbound.id];
        rest.rest = std::move(inbound.planned);
        rest.parts = inbound.parts;
    }
    if (elsewhere.count() > 0)
        warn("what is left of " + std::to_string(elsewhere.count()) +
             " answers waits for channels that do not run" + elsewhere.text());
    std::vector<StoredInbound> others;
    for (StoredInbound& inbound : inbounds) {
        const std::string& turn = inbound.turn.empty() ? inbound.id : inbound.turn;
        if (left.contains(turn)) continue;
        const auto rest = rests.find(turn);
        if (rest == rests.end()) {
            others.push_back(std::move(inbound));
        } else {
            rest->second.receipts.push_back(inbound.id);
        }
    }
    for (auto& [id, rest] : rests) {
        const std::string session_id = rest.rest.front().message.session_id.value_or("");
        enqueue(session_id, std::move(rest));
    }
    return others;
}

Task<> ManagerCore::send_rest(std::shared_ptr<SessionQueue> session,
                              std::vector<PlannedAnswer> rest, std::size_t parts) {
    for (PlannedAnswer& part : rest) {
        next_output(session->id, part.number, parts);
        auto message = std::make_shared<Envelope>(std::move(part.message));
        co_await framework_.dispatch_outbound(std::move(message));
    }
}

void ManagerCore::restore(Channel& channel, Envelope& message) const {
    auto* settles = dynamic_cast<SettlesDeliveries*>(&channel);
    if (!settles) return;
    try {
        settles->restore(message);
    } catch (...) {
        warn("channel " + channel.name() + " could not restore a message, which comes as it is: " +
             describe(std::current_exception()));
    }
}

void ManagerCore::hand_in_again(std::vector<StoredInbound> inbounds) {
    struct Group {
        std::string turn;
        std::vector<Envelope> messages;
        Receipts receipts;
    };
    std::vector<Group> groups;
    std::map<std::string, std::size_t> last_of_chat;
    for (StoredInbound& inbound : inbounds) {
        Envelope& message = inbound.message;
        const std::shared_ptr<Channel> channel = find_channel(message.channel);
        restore(*channel, message);
        message.context["redelivered"] = true;
        const std::string chat = lane_key(message);
        const bool merges = channel->needs_debounce() && !is_command(message);
        const auto last = last_of_chat.find(chat);
        // The messages on which a turn had begun are one message (D42): no others are merged with them.
        const bool joins = (merges || !inbound.turn.empty()) && last != last_of_chat.end() &&
                           groups[last->second].turn == inbound.turn;
        if (!joins) groups.emplace_back().turn = inbound.turn;
        const std::size_t place = joins ? last->second : groups.size() - 1;
        groups[place].messages.push_back(std::move(message));
        groups[place].receipts.push_back(std::move(inbound.id));
        // A message that is not merged, in particular a command, keeps its position among the others.
        if (merges || !inbound.turn.empty()) {
            last_of_chat[chat] = place;
        } else {
            last_of_chat.erase(chat);
        }
    }
    for (Group& group : groups) {
        Arrival arrival;
        arrival.message = std::make_shared<Envelope>(merge_messages(std::move(group.messages)));
        arrival.receipts = std::move(group.receipts);
        arrival.comes_again = true;
        const std::shared_ptr<Lane> lane = lane_of(*arrival.message);
        submit(lane, std::move(arrival));
    }
}

Task<> ManagerCore::take_up_deliveries() {
    if (!options_.deliveries) co_return;
    std::vector<Delivery> all = co_await options_.deliveries->unsettled();
    Listing held;
    for (Delivery& delivery : all) {
        const std::shared_ptr<Channel> channel = output_channel(delivery.message);
        const bool resends = channel && policy_of(*channel) == UnsettledPolicy::resend &&
                             delivery.resent < max_resends;
        if (!resends) {
            held_.insert(delivery.id);
            held.add(place_of(delivery.id, delivery.message, delivery.date));
            continue;
        }
        const std::string place = place_of(delivery.id, delivery.message, delivery.date);
        std::exception_ptr failure;
        try {
            co_await send_again(channel, std::move(delivery));
        } catch (...) {
            failure = std::current_exception();
        }
        if (cubepi::is_cancellation(failure)) std::rethrow_exception(failure);
        // The delivery state is still unknown.
        if (failure) warn("answer " + place + " could not be sent again: " + describe(failure));
    }
    if (held.count() > 0)
        warn(std::to_string(held.count()) +
             " answers may or may not have been sent; they are held" + held.text());
}

Task<> ManagerCore::send_again(std::shared_ptr<Channel> channel, Delivery delivery) {
    co_await options_.deliveries->resend(delivery.id);
    delivery.message.context["resent"] = true;
    co_await channel->send(std::move(delivery.message));
    co_await note_sent(std::move(delivery.id));
}

Task<> ManagerCore::send_recorded(std::shared_ptr<Channel> channel, Envelope message) {
    std::string id = co_await intend(message);
    std::exception_ptr failure;
    try {
        co_await channel->send(std::move(message));
    } catch (...) {
        failure = std::current_exception();
    }
    // After a cancellation during the call, the delivery state is unknown.
    if (cubepi::is_cancellation(failure)) std::rethrow_exception(failure);
    if (!failure) {
        co_await note_sent(std::move(id));
        co_return;
    }
    std::string reason = describe(failure);
    try {
        co_await options_.deliveries->failed(std::move(id), std::move(reason));
    } catch (...) {
        warn("that an answer was not sent could not be noted: " +
             describe(std::current_exception()));
    }
    std::rethrow_exception(failure);
}

Task<std::string> ManagerCore::intend(Envelope message) {
    Receipts answers = receipts_of_turn(message.session_id);
    auto* const plans = dynamic_cast<PlansAnswers*>(options_.deliveries.get());
    const auto session = message.session_id ? find_session(*message.session_id) : nullptr;
    if (plans && session && session->parts > 0 && !answers.empty())
        return plans->intend_part(std::move(message), std::move(answers), session->part,
                                  session->parts);
    return options_.deliveries->intend(std::move(message), std::move(answers));
}

void ManagerCore::next_output(const std::string& session_id, std::size_t number,
                              std::size_t count) {
    const std::shared_ptr<SessionQueue> session = find_session(session_id);
    if (!session) return;
    session->part = number;
    session->parts = count;
}

Task<> ManagerCore::plan_outputs(std::string session_id, std::vector<Envelope> messages) {
    auto* const plans = dynamic_cast<PlansAnswers*>(options_.deliveries.get());
    Receipts answers = receipts_of_turn(session_id);
    if (!plans || answers.empty()) co_return;
    std::vector<std::optional<Envelope>> parts;
    std::size_t kept = 0;
    for (Envelope& message : messages) {
        const std::shared_ptr<Channel> channel = output_channel(message);
        std::optional<Envelope>& part = parts.emplace_back();
        // Only for recorded messages is it known later whether they were sent.
        if (!channel || !is_recorded(*channel) || message.session_id != session_id) continue;
        if (message.kind == envelope_kind::error) continue;
        part = std::move(message);
        ++kept;
    }
    if (kept == 0) co_return;
    co_await plans->plan(std::move(parts), std::move(answers));
}

Receipts ManagerCore::receipts_of_turn(const std::optional<std::string>& session_id) const {
    if (!session_id) return {};
    const std::shared_ptr<SessionQueue> session = find_session(*session_id);
    return session ? session->receipts : Receipts();
}

Task<> ManagerCore::note_begin(Receipts receipts) {
    if (receipts.empty()) co_return;
    std::exception_ptr failure;
    try {
        co_await options_.deliveries->begin(std::move(receipts));
    } catch (...) {
        failure = std::current_exception();
    }
    if (cubepi::is_cancellation(failure)) std::rethrow_exception(failure);
    if (failure) warn("that a turn begins could not be noted: " + describe(failure));
}

Task<> ManagerCore::note_over(Receipts receipts, bool is_put_back) {
    if (receipts.empty()) co_return;
    co_await cubepi::shield();
    std::exception_ptr failure;
    try {
        Task<> noting = is_put_back ? options_.deliveries->put_back(std::move(receipts))
                                    : options_.deliveries->finish(std::move(receipts));
        co_await std::move(noting);
    } catch (...) {
        failure = std::current_exception();
    }
    if (failure)
        warn("what became of a message could not be noted, so it may come again: " +
             describe(failure));
    co_await cubepi::unshield();
}

Task<> ManagerCore::note_sent(std::string id) {
    co_await cubepi::shield();
    std::exception_ptr failure;
    try {
        co_await options_.deliveries->sent(std::move(id));
    } catch (...) {
        failure = std::current_exception();
    }
    if (failure)
        warn("that an answer was sent could not be noted, so it may be sent again: " +
             describe(failure));
    co_await cubepi::unshield();
}

Task<HeldMessages> ManagerCore::held() {
    HeldMessages held;
    if (!options_.deliveries) co_return held;
    held.inbounds = co_await options_.deliveries->unfinished();
    held.answers = co_await options_.deliveries->unsettled();
    const auto is_free = [this](const auto& message) { return !held_.contains(message.id); };
    std::erase_if(held.inbounds, is_free);
    std::erase_if(held.answers, is_free);
    co_return held;
}

Task<> ManagerCore::release_held(std::string id) {
    const std::shared_ptr<ManagerCore> self = shared_from_this();
    HeldMessages all = co_await held();
    for (Delivery& delivery : all.answers) {
        if (delivery.id != id) continue;
        const std::shared_ptr<Channel> channel = output_channel(delivery.message);
        if (!channel)
            throw Error(ErrorCode::not_found, "the channel of answer " + id + " does not run");
        co_await send_again(channel, std::move(delivery));
        held_.erase(id);
        co_return;
    }
    const auto wanted = std::find_if(all.inbounds.begin(), all.inbounds.end(),
                                     [&id](const auto& one) { return one.id == id; });
    if (wanted == all.inbounds.end())
        throw Error(ErrorCode::not_found, "nothing is held under " + id);
    if (!open_ || !find_channel(wanted->message.channel))
        throw Error(ErrorCode::not_found, "the channel of message " + id + " does not run");
    // Messages that formed one message in the interrupted turn stay together.
    const std::string turn = wanted->turn;
    std::vector<StoredInbound> released;
    for (StoredInbound& inbound : all.inbounds) {
        if (inbound.id != id && (turn.empty() || inbound.turn != turn)) continue;
        held_.erase(inbound.id);
        released.push_back(std::move(inbound));
    }
    hand_in_again(std::move(released));
}

Task<> ManagerCore::discard_held(std::string id) {
    const std::shared_ptr<ManagerCore> self = shared_from_this();
    HeldMessages all = co_await held();
    const auto has_id = [&id](const auto& message) { return message.id == id; };
    if (std::any_of(all.answers.begin(), all.answers.end(), has_id)) {
        std::string reason = "discarded by the operator";
        co_await options_.deliveries->failed(id, std::move(reason));
    } else if (std::any_of(all.inbounds.begin(), all.inbounds.end(), has_id)) {
        Receipts ids(1, id);
        co_await options_.deliveries->finish(std::move(ids));
    } else {
        throw Error(ErrorCode::not_found, "nothing is held under " + id);
    }
    held_.erase(id);
}

}  // namespace bub::detail
