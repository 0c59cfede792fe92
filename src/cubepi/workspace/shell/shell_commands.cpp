#include <cubepi/workspace/shell/shell_commands.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <utility>

namespace cubepi::detail {

namespace {

using Words = std::vector<std::string>;

/// Characters that have no special meaning for a shell anywhere outside of quotes.
constexpr std::string_view plain =
    "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./:=@%+,^";

/// Splits a text at blanks, and stops at the first part that is not literal.
class LiteralReader {
public:
    explicit LiteralReader(std::string_view text) : text_(text) {}

    std::optional<std::vector<std::string>> words() {
        while (at_ < text_.size()) {
            if (!take(text_[at_++])) return std::nullopt;
        }
        end_word();
        return std::move(words_);
    }

private:
    bool take(char c) {
        if (c == ' ' || c == '\t') {
            end_word();
            return true;
        }
        const bool begins = !in_word_;
        in_word_ = true;
        if (c == '\'') return take_single_quoted();
        if (c == '"') return take_double_quoted();
        if (c == '\\') {
            if (at_ == text_.size() || text_[at_] < ' ' || text_[at_] == 0x7F) return false;
            word_ += text_[at_++];
            return true;
        }
        // A home directory: at the beginning, and after = and : (bash).
        if (c == '~') {
            if (begins || word_.empty() || word_.back() == '=' || word_.back() == ':') return false;
        } else if (c == '#') {
            if (begins) return false;
        } else if (plain.find(c) == std::string_view::npos) {
            return false;
        }
        word_ += c;
        return true;
    }

    bool take_single_quoted() {
        const auto end = text_.find('\'', at_);
        if (end == std::string_view::npos) return false;
        word_ += text_.substr(at_, end - at_);
        at_ = end + 1;
        return word_.find('\0') == std::string::npos;
    }

    bool take_double_quoted() {
        for (; at_ < text_.size(); ++at_) {
            char c = text_[at_];
            if (c == '"') {
                ++at_;
                return true;
            }
            if (c == '$' || c == '`' || c == '!' || c == '\0') return false;
            if (c == '\\' && at_ + 1 < text_.size()) {
                // Inside double quotes a backslash escapes only these (POSIX shell command language, 2.2.3), and a
                // line break, which then disappears.
                const char next = text_[at_ + 1];
                if (next == '\n') return false;
                if (std::string_view("$`\"\\").find(next) != std::string_view::npos) {
                    ++at_;
                    c = next;
                }
            }
            word_ += c;
        }
        return false;
    }

    void end_word() {
        if (in_word_) words_.push_back(std::move(word_));
        word_.clear();
        in_word_ = false;
    }

    const std::string_view text_;
    std::size_t at_ = 0;
    bool in_word_ = false;
    std::string word_;
    std::vector<std::string> words_;
};

struct Effect {
    std::string_view program;
    std::string_view words;  ///< alternatives, anywhere among its arguments; empty: always
    std::string_view text;
};

constexpr std::array effects = {
    Effect{"rm", "", "deletes files"},
    Effect{"rmdir", "", "deletes directories"},
    Effect{"unlink", "", "deletes files"},
    Effect{"shred", "", "overwrites files"},
    Effect{"srm", "", "deletes files"},
    Effect{"truncate", "", "cuts off files"},
    Effect{"dd", "", "overwrites files or disks"},
    Effect{"wipefs", "", "overwrites disks"},
    Effect{"fdisk", "", "changes partitions"},
    Effect{"sfdisk", "", "changes partitions"},
    Effect{"sgdisk", "", "changes partitions"},
    Effect{"parted", "", "changes partitions"},
    Effect{"mkswap", "", "overwrites disks"},
    Effect{"blkdiscard", "", "erases disks"},
    Effect{"cryptsetup", "", "changes encrypted disks"},
    Effect{"lvremove", "", "removes volumes"},
    Effect{"vgremove", "", "removes volumes"},
    Effect{"reboot", "", "restarts the machine"},
    Effect{"shutdown", "", "stops the machine"},
    Effect{"halt", "", "stops the machine"},
    Effect{"poweroff", "", "stops the machine"},
    Effect{"kill", "", "ends processes"},
    Effect{"pkill", "", "ends processes"},
    Effect{"killall", "", "ends processes"},
    Effect{"userdel", "", "removes users"},
    Effect{"groupdel", "", "removes groups"},
    Effect{"deluser", "", "removes users"},
    Effect{"passwd", "", "changes passwords"},
    Effect{"sendmail", "", "sends mail"},
    Effect{"mail", "", "sends mail"},
    Effect{"mutt", "", "sends mail"},
    Effect{"twine", "", "publishes packages"},
    Effect{"dropdb", "", "deletes databases"},
    Effect{"crontab", "-r", "removes scheduled jobs"},
    Effect{"find", "-delete", "deletes files"},
    Effect{"rsync",
           "--delete --delete-before --delete-after --delete-during --delete-excluded "
           "--remove-source-files",
           "deletes files"},
    Effect{"sed", "-i --in-place", "changes files in place"},
    Effect{"chmod", "-R --recursive", "changes permissions of whole trees"},
    Effect{"chown", "-R --recursive", "changes owners of whole trees"},
    Effect{"git", "push", "publishes commits"},
    Effect{"git", "clean", "deletes files that are not tracked"},
    Effect{"git", "restore checkout switch", "can discard changes"},
    Effect{"git", "rm", "deletes files"},
    Effect{"git", "reset --hard --merge --keep", "can discard changes and commits"},
    Effect{"git", "filter-branch filter-repo rebase", "rewrites history"},
    Effect{"git", "reflog update-ref gc prune", "can discard commits"},
    Effect{"git", "drop clear -D --delete --force", "can discard commits or changes"},
    Effect{"docker", "rm rmi prune kill down", "removes containers, images or volumes"},
    Effect{"docker", "push", "publishes images"},
    Effect{"podman", "rm rmi prune kill down", "removes containers, images or volumes"},
    Effect{"podman", "push", "publishes images"},
    Effect{"docker-compose", "rm down kill", "removes containers or volumes"},
    Effect{"kubectl", "delete drain scale replace", "removes or replaces what runs in a cluster"},
    Effect{"helm", "uninstall delete rollback", "removes what runs in a cluster"},
    Effect{"terraform", "destroy apply", "changes infrastructure"},
    Effect{"tofu", "destroy apply", "changes infrastructure"},
    Effect{"pulumi", "destroy up", "changes infrastructure"},
    Effect{"aws", "rm rb terminate-instances delete-bucket delete-object delete-stack",
           "deletes in the cloud"},
    Effect{"gcloud", "delete", "deletes in the cloud"},
    Effect{"az", "delete", "deletes in the cloud"},
    Effect{"npm", "publish unpublish deprecate", "publishes packages"},
    Effect{"yarn", "publish", "publishes packages"},
    Effect{"pnpm", "publish", "publishes packages"},
    Effect{"cargo", "publish yank", "publishes packages"},
    Effect{"gem", "push yank", "publishes packages"},
    Effect{"poetry", "publish", "publishes packages"},
    Effect{"uv", "publish", "publishes packages"},
    Effect{"gh", "merge delete close create edit", "changes what others see on GitHub"},
    Effect{"apt", "remove purge autoremove", "removes packages"},
    Effect{"apt-get", "remove purge autoremove", "removes packages"},
    Effect{"dnf", "remove erase", "removes packages"},
    Effect{"pacman", "-R -Rs -Rns", "removes packages"},
    Effect{"brew", "uninstall remove", "removes packages"},
    Effect{"systemctl", "stop disable mask kill poweroff reboot halt", "stops services"},
    Effect{"redis-cli", "flushall flushdb FLUSHALL FLUSHDB", "deletes databases"},
};

/// Programs that run the command in their arguments.
constexpr std::array<std::string_view, 27> runners = {
    "sudo",   "doas", "env",     "xargs",   "nohup", "time",     "timeout", "nice",   "ionice",
    "setsid", "exec", "command", "builtin", "eval",  "watch",    "find",    "strace", "bash",
    "sh",     "zsh",  "dash",    "ssh",     "su",    "parallel", "flock",   "stdbuf", "busybox"};

/// Words of a shell that precede a command.
constexpr std::array<std::string_view, 7> keywords = {"if",    "then",  "else", "elif",
                                                      "while", "until", "do"};

template <std::size_t n>
bool is_one_of(std::string_view word, const std::array<std::string_view, n>& list) {
    return std::find(list.begin(), list.end(), word) != list.end();
}

std::string_view base_name(std::string_view word) { return word.substr(word.rfind('/') + 1); }

bool is_assignment(std::string_view word) {
    const auto equals = word.find('=');
    return equals != std::string_view::npos && equals > 0 && word.find('/') > equals;
}

/// Returns the first alternative that occurs among the words; empty if there is none.
std::string_view find_any(const Words& words, std::string_view alternatives) {
    while (!alternatives.empty()) {
        const auto blank = alternatives.find(' ');
        const std::string_view word = alternatives.substr(0, blank);
        if (std::find(words.begin(), words.end(), word) != words.end()) return word;
        alternatives =
            blank == std::string_view::npos ? std::string_view() : alternatives.substr(blank + 1);
    }
    return {};
}

std::string effect_of(std::string_view program, const Words& words) {
    if (program.starts_with("mkfs")) return std::string(program) + " overwrites disks";
    for (const Effect& effect : effects) {
        if (effect.program != program) continue;
        if (effect.words.empty()) return std::string(program) + " " + std::string(effect.text);
        const std::string_view word = find_any(words, effect.words);
        if (!word.empty()) {
            return std::string(program) + " " + std::string(word) + " " + std::string(effect.text);
        }
    }
    return {};
}

std::string effect_of_segment(const Words& words) {
    std::size_t at = 0;
    while (at < words.size() && (is_assignment(words[at]) || is_one_of(words[at], keywords))) ++at;
    if (at == words.size()) return {};
    std::string effect = effect_of(base_name(words[at]), words);
    if (!effect.empty() || !is_one_of(base_name(words[at]), runners)) return effect;
    for (++at; at < words.size() && effect.empty(); ++at)
        effect = effect_of(base_name(words[at]), words);
    return effect;
}

/// Splits at blanks, and into segments at which another command may begin, and adds their effects. Ignores quotes.
void add_effects(std::vector<std::string>& found, std::string_view command) {
    Words words;
    std::string word;
    const auto end_word = [&] {
        if (!word.empty()) words.push_back(std::move(word));
        word.clear();
    };
    const auto end_segment = [&] {
        end_word();
        std::string effect = effect_of_segment(std::exchange(words, {}));
        const auto end = found.end();
        if (!effect.empty() && std::find(found.begin(), end, effect) == end)
            found.push_back(std::move(effect));
    };
    for (const char c : command) {
        if (c == ' ' || c == '\t') {
            end_word();
        } else if (std::string_view(";&|\n\r(){}`!").find(c) != std::string_view::npos) {
            end_segment();
        } else if (c != '\\') {
            word += c;
        }
    }
    end_segment();
}

/// Commands of a shell that run text as commands.
constexpr std::array<std::string_view, 3> evaluators = {"eval", "source", "."};
constexpr std::array<std::string_view, 5> shells = {"sh", "bash", "dash", "zsh", "ksh"};
/// Programs that run the command which follows their options.
constexpr std::array<std::string_view, 12> wrappers = {"env",   "command", "exec",    "xargs",
                                                       "nohup", "nice",    "timeout", "sudo",
                                                       "doas",  "stdbuf",  "setsid",  "builtin"};
constexpr std::string_view separators = ";&|\n\r(){}!";
/// In the name of a program, a shell replaces them.
constexpr std::string_view expanded = "$*?[~";

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
        skip([](std::string_view word) {
            const bool is_variable = is_assignment(word) && word.find('-') > word.find('=');
            return is_variable || is_one_of(word, keywords) || word == "time";
        });
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

enum class Operands { none, any_text, below };

/// A program, its subcommand, and every option that it may have. Lists are separated by blanks. An option must match as a
/// whole, so abbreviations are rejected; letters of `flags` may be combined (-la); # is a decimal number.
struct Entry {
    std::string_view command;
    std::string_view flags;  ///< options without a value, or with this one (--color=never)
    std::string_view
        values;  ///< "-n" takes the next word as its value, "--max-count=" what follows the =
    Operands operands = Operands::none;
    bool needs_directory = false;
};

// Conditions for an entry: with these options the program
//   1. runs no other program that its arguments name,
//   2. writes no file that its arguments name,
//   3. prints no content of a file outside of the directory; programs that print files (cat, grep, sort, diff) are not listed
//      at all, because the tools `read` and `grep` do that inside of the workspace without approval.
// Operands are relative, without "..".
//
// git runs programs named in its configuration (core.fsmonitor, diff.*.textconv, filters, hooks). That configuration is the
// user's own or that of the repository; a write to it always needs approval (tool_rules.cpp). Git finds the
// repository by the directory: hence `needs_directory`, so that another repository, which may come with a clone, is not used.
// Not listed are options that write (--output), run programs (--ext-diff, --open-files-in-pager, --show-signature,
// --upload-pack) or read outside (--no-index, --contents), subcommands that change anything, and `git -c`.
//
// cargo and go run the project's build, which may run programs of the project: approval of the command without options
// includes that. Options that name a program, a manifest, a configuration or an output (--config, --manifest-path, -exec,
// -toolexec, -vettool, -o, -C) are not listed.
constexpr std::string_view diff_flags =
    "-p --patch --stat --shortstat --numstat --summary --name-only --name-status --no-color "
    "--color=never -w --ignore-all-space -b --ignore-space-change --ignore-blank-lines --word-diff "
    "--check -M -C -U# -R -s --raw --minimal --patience --histogram --no-renames --no-ext-diff "
    "--no-textconv --no-patch --exit-code";
constexpr std::string_view log_flags =
    "-# --oneline --graph --decorate --no-decorate --all --branches --tags --remotes --no-merges "
    "--merges --reverse --follow --first-parent --abbrev-commit --no-abbrev-commit -i "
    "--relative-date --date=short --date=iso --date=relative --pretty=oneline --pretty=short "
    "--pretty=medium --pretty=full --pretty=fuller --format=oneline --format=short --format=medium "
    "--format=full --format=fuller";
constexpr std::string_view log_values =
    "-n --max-count= --skip= --since= --after= --until= --before= --author= --committer= --grep= "
    "--format=";

constexpr std::string_view cargo_flags =
    "--release -r --workspace --all --lib --bins --tests --examples --benches --all-targets "
    "--all-features --no-default-features --offline --locked --frozen -v -vv --verbose -q --quiet "
    "--keep-going";
constexpr std::string_view cargo_values =
    "-p --package= --features= --bin= --example= --test= -j --jobs= --profile=";
constexpr std::string_view go_flags = "-v -x -race -n -a -trimpath";

constexpr std::array entries = {
    Entry{"ls",
          "-a -A -l -h -t -r -R -S -1 -d -F -i -s -p -n -o -g -G -k -x -C -U -X --all --almost-all "
          "--human-readable --recursive --reverse --directory --classify --color=never --inode "
          "--size --group-directories-first --full-time",
          "", Operands::below},
    Entry{"pwd", "-L -P", "", Operands::none},
    Entry{"echo", "-n -e -E", "", Operands::any_text},
    Entry{"whoami", "", "", Operands::none},
    Entry{"id", "-u -g -G -n", "", Operands::none},
    Entry{"uname", "-a -s -r -m -n -v -p -o -i", "", Operands::none},
    Entry{"date", "-u -I -R --utc --iso-8601 --rfc-email", "", Operands::none},
    Entry{"which", "-a", "", Operands::below},
    Entry{"stat", "-t -L", "", Operands::below},
    Entry{"du", "-s -h -a -c -k -m -b --summarize --human-readable --apparent-size",
          "-d --max-depth=", Operands::below},
    Entry{"df", "-h -k -m -T -i --human-readable", "", Operands::below},
    Entry{"wc", "-l -w -c -m -L --lines --words --bytes --chars", "", Operands::below},
    Entry{"git status",
          "-s --short -b --branch --porcelain --porcelain=v1 --porcelain=v2 -u -uno -unormal -uall "
          "--untracked-files --untracked-files=no --untracked-files=normal --untracked-files=all "
          "--ignored --long -v -vv -z --show-stash --ahead-behind --no-ahead-behind --no-renames",
          "", Operands::below, true},
    Entry{"git diff", "--cached --staged --merge-base",
          "--diff-filter= --unified=", Operands::below, true},
    Entry{"git log", "", "--diff-filter= --unified=", Operands::below, true},
    Entry{"git show", "", "--diff-filter= --unified=", Operands::below, true},
    Entry{"git branch", "-a -r -v -vv --all --remotes --verbose --list --show-current --no-color",
          "", Operands::none, true},
    Entry{"git tag", "-l --list", "", Operands::none, true},
    Entry{"git stash list", "", "", Operands::none, true},
    Entry{"git rev-parse",
          "--show-toplevel --abbrev-ref --short --verify --quiet --is-inside-work-tree --git-dir "
          "--show-prefix --show-cdup",
          "", Operands::below, true},
    Entry{"git ls-files",
          "-c -d -m -o -s -u -z -t --cached --deleted --modified --others --stage "
          "--exclude-standard --error-unmatch",
          "", Operands::below, true},
    Entry{"git blame", "-w -s -e -l -t -M -C --porcelain --line-porcelain --date=short", "-L",
          Operands::below, true},
    Entry{"git describe", "--tags --always --long --all --exact-match",
          "--abbrev=", Operands::below, true},
    Entry{"cargo build", "", "", Operands::none, true},
    Entry{"cargo check", "", "", Operands::none, true},
    Entry{"cargo test", "--no-run --no-fail-fast --doc", "", Operands::below, true},
    Entry{"go build", "", "", Operands::below, true},
    Entry{"go vet", "", "", Operands::below, true},
    Entry{"go test", "-short -cover -json -failfast -benchmem",
          "-run -run= -bench -bench= -count -count= -timeout -timeout= -parallel -parallel=",
          Operands::below, true},
};

/// Calls `each` for the parts of a list; true when one of them returns true.
template <class Each>
bool any_of_list(std::string_view list, Each each) {
    while (!list.empty()) {
        const auto blank = list.find(' ');
        const std::string_view part = list.substr(0, blank);
        if (!part.empty() && each(part)) return true;
        list = blank == std::string_view::npos ? std::string_view() : list.substr(blank + 1);
    }
    return false;
}

bool is_number(std::string_view text) {
    return !text.empty() && text.size() < 10 &&
           text.find_first_not_of("0123456789") == std::string_view::npos;
}

/// Options shared by several entries: diff options for log and show.
struct Options {
    std::array<std::string_view, 3> flags;
    std::array<std::string_view, 2> values;
};

Options options_of(const Entry& entry) {
    Options options{{entry.flags}, {entry.values}};
    const std::string_view command = entry.command;
    const bool log = command == "git log" || command == "git show";
    if (log) {
        options.flags[1] = log_flags;
        options.values[1] = log_values;
    }
    if (log || command == "git diff") options.flags[2] = diff_flags;
    if (command.starts_with("cargo ")) {
        options.flags[1] = cargo_flags;
        options.values[1] = cargo_values;
    }
    if (command.starts_with("go ")) {
        options.flags[1] = go_flags;
    }
    return options;
}

bool has_flag(const Options& options, std::string_view word) {
    return std::any_of(options.flags.begin(), options.flags.end(), [&](std::string_view list) {
        return any_of_list(list, [&](std::string_view flag) {
            if (!flag.ends_with('#')) return flag == word;
            flag.remove_suffix(1);
            return word.starts_with(flag) && is_number(word.substr(flag.size()));
        });
    });
}

/// Whether every letter of combined flags (-la) is allowed.
bool is_cluster(const Options& options, std::string_view word) {
    if (word.size() < 3 || word[0] != '-' || word[1] == '-') return false;
    return std::all_of(word.begin() + 1, word.end(), [&](char letter) {
        const char flag[] = {'-', letter};
        return has_flag(options, std::string_view(flag, 2));
    });
}

/// Whether a format of git contains only placeholders known to be harmless: not %G, which runs gpg, nor %(.
bool is_plain_format(std::string_view format) {
    for (std::size_t at = format.find('%'); at != std::string_view::npos;
         at = format.find('%', at + 2)) {
        if (at + 1 == format.size() ||
            std::string_view("hHtTpPabBcsdDnNx%").find(format[at + 1]) == std::string_view::npos) {
            return false;
        }
    }
    return true;
}

bool has_value_option(const Options& options, std::string_view name) {
    return std::any_of(options.values.begin(), options.values.end(), [&](std::string_view list) {
        return any_of_list(list, [&](std::string_view option) { return option == name; });
    });
}

/// Whether an option with its value is allowed: --max-count=5
bool is_option_with_value(const Options& options, std::string_view word) {
    const auto equals = word.find('=');
    if (equals == std::string_view::npos) return false;
    const std::string_view name = word.substr(0, equals + 1);
    if (!has_value_option(options, name)) return false;
    return name != "--format=" || is_plain_format(word.substr(equals + 1));
}

/// Whether an operand is relative and without ".." between slashes or after a revision (HEAD:../x).
bool stays_below(std::string_view operand) {
    if (operand.empty() || operand.front() == '/' || operand.front() == '~') return false;
    while (!operand.empty()) {
        const auto end = operand.find_first_of("/:");
        if (operand.substr(0, end) == "..") return false;
        operand = end == std::string_view::npos ? std::string_view() : operand.substr(end + 1);
    }
    return true;
}

bool takes_operand(const Entry& entry, std::string_view word) {
    switch (entry.operands) {
        case Operands::none: return false;
        case Operands::any_text: return true;
        case Operands::below: return stays_below(word);
    }
    return false;
}

/// Returns the number of words of the entry's command if `words` begin with it, else 0.
std::size_t command_words(const Entry& entry, const Words& words) {
    std::size_t count = 0;
    const bool differs = any_of_list(entry.command, [&](std::string_view part) {
        return count == words.size() || words[count++] != part;
    });
    return differs ? 0 : count;
}

bool takes_rest(const Entry& entry, const Words& words, std::size_t from) {
    const Options options = options_of(entry);
    bool only_operands = false;
    for (std::size_t at = from; at < words.size(); ++at) {
        const std::string_view word = words[at];
        if (!word.starts_with('-')) {
            if (!takes_operand(entry, word)) return false;
        } else if (only_operands) {
            return false;
        } else if (word == "--") {
            only_operands = true;
        } else if (has_value_option(options, word)) {
            if (++at == words.size() || words[at].starts_with('-')) return false;
        } else if (!has_flag(options, word) && !is_cluster(options, word) &&
                   !is_option_with_value(options, word)) {
            return false;
        }
    }
    return true;
}

}  // namespace

std::optional<std::vector<std::string>> literal_words(std::string_view text) {
    return LiteralReader(text).words();
}

std::string quote_shell_word(std::string_view word) {
    if (!word.empty() && word.find_first_not_of(plain) == std::string_view::npos)
        return std::string(word);
    std::string quoted = "'";
    for (const char c : word) {
        if (c == '\'')
            quoted += "'\\''";
        else
            quoted += c;
    }
    return quoted + "'";
}

std::string known_effect(std::string_view command) {
    // Once with quotes as separators (bash -c "rm x") and once without them (r'm' x).
    std::string spaced(command);
    std::string joined;
    for (char& c : spaced) {
        if (c == '\'' || c == '"')
            c = ';';
        else
            joined += c;
    }
    std::vector<std::string> found;
    add_effects(found, spaced);
    add_effects(found, joined);
    constexpr std::size_t most = 4;
    std::string text;
    for (std::size_t i = 0; i < found.size() && i < most; ++i)
        text += (i == 0 ? "" : "; ") + found[i];
    return found.size() <= most ? text
                                : text + "; and " + std::to_string(found.size() - most) + " more";
}

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

std::optional<ListedCommand> find_listed(const Words& words) {
    for (const Entry& entry : entries) {
        const std::size_t count = command_words(entry, words);
        if (count == 0) continue;
        if (!takes_rest(entry, words, count)) return std::nullopt;
        const bool builds = entry.command.starts_with("cargo ") || entry.command.starts_with("go ");
        return ListedCommand{count, entry.needs_directory, !builds};
    }
    return std::nullopt;
}

}  // namespace cubepi::detail
