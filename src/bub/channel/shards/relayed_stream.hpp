#pragma once

#include <memory>

#include <bub/channel.hpp>
#include <bub/event_stream.hpp>

namespace bub::detail {

/// Returns a stream for a turn on this executor: the events of `upstream` as the channels of `router` pass them on, which belong to
/// the executor `front`. Both directions are bounded, so that a slow channel slows down the model.
EventStream relay_stream(cubepi::Executor front, std::shared_ptr<OutboundChannelRouter> router,
                         const Envelope& message, EventStream upstream);

}  // namespace bub::detail
