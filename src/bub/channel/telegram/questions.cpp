#include <bub/channel/telegram/questions.hpp>

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <utility>
#include <variant>
#include <vector>

#include <bub/questions.hpp>
#include <cubepi/core/error.hpp>
#include <cubepi/core/outcome.hpp>
#include <cubepi/core/support/json_member.hpp>
#include <cubepi/core/support/trimmed.hpp>
#include <cubepi/net/utf8.hpp>

namespace bub::telegram {

namespace {

using cubepi::HitlRequest;
using cubepi::detail::text_member;

constexpr std::string_view mark_begin = "Question ";
/// The data of a button that names the chat of a question.
constexpr std::string_view from_chat = "from:";
constexpr std::size_t max_options = 8;

JsonArray two_buttons(const char* yes, const char* no, const std::string& key) {
    JsonArray row;
    row.emplace_back(callback_button(yes, "y:" + key));
    row.emplace_back(callback_button(no, "n:" + key));
    JsonArray rows;
    rows.emplace_back(std::move(row));
    return rows;
}

bool is_form(const cubepi::AskRequest& ask) {
    return ask.questions.size() != 1 || ask.questions.front().multi_select;
}

/// A card without other buttons has this one, which tells it from a text of the model.
JsonArray withdraw_button(const std::string& key) {
    JsonArray row;
    row.emplace_back(callback_button("Withdraw", "w:" + key));
    JsonArray rows;
    rows.emplace_back(std::move(row));
    return rows;
}

JsonArray option_buttons(const cubepi::AskRequest& ask, const std::string& key) {
    if (is_form(ask)) return form_keyboard(ask, key);
    JsonArray rows;
    const cubepi::HitlQuestion& question = ask.questions.front();
    if (!question.options || question.options->size() > max_options) return rows;
    for (std::size_t index = 0; index < question.options->size(); ++index) {
        JsonArray row;
        const cubepi::HitlOption& option = question.options->at(index);
        row.emplace_back(callback_button(option.label.empty() ? option.value : option.label,
                                         "o" + std::to_string(index) + ":" + key));
        rows.emplace_back(std::move(row));
    }
    return rows;
}

JsonArray buttons(const HitlRequest& request, const std::string& key) {
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

std::string way_to_answer(const HitlRequest& request, const std::string& key, bool has_buttons) {
    if (std::holds_alternative<cubepi::ApproveRequest>(request.payload))
        return "Use the buttons, or /approve " + key + " or /deny " + key + " REASON";
    if (std::holds_alternative<cubepi::ConfirmRequest>(request.payload))
        return "Use the buttons, or reply with yes or no";
    return way_to_answer(std::get<cubepi::AskRequest>(request.payload), has_buttons);
}

bool is_one_of(std::string_view text, std::initializer_list<std::string_view> words) {
    std::string lower;
    for (const char c : text) lower += static_cast<char>(c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c);
    return std::find(words.begin(), words.end(), lower) != words.end();
}

bool is_key(std::string_view text) {
    return text.size() == question_name_size &&
           text.find_first_not_of("0123456789abcdef") == std::string_view::npos;
}

/// Returns the end of the data of a question's buttons: its key, and the user who was asked.
std::string button_target(const HitlRequest& request, const std::string& key) {
    const Json* const asker = request.extra.if_contains(asker_key);
    if (!std::holds_alternative<cubepi::AskRequest>(request.payload) || !asker ||
        !asker->is_object() || text_member(asker->get_object(), "channel") != "telegram")
        return key;
    const std::string user = text_member(asker->get_object(), "user");
    return user.empty() ? key : key + ":" + user;
}

constexpr std::size_t max_buttons = 24;
constexpr std::size_t max_forms = 1000;
constexpr std::size_t max_label_bytes = 60;

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

void add_row(JsonArray& rows, JsonObject button) {
    JsonArray row;
    row.emplace_back(std::move(button));
    rows.emplace_back(std::move(row));
}

/// Calls `use` with each button, its label and its data.
template <class Keyboard, class Use>
void each_button(Keyboard& keyboard, Use use) {
    for (auto& row : keyboard) {
        if (!row.is_array()) continue;
        for (auto& button : row.get_array())
            if (button.is_object()) use(button.get_object());
    }
}

bool is_marked(const JsonObject& button) {
    const std::string data = text_member(button, "callback_data");
    return is_of_kind(data, "cr") && text_member(button, "text").starts_with(marks_of(data)[1]);
}

void set_mark(JsonObject& button, bool marked) {
    const std::string data = text_member(button, "callback_data");
    const std::string_view* const marks = marks_of(data);
    const std::string label = text_member(button, "text");
    if (label.starts_with(marks[marked ? 0 : 1]))
        button["text"] = std::string(marks[marked ? 1 : 0]) + label.substr(marks[0].size());
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

}  // namespace

std::string shortened(std::string_view text, std::size_t units) {
    std::string whole = cubepi::replace_broken_utf8(text);
    if (utf16_length(whole) <= units) return whole;
    FormattedText plain;
    plain.text = std::move(whole);
    std::vector<FormattedText> parts = split_text(plain, units);
    return parts.empty() ? std::string() : std::move(parts.front().text) + " \u2026";
}

OutgoingText question_card(const Json& request_json) {
    OutgoingText card;
    const HitlRequest request = cubepi::hitl_request_from_json(request_json);
    const std::string key = question_name(request);
    const bool approves = std::holds_alternative<cubepi::ApproveRequest>(request.payload);
    const std::string summary = shortened(question_summary(request), max_message_units - 400);
    const std::string target = button_target(request, key);
    card.keyboard = buttons(request, target);
    card.text.text = summary + "\n\n" + way_to_answer(request, key, !card.keyboard.empty()) + "\n" +
                     std::string(mark_begin) + key + (approves ? " (approval)" : "");
    if (card.keyboard.empty()) card.keyboard = withdraw_button(target);
    return card;
}

void SentCards::add(const std::string& request_id, SentCard card) {
    std::erase_if(cards_, [&](const auto& one) {
        return one.first == request_id && one.second.chat == card.chat;
    });
    cards_.emplace_back(request_id, card);
    if (cards_.size() > max_cards) cards_.pop_front();
}

std::vector<SentCard> SentCards::of(const std::string& request_id) const {
    std::vector<SentCard> found;
    for (const auto& [id, card] : cards_)
        if (!request_id.empty() && id == request_id) found.push_back(card);
    return found;
}

bool SentCards::contains(SentCard card) const {
    return std::any_of(cards_.begin(), cards_.end(),
                       [card](const auto& one) { return one.second == card; });
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

void answer_with_text(const QuestionMark& question, const std::string& text, Envelope& envelope) {
    Answer& answer = envelope.answer.emplace();
    answer.question = question.key;
    answer.text = cubepi::detail::trimmed(text);
    envelope.content = answer.text;
    if (!question.approves) return;
    if (is_one_of(answer.text, {"yes", "y", "ok", "approve"})) answer.action = AnswerAction::approve;
    if (is_one_of(answer.text, {"no", "n", "deny"})) answer.action = AnswerAction::deny;
    if (answer.action != AnswerAction::answer) answer.text.clear();
}

bool answer_with_button(const std::string& data, const JsonArray& keyboard, Envelope& envelope) {
    const std::size_t colon = data.find(':');
    if (colon == std::string::npos) return false;
    std::string key = data.substr(colon + 1);
    key = key.substr(0, key.find(':'));
    if (!is_key(key)) return false;
    const std::string choice = data.substr(0, colon);
    Answer answer;
    answer.question = key;
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
        answer.choices = marked_choices(keyboard);
    } else if (choice.starts_with('o') && failed == std::errc() && stop == end) {
        answer.choices.emplace().emplace_back(0, index);
    } else {
        return false;
    }
    envelope.answer = std::move(answer);
    return true;
}

std::int64_t asked_user(const std::string& data) {
    const std::size_t key = data.find(':');
    const std::size_t user = key == std::string::npos ? key : data.find(':', key + 1);
    std::int64_t id = 0;
    if (user != std::string::npos)
        (void)std::from_chars(data.data() + user + 1, data.data() + data.size(), id);
    return id;
}

void address_to_approver(OutgoingText& card, const std::string& name, std::int64_t chat) {
    const std::size_t way = card.text.text.rfind("\n\nUse the buttons");
    const std::size_t mark = card.text.text.rfind('\n');
    if (way < mark)
        card.text.text.replace(way, mark - way,
                               "\n\nUse the buttons, or reply to this message with yes or no");
    card.text = with_prefix(
        shortened(cubepi::replace_broken_utf8(name), 100) + " asks in a private chat:\n\n",
        std::move(card.text));
    JsonArray row;
    row.emplace_back(
        callback_button("From " + name, std::string(from_chat) + std::to_string(chat)));
    card.keyboard.emplace_back(std::move(row));
}

std::int64_t asking_chat(const JsonArray& keyboard) {
    std::int64_t chat = 0;
    each_button(keyboard, [&chat](const JsonObject& button) {
        const std::string data = text_member(button, "callback_data");
        if (data.starts_with(from_chat))
            (void)std::from_chars(data.data() + from_chat.size(), data.data() + data.size(), chat);
    });
    return chat > 0 ? chat : 0;
}

JsonObject callback_button(std::string_view label, std::string data) {
    std::string text = cubepi::replace_broken_utf8(label);
    if (text.size() > max_label_bytes) {
        std::size_t end = max_label_bytes;
        while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0U) == 0x80U) --end;
        text = text.substr(0, end) + "\u2026";
    }
    if (text.empty()) text = "?";
    JsonObject made;
    made["text"] = std::move(text);
    made["callback_data"] = std::move(data);
    return made;
}

JsonArray form_keyboard(const cubepi::AskRequest& ask, const std::string& key) {
    JsonArray rows;
    for (std::size_t part = 0; part < ask.questions.size(); ++part) {
        const cubepi::HitlQuestion& question = ask.questions[part];
        if (!question.options || question.options->empty()) return {};
        if (ask.questions.size() > 1)
            add_row(rows, callback_button("\u2014 " + question.key + " \u2014",
                                          data_of('h', part, 0, key)));
        const char kind = question.multi_select ? 'c' : 'r';
        for (std::size_t option = 0; option < question.options->size(); ++option) {
            const cubepi::HitlOption& one = question.options->at(option);
            const std::string data = data_of(kind, part, option, key);
            const std::string label(marks_of(data)[0]);
            add_row(rows,
                    callback_button(label + (one.label.empty() ? one.value : one.label), data));
        }
    }
    add_row(rows, callback_button("Done", data_of('d', 0, 0, key)));
    return rows.size() > max_buttons ? JsonArray() : rows;
}

bool is_form_choice(std::string_view data) { return is_of_kind(data, "crh"); }

bool is_form_end(std::string_view data) { return is_of_kind(data, "d"); }

void press(JsonArray& keyboard, const std::string& data) {
    const std::size_t part = choice_of(data).first;
    each_button(keyboard, [&](JsonObject& button) {
        const std::string other = text_member(button, "callback_data");
        if (other == data) {
            set_mark(button, data.front() == 'r' || !is_marked(button));
        } else if (data.front() == 'r' && is_of_kind(other, "r") &&
                   choice_of(other).first == part) {
            set_mark(button, false);
        }
    });
}

std::vector<Choice> marked_choices(const JsonArray& keyboard) {
    std::vector<Choice> choices;
    each_button(keyboard, [&](const JsonObject& button) {
        if (is_marked(button)) choices.push_back(choice_of(text_member(button, "callback_data")));
    });
    return choices;
}

bool OpenForms::press(std::int64_t chat, std::int64_t message_id, const JsonArray& shown,
                      const std::string& data) {
    const Place place(chat, message_id);
    std::shared_ptr<Form>& form = forms_[place];
    if (!form) {
        form = std::make_shared<Form>();
        form->keyboard = shown;
        order_.push_back(place);
    }
    JsonArray changed = form->keyboard;
    telegram::press(changed, data);
    if (changed != form->keyboard) form->is_shown = false;
    form->keyboard = std::move(changed);
    const bool must_show = !form->is_shown && !form->is_showing;
    if (order_.size() > max_forms) {
        forms_.erase(order_.front());
        order_.pop_front();
    }
    return must_show;
}

/// One call at a time, so that an older state does not arrive last.
Task<> OpenForms::show(std::int64_t chat, std::int64_t message_id) {
    const std::shared_ptr<OpenForms> self = shared_from_this();
    const auto found = forms_.find(Place(chat, message_id));
    if (found == forms_.end()) co_return;
    const std::shared_ptr<Form> form = found->second;
    form->is_showing = true;
    while (!std::exchange(form->is_shown, true)) {
        JsonObject markup;
        markup["inline_keyboard"] = form->keyboard;
        JsonObject parameters;
        parameters["chat_id"] = chat;
        parameters["message_id"] = message_id;
        parameters["reply_markup"] = std::move(markup);
        Task<Json> calling = api_->call("editMessageReplyMarkup", std::move(parameters));
        const cubepi::Outcome<Json> done = co_await cubepi::outcome_of(std::move(calling));
        if (done.cancelled()) done.rethrow();
    }
    form->is_showing = false;
}

std::vector<Choice> OpenForms::finish(std::int64_t chat, std::int64_t message_id,
                                      const JsonArray& shown) {
    const auto form = forms_.find(Place(chat, message_id));
    if (form == forms_.end()) return marked_choices(shown);
    form->second->is_shown = true;
    return marked_choices(form->second->keyboard);
}

}  // namespace bub::telegram
