#include <cubepi/workspace/shell/named_commands.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <utility>

namespace cubepi::detail {

namespace {

using Words = std::vector<std::string>;

/// Commands of a shell that run text as commands.
constexpr std::array<std::string_view, 3> evaluators = {"eval", "source", "."};
constexpr std::array<std::string_view, 5> shells = {"sh", "bash", "dash", "zsh", "ksh"};
/// Words of a shell that precede a command.
constexpr std::array<std::string_view, 8> keywords = {"if", "then",  "else",  "elif",
                                                      "do", "while", "until", "time"};
/// Programs that run the command which follows their options.
constexpr std::array<std::string_view, 12> wrappers = {"env",   "command", "exec",    "xargs",
                                                       "nohup", "nice",    "timeout", "sudo",
                                                       "doas",  "stdbuf",  "setsid",  "builtin"};
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
    const bool has_text = std::any_of(rest, part.end(), [](const std::string& word) {
        return word.starts_with('-') && !word.starts_with("--") &&
               word.find('c') != std::string::npos;
    });
    if (has_text)
        return std::any_of(rest, part.end(), [](const std::string& word) {
            return word.find('$') != std::string::npos;
        });
    return std::all_of(rest, part.end(),
                       [](const std::string& word) { return word.starts_with('-'); });
}

/// Returns true if the program of a part, or the arguments of the rule's program, are computed when it runs.
bool is_computed(const Words& part, const Words& rule) {
    std::size_t program = 0;
    bool reads_arguments = false;
    const auto skip = [&](const auto& is_skipped) {
        while (program < part.size() && is_skipped(std::string_view(part[program]))) ++program;
    };
    for (;;) {
        skip(
            [](std::string_view word) { return is_assignment(word) || is_one_of(word, keywords); });
        if (program == part.size()) return false;
        const std::string_view wrapper = base_name(part[program]);
        if (!is_one_of(wrapper, wrappers)) break;
        reads_arguments = reads_arguments || wrapper == "xargs";
        ++program;
        skip([](std::string_view word) {
            return word.starts_with('-') || (word.front() >= '0' && word.front() <= '9');
        });
    }
    const std::string_view name = part[program];
    if (name == "[" || name == "[[") return false;
    const auto rest = part.begin() + static_cast<std::ptrdiff_t>(program) + 1;
    const bool is_computed_argument =
        reads_arguments || std::any_of(rest, part.end(), [](const std::string& word) {
            return word.find('$') != std::string::npos;
        });
    if (is_computed_argument && rule.size() > 1 && base_name(name) == base_name(rule.front()))
        return true;
    return name.find_first_of(expanded) != std::string_view::npos || is_one_of(name, evaluators) ||
           runs_unknown_text(part, program);
}

/// Splits a command at blanks into words, and at operators into parts, without regard to quotes.
std::vector<Words> parts_of(std::string_view text) {
    std::vector<Words> parts(1);
    std::string word;
    bool in_backticks = false;
    bool is_target = false;  // of a redirection
    const auto end_word = [&] {
        if (word.empty()) return;
        if (!std::exchange(is_target, false)) parts.back().push_back(std::move(word));
        word.clear();
    };
    for (const char c : text) {
        if (c == ' ' || c == '\t') {
            end_word();
        } else if (c == '<' || c == '>') {
            // The number before it is that of a descriptor.
            if (word.find_first_not_of("0123456789") == std::string::npos) word.clear();
            end_word();
            is_target = true;
        } else if (c == '`') {
            // The output of a command follows or precedes: like $(.
            in_backticks = !in_backticks;
            if (in_backticks) word += '$';
            end_word();
            parts.emplace_back();
        } else if (c == '&' && is_target && word.empty()) {
            // A descriptor is the target.
            continue;
        } else if (separators.find(c) != std::string_view::npos) {
            end_word();
            is_target = false;
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
    const bool is_unknown = std::any_of(parts.begin(), parts.end(), [&words](const Words& part) {
        return is_computed(part, words);
    });
    return is_unknown ? NamedCommand::unknown : NamedCommand::no;
}

}  // namespace cubepi::detail
