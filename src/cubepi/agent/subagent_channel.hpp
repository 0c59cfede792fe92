#pragma once

#include <memory>
#include <utility>

#include <cubepi/agent/hitl_channel.hpp>

namespace cubepi::detail {

/// The channel of a sub-agent (D114).
class SubagentChannel : public HitlChannel {
public:
    /// Returns a channel that asks the questions of the sub-agent on `given`, with the path of the agents. Null: this one does,
    /// because `given` is the channel of its parent, or of an agent above that.
    virtual std::shared_ptr<HitlChannel> asking_on(std::shared_ptr<HitlChannel> given) = 0;
};

/// Returns the channel of a hook or a tool that was created with `given`, which may be null. `own`: the channel of the agent that
/// makes the call; may be null.
inline std::shared_ptr<HitlChannel> channel_for_call(std::shared_ptr<HitlChannel> given,
                                                     const std::shared_ptr<HitlChannel>& own) {
    if (!given || given == own) return own;
    auto* const child = dynamic_cast<SubagentChannel*>(own.get());
    if (!child) return given;
    std::shared_ptr<HitlChannel> other = child->asking_on(std::move(given));
    return other ? other : own;
}

}  // namespace cubepi::detail
