#pragma once

#include <chrono>
#include <cstddef>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include <bub/channel/manager/admission_queue.hpp>
#include <bub/channel/manager/channel_set.hpp>
#include <bub/channel/manager/deliveries.hpp>
#include <bub/channel/manager/manager_context.hpp>
#include <bub/channel/manager/recovery.hpp>
#include <bub/channel/manager/session_scheduler.hpp>

namespace bub::detail {

/// The parts of a manager and their lifecycle; the manager as seen by the framework.
class ManagerCore final : public OutboundChannelRouter,
                          public std::enable_shared_from_this<ManagerCore> {
public:
    ManagerCore(Framework& framework, ChannelManagerOptions options);

    Task<> run(std::stop_token stop);
    void request_stop() { stop_.request_stop(); }
    Task<> started();
    Task<std::size_t> drain(std::chrono::nanoseconds limit);
    Task<std::vector<std::shared_ptr<Channel>>> enabled_channels();
    Task<> receive(Envelope message);
    Task<> abort_session(std::string session_id);
    TurnSnapshot snapshot(const std::string& session_id) const {
        return sessions_.snapshot(session_id);
    }
    std::vector<TurnSnapshot> sessions() const { return sessions_.snapshots(); }
    std::size_t busy_sessions() const { return sessions_.busy() + admission_.busy(); }
    Task<> idle();
    Task<HeldMessages> held();
    Task<> release_held(std::string id);
    Task<> discard_held(std::string id);

    EventStream wrap_stream(const Envelope& message, EventStream stream) override;
    Task<> plan_outputs(std::string session_id, std::vector<TurnOutput> outputs) override;
    Task<bool> dispatch_output(TurnOutput output) override;
    Task<std::optional<AdmitDecision>> admit_message(std::string session_id,
                                                     const Envelope& message,
                                                     TurnSnapshot turn) override;
    Task<> quit(std::string session_id) override;
    bool cancel_turn(const std::string& session_id) override;

private:
    /// Serves the channels until `stop` or request_stop(), and ends everything.
    Task<> serve_until(std::stop_token stop, std::vector<std::shared_ptr<Channel>> channels);
    Task<> serve(std::vector<std::shared_ptr<Channel>> channels);
    Task<> shut_down();
    Task<> wait_for_turns();

    ManagerContext context_;
    ChannelSet channels_;
    Deliveries deliveries_;
    SessionScheduler sessions_;
    AdmissionQueue admission_;
    Recovery recovery_;
    std::stop_source stop_;
    bool ran_ = false;
};

}  // namespace bub::detail
