#include <bub/channel/telegram/question_card.hpp>

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <utility>
#include <variant>

#include <bub/channel/telegram/question_form.hpp>
#include <bub/questions.hpp>
#include <cubepi/core/error.hpp>
#include <cubepi/core/support/trimmed.hpp>
#include <cubepi/net/utf8.hpp>

namespace bub::telegram {

namespace {

using cubepi::HitlRequest;

constexpr std::string_view mark_begin = "Question ";
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

/// Returns the beginning of a text.
std::string shortened(std::string text, std::size_t units) {
    if (utf16_length(text) <= units) return text;
    FormattedText plain;
    plain.text = std::move(text);
    std::vector<FormattedText> parts = split_text(plain, units);
    return parts.empty() ? std::string() : std::move(parts.front().text) + " \u2026";
}

bool is_one_of(std::string_view text, std::initializer_list<std::string_view> words) {
    std::string lower;
    for (const char c : text) lower += static_cast<char>(c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c);
    return std::find(words.begin(), words.end(), lower) != words.end();
}

bool is_key(std::string_view text) {
    return text.size() == question_key_size &&
           text.find_first_not_of("0123456789abcdef") == std::string_view::npos;
}

}  // namespace

OutgoingText question_card(const Json& request_json) {
    OutgoingText card;
    const HitlRequest request = cubepi::hitl_request_from_json(request_json);
    const std::string key = short_question_key(request);
    const bool approves = std::holds_alternative<cubepi::ApproveRequest>(request.payload);
    const std::string summary =
        shortened(cubepi::replace_broken_utf8(question_summary(request)), max_message_units - 400);
    card.keyboard = buttons(request, key);
    card.text.text = summary + "\n\n" + way_to_answer(request, key, !card.keyboard.empty()) + "\n" +
                     std::string(mark_begin) + key + (approves ? " (approval)" : "");
    return card;
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
    const std::string trimmed(cubepi::detail::trimmed(text));
    if (question.approves && is_one_of(trimmed, {"yes", "y", "ok", "approve"})) {
        envelope.content = ",approve " + question.key;
    } else if (question.approves && is_one_of(trimmed, {"no", "n", "deny"})) {
        envelope.content = ",deny " + question.key;
    } else {
        envelope.content = trimmed;
        envelope.rest[answer_to_key] = question.key;
    }
}

bool answer_with_button(const std::string& data, const JsonArray& keyboard, Envelope& envelope) {
    const std::size_t colon = data.find(':');
    if (colon == std::string::npos || !is_key(std::string_view(data).substr(colon + 1)))
        return false;
    const std::string key = data.substr(colon + 1);
    const std::string choice = data.substr(0, colon);
    if (choice == "y" || choice == "n") {
        envelope.content = (choice == "y" ? ",approve " : ",deny ") + key;
        return true;
    }
    if (is_form_end(data)) {
        envelope.rest[answer_to_key] = key;
        envelope.rest[answer_choice_key] = marked_choices(keyboard);
        return true;
    }
    std::size_t index = 0;
    const char* const end = choice.data() + choice.size();
    const auto [stop, failed] =
        std::from_chars(choice.data() + std::min<std::size_t>(1, choice.size()), end, index);
    if (!choice.starts_with('o') || failed != std::errc() || stop != end) return false;
    envelope.rest[answer_to_key] = key;
    envelope.rest[answer_choice_key] = static_cast<std::int64_t>(index);
    return true;
}

}  // namespace bub::telegram
