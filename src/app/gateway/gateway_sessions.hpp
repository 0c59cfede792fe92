#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include <bub/channel/http_channel.hpp>

namespace cubepi::app {

class GatewayInstance;

/// The messages and sessions that the channel http reads, from the delivery log and the tapes of an instance, which must outlive it.
class GatewaySessions final : public bub::HttpSessions {
public:
    explicit GatewaySessions(const GatewayInstance& instance) : instance_(instance) {}

    Task<std::optional<JsonObject>> message(std::string id) override;
    Task<std::optional<JsonObject>> session(std::string session, std::size_t limit,
                                            std::int64_t before) override;
    Task<bub::StopOutcome> stop(bub::Envelope by) override;

private:
    const GatewayInstance& instance_;
};

}  // namespace cubepi::app
