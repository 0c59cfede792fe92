#pragma once

#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include <bub/channel.hpp>
#include <bub/channel/delivery_log.hpp>
#include <bub/channel/reports_problem.hpp>
#include <bub/channel/sent_file.hpp>
#include <bub/questions.hpp>
#include <bub/turn_error.hpp>
#include <cubepi/core/runtime.hpp>
#include <cubepi/net/http_server.hpp>

namespace bub {

/// Receives updates as requests of Telegram instead of asking for them.
struct TelegramWebhook {
    std::string url = {};  ///< the public address, https
    std::string secret =
        {};  ///< in each request of Telegram: 1 to 256 of A-Z, a-z, 0-9, _ and -. Required.
    std::string path = "/telegram";  ///< of the server below
    /// Usually behind a proxy that ends TLS. Other parts of the program may share it.
    std::shared_ptr<cubepi::HttpServer> server = {};
};

struct TelegramChannelOptions {
    std::string token = {};
    /// Users who may use the bot, and groups whose members may, by id. All others are refused (B15).
    std::vector<std::string> users = {};
    std::vector<std::string> chats = {};
    /// Users who may also answer every question (B25) and use comma commands (B11).
    std::vector<std::string> operators = {};
    /// Users who, besides the operators, may answer questions about tool calls (TurnQuestions::may_answer). Such a question of another
    /// user's private chat is sent to the private chats of all of them, and presses of other users are refused.
    std::vector<std::string> approvers = {};
    /// Absent: long polling.
    std::optional<TelegramWebhook> webhook = {};
    /// Updates are asked for while this process holds the lease (DeliveryLog::account_lease()), which stop() and drain() release.
    /// Null: no other process asks for them. Not used with a webhook.
    std::shared_ptr<AccountLease> lease = {};
    /// Returns true while messages of some sessions cannot be stored, but those of others can (DeliveryLog::partial_outage()). Then an update
    /// that is polled does not wait for one of another session. May be empty.
    std::function<bool()> stores_partly = {};
    /// Returns the number of gateways that send as this bot (GatewayPeers::count()): each uses its share of the bot's rate. May be empty:
    /// only this one does.
    std::function<std::size_t()> count_gateways = {};
    /// Shows answers while they are generated, if the manager streams them.
    bool shows_progress = true;
    /// Files of users that are larger are not fetched. The Bot API allows 20 MB.
    std::size_t max_file_bytes = 20'000'000;
    /// The address of the Bot API; a local server may have another one.
    std::string api_url = "https://api.telegram.org";
    /// Time, network and log. Null: Runtime::standard().
    std::shared_ptr<const cubepi::Runtime> runtime = {};
    /// Receives problems that concern the operator. May be empty.
    WarningHandler on_warning = {};
};

/// A bot of Telegram as a channel (docs/guides/bub/telegram.md): private chats and groups, answers that are shown while they are
/// generated, files in both directions, questions with buttons. An update is confirmed after its message was stored; an answer
/// that may or may not have arrived is sent again with a mark (B18). Used on the manager's executor.
class TelegramChannel final : public Channel,
                              public FollowsTurns,
                              public ShowsOutcomes,
                              public SettlesDeliveries,
                              public TracksSending,
                              public SendsFiles,
                              public ReportsProblem {
public:
    /// Throws Error(invalid_argument) for a token, an id, or a webhook without a secret or server.
    TelegramChannel(TelegramChannelOptions options, MessageHandler handler);
    ~TelegramChannel() override;

    const std::string& name() const noexcept override;
    bool needs_debounce() const override { return true; }
    /// Returns the port of the webhook's server; 0 without one.
    std::uint16_t port() const noexcept;

    /// Throws Error(auth) if Telegram rejects the token, and if it cannot be reached.
    Task<> prepare() override;
    /// Throws Error(auth) if Telegram rejects the token. A network that does not work yet is retried in the background.
    Task<> start(std::stop_token stopping) override;
    Task<> stop() override;
    /// Returns when Telegram has the message. Throws if Telegram rejects it; waits while Telegram cannot be reached.
    Task<> send(Envelope message) override;
    Task<> send_tracked(Envelope message, std::shared_ptr<SendProgress> progress) override;
    EventStream stream_events(const Envelope& message, EventStream stream) override;
    Task<std::optional<AdmitDecision>> admit_message(std::string session_id,
                                                     const Envelope& message,
                                                     TurnSnapshot turn) override;
    UnsettledPolicy unsettled_policy() const noexcept override { return UnsettledPolicy::resend; }
    void restore(Envelope& message) override;
    void begin_turn(const Envelope& message) noexcept override;
    void end_turn(const Envelope& message, std::exception_ptr failure) noexcept override;
    void postpone_turn(const Envelope& message) noexcept override {
        // The next turn shows the text from scratch.
        end_turn(message, nullptr);
    }
    void show_outcome(const Envelope& message, const AcceptedAnswer& answer) noexcept override;
    void drain() noexcept override;
    std::string problem() const override;

private:
    struct State;
    std::shared_ptr<State> state_;
};

}  // namespace bub
