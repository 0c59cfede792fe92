#include <boost/json/value_from.hpp>
#include <boost/json/value_to.hpp>

#include <algorithm>
#include <iterator>
#include <string_view>
#include <utility>
#include <vector>

#include <bub/channel/delivery/delivery_records.hpp>
#include <bub/questions.hpp>
#include <cubepi/core/support/json_member.hpp>

// The stored form of a message. A record of an earlier version has no member `answer`: a command was stored as its text, a button or a
// reply as members of the envelope.

namespace bub::detail {

namespace {

using cubepi::detail::flag_member;
using cubepi::detail::object_member;
using cubepi::detail::text_member;

// In the order of AnswerAction.
constexpr std::string_view actions[] = {"answer", "approve", "deny", "abandon", "expire"};

using Choices = std::vector<std::pair<std::size_t, std::size_t>>;

JsonObject json_of(const Answer& answer) {
    JsonObject json;
    json["action"] = actions[static_cast<std::size_t>(answer.action)];
    json["answer_to"] = answer.question;
    if (!answer.text.empty()) json["text"] = answer.text;
    if (answer.value) json["answer"] = *answer.value;
    if (answer.choices) json["answer_choice"] = boost::json::value_from(*answer.choices);
    json["user"] = answer.user;
    json["place"] = answer.place;
    return json;
}

Answer answer_of(const JsonObject& json) {
    Answer answer;
    const auto* const action =
        std::find(std::begin(actions), std::end(actions), text_member(json, "action"));
    if (action != std::end(actions))
        answer.action = static_cast<AnswerAction>(action - std::begin(actions));
    answer.question = text_member(json, "answer_to");
    answer.text = text_member(json, "text");
    if (const Json* const value = json.if_contains("answer")) answer.value = *value;
    if (const Json* const value = json.if_contains("answer_choice")) {
        const auto choices = boost::json::try_value_to<Choices>(*value);
        const auto option = boost::json::try_value_to<std::size_t>(*value);
        if (choices) answer.choices = *choices;
        // An earlier version has stored the option of the only question.
        if (option) answer.choices.emplace().emplace_back(0, *option);
    }
    answer.user = text_member(json, "user");
    answer.place = text_member(json, "place");
    return answer;
}

/// Converts the members of an answer of an earlier version.
void convert_members(Envelope& message) {
    JsonObject& rest = message.rest;
    const std::string expired = text_member(rest, "expired");
    if (rest.contains("answer_to")) {
        message.answer = answer_of(rest);
        message.answer->text = message.content_text();
    } else if (!expired.empty() && message.is_operator()) {
        message.answer.emplace().action = AnswerAction::expire;
        message.answer->question = expired;
    }
    for (const char* key : {"answer_to", "answer", "answer_choice", "expired"}) rest.erase(key);
}

}  // namespace

JsonObject stored_form(const Envelope& message) {
    JsonObject form;
    form["fields"] = to_json(message);
    if (message.inbound_id) form["inbound_id"] = *message.inbound_id;
    if (message.is_active) form["active"] = true;
    if (message.from_operator) form["operator"] = *message.from_operator;
    form["answer"] = message.answer ? Json(json_of(*message.answer)) : Json();
    return form;
}

Envelope from_stored_form(const JsonObject& form) {
    const JsonObject* fields = object_member(form, "fields");
    Envelope message(fields ? *fields : JsonObject());
    if (form.contains("inbound_id")) message.inbound_id = text_member(form, "inbound_id");
    message.is_active = flag_member(form, "active");
    if (form.contains("operator")) message.from_operator = flag_member(form, "operator");
    if (const JsonObject* const answer = object_member(form, "answer"))
        message.answer = answer_of(*answer);
    return message;
}

Envelope inbound_from_stored_form(const JsonObject& form) {
    Envelope message = from_stored_form(form);
    if (form.contains("answer")) return message;
    convert_members(message);
    note_answer(message);
    return message;
}

}  // namespace bub::detail
