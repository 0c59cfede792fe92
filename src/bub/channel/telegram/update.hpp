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

/// The meaning of an update.
struct Incoming {
    enum class Kind : std::uint8_t {
        ignored,        ///< of unknown kind, or not for the bot
        message,        ///< `envelope` is a message or an answer
        button,         ///< `envelope` is the answer of a button
        choice,         ///< a button that changes a mark of a form (question_cards.hpp)
        stale_button,   ///< a button that is not one of ours
        not_approver,   ///< a button of a question that the user may not answer
        not_asked,      ///< a button of a question that another user was asked
        greeting,       ///< /start
        unknown_user,   ///< a private message or a button of a user who is not listed
        unknown_group,  ///< a message in a group that is not listed
    };

    Kind kind = Kind::ignored;
    std::int64_t user = 0;
    ChatTarget place = {};
    bool is_addressed = false;  ///< the message is for the bot
    std::string callback_id = {};
    std::int64_t message_id = 0;    ///< of the button
    std::string data = {};          ///< of the button
    shared::Buttons keyboard = {};  ///< of the button's message
    Envelope envelope = {};
};

/// The key of Envelope::rest with what the channel needs to know about a message after a restart: {user, chat, thread, name,
/// message (in a group), files}, and of an answer the place of its question: {question, question_chat, callback}.
inline constexpr std::string_view telegram_key = "telegram";

/// Reads an update. It may have any form: what is not understood is ignored.
Incoming read_update(const Json& update, const Access& access, const BotIdentity& bot,
                     const SentCards& cards);

/// Returns the update_id; nothing if there is none.
std::optional<std::int64_t> update_id_of(const Json& update);

/// Returns a name for display, without characters that have a meaning in the context of a prompt.
std::string display_name(const JsonObject& user);

/// Returns the place of a message that was read by read_update(), or of a session.
ChatTarget place_of(const Envelope& message);

}  // namespace bub::telegram
