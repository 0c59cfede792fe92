#pragma once

#include <memory>
#include <string>

#include <cubepi/core/runtime.hpp>
#include <cubepi/core/task.hpp>

namespace bub {

using cubepi::Task;

/// How a program reaches a bot.
struct TelegramConnection {
    std::string token = {};
    std::string api_url = "https://api.telegram.org";
    std::shared_ptr<const cubepi::Runtime> runtime = {};  ///< null: Runtime::standard()
};

/// Returns the user name of the bot, without '@'. Throws Error(auth) if Telegram does not know the token, Error(invalid_argument) if
/// it is not one. No error shows the token.
Task<std::string> telegram_bot_name(TelegramConnection connection);

/// A user of Telegram.
struct TelegramUser {
    std::string id = {};
    std::string name = {};
};

/// Returns a new code for pair_telegram_user(), of eight digits.
std::string new_pairing_code();

/// Waits until a user sends the code to the bot in a private chat, and answers it. Other messages stay with Telegram for the channel,
/// unless there are more than a hundred. Throws Error(limit) after ten wrong codes, Error(busy) if another process receives the bot's
/// updates.
Task<TelegramUser> pair_telegram_user(TelegramConnection connection, std::string code);

}  // namespace bub
