#include <cubepi/workspace/shell/named_commands.hpp>

#include <algorithm>
#include <array>
#include <cstddef>

namespace cubepi::detail {

namespace {

using Words = std::vector<std::string>;

/// Commands of a shell that run text as commands.
constexpr std::array<std::string_view, 3> evaluators = {"eval", "source", "."};
constexpr std::array<std::string_view, 5> shells = {"sh", "bash", "dash", "zsh", "ksh"};
constexpr std::string_view separators = ";&|\n\r(){}!";
/// In the name of a program, a shell replaces them.
constexpr std::string_view expanded = "$*?[~";

template <std::size_t n>
bool is_one_of(std::string_view word, const std::array<std::string_view, n>& list) {
    return std::find(list.begin(), list.end(), word) != list.end();
}

std::string_view base_name(std::string_view word) { return word.substr(word.rfind('/') + 1); }

bool is_assignment(std::string_view word) {
    const auto equals = word.find('=');
    return equals != std::string_view::npos && equals > 0 &&
           word.substr(0, equals).find_first_of("/-") == std::string_view::npos;
}

bool has_words(const Words& part, const Words& rule) {
    for (std::size_t begin = 0; begin < part.size(); ++begin) {
        if (base_name(part[begin]) != base_name(rule.front())) continue;
        std::size_t found = 1;
        for (std::size_t at = begin + 1; at < part.size() && found < rule.size(); ++at) {
            if (part[at] == rule[found]) ++found;
        }
        if (found == rule.size()) return true;
    }
    return false;
}

/// Returns true for a shell that reads its commands from its input, or from a text that is computed.
bool runs_unknown_text(const Words& part, std::size_t program) {
    if (!is_one_of(base_name(part[program]), shells)) return false;
    const auto rest = part.begin() + static_cast<std::ptrdiff_t>(program) + 1;
    if (std::find(rest, part.end(), "-c") != part.end())
        return std::any_of(rest, part.end(), [](const std::string& word) {
            return word.find('$') != std::string::npos;
        });
    return std::all_of(rest, part.end(),
                       [](const std::string& word) { return word.starts_with('-'); });
}

bool is_computed(const Words& part) {
    std::size_t program = 0;
    while (program < part.size() && is_assignment(part[program])) ++program;
    if (program == part.size()) return false;
    const std::string_view name = part[program];
    if (name == "[" || name == "[[") return false;
    return name.find_first_of(expanded) != std::string_view::npos || is_one_of(name, evaluators) ||
           runs_unknown_text(part, program);
}

/// Splits a command at blanks into words, and at operators into parts, without regard to quotes.
std::vector<Words> parts_of(std::string_view text) {
    std::vector<Words> parts(1);
    std::string word;
    bool in_backticks = false;
    const auto end_word = [&] {
        if (!word.empty()) parts.back().push_back(std::move(word));
        word.clear();
    };
    for (const char c : text) {
        if (c == ' ' || c == '\t' || c == '<' || c == '>') {
            end_word();
        } else if (c == '`') {
            // The output of a command follows or precedes: like $(.
            in_backticks = !in_backticks;
            if (in_backticks) word += '$';
            end_word();
            parts.emplace_back();
        } else if (separators.find(c) != std::string_view::npos) {
            end_word();
            parts.emplace_back();
        } else {
            word += c;
        }
    }
    end_word();
    return parts;
}

bool any_part_has(std::string_view text, const Words& rule) {
    const std::vector<Words> parts = parts_of(text);
    return std::any_of(parts.begin(), parts.end(),
                       [&](const Words& part) { return has_words(part, rule); });
}

}  // namespace

NamedCommand find_named_command(std::string_view command, const Words& words) {
    if (words.empty()) return NamedCommand::yes;
    // A line that continues is one line. Quotes are once separators (bash -c "rm x") and once nothing (r'm' x).
    std::string spaced;
    std::string joined;
    for (std::size_t i = 0; i < command.size(); ++i) {
        const char c = command[i];
        if (c == '\\') {
            if (i + 1 < command.size() && command[i + 1] == '\n') ++i;
            continue;
        }
        spaced += c == '\'' || c == '"' ? ';' : c;
        if (c != '\'' && c != '"') joined += c;
    }
    if (any_part_has(spaced, words) || any_part_has(joined, words)) return NamedCommand::yes;
    const std::vector<Words> parts = parts_of(joined);
    return std::any_of(parts.begin(), parts.end(), is_computed) ? NamedCommand::unknown
                                                                : NamedCommand::no;
}

}  // namespace cubepi::detail
