#pragma once

#include <chrono>
#include <exception>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <bub/channel/manager/deliveries.hpp>

namespace bub::detail {

class AdmissionQueue;
class SessionScheduler;

/// Recovers the records of ended processes (B18): each message is delivered again, has its remaining outputs sent, is held for the
/// operator, or waits for its channel. With a log that processes share, also takes the messages that others have received.
class Recovery {
public:
    Recovery(ManagerContext& context, const ChannelSet& channels, Deliveries& deliveries,
             SessionScheduler& sessions, AdmissionQueue& admission);

    /// Recovers the records of ended processes, and continues to do so if the log is shared.
    Task<> begin();
    /// Sends a held answer, or delivers a held message again together with those that formed one prompt with it.
    Task<> release_held(std::string id);
    /// Lets a manager that shares its log look at once.
    void look();

private:
    struct Resends;
    using Resend = std::pair<Delivery, std::shared_ptr<Resends>>;

    Task<> recover();
    Task<> poll(std::chrono::nanoseconds interval);
    /// Lets poll() look at once when another process has stored a message for a session of this one.
    Task<> watch(std::shared_ptr<GatewayPeers> peers);
    /// Leaves the messages that wait for a turn to other gateways.
    void leave_waiting();
    void note_failure(const std::exception_ptr& failure);
    /// Decides about the answers whose delivery state is unknown. Those that are sent again come before all other work of their
    /// sessions; a channel that cannot send them delays no other channel.
    void resume_deliveries(std::vector<Delivery> all);
    std::vector<StoredInbound> resume_outputs(std::vector<StoredInbound> inbounds);
    bool is_served(const StoredInbound& inbound) const;
    void sort_out(std::vector<StoredInbound> inbounds);
    Task<> finish_answered(Receipts receipts);
    Task<> release_outlived();
    void resubmit(std::vector<StoredInbound> inbounds);
    Task<> resend_all(std::shared_ptr<Channel> channel, std::vector<Resend> answers);
    void restore(Channel& channel, Envelope& message) const;

    ManagerContext& context_;
    const ChannelSet& channels_;
    Deliveries& deliveries_;
    SessionScheduler& sessions_;
    AdmissionQueue& admission_;
    bool fails_ = false;  ///< the last attempt to take records has failed
    bool woken_ = false;  ///< by another process, since poll() has looked
    // Messages that are held because of the turns that have begun on them.
    std::set<std::string> held_turns_;
    cubepi::Clock::time_point held_until_ = {};
    cubepi::Clock::time_point next_look_ = {};
};

}  // namespace bub::detail
