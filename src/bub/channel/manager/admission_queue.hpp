#pragma once

#include <cstddef>
#include <deque>
#include <exception>
#include <memory>
#include <set>
#include <stop_token>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include <cubepi/core/event_signal.hpp>

#include <bub/channel/manager/deliveries.hpp>
#include <bub/channel/manager/manager_context.hpp>
#include <bub/channel/manager/session_scheduler.hpp>

namespace bub::detail {

/// Returns the session as far as the message determines it; hooks may choose another.
std::string lane_key(const Envelope& message);

/// The path of a message from its channel to its session: recorded, debounced, and admitted. Messages of one sender are
/// admitted one after the other, in order of arrival; others do not wait for them.
class AdmissionQueue {
public:
    /// `router` sends the notices of rejected messages.
    AdmissionQueue(ManagerContext& context, const ChannelSet& channels, Deliveries& deliveries,
                   SessionScheduler& sessions, OutboundChannelRouter& router);

    /// Returns the function to which channels pass their messages: receive(). It throws after the end of the manager.
    MessageHandler handler();
    /// Accepts a message of a channel.
    Task<> receive(Envelope message);
    /// Stops the turn of the session of `by` (D96). If its sender may not do so, the sender is notified.
    Task<StopOutcome> stop(Envelope by);
    /// Does the same once for the Envelope::inbound_id of `by`, also after a restart: a repeated request stops no later turn.
    Task<StopOutcome> stop_once(Envelope by);
    /// Accepts a message that an earlier process had accepted.
    void resubmit(QueuedMessage message);
    /// Admits the messages that are being debounced.
    void flush();
    /// Cancels the admission of messages of this session.
    void cancel(const std::string& session_id);
    /// Drops all messages at the end of the manager; their records remain.
    void clear(Leftover& leftover);
    /// Forgets all lanes, after their coroutines have ended.
    void forget() { lanes_.clear(); }
    /// Returns the number of senders whose messages are being debounced or admitted.
    std::size_t busy() const;

private:
    /// The end of a message's admission, for which its handler waits.
    struct Admission {
        cubepi::AsyncEvent done;
        std::exception_ptr failure;
    };
    using AdmissionPtr = std::shared_ptr<Admission>;
    struct Arrival {
        QueuedMessage queued;
        AdmissionPtr admission;
    };
    /// The queue of one sender, before the session is known.
    struct Lane {
        std::string key;
        std::deque<Arrival> arrivals;
        std::unique_ptr<Debouncer> debouncer;
        std::stop_source admitting;
        std::string session_id;  // of the message being admitted; empty: not known yet
        bool working = false;
        bool debouncer_done = false;  // it has no state any more
    };
    using LanePtr = std::shared_ptr<Lane>;

    LanePtr find(const std::string& key) const;
    LanePtr find_or_add(const std::string& key);
    bool is_full(const std::string& key, const Envelope& message) const;
    bool is_wanted(const std::string& key, const Envelope& message) const;
    Task<> collect(LanePtr lane, Envelope message);
    void add_debouncer(const LanePtr& lane, const cubepi::Executor& executor);
    void on_debounced(const LanePtr& lane, Envelope message);
    Task<> reject(QueuedMessage message);
    AdmissionPtr submit(const LanePtr& lane, QueuedMessage message);
    Task<> submit_later(Envelope message);
    Task<> admit_all(LanePtr lane);
    Task<> admit(LanePtr lane, QueuedMessage message);
    Task<AdmitDecision> decide(LanePtr lane, std::shared_ptr<Envelope> message);
    Task<> apply(QueuedMessage message, AdmitDecision decision);
    Task<bool> passes_gate(const QueuedMessage& message);
    Task<bool> drop_collected(std::string key, Envelope by);
    Task<std::optional<StopOutcome>> earlier_stop(Envelope by);
    bool has_stopped(const Envelope& by) const;
    void note_stop(const Envelope& by);
    void forget_stop(const Envelope& by);
    /// `text` must outlive the notice.
    void announce_rejection(Envelope message, std::string_view text);
    Task<> notify_rejected(Envelope message, std::string sender, std::string_view text);
    void forget_if_idle(const LanePtr& lane);

    ManagerContext& context_;
    const ChannelSet& channels_;
    Deliveries& deliveries_;
    SessionScheduler& sessions_;
    OutboundChannelRouter& router_;
    std::unordered_map<std::string, LanePtr> lanes_;
    std::set<std::string> notified_;  // lanes whose notice of a full queue is being sent
    // Requests to stop on which this process has acted, the last ones: their records may still be delivered.
    std::deque<std::string> stops_;
    // Finished lanes: a debouncer cannot be destroyed from inside its own timer.
    std::vector<LanePtr> retired_;
};

}  // namespace bub::detail
