#include <bub/channel/telegram/question_card.hpp>

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <utility>
#include <variant>

#include <bub/questions.hpp>
#include <cubepi/core/error.hpp>
#include <cubepi/core/support/trimmed.hpp>
#include <cubepi/net/utf8.hpp>

namespace bub::telegram {

namespace {

using cubepi::HitlRequest;

constexpr std::string_view mark_begin = "Question ";
constexpr std::size_t max_options = 8;
constexpr std::size_t max_label_bytes = 60;

JsonObject button(std::string_view label, std::string data) {
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

JsonArray two_buttons(const char* yes, const char* no, const std::string& key) {
    JsonArray row;
    row.emplace_back(button(yes, "y:" + key));
    row.emplace_back(button(no, "n:" + key));
    JsonArray rows;
    rows.emplace_back(std::move(row));
    return rows;
}

JsonArray option_buttons(const cubepi::AskRequest& ask, const std::string& key) {
    JsonArray rows;
    if (ask.questions.size() != 1) return rows;
    const cubepi::HitlQuestion& question = ask.questions.front();
    if (question.multi_select || !question.options || question.options->size() > max_options)
        return rows;
    for (std::size_t index = 0; index < question.options->size(); ++index) {
        JsonArray row;
        const cubepi::HitlOption& option = question.options->at(index);
        row.emplace_back(button(option.label.empty() ? option.value : option.label,
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

std::string way_to_answer(const HitlRequest& request, const std::string& key) {
    if (std::holds_alternative<cubepi::ApproveRequest>(request.payload))
        return "Use the buttons, or /approve " + key + " or /deny " + key + " REASON";
    if (std::holds_alternative<cubepi::ConfirmRequest>(request.payload))
        return "Use the buttons, or reply with yes or no";
    const auto& questions = std::get<cubepi::AskRequest>(request.payload).questions;
    if (questions.size() == 1) return "Reply to this message";
    return "Reply to this message with {\"" + questions.front().key + "\": \"...\", ...}";
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
    card.text.text = summary + "\n\n" + way_to_answer(request, key) + "\n" +
                     std::string(mark_begin) + key + (approves ? " (approval)" : "");
    card.keyboard = buttons(request, key);
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

bool answer_with_button(const std::string& data, Envelope& envelope) {
    const std::size_t colon = data.find(':');
    if (colon == std::string::npos || !is_key(std::string_view(data).substr(colon + 1)))
        return false;
    const std::string key = data.substr(colon + 1);
    const std::string choice = data.substr(0, colon);
    if (choice == "y" || choice == "n") {
        envelope.content = (choice == "y" ? ",approve " : ",deny ") + key;
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
