// Abuse of "always": every rule that the program offers for ordinary work, and commands that would use such a rule for another
// purpose.
#include <algorithm>
#include <array>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <unistd.h>

#include <gtest/gtest.h>

#include <cubepi/core/scoped_test_directory.hpp>
#include <cubepi/workspace/local_workspace.hpp>
#include <cubepi/workspace/tool_rules.hpp>

#include "attack.hpp"
#include "rule_commands.hpp"

namespace cubepi::attack {

namespace {

constexpr std::string_view root = "/src/app";

Texts attack_commands() {
    Texts all;
    add_git_attacks(all);
    add_build_attacks(all);
    add_tool_attacks(all);
    add_shell_attacks(all);
    return all;
}

RuleDecision ask(const ToolRules& policy, const std::string& command,
                 std::string_view directory = {}) {
    JsonObject arguments{{"command", command}};
    if (!directory.empty()) arguments["working_directory"] = directory;
    return policy.decide("shell", ToolRisk::writes, arguments);
}

/// A policy with every rule that the program offers for an ordinary command.
ToolRules policy_of_offers() {
    ToolRules policy{std::string(root)};
    for (const std::string& command : ordinary_commands()) {
        const RuleDecision decision = ask(policy, command);
        if (decision.always) policy.allow(*decision.always);
    }
    return policy;
}

bool is_ordinary(const std::string& command) {
    const Texts& all = ordinary_commands();
    return std::find(all.begin(), all.end(), command) != all.end();
}

}  // namespace

TEST(RulesAttack, OfferedRule_AllowsNothingElse) {
    Row row("rules", "command that makes more of a rule that the program offers");
    const ToolRules policy = policy_of_offers();
    ASSERT_GT(policy.rules().size(), 80u);
    for (const std::string& command : ordinary_commands()) {
        const RuleDecision decision = ask(policy, command);
        EXPECT_TRUE(decision.allowed || !decision.always)
            << command << ": the offer does not match";
    }
    for (const std::string& command : attack_commands()) {
        ASSERT_FALSE(is_ordinary(command)) << command;
        row.attempt(!ask(policy, command).allowed, command);
    }
}

TEST(RulesAttack, RulesOfEarlierVersions_AllowNoMore) {
    Row row("rules", "the same with a rule that an earlier version saved");
    ToolRules policy{std::string(root)};
    for (const std::string& rule : earlier_rules())
        policy.allow(ApprovalRule::parse("shell: " + rule));
    for (const std::string& command : attack_commands())
        row.attempt(!ask(policy, command).allowed, command);
}

TEST(RulesAttack, Rule_AppliesOnlyToItsDirectory) {
    Row row("rules", "allowed command in another directory");
    const ToolRules policy = policy_of_offers();
    for (const std::string& command : ordinary_commands()) {
        const auto offered = ask(policy, command).always;
        if (!offered || !offered->match.starts_with("cd ")) continue;  // the same everywhere
        for (const char* directory :
             {"sub", "./sub", "/src/app/sub", "/src/other", "/", "/src/app/../evil", "sub/..",
              "link/../evil", "/src/appx", "/src/App", "../app"}) {
            row.attempt(!ask(policy, command, directory).allowed, command + " in " + directory);
        }
        const ToolRules elsewhere = [&] {
            ToolRules other("/src/evil");
            for (const ApprovalRule& rule : policy.rules()) other.allow(rule);
            return other;
        }();
        row.attempt(!ask(elsewhere, command).allowed, command + " in another project");
    }
}

TEST(RulesAttack, ProtectedPaths_NoRuleAllowsWrites) {
    Row row("rules", "write to .git, skills or AGENTS.md with the rules write: * and edit: *");
    ScopedTestDirectory directory;
    directory.put(".git/config", "");
    directory.put(".agents/skills/x/SKILL.md", "");
    directory.put("AGENTS.md", "");
    directory.put("dir/sub/f", "");
    const auto link = [&directory](const char* target, const char* name) {
        std::filesystem::create_symlink(target, directory.path() / name);
    };
    link(".git", "plain");
    link("../.git/config", "dir/notes.md");
    link("plain", "twice");
    link(".agents/skills", "docs");
    link("AGENTS.md", "readme");
    link("../../AGENTS.md", "dir/sub/readme");
    LocalWorkspace workspace(directory.path());
    ToolRules policy(workspace.root());
    policy.allow(ApprovalRule::parse("write: *"));
    policy.allow(ApprovalRule::parse("edit: *"));
    Texts paths = {"plain/config",
                   "plain/hooks/post-index-change",
                   "plain/new/file",
                   "dir/notes.md",
                   "twice/config",
                   "docs/x/SKILL.md",
                   "docs/new/SKILL.md",
                   "readme",
                   "dir/sub/readme",
                   "dir/../plain/config",
                   "dir/sub/../notes.md",
                   "new/../plain/config",
                   "new/../readme",
                   "plain/../plain/config",
                   directory / "plain/config",
                   directory / "dir/../readme",
                   "HEAD",
                   "dir/HEAD",
                   "dir/head"};
    for (const char* name : {".git/config", ".git/hooks/pre-commit", ".git/info/attributes", ".git",
                             "AGENTS.md", "dir/AGENTS.md", ".agents/skills/x/SKILL.md", ".agents/x",
                             ".agent/skills/y/SKILL.md", "dir/.git/config", "dir.git/config"}) {
        const std::string path(name);
        std::string upper;
        for (const char c : path) upper += c >= 'a' && c <= 'z' ? static_cast<char>(c - 32) : c;
        const auto slash = path.find('/');
        const std::string first = path.substr(0, slash);
        const std::string rest = slash == std::string::npos ? "" : path.substr(slash);
        for (const std::string& form :
             {path, upper, "./" + path, "dir/../" + path, "dir/sub/../../" + path, ".//" + path,
              "new/../" + path, directory / path.c_str(), first + "/." + rest, first + "//" + rest,
              path + "/.", path + "/"}) {
            paths.push_back(form);
        }
    }
    for (const std::string& path : paths) {
        std::optional<std::string> target;
        try {
            target = workspace.write_target(path);
        } catch (const Error&) {
        }
        for (const char* tool : {"write", "edit"}) {
            const JsonObject arguments{{"path", path}, {"content", ""}};
            const auto decision = policy.decide(tool, ToolRisk::writes, arguments, target);
            row.attempt(!decision.allowed && !decision.always, std::string(tool) + " " + path);
        }
    }
    const JsonObject fine{{"path", "dir/sub/f"}, {"content", ""}};
    EXPECT_TRUE(policy.decide("write", ToolRisk::writes, fine, workspace.write_target("dir/sub/f"))
                    .allowed);
}

TEST(RulesAttack, FetchRule_AppliesToOneOrigin) {
    Row row("rules", "URL of another scheme, port or host than a fetch rule's");
    const auto fetch = [](const ToolRules& policy, const std::string& url) {
        return policy.decide("fetch", ToolRisk::network, JsonObject{{"url", url}});
    };
    for (const char* asked : {"https://docs.example.org/a", "http://docs.example.org/a",
                              "https://docs.example.org:8443/a", "http://[2001:db8::1]:8080/a",
                              "https://192.0.2.7/a"}) {
        ToolRules policy("/src/app");
        policy.allow(*fetch(policy, asked).always);
        EXPECT_TRUE(fetch(policy, std::string(asked) + "?b#c").allowed) << asked;
        for (const char* scheme : {"http", "https", "ftp", "HTTPS", "ws"}) {
            for (const char* host :
                 {"docs.example.org", "example.org", "docs.example.org.evil.com",
                  "docs.example.org.", "evil.com", "docs.example.org@evil.com",
                  "evil.com#docs.example.org", "evil.com?docs.example.org", "u:p@docs.example.org",
                  "docs.example.org%2eevil.com", "docs%00.example.org", "[2001:db8::1]",
                  "[2001:db8::2]", "192.0.2.7", "192.0.2.8", "3221225991", "0xc0.0.2.7",
                  "docs.example.org\\@evil.com"}) {
                for (const char* port :
                     {"", ":80", ":443", ":8443", ":8080", ":0", ":22", ":99999", ":"}) {
                    const std::string url = std::string(scheme) + "://" + host + port + "/a";
                    const std::string origin =
                        std::string(asked).substr(0, std::string(asked).size() - 2);
                    const std::string own = origin.starts_with("https") ? ":443" : ":80";
                    std::string lower = scheme;
                    if (lower == "HTTPS") lower = "https";
                    std::string spelled = lower + "://" + host + port;
                    if (spelled.ends_with(":")) spelled.pop_back();
                    if (spelled == origin || spelled == origin + own) continue;
                    row.attempt(!fetch(policy, url).allowed, url + " with the rule for " + asked);
                }
            }
        }
    }
}

TEST(RulesAttack, Words_EqualThoseOfTheShell) {
    Row row("rules", "text that a shell splits otherwise than the rule matcher");
    const char* shell = ::access("/bin/bash", X_OK) == 0 ? "/bin/bash" : "/bin/sh";
    static constexpr std::array<std::string_view, 40> pieces = {
        "a",  "b-",  "--x=", "/",     ".",       ":",        "=",   "@",       "%",  "+",
        ",",  "^",   "_",    " ",     "  ",      "\t",       "'",   "'",       "\"", "\"",
        "\\", "\\ ", "\\\\", "'a b'", "\"c d\"", "~",        "#",   "!",       "*",  "?",
        "{",  "}",   "$x",   "[",     "]",       "\xC3\xBC", "'$'", "\"\\$\"", "''", "HEAD~1"};
    ScopedTestDirectory directory;
    auto random = generator("words of a shell");
    std::string script = "cd " + (directory.path()).string() + "\n";
    std::vector<Texts> expected;
    Texts commands;
    const std::size_t count = rounds(20000);
    for (std::size_t i = 0; i < count; ++i) {
        std::string text = "p ";
        for (std::size_t left = 1 + random() % 9; left > 0; --left)
            text += pieces[random() % pieces.size()];
        auto words = simple_command(text);
        if (!words) {
            row.count(true);
            continue;
        }
        // The function p prints its words, so that what is run is the text itself.
        script += text + "\n";
        words->erase(words->begin());
        expected.push_back(std::move(*words));
        commands.push_back(std::move(text));
    }
    ASSERT_GT(expected.size(), 500u);
    directory.put(
        "script",
        "p() { for w in \"$@\"; do printf '%s\\0' \"$w\"; done; printf '\\1\\0'; }\n" + script);
    const std::string line = std::string(shell) + " '" + directory / "script" + "' 2>&1";
    FILE* out = ::popen(line.c_str(), "r");
    ASSERT_NE(out, nullptr);
    std::string bytes;
    std::array<char, 65536> buffer{};
    for (std::size_t got = 0; (got = std::fread(buffer.data(), 1, buffer.size(), out)) > 0;)
        bytes.append(buffer.data(), got);
    EXPECT_EQ(::pclose(out), 0);
    std::vector<Texts> passed(1);
    for (std::size_t at = 0; at < bytes.size();) {
        const std::size_t end = std::min(bytes.find('\0', at), bytes.size());
        const std::string word = bytes.substr(at, end - at);
        if (word == "\1")
            passed.emplace_back();
        else
            passed.back().push_back(word);
        at = end + 1;
    }
    passed.pop_back();
    ASSERT_EQ(passed.size(), expected.size());
    for (std::size_t i = 0; i < expected.size(); ++i)
        row.attempt(passed[i] == expected[i], commands[i]);
}

}  // namespace cubepi::attack
