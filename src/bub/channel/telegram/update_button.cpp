#include <utility>

#include <bub/channel/telegram/question_card.hpp>
#include <bub/channel/telegram/question_form.hpp>
#include <bub/channel/telegram/update_origin.hpp>
#include <cubepi/core/support/json_member.hpp>

namespace bub::telegram {

namespace {

using cubepi::detail::array_member;
using cubepi::detail::integer_member;
using cubepi::detail::object_member;
using cubepi::detail::text_member;
using Kind = Incoming::Kind;

JsonArray keyboard_of(const JsonObject& message) {
    const JsonObject* const markup = object_member(message, "reply_markup");
    const JsonArray* const rows = markup ? array_member(*markup, "inline_keyboard") : nullptr;
    return rows ? *rows : JsonArray();
}

}  // namespace

std::int64_t id_in(const JsonObject& object, std::string_view key) {
    const JsonObject* const member = object_member(object, key);
    return member ? integer_member(*member, "id").value_or(0) : 0;
}

JsonObject origin_facts(Incoming& incoming, const Access& access, const std::string& name) {
    Envelope& envelope = incoming.envelope;
    const ChatTarget& place = incoming.place;
    const std::string chat = std::to_string(place.chat);
    envelope.channel = "telegram";
    envelope.chat_id = chat;
    envelope.session_id = "telegram:" + chat;
    if (place.thread != 0) *envelope.session_id += ":" + std::to_string(place.thread);
    envelope.from_operator = access.is_operator(incoming.user);
    envelope.context["sender_id"] = std::to_string(incoming.user);
    envelope.context["private_chat"] = place.chat > 0;
    JsonObject facts;
    facts["user"] = incoming.user;
    facts["chat"] = place.chat;
    if (place.thread != 0) facts["thread"] = place.thread;
    facts["name"] = name;
    return facts;
}

Incoming read_button(const JsonObject& query, const Access& access) {
    Incoming incoming;
    incoming.user = id_in(query, "from");
    incoming.callback_id = text_member(query, "id");
    const JsonObject* const message = object_member(query, "message");
    const JsonObject* const from = object_member(query, "from");
    if (incoming.callback_id.empty() || !from) return incoming;
    incoming.kind = Kind::stale_button;
    if (!message) return incoming;
    incoming.place.chat = id_in(*message, "chat");
    if (cubepi::detail::flag_member(*message, "is_topic_message"))
        incoming.place.thread = integer_member(*message, "message_thread_id").value_or(0);
    if (!access.allows(incoming.user, incoming.place.chat)) {
        incoming.kind = Kind::unknown_user;
        return incoming;
    }
    incoming.message_id = integer_member(*message, "message_id").value_or(0);
    incoming.data = text_member(query, "data");
    incoming.keyboard = keyboard_of(*message);
    if (is_form_choice(incoming.data) && !incoming.keyboard.empty()) {
        incoming.kind = Kind::choice;
        return incoming;
    }
    Envelope& envelope = incoming.envelope;
    if (!answer_with_button(incoming.data, incoming.keyboard, envelope)) return incoming;
    incoming.kind = Kind::button;
    envelope.is_active = true;
    JsonObject facts = origin_facts(incoming, access, display_name(*from));
    facts["question"] = incoming.message_id;
    envelope.rest[telegram_key] = std::move(facts);
    return incoming;
}

}  // namespace bub::telegram
