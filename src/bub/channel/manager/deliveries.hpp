#pragma once

#include <exception>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include <bub/channel/manager/channel_set.hpp>
#include <bub/channel/manager/manager_context.hpp>

namespace bub::detail {

/// Returns the policy of a channel for answers whose delivery state is unknown.
UnsettledPolicy policy_of(const Channel& channel);

/// The manager's records in the delivery log (B18). Without a log, or if there is nothing to record, its members do
/// nothing.
class Deliveries {
public:
    Deliveries(ManagerContext& context, const ChannelSet& channels)
        : context_(context), channels_(channels) {}

    /// Returns true if the messages of this channel are recorded.
    bool records(const Channel& channel) const;
    /// Stores a message; returns its id, or nothing if the message was stored before.
    Task<std::optional<std::string>> receive(Envelope message);

    // The following three report a failure to write to the operator. The last two cannot be cancelled.

    /// Records that a turn begins on these messages.
    Task<> begin(Receipts receipts);
    /// Records that these messages are finished.
    Task<> finish(Receipts receipts);
    /// Records that these messages are to be processed from scratch.
    Task<> put_back(Receipts receipts);

    /// Records the outputs of the turn of `answered` before the first is sent.
    Task<> plan(std::string session_id, std::vector<TurnOutput> outputs, Receipts answered);
    /// Sends an output of the turn of `answered`. Returns false if its channel is not served.
    Task<bool> send(TurnOutput output, Receipts answered);
    /// Sends an answer again that an earlier process had begun to send.
    Task<> resend(std::shared_ptr<Channel> channel, Delivery delivery);

    /// Holds a message or an answer for the operator.
    void hold(std::string id) { held_.insert(std::move(id)); }
    /// The operator has decided about it.
    void unhold(const std::string& id) { held_.erase(id); }
    Task<HeldMessages> held();
    Task<> discard_held(std::string id);

private:
    DeliveryLog& log() const { return *context_.options.deliveries; }
    Task<> send_recorded(std::shared_ptr<Channel> channel, TurnOutput output, Receipts answered);
    Task<std::string> intend(TurnOutput output, Receipts answered);
    Task<> note_sent(std::string id);
    void not_recorded(std::string_view step, const std::exception_ptr& failure,
                      const std::string& text) const;

    ManagerContext& context_;
    const ChannelSet& channels_;
    std::set<std::string> held_;  // ids of the delivery log
};

}  // namespace bub::detail
