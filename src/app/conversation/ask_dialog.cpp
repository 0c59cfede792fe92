#include "ask_dialog.hpp"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <utility>
#include <vector>

#include <cubepi/core/support/trimmed.hpp>

#include "../terminal/framed_text.hpp"

namespace cubepi::app {

namespace {

bool equal_ignoring_case(std::string_view left, std::string_view right) {
    const auto equal = [](unsigned char a, unsigned char b) {
        return std::tolower(a) == std::tolower(b);
    };
    return std::equal(left.begin(), left.end(), right.begin(), right.end(), equal);
}

/// The value of the option with this number, label or value.
std::optional<std::string> option_named(const std::vector<HitlOption>& options,
                                        std::string_view text) {
    std::size_t number = 0;
    const char* const end = text.data() + text.size();
    const auto parsed = std::from_chars(text.data(), end, number);
    if (parsed.ec == std::errc() && parsed.ptr == end && number >= 1 && number <= options.size())
        return options[number - 1].value;
    for (const HitlOption& option : options) {
        if (equal_ignoring_case(option.label, text) || equal_ignoring_case(option.value, text))
            return option.value;
    }
    return std::nullopt;
}

bool allows_input(const std::vector<HitlOption>& options) {
    return std::any_of(options.begin(), options.end(),
                       [](const HitlOption& option) { return option.allow_input; });
}

TypedAnswer not_an_option(std::string_view text, const std::vector<HitlOption>& options) {
    return {nullptr, "'" + std::string(text) + "' is not an option; enter a number from 1 to " +
                         std::to_string(options.size()) + ", or the text of an option"};
}

TypedAnswer choice(const std::vector<HitlOption>& options, std::string_view text) {
    if (std::optional<std::string> value = option_named(options, text)) return {Json(*value), {}};
    if (allows_input(options)) return {Json(text), {}};
    return not_an_option(text, options);
}

TypedAnswer choices(const std::vector<HitlOption>& options, std::string_view text) {
    JsonArray values;
    while (!text.empty()) {
        const std::size_t comma = std::min(text.find(','), text.size());
        const std::string_view one = detail::trimmed(text.substr(0, comma));
        text.remove_prefix(std::min(comma + 1, text.size()));
        if (one.empty()) continue;
        TypedAnswer chosen = choice(options, one);
        if (!chosen.problem.empty()) return chosen;
        if (std::find(values.begin(), values.end(), chosen.value) == values.end())
            values.push_back(std::move(chosen.value));
    }
    return {Json(std::move(values)), {}};
}

TerminalText prompt_of(const HitlQuestion& question) {
    TerminalText prompt("  ");
    if (!question.options || question.options->empty()) {
        prompt += "answer";
    } else {
        prompt += question.multi_select ? TerminalView("numbers, separated by commas")
                                        : TerminalView("number");
        if (allows_input(*question.options)) prompt += ", or your own answer";
    }
    if (!question.required) prompt += " (Enter skips)";
    return prompt + " > ";
}

}  // namespace

TypedAnswer read_typed_answer(const HitlQuestion& question, std::string_view text) {
    text = detail::trimmed(text);
    if (text.empty()) {
        if (!question.required) return {};
        return {nullptr, "this question needs an answer; Ctrl-C stops the turn"};
    }
    const bool free = !question.options || question.options->empty();
    if (!free && !question.multi_select) return choice(*question.options, text);
    if (!free) return choices(*question.options, text);
    return {Json(text), {}};
}

void AskDialog::show_title(TerminalView title, std::string_view text) const {
    prompter_.say(style_.yellow() + "? " + style_.off() + title + "\n");
    prompter_.say(framed(text, prompter_.size().columns));
}

void AskDialog::show(const HitlQuestion& question) const {
    show_title("The model asks:", question.prompt);
    if (!question.options) return;
    std::vector<TerminalText> rows;
    for (std::size_t i = 0; i < question.options->size(); ++i) {
        const HitlOption& option = (*question.options)[i];
        TerminalText line = TerminalText::number(i + 1) + "  " + spelled_out(option.label);
        if (option.description)
            line += "  " + style_.dim() + spelled_out(*option.description) + style_.off();
        add_framed(rows, line, prompter_.size().columns);
    }
    for (const TerminalText& row : rows) prompter_.say(row + "\n");
}

Task<std::optional<Json>> AskDialog::ask_one(const HitlQuestion& question) {
    show(question);
    std::optional<Json> result;
    for (;;) {
        TerminalText prompt = prompt_of(question);
        const std::optional<std::string> text = co_await prompter_.read(std::move(prompt));
        if (!text) co_return result;
        TypedAnswer answer = read_typed_answer(question, *text);
        if (answer.problem.empty()) {
            result = std::move(answer.value);
            co_return result;
        }
        prompter_.say(framed(answer.problem, prompter_.size().columns, Frame{"  ", "  ┊ "}));
    }
}

Task<std::optional<JsonObject>> AskDialog::ask(AskRequest request) {
    co_await prompter_.prepare();
    std::optional<JsonObject> answers(std::in_place);
    for (const HitlQuestion& question : request.questions) {
        std::optional<Json> answer = co_await ask_one(question);
        if (!answer) {
            answers.reset();
            co_return answers;
        }
        if (!answer->is_null()) (*answers)[question.key] = std::move(*answer);
    }
    co_return answers;
}

Task<std::optional<bool>> AskDialog::confirm(ConfirmRequest request) {
    co_await prompter_.prepare();
    show_title("Please confirm:", request.prompt);
    std::optional<bool> result;
    for (;;) {
        TerminalText prompt("  [y]es  [n]o > ");
        const std::optional<std::string> text = co_await prompter_.read(std::move(prompt));
        if (!text) co_return result;
        if (equal_ignoring_case(*text, "y") || equal_ignoring_case(*text, "yes")) result = true;
        if (equal_ignoring_case(*text, "n") || equal_ignoring_case(*text, "no")) result = false;
        if (result) co_return result;
    }
}

}  // namespace cubepi::app
