#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include <bub/channel/http_channel.hpp>

#include "gateway_api.hpp"

namespace cubepi::app {

/// The messages and sessions that the channel http and operators read, from the delivery log and the tapes of an instance, which must
/// outlive it.
class GatewaySessions final : public bub::HttpSessions {
public:
    explicit GatewaySessions(const GatewayInstance& instance) : instance_(instance) {}

    /// Returns a page of the history of a session of any channel, or of a sub-agent; nothing if there is no such session.
    /// `with_details`: the texts of failures are included (D98).
    Task<std::optional<SessionHistory>> history(std::string session, std::size_t limit,
                                                std::int64_t before, bool with_details);

    Task<std::optional<JsonObject>> message(std::string id) override;
    Task<std::optional<JsonObject>> session(std::string session, std::size_t limit,
                                            std::int64_t before) override;
    Task<bub::StopOutcome> stop(bub::Envelope by) override;

private:
    const GatewayInstance& instance_;
};

}  // namespace cubepi::app
