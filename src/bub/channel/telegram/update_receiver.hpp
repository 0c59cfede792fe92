#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include <bub/channel/telegram/access.hpp>
#include <bub/channel/telegram/question_form.hpp>
#include <bub/channel/telegram/update.hpp>
#include <bub/channel/telegram/update_poll.hpp>
#include <bub/channel/telegram_channel.hpp>
#include <cubepi/core/task_scope.hpp>

namespace bub::telegram {

/// The receiving side of the channel: updates become messages and answers for the manager. Used on one executor.
class UpdateReceiver : public std::enable_shared_from_this<UpdateReceiver> {
public:
    UpdateReceiver(const TelegramChannelOptions& options, MessageHandler handler,
                   std::shared_ptr<const TelegramApi> api);

    /// Checks the token. Throws ApiError if Telegram rejects it; a failure that may pass is reported.
    Task<> check_token();
    /// Begins to receive. The tasks run in `work`, which outlives this.
    void start(cubepi::BackgroundScope& work, const cubepi::Executor& executor);
    Task<> stop();
    std::uint16_t port() const noexcept { return server_ ? server_->port() : std::uint16_t{0}; }

    bool allows(const Envelope& message) const;
    /// Restores the files and the rights of a stored message.
    void restore(Envelope& message) const;

private:
    Task<> serve();
    Task<> identify();
    Task<> set_up();
    void set_identity(const Json& me);
    Task<cubepi::HttpServerResponse> receive(cubepi::HttpServerRequest request);
    /// Returns false if the update must be delivered again.
    Task<bool> accept(Json update);
    Task<bool> pass(Envelope message);
    bool is_over(const std::exception_ptr& failure);
    void attach_files(Envelope& message) const;
    void press(const Incoming& incoming);
    void answer_button(const Incoming& incoming, std::string text);
    void refuse(const Incoming& incoming);
    void say(ChatTarget to, std::string text);
    void warn(const std::string& text) const;
    void report(const char* what, std::string trouble) const;

    const TelegramChannelOptions options_;
    const MessageHandler handler_;
    const std::shared_ptr<const TelegramApi> api_;
    cubepi::Clock& clock_;
    const Access access_;
    BotIdentity bot_;
    RecentIds refused_;
    const std::shared_ptr<OpenForms> forms_;
    bool cannot_store_ = false;
    UpdatePoll poll_;
    std::unique_ptr<cubepi::HttpServer> server_;
    cubepi::BackgroundScope* work_ = nullptr;
};

}  // namespace bub::telegram
