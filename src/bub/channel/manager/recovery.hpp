#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <bub/channel/manager/admission_queue.hpp>
#include <bub/channel/manager/channel_set.hpp>
#include <bub/channel/manager/deliveries.hpp>
#include <bub/channel/manager/session_scheduler.hpp>

namespace bub::detail {

/// Recovers the records of an earlier process (B18): each message is delivered again, has its remaining outputs sent, is
/// held for the operator, or waits for its channel.
class Recovery {
public:
    Recovery(ManagerContext& context, const ChannelSet& channels, Deliveries& deliveries,
             SessionScheduler& sessions, AdmissionQueue& admission);

    /// Decides about the answers whose delivery state is unknown. Those that are sent again come before all other work of their
    /// sessions; a channel that cannot send them delays no other channel.
    Task<> resume_deliveries();
    Task<> resume_inbounds();
    /// Sends a held answer, or delivers a held message again together with those that formed one prompt with it.
    Task<> release_held(std::string id);

private:
    struct Resends;
    using Resend = std::pair<Delivery, std::shared_ptr<Resends>>;

    std::vector<StoredInbound> resume_outputs(std::vector<StoredInbound> inbounds);
    bool is_served(const StoredInbound& inbound) const;
    Task<> sort_out(std::vector<StoredInbound> inbounds);
    void resubmit(std::vector<StoredInbound> inbounds);
    Task<> resend_all(std::shared_ptr<Channel> channel, std::vector<Resend> answers);
    void restore(Channel& channel, Envelope& message) const;

    ManagerContext& context_;
    const ChannelSet& channels_;
    Deliveries& deliveries_;
    SessionScheduler& sessions_;
    AdmissionQueue& admission_;
};

}  // namespace bub::detail
