// A rule and a command, each on a line: compares the decision with that of a second, simpler implementation.
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <cubepi/core/error.hpp>
#include <cubepi/workspace/command_policy.hpp>

#include "fuzz_check.hpp"

namespace {

using namespace cubepi;

using Words = std::vector<std::string>;

constexpr std::string_view here = "/src/app";

/// Splits at blanks that are not quoted or escaped. Only for commands that a rule has allowed.
Words split(std::string_view command) {
    Words words;
    bool open = false;
    char quote = 0;
    for (std::size_t at = 0; at < command.size(); ++at) {
        const char c = command[at];
        if (quote == 0 && (c == ' ' || c == '\t')) {
            open = false;
            continue;
        }
        if (!open) words.emplace_back();
        open = true;
        if (quote == 0 && (c == '\'' || c == '"')) {
            quote = c;
        } else if (c == quote) {
            quote = 0;
        } else {
            const bool escapes = c == '\\' && quote != '\'' && at + 1 < command.size() &&
                                 (quote == 0 || command[at + 1] == '"' || command[at + 1] == '\\' ||
                                  command[at + 1] == '$' || command[at + 1] == '`');
            words.back() += escapes ? command[++at] : c;
        }
    }
    return words;
}

/// True if a shell would expand something or begin a second command.
bool needs_a_shell(std::string_view command) {
    char quote = 0;
    for (std::size_t at = 0; at < command.size(); ++at) {
        const char c = command[at];
        if (std::string_view(";&|<>\n\r`\0", 9).find(c) != std::string_view::npos) return true;
        if (c == '\\' && quote != '\'') {
            ++at;
        } else if (quote == 0 && (c == '\'' || c == '"')) {
            quote = c;
        } else if (quote != 0 && c == quote) {
            quote = 0;
        } else if (quote == '"' && c == '$') {
            return true;
        } else if (quote == 0 && std::string_view("$*?[]{}()").find(c) != std::string_view::npos) {
            return true;
        }
    }
    return quote != 0;
}

/// Options that run, write or read elsewhere; git and others accept abbreviations of long options.
constexpr std::array<std::string_view, 26> dangerous = {
    "--output",        "--ext-diff", "--textconv",       "--no-index",    "--open-files-in-pager",
    "--exec",          "--git-dir",  "--work-tree",      "--config",      "--config-env",
    "--upload-pack",   "--contents", "--exclude-from",   "--hard",        "--delete",
    "--force",         "--manifest", "--target-dir",     "--files0-from", "--show-signature",
    "--manifest-path", "--stdin",    "--upload-archive", "--exec-path",   "--edit-description",
    "--parseopt"};

bool is_dangerous(const std::string& word) {
    if (word.starts_with("-exec") || word.starts_with("-toolexec") ||
        word.starts_with("-vettool") || word.starts_with("-overlay") ||
        word.starts_with("-modfile")) {
        return true;
    }
    if (!word.starts_with("--") || word.size() < 4) return false;
    const std::string name = word.substr(0, word.find('='));
    // --exclude-standard and --show-stash begin like others, but are complete names themselves.
    return std::any_of(dangerous.begin(), dangerous.end(),
                       [&](std::string_view option) { return option.starts_with(name); });
}

bool leaves(std::string_view operand) {
    return operand.starts_with('/') || operand == ".." || operand.starts_with("../") ||
           operand.ends_with("/..") || operand.find("/../") != std::string_view::npos ||
           operand.find(":../") != std::string_view::npos || operand.ends_with(":..");
}

/// Whether a rule with a star may allow the words: a known program, no dangerous option, no path outside.
bool is_harmless(const Words& words) {
    static constexpr std::array<std::string_view, 15> programs = {
        "ls",   "pwd", "echo", "whoami", "id",  "uname", "date", "which",
        "stat", "du",  "df",   "wc",     "git", "cargo", "go"};
    if (std::find(programs.begin(), programs.end(), words.front()) == programs.end()) return false;
    if (words.front() == "echo") return true;
    if (words.front() == "git" && (words.size() < 2 || words[1].starts_with('-'))) return false;
    bool value = false;
    for (std::size_t at = 1; at < words.size(); ++at) {
        const std::string& word = words[at];
        if (is_dangerous(word)) return false;
        if (!value && !word.starts_with('-') && leaves(word)) return false;
        value = word.starts_with('-');
    }
    return true;
}

std::optional<CommandRule> parse(std::string_view text) {
    try {
        return CommandRule::parse(text);
    } catch (const Error& error) {
        CUBEPI_FUZZ_CHECK(error.code() == ErrorCode::invalid_argument);
        return std::nullopt;
    }
}

void check_match(const CommandRule& rule, std::string_view command, std::string_view directory) {
    CommandPolicy policy;
    policy.allow(rule);
    if (!policy.allows(command, directory)) return;
    CUBEPI_FUZZ_CHECK(!needs_a_shell(command));
    const Words words = split(command);
    CUBEPI_FUZZ_CHECK(rule.problem().empty());
    CUBEPI_FUZZ_CHECK(words.size() >= rule.words.size());
    CUBEPI_FUZZ_CHECK(std::equal(rule.words.begin(), rule.words.end(), words.begin()));
    if (rule.with_arguments)
        CUBEPI_FUZZ_CHECK(is_harmless(words));
    else
        CUBEPI_FUZZ_CHECK(words.size() == rule.words.size());
    CUBEPI_FUZZ_CHECK(rule.directory.empty() || rule.directory == "*" ||
                      rule.directory == directory);
}

void check_offer(std::string_view command) {
    const std::optional<CommandRule> offered = rule_for(command, here);
    if (!offered) return;
    CUBEPI_FUZZ_CHECK(CommandRule::parse(offered->text()) == *offered);
    CUBEPI_FUZZ_CHECK(offered->problem().empty());
    CommandPolicy policy;
    policy.allow(*offered);
    CUBEPI_FUZZ_CHECK(policy.allows(command, here));
    CUBEPI_FUZZ_CHECK(offered->with_arguments || !policy.allows(command, "/src/other"));
    check_match(*offered, command, here);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    const std::string_view input(reinterpret_cast<const char*>(data), size);
    const auto end = input.find('\n');
    const std::string_view rule_text = input.substr(0, end);
    const std::string_view command =
        end == std::string_view::npos ? rule_text : input.substr(end + 1);
    (void)command_risk(command);
    check_offer(command);
    check_offer(rule_text);
    if (const std::optional<CommandRule> rule = parse(rule_text)) {
        const std::optional<CommandRule> again = parse(rule->text());
        CUBEPI_FUZZ_CHECK(again && again->words == rule->words &&
                          again->directory == rule->directory);
        for (const std::string_view directory :
             {here, std::string_view(), std::string_view("/a b")})
            check_match(*rule, command, directory);
    }
    return 0;
}
