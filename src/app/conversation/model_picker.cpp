#include "model_picker.hpp"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <optional>
#include <string_view>
#include <utility>

#include <cubepi/core/error.hpp>
#include <cubepi/core/support/trimmed.hpp>

#include "../terminal/terminal_text.hpp"

namespace cubepi::app {

namespace {

std::string lower(std::string_view text) {
    std::string small(text);
    for (char& c : small) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    return small;
}

/// Returns the index of the model that `answer` names by its id, its number from 1, or a part that no other id has. Throws
/// Error(invalid_argument) if that is not one model.
std::size_t model_named(const std::string& answer, const std::vector<std::string>& models) {
    const auto exact = std::find(models.begin(), models.end(), answer);
    if (exact != models.end()) return static_cast<std::size_t>(exact - models.begin());
    std::size_t number = 0;
    const char* const end = answer.data() + answer.size();
    const auto parsed = std::from_chars(answer.data(), end, number);
    if (parsed.ec == std::errc() && parsed.ptr == end && number >= 1 && number <= models.size())
        return number - 1;
    std::vector<std::size_t> found;
    for (std::size_t i = 0; i < models.size() && !answer.empty(); ++i) {
        if (lower(models[i]).find(lower(answer)) != std::string::npos) found.push_back(i);
    }
    if (found.size() == 1) return found.front();
    std::string problem = "'" + answer + "' is not in the list";
    if (answer.empty()) problem = "no model was chosen";
    if (found.size() > 1)
        problem = "'" + answer + "' matches " + std::to_string(found.size()) + " models";
    throw Error(ErrorCode::invalid_argument, problem + "; enter a number from 1 to " +
                                                 std::to_string(models.size()) +
                                                 ", a model's name, or a part of one name");
}

}  // namespace

Task<std::size_t> pick_model(std::shared_ptr<Prompter> prompter, std::string question,
                             std::vector<std::string> models) {
    question += '\n';
    for (std::size_t i = 0; i < models.size(); ++i)
        question += "  " + std::to_string(i + 1) + "  " + one_line(visible(models[i]), 70) + "\n";
    prompter->say(for_terminal(question));
    for (;;) {
        const std::optional<std::string> answer =
            co_await prompter->read(TerminalView("number or name > "));
        if (!answer) throw Error(ErrorCode::cancelled, "no model was chosen");
        std::string problem;
        try {
            co_return model_named(std::string(detail::trimmed(*answer)), models);
        } catch (const Error& error) {
            problem = error.what();
        }
        prompter->say(for_terminal(problem) + "\n");
    }
}

}  // namespace cubepi::app
