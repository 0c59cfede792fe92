#include <bub/questions.hpp>

#include <utility>

#include <bub/tape/file/digest.hpp>
#include <cubepi/core/error.hpp>
#include <cubepi/core/support/json_member.hpp>
#include <cubepi/schema/parse_json.hpp>

namespace bub {

namespace {

/// Removes the first word of `rest` and returns it.
std::string take_word(std::string_view& rest) {
    const std::size_t begin = rest.find_first_not_of(" \t\n");
    if (begin == rest.npos) {
        rest = {};
        return {};
    }
    rest.remove_prefix(begin);
    const std::size_t end = std::min(rest.find_first_of(" \t\n"), rest.size());
    std::string word(rest.substr(0, end));
    rest.remove_prefix(end);
    const std::size_t next = rest.find_first_not_of(" \t\n");
    rest.remove_prefix(next == rest.npos ? rest.size() : next);
    return word;
}

std::string options_text(const cubepi::HitlQuestion& question) {
    std::string text;
    if (!question.options) return text;
    for (const cubepi::HitlOption& option : *question.options) {
        text += "\n  " + option.value;
        if (option.label != option.value) text += " (" + option.label + ")";
        if (option.description) text += ": " + *option.description;
    }
    return text;
}

std::string summary_of(const cubepi::ApproveRequest& request) {
    return "Run " + request.tool_name + " " + boost::json::serialize(request.args) + "?";
}

std::string summary_of(const cubepi::ConfirmRequest& request) { return request.prompt; }

std::string summary_of(const cubepi::AskRequest& request) {
    std::string text;
    for (const cubepi::HitlQuestion& question : request.questions) {
        if (!text.empty()) text += "\n";
        if (request.questions.size() > 1) text += question.key + ": ";
        text += question.prompt + options_text(question);
    }
    return text;
}

std::string way_to_answer(const cubepi::HitlRequest& request) {
    const std::string& id = request.question_id;
    if (std::holds_alternative<cubepi::ApproveRequest>(request.payload))
        return "Answer with ,approve " + id + " or ,deny " + id + " REASON";
    if (std::holds_alternative<cubepi::ConfirmRequest>(request.payload))
        return "Answer with ,answer " + id + " yes or ,answer " + id + " no";
    const auto& questions = std::get<cubepi::AskRequest>(request.payload).questions;
    if (questions.size() == 1) return "Answer with ,answer " + id + " TEXT";
    return "Answer with ,answer " + id + " {\"" + questions.front().key + "\": \"...\", ...}";
}

[[noreturn]] void reject(const cubepi::HitlRequest& request, const std::string& expected) {
    throw cubepi::Error(cubepi::ErrorCode::bad_answer, "the answer to '" + request.question_id +
                                                           "' was rejected: expected " + expected +
                                                           "; the request stays open");
}

Json confirm_value(const std::string& text, const cubepi::HitlRequest& request) {
    for (const char* yes : {"yes", "y", "true"}) {
        if (text == yes) return Json(true);
    }
    for (const char* no : {"no", "n", "false"}) {
        if (text == no) return Json(false);
    }
    reject(request, "yes or no");
}

Json ask_value(const std::string& text, const cubepi::HitlRequest& request) {
    cubepi::JsonTextError error;
    Json parsed = cubepi::parse_json(text, error);
    if (!error && parsed.is_object()) return parsed;
    const auto& questions = std::get<cubepi::AskRequest>(request.payload).questions;
    if (questions.size() != 1)
        reject(request, "a JSON object with an answer for each question key");
    JsonObject answer;
    if (questions.front().multi_select) {
        answer[questions.front().key] = JsonArray{Json(text)};
    } else {
        answer[questions.front().key] = text;
    }
    return answer;
}

Json chosen_value(std::size_t choice, const cubepi::HitlRequest& request) {
    const auto* const ask = std::get_if<cubepi::AskRequest>(&request.payload);
    const cubepi::HitlQuestion* const question =
        ask && ask->questions.size() == 1 ? &ask->questions.front() : nullptr;
    if (!question || !question->options || choice >= question->options->size())
        reject(request, "one of its options");
    JsonObject answer;
    answer[question->key] = question->options->at(choice).value;
    return answer;
}

}  // namespace

std::string short_question_key(const cubepi::HitlRequest& request) {
    const JsonObject* const asker = cubepi::detail::object_member(request.extra, asker_key);
    std::string named = asker ? cubepi::detail::text_member(*asker, "session") : std::string();
    named += '\n';
    named += request.question_id;
    return detail::sha256_hex(named).substr(0, question_key_size);
}

bool names_question(std::string_view name, const cubepi::HitlRequest& request) {
    return name == request.question_id ||
           (name.size() == question_key_size && name == short_question_key(request));
}

std::string sender_of(const Envelope& message) {
    const Json* sender = message.context.if_contains("sender_id");
    return sender && sender->is_string() ? std::string(sender->get_string()) : std::string();
}

std::string question_summary(const cubepi::HitlRequest& request) {
    return std::visit([](const auto& payload) { return summary_of(payload); }, request.payload);
}

std::string question_text(const cubepi::HitlRequest& request) {
    return question_summary(request) + "\n" + way_to_answer(request);
}

std::optional<GivenAnswer> given_answer(const Envelope& message) {
    GivenAnswer given;
    if (const Json* id = message.rest.if_contains(answer_to_key); id && id->is_string()) {
        given.question_id = std::string(id->get_string());
        given.text = message.content_text();
        if (const Json* value = message.rest.if_contains(answer_key)) given.value = *value;
        const auto choice = cubepi::detail::integer_member(message.rest, answer_choice_key);
        if (choice && *choice >= 0) given.choice = static_cast<std::size_t>(*choice);
        return given;
    }
    if (const Json* id = message.rest.if_contains(expired_key); id && id->is_string()) {
        if (!message.is_operator()) return std::nullopt;
        given.action = AnswerAction::expire;
        given.question_id = std::string(id->get_string());
        return given;
    }
    std::string_view rest = message.content_text();
    const std::string command = take_word(rest);
    if (command == ",abandon") {
        given.action = AnswerAction::abandon;
        return given;
    }
    if (command == ",approve") {
        given.action = AnswerAction::approve;
    } else if (command == ",deny") {
        given.action = AnswerAction::deny;
    } else if (command != ",answer") {
        return std::nullopt;
    }
    given.question_id = take_word(rest);
    given.text = std::string(rest);
    return given;
}

Json answer_value(const GivenAnswer& given, const cubepi::HitlRequest& request) {
    const bool approves = std::holds_alternative<cubepi::ApproveRequest>(request.payload);
    if (given.value) return *given.value;
    if (given.choice) return chosen_value(*given.choice, request);
    if (given.action == AnswerAction::approve || given.action == AnswerAction::deny) {
        const bool yes = given.action == AnswerAction::approve;
        if (!approves && !std::holds_alternative<cubepi::ConfirmRequest>(request.payload))
            reject(request, "an answer to a question: ,answer ID VALUE");
        if (!approves) return Json(yes);
        if (yes) return Json(to_json(cubepi::ApproveAnswer()));
        cubepi::ApproveAnswer denial;
        denial.decision = cubepi::ApproveDecision::deny;
        if (!given.text.empty()) denial.reason = given.text;
        return Json(to_json(denial));
    }
    if (approves) reject(request, ",approve ID or ,deny ID REASON");
    if (std::holds_alternative<cubepi::ConfirmRequest>(request.payload))
        return confirm_value(given.text, request);
    return ask_value(given.text, request);
}

}  // namespace bub
