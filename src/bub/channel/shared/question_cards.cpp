#include <bub/channel/shared/question_cards.hpp>

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <utility>
#include <variant>
#include <vector>

#include <bub/channel/shared/message_text.hpp>
#include <bub/questions.hpp>
#include <cubepi/core/support/json_member.hpp>
#include <cubepi/core/support/lower_case.hpp>
#include <cubepi/core/support/trimmed.hpp>
#include <cubepi/net/utf8.hpp>
#include <cubepi/schema/json/visible_text.hpp>

namespace bub::shared {

namespace {

using cubepi::HitlRequest;
using cubepi::detail::text_member;

constexpr std::string_view mark_begin = "Question ";
/// The data of a button that names the chat of a question.
constexpr std::string_view from_chat = "from:";
constexpr std::size_t max_options = 8;
/// Of a card, in UTF-16 units.
constexpr std::size_t space_for_ways = 400;

constexpr std::size_t max_label_bytes = 60;

/// Returns a button; a long label is shortened.
Button button(std::string_view label, std::string data) {
    std::string text = cubepi::replace_broken_utf8(label);
    if (text.size() > max_label_bytes) {
        std::size_t end = max_label_bytes;
        while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0U) == 0x80U) --end;
        text = text.substr(0, end) + "\u2026";
    }
    if (text.empty()) text = "?";
    Button made;
    made.label = std::move(text);
    made.data = std::move(data);
    return made;
}

void add_row(Buttons& rows, Button one) { rows.emplace_back().push_back(std::move(one)); }

Buttons two_buttons(const char* yes, const char* no, const std::string& key) {
    Buttons rows(1);
    rows.front().push_back(button(yes, "y:" + key));
    rows.front().push_back(button(no, "n:" + key));
    return rows;
}

bool is_form(const cubepi::AskRequest& ask) {
    return ask.questions.size() != 1 || ask.questions.front().multi_select;
}

constexpr std::size_t max_buttons = 24;

// Marks, in the order: free, chosen.
constexpr std::string_view boxes[] = {"\u2610 ", "\u2611 "};    // several choices
constexpr std::string_view circles[] = {"\u25CB ", "\u25CF "};  // one choice

/// The data of a button: a letter, the part, a dot, the option, a colon, the key of the question. `c` has a box, `r` a circle, `h` is the
/// title of a part, `d` the end of the form.
std::string data_of(char kind, std::size_t part, std::size_t option, const std::string& key) {
    return kind + std::to_string(part) + "." + std::to_string(option) + ":" + key;
}

bool is_of_kind(std::string_view data, std::string_view kinds) {
    return data.size() > 2 && kinds.find(data.front()) != std::string_view::npos &&
           data.find(':') != std::string_view::npos;
}

const std::string_view* marks_of(std::string_view data) {
    return data.starts_with('c') ? boxes : circles;
}

bool is_marked(const Button& one) {
    return is_of_kind(one.data, "cr") && one.label.starts_with(marks_of(one.data)[1]);
}

void set_mark(Button& one, bool marked) {
    const std::string_view* const marks = marks_of(one.data);
    if (one.label.starts_with(marks[marked ? 0 : 1]))
        one.label = std::string(marks[marked ? 1 : 0]) + one.label.substr(marks[0].size());
}

/// Returns the part and the option of a button's data.
Choice choice_of(const std::string& data) {
    const std::size_t dot = data.find('.');
    const auto number = [&data](std::size_t at) {
        std::size_t value = 0;
        for (; at < data.size() && data[at] >= '0' && data[at] <= '9' && value < 1000; ++at)
            value = value * 10 + static_cast<std::size_t>(data[at] - '0');
        return value;
    };
    return {number(1), dot == std::string::npos ? 0 : number(dot + 1)};
}

/// Empty if a part has no options, or all have too many.
Buttons form_buttons(const cubepi::AskRequest& ask, const std::string& key) {
    Buttons rows;
    for (std::size_t part = 0; part < ask.questions.size(); ++part) {
        const cubepi::HitlQuestion& question = ask.questions[part];
        if (!question.options || question.options->empty()) return {};
        if (ask.questions.size() > 1)
            add_row(rows, button("\u2014 " + question.key + " \u2014", data_of('h', part, 0, key)));
        const char kind = question.multi_select ? 'c' : 'r';
        for (std::size_t option = 0; option < question.options->size(); ++option) {
            const cubepi::HitlOption& one = question.options->at(option);
            const std::string data = data_of(kind, part, option, key);
            const std::string label(marks_of(data)[0]);
            add_row(rows, button(label + (one.label.empty() ? one.value : one.label), data));
        }
    }
    add_row(rows, button("Done", data_of('d', 0, 0, key)));
    return rows.size() > max_buttons ? Buttons() : rows;
}

Buttons option_buttons(const cubepi::AskRequest& ask, const std::string& key) {
    if (is_form(ask)) return form_buttons(ask, key);
    Buttons rows;
    const cubepi::HitlQuestion& question = ask.questions.front();
    if (!question.options || question.options->size() > max_options) return rows;
    for (std::size_t index = 0; index < question.options->size(); ++index) {
        const cubepi::HitlOption& option = question.options->at(index);
        add_row(rows, button(option.label.empty() ? option.value : option.label,
                             "o" + std::to_string(index) + ":" + key));
    }
    return rows;
}

Buttons buttons_of(const HitlRequest& request, const std::string& key) {
    if (const auto* ask = std::get_if<cubepi::AskRequest>(&request.payload))
        return option_buttons(*ask, key);
    if (std::holds_alternative<cubepi::ApproveRequest>(request.payload))
        return two_buttons("\u2705 Approve", "\u274C Deny", key);
    return two_buttons("Yes", "No", key);
}

std::string way_to_answer(const cubepi::AskRequest& ask, bool has_buttons) {
    const std::string text = answer_form(ask);
    if (!has_buttons) return "Reply to this message" + (text.empty() ? "" : " with " + text);
    if (is_form(ask)) return "Choose and press Done, or reply to this message with " + text;
    return "Use the buttons, or reply to this message";
}

std::string way_to_answer(const HitlRequest& request, const std::string& key, bool has_buttons,
                          const std::string& mark) {
    if (std::holds_alternative<cubepi::ApproveRequest>(request.payload))
        return "Use the buttons, or " + mark + "approve " + key + " or " + mark + "deny " + key +
               " REASON";
    if (std::holds_alternative<cubepi::ConfirmRequest>(request.payload))
        return "Use the buttons, or reply with yes or no";
    return way_to_answer(std::get<cubepi::AskRequest>(request.payload), has_buttons);
}

bool is_one_of(std::string_view text, std::initializer_list<std::string_view> words) {
    const std::string lower = cubepi::detail::lower_case(text);
    return std::find(words.begin(), words.end(), lower) != words.end();
}

bool is_key(std::string_view text) {
    return text.size() == question_name_size &&
           text.find_first_not_of("0123456789abcdef") == std::string_view::npos;
}

/// Returns the end of the data of a question's buttons: its key, and the user who was asked.
std::string button_target(const HitlRequest& request, const std::string& key,
                          const std::string& channel) {
    const JsonObject asker = asker_of(request.extra);
    const std::string user = text_member(asker, "user");
    const bool names_user = std::holds_alternative<cubepi::AskRequest>(request.payload) &&
                            text_member(asker, "channel") == channel && !user.empty();
    return names_user ? key + ":" + user : key;
}

std::size_t units_of_summary(const CardRules& rules) { return rules.max_units - space_for_ways; }

bool fits(std::string_view summary, const CardRules& rules) {
    return utf16_length(summary) <= units_of_summary(rules);
}

std::string ends_of(std::string_view summary, const CardRules& rules, std::string_view note) {
    return with_both_ends(summary, units_of_summary(rules), note);
}

}  // namespace

QuestionCard question_card(const Json& request_json, const CardRules& rules) {
    QuestionCard card;
    const HitlRequest request = cubepi::hitl_request_from_json(request_json);
    const std::string key = question_name(request);
    const bool approves = std::holds_alternative<cubepi::ApproveRequest>(request.payload);
    const std::string target = button_target(request, key, rules.channel);
    card.buttons = buttons_of(request, target);
    std::string summary = question_summary(request);
    const std::string name = "question-" + key + ".txt";
    card.text = ends_of(summary, rules, "; the file " + name + " has all of it") + "\n\n" +
                way_to_answer(request, key, !card.buttons.empty(), rules.command_mark) + "\n" +
                std::string(mark_begin) + key + (approves ? " (approval)" : "");
    // A card without other buttons has this one, which tells it from a text of the model.
    if (card.buttons.empty()) add_row(card.buttons, button("Withdraw", "w:" + target));
    if (!fits(summary, rules)) {
        card.whole = std::move(summary) + "\n";
        card.whole_name = name;
    }
    return card;
}

std::string waiting_text(const Json& request, const CardRules& rules) {
    const std::string summary = question_summary(cubepi::hitl_request_from_json(request));
    return ends_of(summary, rules, "") + "\n\nAn operator was asked to approve this. " +
           rules.command_mark + "abandon withdraws the question.";
}

std::string unreadable_text(const Json& request, const CardRules& rules) {
    const std::string summary = question_summary(cubepi::hitl_request_from_json(request));
    return ends_of(summary, rules, "") +
           "\n\nThis question is too long for a message, and the file with all of it could not be "
           "sent. To read and answer it: the console of the gateway, or cubepi inbox --gateway";
}

std::string outcome_text(const Json& answer) {
    const JsonObject* const object = answer.if_object();
    const std::string decision = object ? text_member(*object, "decision") : std::string();
    if (decision == "approve") return "\u2705 Approved";
    if (decision == "deny") return "\u274C Denied";
    if (decision == "withdrawn") return "\u2716 Withdrawn";
    if (decision == "expired") return "\u231B Expired";
    if (answer == Json(true)) return "\u2705 Yes";
    if (answer == Json(false)) return "\u274C No";
    return "\u2705 Answered";
}

std::optional<QuestionMark> question_in(std::string_view text) {
    text = cubepi::detail::trimmed(text);
    const std::size_t line = text.rfind('\n');
    std::string_view last = line == std::string_view::npos ? text : text.substr(line + 1);
    if (!last.starts_with(mark_begin)) return std::nullopt;
    last.remove_prefix(mark_begin.size());
    QuestionMark mark;
    mark.approves = last.ends_with(" (approval)");
    mark.key = last.substr(0, last.find(' '));
    if (!is_key(mark.key)) return std::nullopt;
    return mark;
}

Answer answer_of_reply(const QuestionMark& question, std::string_view text) {
    Answer answer;
    answer.question = question.key;
    answer.text = cubepi::detail::trimmed(text);
    if (!question.approves) return answer;
    if (is_one_of(answer.text, {"yes", "y", "ok", "approve"}))
        answer.action = AnswerAction::approve;
    if (is_one_of(answer.text, {"no", "n", "deny"})) answer.action = AnswerAction::deny;
    if (answer.action != AnswerAction::answer) answer.text.clear();
    return answer;
}

std::optional<Answer> answer_of_button(const std::string& data, const Buttons& shown) {
    const std::size_t colon = data.find(':');
    if (colon == std::string::npos) return std::nullopt;
    const std::string choice = data.substr(0, colon);
    Answer answer;
    answer.question = data.substr(colon + 1, data.find(':', colon + 1) - colon - 1);
    if (!is_key(answer.question)) return std::nullopt;
    std::size_t index = 0;
    const char* const end = choice.data() + choice.size();
    const auto [stop, failed] =
        std::from_chars(choice.data() + std::min<std::size_t>(1, choice.size()), end, index);
    if (choice == "y") {
        answer.action = AnswerAction::approve;
    } else if (choice == "n") {
        answer.action = AnswerAction::deny;
    } else if (choice == "w") {
        answer.action = AnswerAction::abandon;
    } else if (is_form_end(data)) {
        answer.choices = marked_choices(shown);
    } else if (choice.starts_with('o') && failed == std::errc() && stop == end) {
        answer.choices.emplace().emplace_back(0, index);
    } else {
        return std::nullopt;
    }
    return answer;
}

std::string asked_user(const std::string& data) {
    const std::size_t key = data.find(':');
    const std::size_t user = key == std::string::npos ? key : data.find(':', key + 1);
    return user == std::string::npos ? std::string() : data.substr(user + 1);
}

void address_to_approver(QuestionCard& card, const std::string& name, const std::string& chat) {
    const std::size_t way = card.text.rfind("\n\nUse the buttons");
    const std::size_t mark = card.text.rfind('\n');
    if (way < mark)
        card.text.replace(way, mark - way,
                          "\n\nUse the buttons, or reply to this message with yes or no");
    // The user chooses the name.
    const std::string shown = cubepi::detail::visible(name);
    card.text = shortened(shown, 100) + " asks in a private chat:\n\n" + card.text;
    add_row(card.buttons, button("From " + shown, std::string(from_chat) + chat));
}

std::string asking_chat(const Buttons& shown) {
    for (const std::vector<Button>& row : shown)
        for (const Button& one : row)
            if (one.data.starts_with(from_chat)) return one.data.substr(from_chat.size());
    return {};
}

bool is_form_choice(std::string_view data) { return is_of_kind(data, "crh"); }

bool is_form_end(std::string_view data) { return is_of_kind(data, "d"); }

void press(Buttons& buttons, const std::string& data) {
    const std::size_t part = choice_of(data).first;
    for (std::vector<Button>& row : buttons) {
        for (Button& one : row) {
            if (one.data == data) {
                set_mark(one, data.front() == 'r' || !is_marked(one));
            } else if (data.front() == 'r' && is_of_kind(one.data, "r") &&
                       choice_of(one.data).first == part) {
                set_mark(one, false);
            }
        }
    }
}

std::vector<Choice> marked_choices(const Buttons& buttons) {
    std::vector<Choice> choices;
    for (const std::vector<Button>& row : buttons)
        for (const Button& one : row)
            if (is_marked(one)) choices.push_back(choice_of(one.data));
    return choices;
}

}  // namespace bub::shared
