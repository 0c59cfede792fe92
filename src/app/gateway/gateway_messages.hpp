#pragma once

#include <cstddef>
#include <deque>
#include <map>
#include <memory>
#include <stop_token>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <bub/channel.hpp>
#include <bub/channel/sent_file.hpp>

#include "gateway_api.hpp"

namespace cubepi::app {

/// The channel of the messages that operators write in the web console (D218). Answers are read from the history of their session, so
/// that only what no tape has is held here. Used on the executor of the gateway.
class ConsoleChannel final : public bub::Channel, public bub::SendsFiles {
public:
    static constexpr std::string_view channel_name = "console";
    /// The member of Envelope::rest of an operator's message that is to steer the running turn of its session.
    static constexpr std::string_view steer_key = "console_steer";

    /// `live` tells the readers of a session that it has another notice; null: there are none.
    ConsoleChannel(std::size_t max_file_bytes, std::shared_ptr<LiveAnswers> live)
        : max_file_bytes_(max_file_bytes), live_(std::move(live)) {}

    const std::string& name() const noexcept override { return name_; }
    Task<> start(std::stop_token stopping) override;
    Task<> stop() override;
    Task<> send(bub::Envelope message) override;

    /// Returns what the channel was told about a session and no tape has, oldest first: failures, files, notices about messages that
    /// were rejected or postponed. The oldest ones are forgotten, and all of them with the process.
    std::vector<SessionNotice> notices(const std::string& session) const;
    /// Reads the file of a notice. Throws Error(not_found) if there is none of this id, or if the file is not the one that was sent.
    Task<bub::SentFile> file(std::string session, std::string id) const;

private:
    static constexpr std::size_t max_notices = 20;  ///< of a session
    static constexpr std::size_t max_sessions = 200;

    struct Notice {
        SessionNotice shown = {};
        bub::Envelope message = {};  ///< that has the place of the file
        std::string digest = {};     ///< of the file that was sent
    };

    const std::string name_{channel_name};
    const std::size_t max_file_bytes_;
    const std::shared_ptr<LiveAnswers> live_;
    std::map<std::string, std::deque<Notice>> notices_;
    std::deque<std::string> order_;  ///< of the sessions with notices, oldest first
};

}  // namespace cubepi::app
