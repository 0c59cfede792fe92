#pragma once

#include <cstdint>
#include <deque>
#include <exception>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <stop_token>
#include <string>
#include <unordered_map>
#include <vector>

#include <cubepi/core/event_signal.hpp>
#include <cubepi/core/task_scope.hpp>

#include <bub/channel/channel_manager.hpp>

namespace bub::detail {

/// The admission of a message, for which its handler waits.
struct Admission {
    cubepi::AsyncEvent over;
    std::exception_ptr failure;
};

/// The delivery log's ids of a message and of those merged into it; empty if nothing is recorded.
using Receipts = std::vector<std::string>;

struct Arrival {
    std::shared_ptr<Envelope> message;
    std::shared_ptr<Admission> admission;
    std::uint64_t number = 0;
    Receipts receipts = {};
    bool comes_again = false;  // accepted by an earlier process; cannot be rejected
};

/// A queue in which the messages of one sender are admitted one after the other: in order of arrival, before their
/// session is known.
struct Lane {
    std::string key;
    std::deque<Arrival> arrivals;
    std::unique_ptr<Debouncer> debouncer;
    Receipts collected;  // of the messages held by the debouncer
    std::stop_source admitting;
    std::string session_id;  // of the message being admitted, once known
    bool working = false;
    bool debouncer_done = false;  // it has no state any more
};

/// Returns the session as far as the message determines it; hooks may choose another.
std::string lane_key(const Envelope& message);

struct Waiting {
    std::shared_ptr<Envelope> message;
    std::uint64_t number = 0;  // in order of arrival
    Receipts receipts = {};
    /// The remaining output of a turn that an earlier process has finished.
    std::vector<PlannedAnswer> rest = {};
    std::size_t parts = 0;
};

/// A message that was passed to the running turn; it is in the inbox.
struct Steered {
    std::uint64_t number = 0;
    Receipts receipts = {};
};

struct SessionQueue {
    std::string id;
    std::deque<Waiting> waiting;
    std::deque<Steered> steered;
    std::optional<std::stop_source> turn;
    Receipts receipts;      // of the message whose turn is running
    std::size_t part = 0;   // being dispatched
    std::size_t parts = 0;  // 0: none yet
    bool working = false;
};

/// The manager as seen by the framework and the channels.
class ManagerCore final : public OutboundChannelRouter,
                          public std::enable_shared_from_this<ManagerCore> {
public:
    ManagerCore(Framework& framework, ChannelManagerOptions options);

    Task<> run(std::stop_token stop);
    void request_stop() { stop_.request_stop(); }
    Task<std::vector<std::shared_ptr<Channel>>> enabled_channels();
    Task<> receive(Envelope message);
    Task<> abort_session(std::string session_id);
    TurnSnapshot snapshot(const std::string& session_id) const;
    std::size_t busy_sessions() const { return sessions_.size() + working_lanes(); }
    Task<> idle();
    Task<HeldMessages> held();
    Task<> release_held(std::string id);
    Task<> discard_held(std::string id);

    EventStream wrap_stream(const Envelope& message, EventStream stream) override;
    Task<> plan_outputs(std::string session_id, std::vector<Envelope> messages) override;
    void next_output(const std::string& session_id, std::size_t number, std::size_t count) override;
    Task<bool> dispatch_output(Envelope message) override;
    Task<std::optional<AdmitDecision>> admit_message(std::string session_id,
                                                     const Envelope& message,
                                                     TurnSnapshot turn) override;
    Task<> quit(std::string session_id) override;
    bool cancel_turn(const std::string& session_id) override;

private:
    Task<> serve(std::vector<std::shared_ptr<Channel>> channels);
    Task<> shut_down();
    void drop_what_waits();

    // manager_delivery.cpp
    bool is_recorded(const Channel& channel) const;
    /// Recovers the records of an earlier process.
    Task<> take_up_inbounds();
    Task<> take_up_deliveries();
    /// Resubmits recovered messages in order; those that a debounced channel would have merged are merged.
    void hand_in_again(std::vector<StoredInbound> inbounds);
    void restore(Channel& channel, Envelope& message) const;
    Task<> send_again(std::shared_ptr<Channel> channel, Delivery delivery);
    Task<> send_recorded(std::shared_ptr<Channel> channel, Envelope message);
    Receipts receipts_of_turn(const std::optional<std::string>& session_id) const;
    Task<std::string> intend(Envelope message);
    /// Sends the remaining output of turns of an earlier process; returns the messages of other turns.
    std::vector<StoredInbound> take_up_rests(std::vector<StoredInbound> inbounds);
    Task<> send_rest(std::shared_ptr<SessionQueue> session, std::vector<PlannedAnswer> rest,
                     std::size_t parts);
    /// These functions do not fail and cannot be cancelled: write failures are reported to the operator.
    Task<> note_begin(Receipts receipts);
    Task<> note_over(Receipts receipts, bool is_put_back = false);
    Task<> note_sent(std::string id);

    std::shared_ptr<Lane> find_lane(const std::string& key) const;
    bool is_full(const std::string& key) const;
    bool is_wanted(const std::string& key, const Envelope& message) const;
    Receipts collect(const std::shared_ptr<Lane>& lane, Envelope message, Receipts receipts,
                     const cubepi::Executor& executor);
    Task<> refuse_collected(Envelope message, Receipts receipts);
    std::shared_ptr<Admission> submit(const std::shared_ptr<Lane>& lane, Arrival arrival);
    void on_debounced(std::weak_ptr<Lane> lane, Envelope message);
    Task<> admit_all(std::shared_ptr<Lane> lane);
    Task<> admit(std::shared_ptr<Lane> lane, Arrival arrival);
    Task<AdmitDecision> decide(std::shared_ptr<Lane> lane, std::shared_ptr<Envelope> message);
    Task<> place(Arrival arrival, AdmitDecision decision);
    Task<> tell_refused(Envelope message);
    void forget_idle(const std::shared_ptr<Lane>& lane);

    void enqueue(const std::string& session_id, Waiting waiting);
    Task<> run_session(std::shared_ptr<SessionQueue> session);
    /// Returns the receipts of the messages that the turn accepted.
    Receipts take_back_steered(SessionQueue& session);
    std::shared_ptr<SessionQueue> session(const std::string& id);
    std::shared_ptr<SessionQueue> find_session(const std::string& id) const;

    std::shared_ptr<Lane> lane_of(const Envelope& message);
    std::shared_ptr<Channel> find_channel(const std::optional<std::string>& name) const;
    /// Returns the channel that receives the answers to `message`.
    std::shared_ptr<Channel> output_channel(const Envelope& message) const;
    std::size_t working_lanes() const;
    void changed() { idle_.pulse(); }
    void warn(const std::string& text) const;

    Framework& framework_;
    ChannelManagerOptions options_;
    std::stop_source stop_;
    std::stop_source channels_stop_;
    std::optional<std::vector<ProvidedChannel>> provided_;
    std::vector<std::shared_ptr<Channel>> started_;
    std::map<std::string, std::shared_ptr<Channel>, std::less<>> serving_;
    std::shared_ptr<SteeringInbox> inbox_;
    std::unique_ptr<cubepi::BackgroundScope> work_;
    std::unordered_map<std::string, std::shared_ptr<Lane>> lanes_;
    std::unordered_map<std::string, std::shared_ptr<SessionQueue>> sessions_;
    // Finished lanes: a debouncer cannot be destroyed from inside its own timer.
    std::vector<std::shared_ptr<Lane>> retired_;
    cubepi::AsyncEvent idle_;
    cubepi::AsyncEvent ready_;    // all channels have started: turns may begin
    std::set<std::string> held_;  // ids of the delivery log
    std::uint64_t arrivals_ = 0;
    std::size_t waiting_ = 0;  // in all lanes and sessions
    bool open_ = false;        // messages are accepted
    bool ran_ = false;
};

}  // namespace bub::detail
