#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include <bub/channel/channel_manager.hpp>
#include <bub/channel/http_channel.hpp>

#include "gateway_api.hpp"

namespace cubepi::app {

/// The parts of a session that a history shows.
enum class HistoryDetail : std::uint8_t {
    plain,
    failures,  ///< with the texts of failures (D98)
    all,       ///< for operators: also thinking, the arguments of calls, and what is not stored yet
};

/// The messages and sessions that the channel http and operators read, from the delivery log and the tapes of an instance, which must
/// outlive it.
class GatewaySessions final : public bub::HttpSessions {
public:
    explicit GatewaySessions(const GatewayInstance& instance) : instance_(instance) {}

    /// Returns a page of the history of a session of any channel, or of a sub-agent; nothing if there is no such session.
    Task<std::optional<SessionHistory>> history(std::string session, std::size_t limit,
                                                std::int64_t before, HistoryDetail detail);

    /// Returns a picture of the history, by the id of its entry and its number in it; nothing if there is none.
    Task<std::optional<bub::MediaItem>> image(std::string session, std::int64_t entry,
                                              std::int64_t number);

    Task<std::optional<JsonObject>> message(std::string id) override;
    Task<std::optional<JsonObject>> session(std::string session, std::size_t limit,
                                            std::int64_t before) override;
    Task<bub::StopOutcome> stop(bub::Envelope by) override;
    Task<bool> wait_for_end(std::string id, std::string session,
                            std::chrono::milliseconds limit) override;
    bool is_shared() const override;
    Task<std::optional<JsonObject>> ask_elsewhere(JsonObject request, std::string gateway) override;

private:
    /// Adds the state and the reply of a finished message, as the tape of its session has them. `asks_others`: another gateway may work on the
    /// session. Returns false if the turn has ended without an answer, a question or a reason.
    Task<bool> add_reply(bub::FoundMessage found, bool asks_others, JsonObject* message);

    const GatewayInstance& instance_;
};

}  // namespace cubepi::app
