#pragma once

#include <chrono>
#include <exception>
#include <memory>
#include <stop_token>
#include <string>
#include <vector>

#include <bub/channel.hpp>
#include <bub/channel/channel_manager.hpp>
#include <bub/schedule/schedule.hpp>
#include <bub/turn_error.hpp>
#include <cubepi/core/runtime.hpp>

namespace bub {

struct ScheduleChannelOptions {
    std::shared_ptr<ScheduleStore> store = {};  ///< required
    std::vector<Schedule> configured = {};      ///< see configure_schedules()
    std::chrono::nanoseconds poll = std::chrono::seconds(1);
    std::shared_ptr<const cubepi::Runtime> runtime = cubepi::Runtime::standard();
    /// Receives problems that concern the operator. May be empty.
    WarningHandler on_warning = {};
};

/// The source of the messages of schedules: passes each firing to the channel manager as if the channel of its chat had received it, whose
/// record makes it unique (B18, D205). Several gateways may poll the same schedules; one that is killed between the acceptance of a firing
/// and the record of the next one passes it again, under the same id.
///
/// A firing is not passed while the one before it waits for its turn, nor if the channel does not admit its sender any more: the schedule
/// has the reason, and continues with the next firing. One whose channel this gateway does not serve is left to others. Used on the
/// manager's executor.
class ScheduleChannel final : public Channel, public FollowsTurns {
public:
    static constexpr std::string_view channel_name = "schedule";

    ScheduleChannel(ScheduleChannelOptions options, MessageHandler handler);
    ~ScheduleChannel() override;

    /// Must be called before start(). `manager`, which owns the channel, has the other channels.
    void connect(ChannelManager& manager);

    const std::string& name() const noexcept override;
    ChannelRole role() const noexcept override { return ChannelRole::lifecycle; }
    Task<> start(std::stop_token stopping) override;
    Task<> stop() override;
    /// Leaves the firings to other gateways, or to the next start.
    void drain() noexcept override;
    // No message is of this channel.
    void begin_turn(const Envelope& /*message*/) noexcept override {}
    void end_turn(const Envelope& /*message*/, std::exception_ptr /*failure*/) noexcept override {}

private:
    struct State;
    const std::shared_ptr<State> state_;
};

}  // namespace bub
