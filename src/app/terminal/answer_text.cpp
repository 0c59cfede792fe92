#include "answer_text.hpp"

#include <algorithm>
#include <string_view>
#include <vector>

#include <cubepi/core/support/json_member.hpp>
#include <cubepi/schema/json_text.hpp>

#include "terminal_text.hpp"

namespace cubepi::app {

namespace {

constexpr std::size_t longest_question = 300;

/// The objects of a list; other members, of a model that errs, are left out.
std::vector<const JsonObject*> objects_in(const JsonObject& object, std::string_view name) {
    std::vector<const JsonObject*> found;
    const Json* const list = object.if_contains(name);
    if (!list || !list->is_array()) return found;
    for (const Json& one : list->get_array()) {
        if (const JsonObject* const item = one.if_object()) found.push_back(item);
    }
    return found;
}

std::string prompt_of(const JsonObject& question) {
    std::string text = detail::text_member(question, "prompt");
    std::replace(text.begin(), text.end(), '\n', ' ');
    return one_line(text, longest_question);
}

/// An option as the user has seen it.
std::string label_of(const JsonObject& question, const std::string& value) {
    for (const JsonObject* const option : objects_in(question, "options")) {
        const std::string label = detail::text_member(*option, "label");
        if (detail::text_member(*option, "value") == value && !label.empty()) return label;
    }
    return value;
}

std::string answer_of(const JsonObject& question, const Json& answer) {
    if (answer.is_string()) return label_of(question, std::string(answer.get_string()));
    if (!answer.is_array()) return json_text(answer);
    std::string text;
    for (const Json& one : answer.get_array())
        text += (text.empty() ? "" : ", ") + answer_of(question, one);
    return text;
}

/// An answer of several lines is indented.
void add_answer(std::string& text, const std::string& question, std::string_view answer) {
    text += question + " → ";
    for (const char c : answer) {
        text += c;
        if (c == '\n') text += "  ";
    }
    text += '\n';
}

}  // namespace

std::string questions_text(const JsonObject& arguments) {
    std::string text;
    for (const JsonObject* const question : objects_in(arguments, "questions")) {
        std::string options;
        for (const JsonObject* const option : objects_in(*question, "options"))
            options += (options.empty() ? "" : ", ") + detail::text_member(*option, "label");
        text += prompt_of(*question) + (options.empty() ? "" : " (" + options + ")") + "\n";
    }
    return text;
}

std::string answers_text(const JsonObject& arguments, const Json& details) {
    const JsonObject* const all = details.if_object();
    const JsonObject* const hitl = all ? detail::object_member(*all, "hitl") : nullptr;
    const JsonObject* const answers = hitl ? detail::object_member(*hitl, "answers") : nullptr;
    std::string text;
    if (!answers) return text;
    JsonObject left = *answers;
    for (const JsonObject* const question : objects_in(arguments, "questions")) {
        const std::string key = detail::text_member(*question, "key");
        const Json* const answer = left.if_contains(key);
        add_answer(text, prompt_of(*question),
                   answer ? answer_of(*question, *answer) : std::string("(no answer)"));
        left.erase(key);
    }
    // Without the call only the keys are known.
    for (const auto& [key, answer] : left)
        add_answer(text, std::string(key), answer_of(JsonObject(), answer));
    return text;
}

}  // namespace cubepi::app
