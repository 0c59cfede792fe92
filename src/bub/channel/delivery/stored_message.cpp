#include <string_view>
#include <utility>

#include <bub/channel/delivery/delivery_records.hpp>
#include <bub/questions.hpp>
#include <cubepi/core/support/json_member.hpp>

// The stored form of a message. A record of an earlier version has no member `answer`: a command was stored as its text, a button or a
// reply as members of the envelope.

namespace bub::detail {

namespace {

using cubepi::detail::array_member;
using cubepi::detail::flag_member;
using cubepi::detail::integer_member;
using cubepi::detail::object_member;
using cubepi::detail::text_member;

constexpr std::pair<AnswerAction, std::string_view> actions[] = {
    {AnswerAction::answer, "answer"}, {AnswerAction::approve, "approve"},
    {AnswerAction::deny, "deny"},     {AnswerAction::abandon, "abandon"},
    {AnswerAction::expire, "expire"},
};

JsonObject json_of(const Answer& answer) {
    JsonObject json;
    for (const auto& [action, name] : actions)
        if (action == answer.action) json["action"] = name;
    if (!answer.question.empty()) json["question"] = answer.question;
    if (!answer.text.empty()) json["text"] = answer.text;
    if (answer.value) json["value"] = *answer.value;
    if (answer.choices) {
        JsonArray& choices = json["choices"].emplace_array();
        for (const auto& [part, option] : *answer.choices)
            choices.push_back(
                JsonArray{static_cast<std::int64_t>(part), static_cast<std::int64_t>(option)});
    }
    json["user"] = answer.user;
    json["place"] = answer.place;
    return json;
}

/// Ignores what is not a pair of indices.
void read_choices(const JsonArray& json, Answer& answer) {
    answer.choices.emplace();
    for (const Json& one : json) {
        const JsonArray* const pair = one.if_array();
        const auto is_index = [](const Json& number) {
            return number.is_int64() && number.get_int64() >= 0;
        };
        if (pair && pair->size() == 2 && is_index((*pair)[0]) && is_index((*pair)[1]))
            answer.choices->emplace_back((*pair)[0].get_int64(), (*pair)[1].get_int64());
    }
}

Answer answer_from(const JsonObject& json) {
    Answer answer;
    const std::string named = text_member(json, "action");
    for (const auto& [action, name] : actions)
        if (name == named) answer.action = action;
    answer.question = text_member(json, "question");
    answer.text = text_member(json, "text");
    if (const Json* const value = json.if_contains("value")) answer.value = *value;
    if (const JsonArray* const choices = array_member(json, "choices"))
        read_choices(*choices, answer);
    answer.user = text_member(json, "user");
    answer.place = text_member(json, "place");
    return answer;
}

/// Converts the members of an answer of an earlier version.
void convert_members(Envelope& message) {
    JsonObject& rest = message.rest;
    const std::string expired = text_member(rest, "expired");
    if (rest.contains("answer_to")) {
        Answer& answer = message.answer.emplace();
        answer.question = text_member(rest, "answer_to");
        answer.text = message.content_text();
        if (const Json* const value = rest.if_contains("answer")) answer.value = *value;
        const auto option = integer_member(rest, "answer_choice");
        if (option && *option >= 0) answer.choices.emplace().emplace_back(0, *option);
        if (const JsonArray* const choices = array_member(rest, "answer_choice"))
            read_choices(*choices, answer);
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
    if (message.answer) form["answer"] = json_of(*message.answer);
    return form;
}

Envelope from_stored_form(const JsonObject& form) {
    const JsonObject* fields = object_member(form, "fields");
    Envelope message(fields ? *fields : JsonObject());
    if (form.contains("inbound_id")) message.inbound_id = text_member(form, "inbound_id");
    message.is_active = flag_member(form, "active");
    if (form.contains("operator")) message.from_operator = flag_member(form, "operator");
    if (const JsonObject* const answer = object_member(form, "answer"))
        message.answer = answer_from(*answer);
    return message;
}

Envelope inbound_from_stored_form(const JsonObject& form) {
    Envelope message = from_stored_form(form);
    if (message.answer) return message;
    convert_members(message);
    note_answer(message);
    return message;
}

}  // namespace bub::detail
