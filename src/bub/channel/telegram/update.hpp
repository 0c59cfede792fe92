#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <bub/channel/shared/access.hpp>
#include <bub/channel/shared/question_cards.hpp>
#include <bub/channel/telegram/message_sender.hpp>
#include <bub/channel/telegram_channel.hpp>
#include <bub/envelope.hpp>

namespace bub::telegram {

using SentCards = shared::SentCards<std::int64_t>;

using Access = shared::Access<std::int64_t>;
/// Throws Error(invalid_argument) for what is not the id of a user or chat: names may change their owner.
Access access_of(const TelegramChannelOptions& options);

/// The bot itself, as getMe describes it.
struct BotIdentity {
    std::int64_t id = 0;
    std::string username = {};
};

/// The meaning of a message.
struct Incoming {
    enum class Kind : std::uint8_t {
        ignored,        ///< of unknown kind, or not for the bot
        message,        ///< `envelope` is a message or an answer
        greeting,       ///< /start
        unknown_user,   ///< of a user who is not listed
        unknown_group,  ///< in a group that is not listed
    };

    Kind kind = Kind::ignored;
    std::int64_t user = 0;
    ChatTarget place = {};
    bool is_addressed = false;  ///< the message is for the bot
    Envelope envelope = {};
};

/// The key of Envelope::rest with what the channel needs to know about a message after a restart: {user, chat, thread, name,
/// message (in a group), files}, and of an answer the place of its question: {question, question_chat, callback}.
inline constexpr std::string_view telegram_key = "telegram";

/// Reads the message of an update, which may have any form: what is not understood is ignored.
Incoming read_message(const JsonObject& update, const Access& access, const BotIdentity& bot,
                      const SentCards& cards);

// The parts of messages, also of those with the buttons of a question.

std::string text_of(const JsonObject& message);
shared::Buttons keyboard_of(const JsonObject& message);
/// Returns the id of the user or chat in the member `key`; 0 if there is none.
std::int64_t id_in(const JsonObject& object, std::string_view key);
/// The answer to a question of another chat belongs to the session of that chat.
void move_answer(Incoming& incoming, const JsonObject& card, JsonObject& origin);
/// Sets the origin of the envelope; returns what is stored of it.
JsonObject record_origin(Incoming& incoming, const Access& access, const std::string& name);

/// Returns the update_id; nothing if there is none.
std::optional<std::int64_t> update_id_of(const Json& update);

/// Returns a name for display, without characters that have a meaning in the context of a prompt.
std::string display_name(const JsonObject& user);

/// Returns the place of a message or an answer that the channel has received, or of a session.
ChatTarget target_of(const Envelope& message);

}  // namespace bub::telegram
