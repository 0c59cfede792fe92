#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <stop_token>
#include <string>

#include <bub/channel/account_lease.hpp>
#include <bub/channel/telegram/telegram_api.hpp>
#include <bub/channel/telegram/update.hpp>
#include <bub/channel/telegram_channel.hpp>
#include <cubepi/core/task_scope.hpp>

namespace bub::telegram {

/// The kinds of updates that the channel asks for.
JsonArray wanted_updates();

/// Asks for updates and passes them on, one after the other in the order of their ids. An update is confirmed by the request that
/// follows its acceptance. Used on one executor.
class UpdatePoll {
public:
    /// Returns false if the update must be delivered again later.
    using Accept = std::function<Task<bool>(Json update)>;
    /// Called with a description when updates cannot be received, and with an empty text when they arrive again.
    using OnTrouble = std::function<void(std::string)>;

    /// Returns false if another process may ask for updates: then what was received is not used.
    using MayPoll = std::function<bool()>;
    /// Returns true if an update that was not accepted is left, and those after it are passed on: it comes again with the next request.
    using MayLeave = std::function<bool()>;

    /// `begin_batch` is called before the updates of an answer are passed on.
    UpdatePoll(std::shared_ptr<const TelegramApi> api, cubepi::Clock& clock, Accept accept,
               OnTrouble on_trouble, MayPoll may_poll, MayLeave may_leave,
               std::function<void()> begin_batch)
        : api_(std::move(api)),
          clock_(clock),
          accept_(std::move(accept)),
          on_trouble_(std::move(on_trouble)),
          may_poll_(std::move(may_poll)),
          may_leave_(std::move(may_leave)),
          begin_batch_(std::move(begin_batch)) {}

    /// Runs until it is cancelled, or until it may not poll. Begins with the first update that is not confirmed.
    Task<> run();
    /// Confirms the updates that were accepted last. Does not throw.
    Task<> confirm();
    /// Does the same, and ends the request of run() at Telegram, so that another process may ask at once. Does not throw.
    Task<> end();

private:
    Task<Json> fetch() const;
    Task<> request_once();
    Task<bool> accept_all(Json updates);
    Task<> back_off(std::exception_ptr failure);
    std::chrono::nanoseconds delay_after(const std::exception_ptr& failure);
    void report(std::string trouble);

    const std::shared_ptr<const TelegramApi> api_;
    cubepi::Clock& clock_;
    const Accept accept_;
    const OnTrouble on_trouble_;
    const MayPoll may_poll_;
    const MayLeave may_leave_;
    const std::function<void()> begin_batch_;
    std::int64_t offset_ =
        0;  ///< the first update that is not accepted; 0: the first that is not confirmed
    bool was_left_ = false;                 ///< an update of the last answer
    std::set<std::int64_t> accepted_ = {};  ///< after one that was left
    bool has_polled_ = false;
    std::int64_t batch_ = 100;
    int failures_ = 0;
    std::string trouble_;
};

/// The receiving side of the channel: updates become messages and answers for the manager. Used on one executor.
class UpdateReceiver : public std::enable_shared_from_this<UpdateReceiver> {
public:
    UpdateReceiver(const TelegramChannelOptions& options, MessageHandler handler,
                   std::shared_ptr<const TelegramApi> api, std::shared_ptr<const SentCards> cards);

    /// Checks the token, until Telegram has accepted it. Throws Error(auth) or ApiError if Telegram rejects it; returns a failure
    /// that may pass, or null.
    Task<std::exception_ptr> check_token();
    /// Begins to receive. The tasks run in `work`, which outlives this.
    void start(cubepi::BackgroundScope& work);
    /// Leaves the updates to another process, if several share the bot.
    void drain() noexcept { leaving_.request_stop(); }
    Task<> stop();
    /// Returns why no messages are received at the moment; empty: they are.
    std::string problem() const { return lease_trouble_.empty() ? poll_trouble_ : lease_trouble_; }
    std::uint16_t port() const noexcept { return routes_ ? routes_->port() : std::uint16_t{0}; }

    bool allows(const Envelope& message) const;
    bool allows_sender(const Envelope& message) const;
    /// Restores the files and the rights of a stored message.
    void restore(Envelope& message) const;

private:
    Task<> serve();
    Task<> poll();
    Task<> leave();
    bool may_poll() const { return !keeper_ || keeper_->holds(); }
    bool stores_partly() const { return options_.stores_partly && options_.stores_partly(); }
    Task<> identify();
    Task<> set_up();
    void set_identity(const Json& me);
    Task<cubepi::HttpServerResponse> receive(cubepi::HttpServerRequest request);
    /// Returns false if the update must be delivered again.
    Task<bool> accept(Json update);
    /// `callback_id`: of the press that is passed; empty: it is a message.
    Task<bool> pass(Envelope message, std::string callback_id);
    bool is_over(const std::exception_ptr& failure);
    void attach_files(Envelope& message) const;
    std::optional<Envelope> take_message(const JsonObject& update);
    std::optional<Envelope> read_button(const JsonObject& query);
    void log_refusal(const Incoming& incoming) const;
    void refuse(const Incoming& incoming);
    void send_text(ChatTarget to, std::string text);
    void warn(const std::string& text) const;
    /// `trouble` is empty when it is over; `shown` is the one that problem() returns.
    void report(const char* what, std::string trouble, std::string& shown);

    const TelegramChannelOptions options_;
    const MessageHandler handler_;
    const std::shared_ptr<const TelegramApi> api_;
    const std::shared_ptr<const SentCards> cards_;
    cubepi::Clock& clock_;
    const Access access_;
    BotIdentity bot_;
    shared::RecentIds<std::int64_t> refused_;
    const std::shared_ptr<shared::OpenForms<std::int64_t>> forms_;
    bool cannot_store_ = false;
    std::set<std::string> left_;  ///< sessions with an update of this answer that was not accepted
    std::string lease_trouble_;
    std::string poll_trouble_;
    const std::unique_ptr<LeaseKeeper> keeper_;  ///< null: no other process polls
    std::stop_source leaving_;
    UpdatePoll poll_;
    std::optional<cubepi::HttpRoutes> routes_;  ///< of the webhook
    cubepi::BackgroundScope* work_ = nullptr;
};

}  // namespace bub::telegram
