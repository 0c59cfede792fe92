#include <bub/questions.hpp>

#include <algorithm>
#include <utility>

#include <bub/tape/support/encoding.hpp>
#include <cubepi/core/error.hpp>
#include <cubepi/core/support/digest.hpp>
#include <cubepi/core/support/json_member.hpp>
#include <cubepi/core/support/trimmed.hpp>
#include <cubepi/schema/json/visible_text.hpp>
#include <cubepi/schema/json_text.hpp>
#include <cubepi/schema/parse_json.hpp>

namespace bub {

namespace {

using cubepi::detail::visible;

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

/// The model chooses the arguments and their order, so that all of them are shown after what the program states.
std::string summary_of(const cubepi::ApproveRequest& request) {
    const bool leaves = request.tool_name == "shell" &&
                        cubepi::detail::flag_member(request.args, "without_sandbox");
    return "Run " + visible(request.tool_name) + (leaves ? " once without the sandbox" : "") + " " +
           visible(cubepi::json_text(request.args)) + "?";
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
    const std::string id = question_name(request);
    if (std::holds_alternative<cubepi::ApproveRequest>(request.payload))
        return "Answer with ,approve " + id + " or ,deny " + id + " REASON";
    if (std::holds_alternative<cubepi::ConfirmRequest>(request.payload))
        return "Answer with ,answer " + id + " yes or ,answer " + id + " no";
    const std::string form = answer_form(std::get<cubepi::AskRequest>(request.payload));
    return "Answer with ,answer " + id + (form.empty() ? " TEXT" : " and " + form);
}

[[noreturn]] void reject(const cubepi::HitlRequest& request, const std::string& expected) {
    throw cubepi::Error(cubepi::ErrorCode::bad_answer, "the answer to '" + question_name(request) +
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

/// Returns the option that a text names by its value or label; null if there is none.
const cubepi::HitlOption* find_option(const cubepi::HitlQuestion& question, std::string_view text) {
    if (!question.options) return nullptr;
    for (const cubepi::HitlOption& option : *question.options)
        if (text == option.value || text == option.label) return &option;
    return nullptr;
}

Json option_value(const cubepi::HitlQuestion& question, std::string_view text) {
    text = cubepi::detail::trimmed(text);
    const cubepi::HitlOption* const option = find_option(question, text);
    return Json(option ? std::string_view(option->value) : text);
}

Json text_value(const cubepi::HitlQuestion& question, std::string_view text) {
    if (!question.multi_select) return option_value(question, text);
    JsonArray values;
    // An option may have a comma.
    if (question.options && !find_option(question, cubepi::detail::trimmed(text))) {
        for (std::size_t comma = 0; (comma = text.find(',')) != text.npos;) {
            values.push_back(option_value(question, text.substr(0, comma)));
            text.remove_prefix(comma + 1);
        }
    }
    values.push_back(option_value(question, text));
    return values;
}

/// Reads lines "KEY: VALUE". Returns nothing if a line has another form.
std::optional<JsonObject> lines_value(std::string_view text, const cubepi::AskRequest& ask) {
    JsonObject answer;
    while (!text.empty()) {
        const std::size_t end = std::min(text.find('\n'), text.size());
        const std::string_view line = cubepi::detail::trimmed(text.substr(0, end));
        text.remove_prefix(std::min(end + 1, text.size()));
        if (line.empty()) continue;
        const std::size_t colon = line.find(':');
        if (colon == line.npos) return std::nullopt;
        const std::string_view key = cubepi::detail::trimmed(line.substr(0, colon));
        const auto question =
            std::find_if(ask.questions.begin(), ask.questions.end(),
                         [key](const cubepi::HitlQuestion& one) { return one.key == key; });
        if (question == ask.questions.end()) return std::nullopt;
        answer[key] = text_value(*question, line.substr(colon + 1));
    }
    return answer;
}

Json ask_value(const std::string& text, const cubepi::HitlRequest& request) {
    cubepi::JsonTextError error;
    Json parsed = cubepi::parse_json(text, error);
    if (!error && parsed.is_object()) return parsed;
    const auto& ask = std::get<cubepi::AskRequest>(request.payload);
    if (ask.questions.size() == 1) {
        JsonObject answer;
        answer[ask.questions.front().key] = text_value(ask.questions.front(), text);
        return answer;
    }
    std::optional<JsonObject> lines = lines_value(text, ask);
    if (!lines) reject(request, answer_form(ask));
    return std::move(*lines);
}

Json chosen_values(const std::vector<std::pair<std::size_t, std::size_t>>& choices,
                   const cubepi::HitlRequest& request) {
    const auto* const ask = std::get_if<cubepi::AskRequest>(&request.payload);
    JsonObject answer;
    for (const auto& [part, option] : choices) {
        if (!ask || part >= ask->questions.size() || !ask->questions[part].options ||
            option >= ask->questions[part].options->size())
            reject(request, "options of its questions");
        const cubepi::HitlQuestion& question = ask->questions[part];
        Json value(question.options->at(option).value);
        if (!question.multi_select) {
            answer[question.key] = std::move(value);
            continue;
        }
        Json& values = answer[question.key];
        if (!values.is_array()) values = JsonArray();
        values.get_array().push_back(std::move(value));
    }
    return answer;
}

/// Returns nothing if the text is not a command that answers a question.
std::optional<Answer> answer_in(std::string_view text) {
    Answer answer;
    const std::string command = take_word(text);
    if (command == ",abandon") {
        answer.action = AnswerAction::abandon;
    } else if (command == ",approve") {
        answer.action = AnswerAction::approve;
    } else if (command == ",deny") {
        answer.action = AnswerAction::deny;
    } else if (command != ",answer") {
        return std::nullopt;
    }
    answer.question = take_word(text);
    answer.text = std::string(text);
    return answer;
}

}  // namespace

std::string answer_form(const cubepi::AskRequest& ask) {
    const auto several = [](const cubepi::HitlQuestion& question) {
        return question.multi_select && question.options ? "one or more, separated by commas" : "";
    };
    if (ask.questions.size() == 1) return several(ask.questions.front());
    std::string text = "a line for each:";
    for (const cubepi::HitlQuestion& question : ask.questions) {
        const std::string hint = several(question);
        text += "\n" + question.key + ": " + (hint.empty() ? "..." : "... (" + hint + ")");
    }
    return text;
}

JsonObject asker_of(const JsonObject& members) {
    const JsonObject* const asker = cubepi::detail::object_member(members, asker_key);
    return asker ? *asker : JsonObject();
}

std::string question_name(const cubepi::HitlRequest& request) {
    if (request.request_id.size() == question_name_size) return request.request_id;
    std::string named = cubepi::detail::text_member(asker_of(request.extra), "session");
    named += '\n';
    named += request.question_id;
    return cubepi::detail::sha256_hex(named).substr(0, question_name_size);
}

std::vector<const cubepi::HitlRequest*> questions_named(
    std::string_view name, const std::vector<cubepi::HitlRequest>& open) {
    constexpr std::size_t shortest = 4;
    std::vector<const cubepi::HitlRequest*> named;
    for (const cubepi::HitlRequest& one : open) {
        const std::string key = question_name(one);
        if (key == name) return {&one};
        const bool begins_so = name.size() >= shortest && key.starts_with(name);
        if (name.empty() || begins_so || one.question_id == name) named.push_back(&one);
    }
    return named;
}

std::string earlier_answer_text(const std::vector<cubepi::AnswerRecord>& records,
                                const std::string& name) {
    const auto is_named = [&name](const cubepi::AnswerRecord& one) {
        return one.question_id == name ||
               (one.request && !questions_named(name, {*one.request}).empty());
    };
    const auto found = std::find_if(records.rbegin(), records.rend(), is_named);
    if (name.empty() || found == records.rend()) return {};
    const JsonObject* const answer = found->answer.if_object();
    const std::string decision =
        answer ? cubepi::detail::text_member(*answer, "decision") : std::string();
    std::string text = "It was answered before";
    if (decision == "approve" || decision == "edit") text = "It was approved before";
    if (decision == "deny") text = "It was denied before";
    if (!found->user.empty()) text += " by " + found->user;
    if (!found->channel.empty()) text += " (" + found->channel + ")";
    return text + ".";
}

bool is_older(const Envelope& message, const cubepi::HitlRequest& request,
              std::chrono::seconds time_to_read) {
    const Json* const arrived = message.context.if_contains(arrived_key);
    return arrived && arrived->is_number() &&
           arrived->to_number<double>() <
               request.created_at + static_cast<double>(time_to_read.count());
}

std::string sender_of(const Envelope& message) {
    const Json* sender = message.context.if_contains("sender_id");
    return sender && sender->is_string() ? std::string(sender->get_string()) : std::string();
}

std::string asking_agents(const cubepi::HitlRequest& request) {
    const Json* const path = request.extra.if_contains("agent_path");
    std::string names;
    if (!path || !path->is_array()) return names;
    for (const Json& name : path->get_array()) {
        if (!name.is_string()) continue;
        names += names.empty() ? "" : " > ";
        names += name.get_string();
    }
    return names;
}

namespace {

/// Returns the lines about a call that follow the sentence of the rules, which only repeats the call; and the file of the call, unless
/// its path names it (D17).
std::string remarks_on(const cubepi::HitlRequest& request) {
    const auto* const approve = std::get_if<cubepi::ApproveRequest>(&request.payload);
    if (!approve) return {};
    constexpr std::string_view leads_to = "The path leads to ";
    const std::string target = cubepi::detail::text_member(request.extra, "target");
    const JsonObject* const details = approve->details.if_object();
    const std::string question =
        details ? cubepi::detail::text_member(*details, "question") : std::string();
    std::string text;
    for (std::size_t feed = question.find('\n'); feed != question.npos;) {
        const std::size_t begin = feed + 1;
        feed = question.find('\n', begin);
        const std::string line = question.substr(begin, feed - begin);
        const bool names_target = !target.empty() && line.starts_with(leads_to);
        if (!line.empty() && !names_target) text += visible(line) + "\n";
    }
    if (target.empty() || target == cubepi::detail::text_member(approve->args, "path")) return text;
    return text.append(leads_to) + visible(cubepi::json_text(Json(target))) + ".\n";
}

}  // namespace

std::string question_summary(const cubepi::HitlRequest& request) {
    const std::string agents = visible(asking_agents(request));
    return remarks_on(request) + (agents.empty() ? "" : "The sub-agent " + agents + " asks: ") +
           std::visit([](const auto& payload) { return summary_of(payload); }, request.payload);
}

std::string question_text(const cubepi::HitlRequest& request) {
    return question_summary(request) + "\n" + way_to_answer(request);
}

void note_answer(Envelope& message) {
    if (!message.answer) message.answer = answer_in(message.content_text());
    // Only a gateway ends the time of a question.
    if (message.answer && message.answer->action == AnswerAction::expire && !message.is_operator())
        message.answer.reset();
    if (!message.answer) return;
    message.answer->user = sender_of(message);
    message.answer->place = default_session(message);
    // All operators have one name in a chat (D108): the mark tells their answers from each other (D242).
    const std::string mark = cubepi::detail::text_member(message.context, "answer_mark");
    if (message.is_operator() && !mark.empty()) message.answer->place += ", answer " + mark;
}

Json answer_value(const Answer& given, const cubepi::HitlRequest& request) {
    const bool approves = std::holds_alternative<cubepi::ApproveRequest>(request.payload);
    if (given.choices) return chosen_values(*given.choices, request);
    if (given.value) return *given.value;
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

Answer checked_answer(Answer given, const cubepi::HitlRequest& request) {
    const bool withdraws = given.action == AnswerAction::abandon;
    if (!withdraws) (void)cubepi::check_answer(request, answer_value(given, request));
    if (withdraws || given.question != request.question_id) given.question = question_name(request);
    return given;
}

}  // namespace bub
