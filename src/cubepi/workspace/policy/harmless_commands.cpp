#include <cubepi/workspace/policy/harmless_commands.hpp>

#include <algorithm>
#include <array>
#include <string_view>

namespace cubepi::detail {

namespace {

using Words = std::vector<std::string>;

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
// user's own or that of the repository; a write to it always needs approval (policy/protected_path.hpp). Git finds the
// repository by the directory: hence `needs_directory`, so that another repository, which may come with a clone, is not used.
// Not listed are options that write (--output), run programs (--ext-diff, --open-files-in-pager, --show-signature,
// --upload-pack) or read outside (--no-index, --contents), subcommands that change anything, and `git -c`.
//
// cargo and go run the project's build, which may run programs of the project: approval of the command without options
// includes that. Options that name a program, a manifest, a configuration or an output (--config, --manifest-path, -exec,
// -toolexec, -vettool, -o, -C) are not listed.
constexpr std::string_view diff_flags =
    "-p --patch --stat --shortstat --numstat --summary --name-only --name-status --no-color "
    "--color=never "
    "-w --ignore-all-space -b --ignore-space-change --ignore-blank-lines --word-diff --check -M -C "
    "-U# -R "
    "-s --raw --minimal --patience --histogram --no-renames --no-ext-diff --no-textconv --no-patch "
    "--exit-code";
constexpr std::string_view log_flags =
    "-# --oneline --graph --decorate --no-decorate --all --branches --tags --remotes --no-merges "
    "--merges "
    "--reverse --follow --first-parent --abbrev-commit --no-abbrev-commit -i --relative-date "
    "--date=short "
    "--date=iso --date=relative --pretty=oneline --pretty=short --pretty=medium --pretty=full "
    "--pretty=fuller "
    "--format=oneline --format=short --format=medium --format=full --format=fuller";
constexpr std::string_view log_values =
    "-n --max-count= --skip= --since= --after= --until= --before= --author= --committer= --grep= "
    "--format=";

constexpr std::string_view cargo_flags =
    "--release -r --workspace --all --lib --bins --tests --examples --benches --all-targets "
    "--all-features "
    "--no-default-features --offline --locked --frozen -v -vv --verbose -q --quiet --keep-going";
constexpr std::string_view cargo_values =
    "-p --package= --features= --bin= --example= --test= -j --jobs= --profile=";
constexpr std::string_view go_flags = "-v -x -race -n -a -trimpath";

constexpr std::array entries = {
    Entry{"ls",
          "-a -A -l -h -t -r -R -S -1 -d -F -i -s -p -n -o -g -G -k -x -C -U -X --all --almost-all "
          "--human-readable --recursive --reverse --directory --classify --color=never --inode "
          "--size "
          "--group-directories-first --full-time",
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
          "--ignored "
          "--long -v -vv -z --show-stash --ahead-behind --no-ahead-behind --no-renames",
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
    Entry{
        "git ls-files",
        "-c -d -m -o -s -u -z -t --cached --deleted --modified --others --stage --exclude-standard "
        "--error-unmatch",
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

std::optional<ListedCommand> find_listed(const Words& words) {
    for (const Entry& entry : entries) {
        const std::size_t count = command_words(entry, words);
        if (count == 0) continue;
        if (!takes_rest(entry, words, count)) return std::nullopt;
        return ListedCommand{count, entry.needs_directory};
    }
    return std::nullopt;
}

}  // namespace cubepi::detail
