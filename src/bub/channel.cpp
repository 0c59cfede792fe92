#include <bub/channel.hpp>

namespace bub {

std::string_view to_string(AdmitAction action) noexcept {
    switch (action) {
        case AdmitAction::process: return "process";
        case AdmitAction::drop: return "drop";
        case AdmitAction::follow_up: return "follow_up";
        case AdmitAction::steer: return "steer";
    }
    return "process";
}

Task<> Channel::send(Envelope) { co_return; }

EventStream Channel::stream_events(const Envelope&, EventStream stream) { return stream; }

Task<std::optional<AdmitDecision>> Channel::admit_message(std::string, const Envelope&,
                                                          TurnSnapshot) {
    co_return std::nullopt;
}

Task<std::optional<AdmitDecision>> OutboundChannelRouter::admit_message(std::string,
                                                                        const Envelope&,
                                                                        TurnSnapshot) {
    co_return std::nullopt;
}

Task<> OutboundChannelRouter::plan_outputs(std::string, std::vector<TurnOutput>) { co_return; }

Task<> OutboundChannelRouter::quit(std::string) { co_return; }

}  // namespace bub
