#include <bub/channel/telegram/question_form.hpp>

#include <cstddef>
#include <utility>
#include <vector>

#include <cubepi/core/outcome.hpp>
#include <cubepi/core/support/json_member.hpp>
#include <cubepi/net/utf8.hpp>

namespace bub::telegram {

namespace {

using cubepi::detail::text_member;

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
std::pair<std::size_t, std::size_t> choice_of(const std::string& data) {
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

JsonArray marked_choices(const JsonArray& keyboard) {
    JsonArray choices;
    each_button(keyboard, [&](const JsonObject& button) {
        if (!is_marked(button)) return;
        const auto [part, option] = choice_of(text_member(button, "callback_data"));
        JsonArray choice;
        choice.emplace_back(static_cast<std::int64_t>(part));
        choice.emplace_back(static_cast<std::int64_t>(option));
        choices.emplace_back(std::move(choice));
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

JsonArray OpenForms::finish(std::int64_t chat, std::int64_t message_id, const JsonArray& shown) {
    const auto form = forms_.find(Place(chat, message_id));
    if (form == forms_.end()) return marked_choices(shown);
    form->second->is_shown = true;
    return marked_choices(form->second->keyboard);
}

}  // namespace bub::telegram
