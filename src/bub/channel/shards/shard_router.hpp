#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <bub/channel.hpp>
#include <bub/envelope.hpp>
#include <bub/event_stream.hpp>

namespace bub::detail {

/// Makes the functions of a message that moves to another thread (its lifespan, and those that fetch its media) run on `home`, the
/// executor that they belong to.
void keep_on(const cubepi::Executor& home, Envelope& message);

/// The router of a shard's framework: passes everything to the router of the manager, on the manager's executor.
class ShardRouter final : public OutboundChannelRouter {
public:
    ShardRouter(cubepi::Executor front, cubepi::Executor shard,
                std::shared_ptr<OutboundChannelRouter> target)
        : front_(std::move(front)), shard_(std::move(shard)), target_(std::move(target)) {}

    EventStream wrap_stream(const Envelope& message, EventStream stream) override;
    Task<> plan_outputs(std::string session_id, std::vector<TurnOutput> outputs) override;
    Task<bool> dispatch_output(TurnOutput output) override;
    Task<> quit(std::string session_id) override;
    /// The turn is cancelled soon after. Returns true, since the shard does not know the sessions of the others.
    bool cancel_turn(const std::string& session_id) override;

private:
    const cubepi::Executor front_;
    const cubepi::Executor shard_;
    const std::shared_ptr<OutboundChannelRouter> target_;
};

}  // namespace bub::detail
