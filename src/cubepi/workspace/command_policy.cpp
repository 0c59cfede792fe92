#include <cubepi/workspace/command_policy.hpp>

#include <algorithm>
#include <array>

#include <cubepi/core/error.hpp>
#include <cubepi/workspace/shell/shell_commands.hpp>

namespace cubepi {

namespace {

using Words = std::vector<std::string>;

constexpr std::string_view any_directory = "*";

/// Words that a shell does not treat as a program at the beginning of a command.
constexpr std::array<std::string_view, 18> reserved = {
    "if",    "then",  "else", "elif", "fi",       "do",     "done",   "case", "esac",
    "while", "until", "for",  "in",   "function", "coproc", "select", "time", "!"};

bool is_assignment(std::string_view word) { return word.find('=') != std::string_view::npos; }

bool has_control_character(std::string_view text) {
    return std::any_of(text.begin(), text.end(),
                       [](char c) { return (c >= 0 && c < ' ') || c == 0x7F; });
}

/// Whether the path is absolute and has no components that change the directory.
bool is_plain_directory(std::string_view path) {
    if (!path.starts_with('/') || has_control_character(path)) return false;
    const std::string padded = std::string(path) + "/";
    return padded.find("/../") == std::string::npos && padded.find("/./") == std::string::npos;
}

/// Removes "cd DIRECTORY && " from the beginning of `text`. Returns the directory, or nothing if there is none.
std::optional<std::string> take_directory(std::string_view& text) {
    if (!text.starts_with("cd ")) return std::nullopt;
    constexpr std::string_view separator = " && ";
    for (auto end = text.find(separator); end != std::string_view::npos;
         end = text.find(separator, end + 1)) {
        const std::string_view written = text.substr(3, end - 3);
        const auto words = detail::literal_words(written);
        const bool any = written == any_directory;
        if (!any && (!words || words->size() != 1 || !is_plain_directory(words->front()))) continue;
        text.remove_prefix(end + separator.size());
        return any ? std::string(any_directory) : words->front();
    }
    return std::nullopt;
}

bool take_star(std::string_view& text) {
    while (text.ends_with(' ')) text.remove_suffix(1);
    if (!text.ends_with(" *")) return false;
    text.remove_suffix(2);
    return true;
}

bool begins_with(const Words& words, const Words& begin) {
    return begin.size() <= words.size() && std::equal(begin.begin(), begin.end(), words.begin());
}

}  // namespace

std::string CommandRule::text() const {
    std::string text;
    if (directory == any_directory)
        text = "cd * && ";
    else if (!directory.empty())
        text = "cd " + detail::quote_shell_word(directory) + " && ";
    for (const auto& word : words) text += detail::quote_shell_word(word) + " ";
    if (with_arguments)
        text += "*";
    else
        text.pop_back();
    return text;
}

CommandRule CommandRule::parse(std::string_view text) {
    CommandRule rule;
    std::string_view rest = text;
    std::optional<std::string> directory = take_directory(rest);
    const bool star = take_star(rest);
    rule.with_arguments = star || !directory;
    rule.directory = std::move(directory).value_or(std::string());
    auto words = simple_command(rest);
    if (!words) {
        throw Error(
            ErrorCode::invalid_argument,
            "\"" + std::string(text) +
                "\" is not a rule for commands. A rule consists of a directory and a command, such "
                "as cd /src/app && make test, without ; & | < > $ or backticks in the command.");
    }
    rule.words = std::move(*words);
    return rule;
}

std::string CommandRule::problem() const {
    if (!with_arguments) return {};
    const std::optional<detail::ListedCommand> listed = detail::find_listed(words);
    CommandRule exact;
    exact.words = words;
    exact.directory = directory.empty() ? "/DIRECTORY" : directory;
    if (!listed) {
        return "it does not name a command of the list of harmless commands. Allow the exact "
               "command in its directory: shell: " +
               exact.text();
    }
    if (listed->needs_directory && directory.empty()) {
        exact.with_arguments = true;
        return "it does not name a directory, but the command depends on it. Write shell: " +
               exact.text() + ", or cd * for any directory";
    }
    return {};
}

bool CommandRule::allows(const Words& command, std::string_view where) const {
    const bool here = directory.empty() || directory == any_directory || directory == where;
    if (!here || !begins_with(command, words)) return false;
    if (!with_arguments) return command.size() == words.size();
    const std::optional<detail::ListedCommand> listed = detail::find_listed(command);
    return listed && words.size() >= listed->words &&
           !(listed->needs_directory && directory.empty());
}

std::optional<std::vector<std::string>> simple_command(std::string_view command) {
    if (command.find_first_of(std::string_view(";&|\n\r<>`\0", 9)) != std::string_view::npos)
        return std::nullopt;
    for (const char* expansion : {"$(", "${", "$["}) {
        if (command.find(expansion) != std::string_view::npos) return std::nullopt;
    }
    auto words = detail::literal_words(command);
    if (!words || words->empty()) return std::nullopt;
    const std::string& program = words->front();
    if (program.empty() || is_assignment(program)) return std::nullopt;
    if (program.find_first_of("$*?[](){}~!#\\'\" \t") != std::string::npos) return std::nullopt;
    if (std::find(reserved.begin(), reserved.end(), program) != reserved.end()) return std::nullopt;
    return words;
}

void CommandPolicy::allow(CommandRule rule) {
    if (rule.words.empty())
        throw Error(ErrorCode::invalid_argument, "A rule for commands must name a program.");
    if (std::find(rules_.begin(), rules_.end(), rule) == rules_.end())
        rules_.push_back(std::move(rule));
}

bool CommandPolicy::allows(std::string_view command, std::string_view directory) const {
    const auto words = simple_command(command);
    return words && std::any_of(rules_.begin(), rules_.end(), [&](const CommandRule& rule) {
               return rule.allows(*words, directory);
           });
}

ToolRisk command_risk(std::string_view command) {
    return detail::known_effect(command).empty() ? ToolRisk::writes : ToolRisk::irreversible;
}

bool only_reads(std::string_view command) {
    const std::optional<Words> words = simple_command(command);
    if (!words) return false;
    const std::optional<detail::ListedCommand> listed = detail::find_listed(*words);
    return listed && listed->reads;
}

std::string known_command_effect(std::string_view command) { return detail::known_effect(command); }

std::optional<CommandRule> rule_for(std::string_view command, std::string_view directory) {
    auto words = simple_command(command);
    if (!words || command_risk(command) == ToolRisk::irreversible) return std::nullopt;
    CommandRule rule;
    const std::optional<detail::ListedCommand> listed = detail::find_listed(*words);
    if (listed) {
        words->resize(listed->words);
        rule.with_arguments = true;
    }
    if (!listed || listed->needs_directory) {
        if (!is_plain_directory(directory)) return std::nullopt;
        rule.directory = directory;
    }
    rule.words = std::move(*words);
    return rule;
}

}  // namespace cubepi
