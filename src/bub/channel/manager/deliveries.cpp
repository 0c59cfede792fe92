#include <bub/channel/manager/deliveries.hpp>

#include <algorithm>
#include <utility>

#include <cubepi/core/error.hpp>
#include <cubepi/core/outcome.hpp>

namespace bub::detail {

using cubepi::Error;
using cubepi::ErrorCode;
using cubepi::Outcome;
using cubepi::outcome_of;

namespace {

// As coroutines, so that an exception of the call itself is part of the outcome.

Task<> send_to(std::shared_ptr<Channel> channel, Envelope message) {
    co_await channel->send(std::move(message));
}

template <class Ids>
Task<> write(DeliveryLog& log, Task<> (DeliveryLog::*record)(Ids), Ids ids) {
    co_await (log.*record)(std::move(ids));
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
    context_.warn("delivery.not_recorded",
                  {{"step", step}, {"error", cubepi::logged_error(failure)}},
                  text + ": " + describe(failure));
}

bool Deliveries::records(const Channel& channel) const {
    return context_.options.deliveries && policy_of(channel) != UnsettledPolicy::none;
}

Task<std::optional<std::string>> Deliveries::receive(Envelope message) {
    return log().receive(std::move(message));
}

Task<> Deliveries::begin(Receipts receipts) {
    if (receipts.empty()) co_return;
    Task<> writing = write(log(), &DeliveryLog::begin, std::move(receipts));
    const Outcome<> written = co_await outcome_of(std::move(writing));
    if (written.cancelled()) written.rethrow();
    if (!written) not_recorded("begin", written.failure(), "could not record the start of a turn");
}

Task<> Deliveries::finish(Receipts receipts) {
    if (receipts.empty()) co_return;
    Task<> writing = write(log(), &DeliveryLog::finish, std::move(receipts));
    const Outcome<> written = co_await uncancelled(std::move(writing));
    if (!written)
        not_recorded("finish", written.failure(),
                     "could not record that a message is finished; it may be delivered again");
}

Task<> Deliveries::put_back(Receipts receipts) {
    if (receipts.empty()) co_return;
    Task<> writing = write(log(), &DeliveryLog::put_back, std::move(receipts));
    const Outcome<> written = co_await uncancelled(std::move(writing));
    if (!written)
        not_recorded("put_back", written.failure(),
                     "could not record the end of an interrupted turn");
}

Task<> Deliveries::note_sent(std::string id) {
    Task<> writing = write(log(), &DeliveryLog::sent, std::move(id));
    const Outcome<> written = co_await uncancelled(std::move(writing));
    if (!written)
        not_recorded("sent", written.failure(),
                     "could not record that an answer was sent; it may be sent again");
}

Task<> Deliveries::plan(std::string session_id, std::vector<TurnOutput> outputs,
                        Receipts answered) {
    auto* const plans = dynamic_cast<PlansAnswers*>(context_.options.deliveries.get());
    if (!plans || answered.empty()) co_return;
    std::erase_if(outputs, [&](const TurnOutput& output) {
        const Envelope& message = output.message;
        const std::shared_ptr<Channel> channel = channels_.find_output(message);
        // Only for recorded messages is it known later whether they were sent.
        return !channel || !records(*channel) || message.session_id != session_id ||
               message.kind == envelope_kind::error;
    });
    if (!outputs.empty()) co_await plans->plan(std::move(outputs), std::move(answered));
}

Task<bool> Deliveries::send(TurnOutput output, Receipts answered) {
    // Keeps the channel alive while it sends.
    const std::shared_ptr<Channel> channel = channels_.find_output(output.message);
    if (!channel) co_return false;
    if (records(*channel)) {
        co_await send_recorded(channel, std::move(output), std::move(answered));
    } else {
        co_await channel->send(std::move(output.message));
    }
    co_return true;
}

Task<> Deliveries::send_recorded(std::shared_ptr<Channel> channel, TurnOutput output,
                                 Receipts answered) {
    std::string id = co_await intend(output, std::move(answered));
    Task<> sending = send_to(channel, std::move(output.message));
    const Outcome<> sent = co_await outcome_of(std::move(sending));
    // After a cancellation during the call, the delivery state is unknown.
    if (sent.cancelled()) sent.rethrow();
    if (sent) {
        co_await note_sent(std::move(id));
        co_return;
    }
    Task<> writing = write_failed(log(), std::move(id), describe(sent.failure()));
    const Outcome<> written = co_await outcome_of(std::move(writing));
    if (!written)
        not_recorded("failed", written.failure(), "could not record that an answer was not sent");
    sent.rethrow();
}

Task<std::string> Deliveries::intend(TurnOutput output, Receipts answered) {
    auto* const plans = dynamic_cast<PlansAnswers*>(context_.options.deliveries.get());
    if (plans && output.count > 0 && !answered.empty())
        return plans->intend_output(std::move(output), std::move(answered));
    return log().intend(std::move(output.message), std::move(answered));
}

Task<> Deliveries::resend(std::shared_ptr<Channel> channel, Delivery delivery) {
    co_await log().resend(delivery.id);
    delivery.message.context["resent"] = true;
    co_await channel->send(std::move(delivery.message));
    co_await note_sent(std::move(delivery.id));
}

Task<HeldMessages> Deliveries::held() {
    HeldMessages held;
    if (!context_.options.deliveries) co_return held;
    held.inbounds = co_await log().unfinished();
    held.answers = co_await log().unsettled();
    const auto is_free = [this](const auto& message) { return !held_.contains(message.id); };
    std::erase_if(held.inbounds, is_free);
    std::erase_if(held.answers, is_free);
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
