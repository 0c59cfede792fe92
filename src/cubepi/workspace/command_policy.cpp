#include <cubepi/workspace/command_policy.hpp>

#include <algorithm>
#include <array>

#include <cubepi/core/error.hpp>
#include <cubepi/workspace/detail/shell_words.hpp>

namespace cubepi {

namespace {

using Words = std::vector<std::string>;

template <std::size_t n>
bool is_one_of(std::string_view word, const std::array<std::string_view, n>& list) {
    return std::find(list.begin(), list.end(), word) != list.end();
}

/// Programs that only read and print, with whatever arguments.
constexpr std::array<std::string_view, 20> readers = {
    "ls", "cat",   "head", "tail",     "grep",    "wc",       "pwd",    "echo", "stat",  "du",
    "df", "which", "file", "basename", "dirname", "realpath", "whoami", "id",   "uname", "cmp"};

/// Programs whose first argument says what they do.
constexpr std::array<std::string_view, 22> with_subcommands = {
    "git",     "npm",    "yarn",   "pnpm",  "cargo", "go",       "docker", "podman",
    "kubectl", "helm",   "pip",    "pip3",  "uv",    "poetry",   "apt",    "brew",
    "gh",      "dotnet", "rustup", "conan", "meson", "systemctl"};

/// Subcommands that are followed by another: npm run build.
constexpr std::array<std::string_view, 12> with_second_word = {
    "run",   "exec", "compose", "image", "container", "pr",
    "issue", "tool", "remote",  "stash", "config",    "worktree"};

/// Programs that run what their arguments say.
constexpr std::array<std::string_view, 26> runners = {
    "sudo",   "doas", "env",     "xargs",   "nohup", "time",     "timeout", "nice",   "ionice",
    "setsid", "exec", "command", "builtin", "eval",  "watch",    "find",    "strace", "bash",
    "sh",     "zsh",  "dash",    "ssh",     "su",    "parallel", "flock",   "stdbuf"};

constexpr std::array<std::string_view, 24> destroyers = {
    "rm",       "rmdir",   "unlink",   "shred",   "srm",      "dd",     "wipefs",   "fdisk",
    "sfdisk",   "sgdisk",  "parted",   "mkswap",  "truncate", "reboot", "shutdown", "halt",
    "poweroff", "userdel", "groupdel", "deluser", "sendmail", "mail",   "mutt",     "twine"};

struct Destroying {
    std::string_view program;
    std::string_view word;  ///< anywhere among its arguments
};

constexpr std::array destroying = {
    Destroying{"git", "push"},          Destroying{"git", "clean"},
    Destroying{"git", "restore"},       Destroying{"git", "rm"},
    Destroying{"git", "--hard"},        Destroying{"git", "filter-branch"},
    Destroying{"git", "filter-repo"},   Destroying{"git", "reflog"},
    Destroying{"git", "update-ref"},    Destroying{"git", "checkout"},
    Destroying{"git", "drop"},          Destroying{"git", "-D"},
    Destroying{"git", "--delete"},      Destroying{"git", "gc"},
    Destroying{"git", "prune"},         Destroying{"git", "--force"},
    Destroying{"docker", "rm"},         Destroying{"docker", "rmi"},
    Destroying{"docker", "prune"},      Destroying{"docker", "push"},
    Destroying{"podman", "rm"},         Destroying{"podman", "rmi"},
    Destroying{"podman", "prune"},      Destroying{"podman", "push"},
    Destroying{"kubectl", "delete"},    Destroying{"kubectl", "drain"},
    Destroying{"helm", "uninstall"},    Destroying{"helm", "delete"},
    Destroying{"terraform", "destroy"}, Destroying{"terraform", "apply"},
    Destroying{"npm", "publish"},       Destroying{"npm", "unpublish"},
    Destroying{"yarn", "publish"},      Destroying{"pnpm", "publish"},
    Destroying{"cargo", "publish"},     Destroying{"cargo", "yank"},
    Destroying{"gh", "merge"},          Destroying{"gh", "delete"},
    Destroying{"gh", "release"},        Destroying{"apt", "remove"},
    Destroying{"apt", "purge"},         Destroying{"apt-get", "remove"},
    Destroying{"apt-get", "purge"},     Destroying{"aws", "rm"},
    Destroying{"crontab", "-r"},        Destroying{"find", "-delete"},
    Destroying{"rsync", "--delete"},    Destroying{"dropdb", ""},
};

/// Programs that without a script run what they are told.
constexpr std::array<std::string_view, 7> interpreters = {"python", "python3", "node", "perl",
                                                          "ruby",   "php",     "lua"};

struct Loophole {
    std::string_view program;
    std::string_view option;
};

/// Options with which a harmless program runs another one, or writes where it should read.
constexpr std::array loopholes = {
    Loophole{"find", "-exec"},
    Loophole{"find", "-execdir"},
    Loophole{"find", "-ok"},
    Loophole{"find", "-okdir"},
    Loophole{"find", "-delete"},
    Loophole{"find", "-fprint"},
    Loophole{"find", "-fprint0"},
    Loophole{"find", "-fprintf"},
    Loophole{"find", "-fls"},
    Loophole{"git", "--output"},
    Loophole{"git", "--open-files-in-pager"},
    Loophole{"git", "-O"},
    Loophole{"git", "--exec"},
    Loophole{"git", "--upload-pack"},
    Loophole{"git", "--receive-pack"},
    Loophole{"sort", "--output"},
    Loophole{"sort", "-o"},
    Loophole{"sort", "--compress-program"},
    Loophole{"rg", "--pre"},
    Loophole{"tar", "--to-command"},
    Loophole{"tar", "--checkpoint-action"},
    Loophole{"tar", "--use-compress-program"},
    Loophole{"tar", "-I"},
};

std::string_view base_name(std::string_view word) { return word.substr(word.rfind('/') + 1); }

bool is_assignment(std::string_view word) {
    const auto equals = word.find('=');
    return equals != std::string_view::npos && equals > 0 && word.find('/') > equals;
}

bool destroys(std::string_view program, const Words& words) {
    if (is_one_of(program, destroyers) || program.starts_with("mkfs")) return true;
    return std::any_of(destroying.begin(), destroying.end(), [&](const Destroying& entry) {
        return entry.program == program &&
               (entry.word.empty() ||
                std::find(words.begin(), words.end(), entry.word) != words.end());
    });
}

/// Whether `word` is `option`: also abbreviated and with a value (--out=x), or as one letter of several (-lO).
bool is_option(std::string_view word, std::string_view option) {
    if (option.starts_with("--")) {
        const auto name = word.substr(0, word.find('='));
        return name.size() > 2 && option.starts_with(name);
    }
    if (option.size() > 2) return word == option;
    return word.starts_with('-') && !word.starts_with("--") &&
           word.find(option.back()) != std::string_view::npos;
}

/// Whether what follows the words of a rule makes more of the command than the rule says.
bool outgrows(const CommandRule& rule, const Words& words) {
    const auto program = base_name(words.front());
    return std::any_of(
        words.begin() + static_cast<std::ptrdiff_t>(rule.words.size()), words.end(),
        [&](const std::string& word) {
            return std::any_of(loopholes.begin(), loopholes.end(), [&](const Loophole& loophole) {
                return loophole.program == program && is_option(word, loophole.option);
            });
        });
}

bool segment_destroys(const Words& words) {
    std::size_t at = 0;
    static constexpr std::array<std::string_view, 7> before = {"if",    "then",  "else", "elif",
                                                               "while", "until", "do"};
    while (at < words.size() && (is_assignment(words[at]) || is_one_of(words[at], before))) ++at;
    if (at == words.size()) return false;
    if (destroys(base_name(words[at]), words)) return true;
    if (!is_one_of(base_name(words[at]), runners)) return false;
    return std::any_of(words.begin() + static_cast<std::ptrdiff_t>(at) + 1, words.end(),
                       [&](const std::string& word) { return destroys(base_name(word), words); });
}

/// Splits at blanks, and into segments where another command may begin. Knows nothing of quotes.
bool any_segment_destroys(std::string_view command) {
    Words words;
    std::string word;
    const auto end_word = [&] {
        if (!word.empty()) words.push_back(std::move(word));
        word.clear();
    };
    for (const char c : command) {
        if (c == ' ' || c == '\t') {
            end_word();
        } else if (std::string_view(";&|\n\r(){}`!").find(c) != std::string_view::npos) {
            end_word();
            if (segment_destroys(words)) return true;
            words.clear();
        } else if (c != '\\') {
            word += c;
        }
    }
    end_word();
    return segment_destroys(words);
}

bool is_subcommand(std::string_view word) {
    return !word.empty() && word[0] >= 'a' && word[0] <= 'z' &&
           word.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789-:_") ==
               std::string_view::npos;
}

/// A program that runs what its arguments say, before any of them says what: env, timeout 5.
bool runs_whatever_follows(const Words& words) {
    const auto program = base_name(words.front());
    if (program == "find") return false;  // whose arguments are looked at, one by one
    const bool runner = is_one_of(program, runners);
    if (!runner && !is_one_of(program, interpreters)) return false;
    return std::all_of(words.begin() + 1, words.end(), [&](const std::string& word) {
        return word.starts_with('-') ||
               (runner && (is_assignment(word) || (word[0] >= '0' && word[0] <= '9')));
    });
}

}  // namespace

std::string CommandRule::text() const {
    std::string text;
    for (const auto& word : words) {
        if (!text.empty()) text += ' ';
        text += detail::quote_shell_word(word);
    }
    return text;
}

CommandRule CommandRule::parse(std::string_view text) {
    auto words = simple_command(text);
    if (!words) {
        throw Error(ErrorCode::invalid_argument,
                    "\"" + std::string(text) +
                        "\" is no rule for commands. A rule is a program and the arguments that "
                        "must follow it, such as "
                        "git status, without ; & | < > $( ${ $[ or backticks.");
    }
    CommandRule rule;
    rule.words = std::move(*words);
    return rule;
}

std::optional<std::vector<std::string>> simple_command(std::string_view command) {
    if (command.find_first_of(std::string_view(";&|\n\r<>`\0", 9)) != std::string_view::npos)
        return std::nullopt;
    // ${x:=...} ${x@P} runs a command that is nowhere written as one, and so do subscripts in $[...].
    for (const char* expansion : {"$(", "${", "$["}) {
        if (command.find(expansion) != std::string_view::npos) return std::nullopt;
    }
    auto words = detail::split_shell_words(command);
    if (!words || words->empty()) return std::nullopt;
    const std::string& program = words->front();
    if (program.empty() || is_assignment(program)) return std::nullopt;
    // A program's name that the shell would first have to work out, or a word with which it begins something else.
    if (program.find_first_of("$*?[](){}~!#\\'\" \t") != std::string::npos) return std::nullopt;
    static constexpr std::array<std::string_view, 15> reserved = {
        "if",   "then",  "else",  "elif", "fi", "do",       "done",  "case",
        "esac", "while", "until", "for",  "in", "function", "coproc"};
    if (is_one_of(program, reserved)) return std::nullopt;
    return words;
}

void CommandPolicy::allow(CommandRule rule) {
    if (rule.words.empty())
        throw Error(ErrorCode::invalid_argument, "A rule for commands needs a program.");
    if (std::find(rules_.begin(), rules_.end(), rule) == rules_.end())
        rules_.push_back(std::move(rule));
}

bool CommandPolicy::allows(std::string_view command) const {
    const auto words = simple_command(command);
    if (!words) return false;
    const bool irreversible = command_risk(command) == ToolRisk::irreversible;
    return std::any_of(rules_.begin(), rules_.end(), [&](const CommandRule& rule) {
        if (rule.words.size() > words->size() ||
            !std::equal(rule.words.begin(), rule.words.end(), words->begin())) {
            return false;
        }
        if (irreversible && command_risk(rule.text()) != ToolRisk::irreversible) return false;
        return !outgrows(rule, *words);
    });
}

ToolRisk command_risk(std::string_view command) {
    // Once with quotes as borders (bash -c "rm x") and once without them (r'm' x).
    std::string spaced(command);
    std::string joined;
    for (char& c : spaced) {
        if (c == '\'' || c == '"')
            c = ';';
        else
            joined += c;
    }
    const bool destroys = any_segment_destroys(spaced) || any_segment_destroys(joined);
    return destroys ? ToolRisk::irreversible : ToolRisk::writes;
}

std::optional<CommandRule> rule_for(std::string_view command) {
    if (command_risk(command) == ToolRisk::irreversible) return std::nullopt;
    auto words = simple_command(command);
    if (!words || runs_whatever_follows(*words)) return std::nullopt;
    const std::string& program = words->front();
    std::size_t count = words->size();
    if (is_one_of(program, readers)) {
        count = 1;
    } else if (is_one_of(program, with_subcommands) && words->size() > 1 &&
               is_subcommand((*words)[1])) {
        count = 2;
        if (words->size() > 2 && is_one_of((*words)[1], with_second_word)) {
            // Without a plain word there the rule would allow to run anything.
            count = is_subcommand((*words)[2]) ? 3 : words->size();
        }
    }
    words->resize(count);
    CommandRule rule;
    rule.words = std::move(*words);
    return rule;
}

}  // namespace cubepi
