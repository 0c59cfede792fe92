#pragma once

#include <exception>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <bub/channel/manager/manager_context.hpp>
#include <cubepi/core/outcome.hpp>

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

    // The following report a failure to write to the operator. Only the first can be cancelled.

    /// Records that a turn begins on these messages. Returns false if another process has taken them.
    Task<bool> begin(Receipts receipts);
    /// Records that these messages are finished. `stop`: the result of a request to stop; `stopped` also for the messages of a turn that was
    /// stopped.
    Task<> finish(Receipts receipts, StopOutcome stop = StopOutcome::idle);
    /// The stopped turn of a finished message has ended.
    void announce_end(const Envelope& message) const {
        if (context_.options.deliveries) context_.options.deliveries->announce_end(message);
    }
    /// Of a log that processes share, records in the background what could not be recorded when it happened: this process lives, so that no
    /// other would.
    void record_late();
    /// Records that these messages are to be processed from scratch, or that this process has outlived a turn that it has lost.
    Task<> put_back(Receipts receipts);
    /// Records that these messages wait for an operator.
    Task<> record_hold(Receipts receipts);
    /// Leaves messages that wait to the other processes that share the log, and those that are held for the operator.
    void leave(std::vector<Receipts> all);
    /// Leaves messages whose answers are recorded in part to whichever process takes them next, this one included, after what could not be
    /// recorded yet. In a log of one process they are left to its next start anyway.
    void leave_late(Receipts receipts);
    /// This process has taken these messages: a note that leaves them was written, although its call has failed, and must not be repeated.
    void note_taken(const std::vector<StoredInbound>& taken);
    /// Returns true if other processes share the log.
    bool is_shared() const { return context_.options.deliveries && log().poll_interval(); }

    /// Records the outputs of the turn of `answered` before the first is sent.
    Task<> plan(std::string session_id, std::vector<TurnOutput> outputs, Receipts answered);
    /// Sends an output of the turn of `answered`. Returns false if its channel is not served.
    Task<bool> send(TurnOutput output, Receipts answered);
    /// Sends a message that is not an output of a turn, in the background: a channel that cannot send delays no turn. It is recorded
    /// before the task ends.
    Task<> post(Envelope notice);
    /// Sends an answer that an earlier process had to send; with a mark if it may have arrived. `waits`: while storage fails, instead of
    /// throwing its failure.
    Task<> resend(std::shared_ptr<Channel> channel, Delivery delivery, bool waits);

    /// Returns true if an answer to these messages is being or was sent.
    Task<bool> is_being_answered(Receipts receipts);
    /// Returns true if another process has taken these messages, whose turn this one has begun.
    Task<bool> are_taken(Receipts receipts);
    /// Returns the record of a message by the id of its platform.
    Task<std::optional<KnownInbound>> find(std::string channel, std::string inbound_id);
    /// Returns true if any process has messages of the session of `address` to process.
    Task<bool> has_unfinished(Envelope address);
    bool is_held(const std::string& id) const { return held_.contains(id); }
    /// Holds a message for the operator.
    void hold(std::string id) { held_.insert(std::move(id)); }
    /// Holds an answer for the operator. Later answers of the session do not wait for it.
    void hold_answer(std::string id);
    /// The operator has decided about the message or the answer.
    void unhold(const std::string& id) {
        held_.erase(id);
        held_answers_.erase(id);
    }
    Task<HeldMessages> held();
    /// Leaves the records to the next process. Reports a failure to the operator.
    Task<> release();
    Task<> discard_held(std::string id);

private:
    DeliveryLog& log() const { return *context_.options.deliveries; }
    Task<> send_recorded(std::shared_ptr<Channel> channel, TurnOutput output, Receipts answered);
    Task<> deliver(std::shared_ptr<Channel> channel, Envelope message, std::string id);
    Task<> send_tracked(std::shared_ptr<Channel> channel, Envelope message, std::string id,
                        SendProgress::State state) const;
    Task<> deliver_notice(std::shared_ptr<Channel> channel, Envelope notice, std::string id);
    Task<> note_sent(std::string id);
    /// Awaits DeliveryLog::sent_soon().
    Task<> note_sent_soon(Task<> writing, std::string id);
    void check_sent(const cubepi::Outcome<>& written, std::string id);
    Task<> write_late();
    Task<> put_back_late(Receipts receipts);
    Task<> write_soon(DeliveryNote note, Receipts ids);
    void remove_retaken(DeliveryNote note, Receipts& ids) const;
    /// Returns true if record_late() records what has failed so.
    bool repeats(const std::exception_ptr& failure) const;
    void not_recorded(std::string_view step, const std::exception_ptr& failure,
                      const std::string& text) const;

    ManagerContext& context_;
    const ChannelSet& channels_;
    std::set<std::string> held_;  // ids of the delivery log
    std::set<std::string> held_answers_;
    std::set<std::string> not_put_back_;  // whose last turn has ended, which could not be recorded
    std::set<std::string> soon_sent_;  // answers of sent_soon() whose records are not written yet
    std::vector<std::string> late_sent_;
    std::vector<std::pair<Receipts, StopOutcome>> late_finished_;
    std::vector<std::pair<DeliveryNote, Receipts>> late_notes_;
    std::set<std::string> retaken_;  // messages that were taken again while late notes are written
    bool is_writing_late_ = false;
};

}  // namespace bub::detail
