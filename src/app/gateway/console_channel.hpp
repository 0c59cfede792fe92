#pragma once

#include <cstddef>
#include <deque>
#include <map>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include <bub/channel.hpp>

#include "gateway_api.hpp"

namespace cubepi::app {

/// The channel of the messages that operators write in the web console (D218). Answers are read from the history of their session, so
/// that only what no tape has is held here. Used on the executor of the gateway.
class ConsoleChannel final : public bub::Channel {
public:
    static constexpr std::string_view channel_name = "console";
    /// The member of Envelope::rest of an operator's message that is to steer the running turn of its session.
    static constexpr std::string_view steer_key = "console_steer";

    const std::string& name() const noexcept override { return name_; }
    Task<> start(std::stop_token stopping) override;
    Task<> stop() override;
    Task<> send(bub::Envelope message) override;

    /// Returns what the channel was told about a session and no tape has, oldest first: failures, files, notices about messages that
    /// were rejected or postponed. The oldest ones are forgotten, and all of them with the process.
    std::vector<SessionNotice> notices(const std::string& session) const;

private:
    static constexpr std::size_t max_notices = 20;  ///< of a session
    static constexpr std::size_t max_sessions = 200;

    const std::string name_{channel_name};
    std::map<std::string, std::deque<SessionNotice>> notices_;
    std::deque<std::string> order_;  ///< of the sessions with notices, oldest first
};

}  // namespace cubepi::app
