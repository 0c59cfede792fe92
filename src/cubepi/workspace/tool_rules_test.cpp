#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cubepi/core/error.hpp>
#include <cubepi/workspace/command_policy.hpp>
#include <cubepi/workspace/shell/shell_commands.hpp>
#include <cubepi/workspace/tool_rules.hpp>

namespace cubepi {

namespace {

using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::Not;
using Words = std::vector<std::string>;

JsonObject arguments(std::initializer_list<std::pair<const char*, const char*>> fields) {
    JsonObject object;
    for (const auto& [name, value] : fields) object[name] = value;
    return object;
}

RuleDecision shell(const ToolRules& policy, const char* command) {
    return policy.decide("shell", ToolRisk::writes, arguments({{"command", command}}));
}

TEST(ToolRules, D52_Reading_NeedsNoApproval) {
    const ToolRules policy("/src/app");
    EXPECT_TRUE(policy.decide("read", ToolRisk::read_only, arguments({{"path", "x"}})).allowed);
    EXPECT_TRUE(policy.decide("shell_output", ToolRisk::read_only, {}).allowed);
    EXPECT_TRUE(policy.decide("shell_kill", ToolRisk::writes, {}).allowed);
}

TEST(ToolRules, D151_LeavingTheSandbox_AlwaysAsks) {
    ToolRules policy("/src/app");
    policy.confine_commands({"It runs in a sandbox.", true});
    policy.allow(ApprovalRule::parse("shell: cd * && make test"));
    JsonObject call = arguments({{"command", "make test"}});
    EXPECT_TRUE(policy.decide("shell", ToolRisk::writes, call).allowed);
    for (const char* command : {"make test", "ls", "git status"}) {
        call["command"] = command;
        call["without_sandbox"] = true;
        const RuleDecision decision = policy.decide("shell", ToolRisk::writes, call);
        EXPECT_FALSE(decision.allowed) << command;
        EXPECT_TRUE(decision.always_asks);
        EXPECT_FALSE(decision.always);
        EXPECT_THAT(decision.question, HasSubstr("once without the sandbox"));
        EXPECT_THAT(decision.question, HasSubstr(std::string(shell_warning)));
    }
}

TEST(ToolRules, D151_ReadingCommands_RunInASandbox) {
    ToolRules policy("/src/app");
    EXPECT_FALSE(shell(policy, "git status").allowed);
    policy.confine_commands({"It runs in a sandbox.", true});
    for (const char* command : {"ls -la src", "git status -s", "git log -5", "pwd", "wc -l a"})
        EXPECT_TRUE(shell(policy, command).allowed) << command;
    for (const char* command : {"cargo test", "go build", "rm a", "ls; rm a", "ls > a", "ls $(id)",
                                "git push", "cat /etc/passwd", "git log --output=a", "./ls"})
        EXPECT_FALSE(shell(policy, command).allowed) << command;
    EXPECT_EQ(shell(policy, "rm a").question,
              "Run this command: rm a\nKnown: rm deletes files. It runs in a sandbox.");
    policy.confine_commands({"It runs in a sandbox.", false});
    EXPECT_FALSE(shell(policy, "ls").allowed);
}

TEST(ToolRules, D52_WritingNetworkAndShell_NeedApproval) {
    const ToolRules policy("/src/app");
    const auto write = policy.decide("write", ToolRisk::writes,
                                     arguments({{"path", "src/a.c"}, {"content", "a\nb\n"}}));
    EXPECT_FALSE(write.allowed);
    EXPECT_EQ(write.question, "Write src/a.c (2 lines)");
    EXPECT_EQ(write.always->text(), "write: *");
    const auto edit =
        policy.decide("edit", ToolRisk::writes,
                      arguments({{"path", "a"}, {"old_text", "x"}, {"new_text", "y\nz"}}));
    EXPECT_EQ(edit.question, "Edit a: replace 1 line by 2 lines");
    const auto fetch = policy.decide("fetch", ToolRisk::network,
                                     arguments({{"url", "https://Docs.example.org/x"}}));
    EXPECT_FALSE(fetch.allowed);
    EXPECT_EQ(fetch.question, "Fetch https://Docs.example.org/x");
    EXPECT_EQ(fetch.always->text(), "fetch: https://docs.example.org");
    EXPECT_FALSE(shell(policy, "ls").allowed);
}

TEST(ToolRules, ShellCommand_IsStatedAsNotConfined) {
    const ToolRules policy("/src/app");
    const auto decision = shell(policy, "make test");
    EXPECT_THAT(decision.question, HasSubstr("make test"));
    EXPECT_THAT(decision.question, HasSubstr("not confined to the workspace"));
    EXPECT_THAT(decision.question, Not(HasSubstr("Known")));
    EXPECT_EQ(decision.always->text(), "shell: cd /src/app && make test");
}

TEST(ToolRules, D52_IrreversibleCalls_NeverOfferAlways) {
    const ToolRules policy("/src/app");
    const auto decision = shell(policy, "git push");
    EXPECT_EQ(decision.risk, ToolRisk::irreversible);
    EXPECT_FALSE(decision.always);
    EXPECT_THAT(decision.question, HasSubstr("Known: git push publishes commits."));
    const auto tool =
        policy.decide("deploy", ToolRisk::irreversible, arguments({{"where", "production"}}));
    EXPECT_FALSE(tool.allowed);
    EXPECT_FALSE(tool.always);
    EXPECT_THAT(tool.question, HasSubstr("deploy (irreversible) with {\"where\":\"production\"}"));
    EXPECT_THAT(tool.question, HasSubstr("The tool declares that its effects cannot be undone."));
    const auto remote = policy.decide("mcp__a__b", ToolRisk::irreversible, arguments({}));
    EXPECT_THAT(remote.question, HasSubstr("A server decides what the tool does"));
    EXPECT_THAT(remote.question, Not(HasSubstr("declares")));
}

TEST(ToolRules, LongArguments_StateWhatIsCut) {
    const auto decision =
        ToolRules("/src/app")
            .decide("mcp__a__b", ToolRisk::writes, JsonObject{{"text", std::string(3000, 'x')}});
    EXPECT_THAT(decision.question, EndsWith("xxx (1011 more bytes)"));
}

TEST(ToolRules, UnmatchableRules_AreNotOffered) {
    const ToolRules policy("/src/app");
    EXPECT_FALSE(shell(policy, "make && ls").always);
    EXPECT_FALSE(shell(policy, "").always);
    EXPECT_FALSE(
        policy.decide("fetch", ToolRisk::network, arguments({{"url", "nonsense"}})).always);
}

TEST(ToolRules, AllowedCalls_AreRemembered) {
    ToolRules policy("/src/app");
    const auto asked = shell(policy, "git status -s");
    policy.allow(*asked.always);
    policy.allow(*asked.always);
    EXPECT_EQ(policy.rules().size(), 1u);
    EXPECT_TRUE(shell(policy, "git status").allowed);
    EXPECT_FALSE(shell(policy, "git status --no-such-option").allowed);
    EXPECT_FALSE(shell(policy, "git status; ls").allowed);
    EXPECT_FALSE(shell(policy, "git log").allowed);

    policy.allow(ApprovalRule::parse("write: *"));
    EXPECT_TRUE(policy.decide("write", ToolRisk::writes, arguments({{"path", "x"}})).allowed);
    EXPECT_FALSE(policy.decide("edit", ToolRisk::writes, arguments({{"path", "x"}})).allowed);
}

TEST(ToolRules, CommandRule_AppliesInItsDirectory) {
    ToolRules policy("/src/app");
    const auto in = [&policy](const char* command, const char* directory) {
        return policy.decide("shell", ToolRisk::writes,
                             arguments({{"command", command}, {"working_directory", directory}}));
    };
    EXPECT_EQ(in("./b.sh", "sub").always->text(), "shell: cd /src/app/sub && ./b.sh");
    policy.allow(*in("./b.sh", "sub").always);
    for (const char* same : {"sub", "./sub/", "sub//.", "/src/app/sub"})
        EXPECT_TRUE(in("./b.sh", same).allowed) << same;
    for (const char* other :
         {"", ".", "sub/x", "/src/app", "/src/app/other", "link/../sub", "sub/../sub", "SUB"}) {
        EXPECT_FALSE(in("./b.sh", other).allowed) << other;
    }
    EXPECT_FALSE(in("./b.sh", "link/../sub").always) << "a link could lead anywhere";
}

TEST(ToolRules, FetchRule_AllowsByOrigin) {
    ToolRules policy("/src/app");
    const auto fetch = [&policy](const char* url) {
        return policy.decide("fetch", ToolRisk::network, arguments({{"url", url}})).allowed;
    };
    policy.allow(ApprovalRule::parse("fetch: example.org"));
    policy.allow(ApprovalRule::parse("fetch: http://localhost:8080"));
    for (const char* url : {"https://example.org", "https://EXAMPLE.org:443/x?y#z",
                            "https://%65xample.org/", "http://localhost:8080/"}) {
        EXPECT_TRUE(fetch(url)) << url;
    }
    for (const char* url :
         {"http://example.org/", "http://example.org:443/", "https://example.org:8443/",
          "https://example.org.evil/x", "https://example.org@evil/x", "https://a@example.org/",
          "https://example.org./", "https://localhost:8080/", "http://localhost/",
          "ftp://example.org", "https://example.org:0/", "https:/example.org/", "example.org",
          ""}) {
        EXPECT_FALSE(fetch(url)) << url;
    }
    EXPECT_EQ(ApprovalRule::parse("fetch: example.org").problem(), "");
    for (const char* rule : {"fetch: https://example.org/path", "fetch: ftp://example.org",
                             "fetch: https://u@example.org", "fetch: exa mple"}) {
        EXPECT_THAT(ApprovalRule::parse(rule).problem(), HasSubstr("origin")) << rule;
    }
}

TEST(ToolRules, D72_WritesToProtectedPaths_AlwaysNeedApproval) {
    ToolRules policy("/src/app");
    policy.allow(ApprovalRule::parse("write: *"));
    policy.allow(ApprovalRule::parse("edit: *"));
    const auto write = [&policy](const char* path, const std::optional<std::string>& target) {
        return policy.decide("write", ToolRisk::writes,
                             arguments({{"path", path}, {"content", ""}}), target);
    };
    EXPECT_TRUE(write("src/a.c", "src/a.c").allowed);
    EXPECT_TRUE(write(".gitignore", ".gitignore").allowed);
    EXPECT_TRUE(write("docs/header.md", "docs/header.md").allowed);
    for (const char* path : {".git/config",
                             "./.git//hooks/x",
                             "sub/.git/config",
                             "x/../.git/config",
                             ".GIT/config",
                             ".git./config",
                             ".git /config",
                             ".g\xE2\x80\x8Cit/config",
                             ".git\\config",
                             ".git::$INDEX_ALLOCATION/config",
                             "GIT~1/config",
                             "bare.git/config",
                             ".git",
                             "AGENTS.md",
                             "Agents.MD",
                             "sub/AGENTS.md",
                             "AGENTS.md.",
                             "AGENTS.override.md",
                             "sub/Claude.md",
                             ".agents/skills/x/SKILL.md",
                             ".AGENT/x",
                             "HEAD",
                             "sub/head",
                             "/src/app/.git/config"}) {
        const auto decision = write(path, path);
        EXPECT_FALSE(decision.allowed) << path;
        EXPECT_FALSE(decision.always) << path;
        EXPECT_THAT(decision.question, HasSubstr("Always needs approval: ")) << path;
        EXPECT_FALSE(policy.decide("edit", ToolRisk::writes, arguments({{"path", path}})).allowed);
    }
    EXPECT_FALSE(write("link/x", ".git/x").allowed) << "it leads there";
    EXPECT_FALSE(write("new/../x", std::nullopt).allowed) << "its target is unknown";
}

TEST(ToolRules, UnmatchableRules_AreRefused) {
    ToolRules policy("/src/app");
    EXPECT_THROW(ApprovalRule::parse("git status"), Error);
    EXPECT_THROW(ApprovalRule::parse("shell:"), Error);
    EXPECT_THROW(policy.allow(ApprovalRule::parse("write: src")), Error);
    EXPECT_THROW(policy.allow(ApprovalRule::parse("shell: ls; rm")), Error);
    EXPECT_TRUE(policy.rules().empty());
}

TEST(ToolRules, ForgingCharacters_AreSpelledOut) {
    ToolRules policy("/src/app");
    policy.confine_commands({"It runs in a sandbox.", false});
    EXPECT_THAT(shell(policy, "ls\x1b[2K\rmake\nx \xE2\x80\xAE").question,
                HasSubstr("ls^[[2K^Mmake\\nx <U+202E>\n"));
    EXPECT_EQ(
        shell(policy, "ls #\u2028a\u2029b\u0085c\u061Cd\u2060e\uFEFFf\U000E0041\u009Bg\nh")
            .question,
        "Run this command: ls #<U+2028>a<U+2029>b<U+0085>c<U+061C>d<U+2060>e<U+FEFF>f<U+E0041>"
        "<U+009B>g\\nh\nIt runs in a sandbox.");
}

constexpr const char* here = "/src/app";

std::string proposed(std::string_view command, std::string_view directory = here) {
    const auto rule = rule_for(command, directory);
    return rule ? rule->text() : "none";
}

CommandPolicy policy_with(std::initializer_list<const char*> rules) {
    CommandPolicy policy;
    for (const char* rule : rules) policy.allow(CommandRule::parse(rule));
    return policy;
}

TEST(ShellWords, LiteralWords_AreSplit) {
    using detail::literal_words;
    EXPECT_EQ(literal_words("a  b\tc"), (Words{"a", "b", "c"}));
    EXPECT_EQ(literal_words("a 'b c' \"d e\" f\\ g"), (Words{"a", "b c", "d e", "f g"}));
    EXPECT_EQ(literal_words("a'b'\"c\"d ''"), (Words{"abcd", ""}));
    EXPECT_EQ(literal_words("\"a\\\"b\\n\" 'c\\'"), (Words{"a\"b\\n", "c\\"}));
    EXPECT_EQ(literal_words("HEAD~3 a^b x=y a#b '$HOME' '*' '~' \\*"),
              (Words{"HEAD~3", "a^b", "x=y", "a#b", "$HOME", "*", "~", "*"}));
    EXPECT_EQ(literal_words(""), Words{});
    for (const char* text :
         {"'a",     "\"a",      "a\\",   "\"a\\\"", "$HOME",   "\"$HOME\"", "*.c",
          "a?",     "[a]",      "{a,b}", "~",       "~/x",     "a=~",       "a:~",
          "#x",     "a #x",     "!x",    "\"a!\"",  "(a)",     "a\nb",      "a;b",
          "a\\\nb", "\xC3\xBC", "a\vb",  "`a`",     "\"`a`\"", "a&",        "a>b"}) {
        EXPECT_FALSE(literal_words(text)) << text;
    }
    EXPECT_EQ(literal_words("'\xC3\xBC'"), Words{"\xC3\xBC"});
}

TEST(ShellWords, QuotedWords_AreReadBackUnchanged) {
    for (const char* word :
         {"plain", "", "two words", "it's", "$HOME", "a\"b", "*", "~", "#a", "!"}) {
        EXPECT_EQ(detail::literal_words(detail::quote_shell_word(word)), Words{word}) << word;
    }
}

TEST(CommandPolicy, D72_Rule_AllowsExactWordsInItsDirectory) {
    const CommandPolicy policy = policy_with({"cd /src/app && make test"});
    EXPECT_TRUE(policy.allows("make test", here));
    EXPECT_TRUE(policy.allows("  'make'   \"test\" ", here));
    for (const char* command : {"make", "make tests", "make test -j4", "make test install",
                                "./make test", "sudo make test", "", "make -f evil.mk test"}) {
        EXPECT_FALSE(policy.allows(command, here)) << command;
    }
    for (const char* directory : {"", "/src", "/src/app/sub", "/src/app2", "/"})
        EXPECT_FALSE(policy.allows("make test", directory)) << directory;
    EXPECT_TRUE(policy_with({"cd * && make test"}).allows("make test", "/anywhere"));
}

TEST(CommandPolicy, D72_Star_AllowsListedArguments) {
    const CommandPolicy policy =
        policy_with({"cd /src/app && git status *", "cd /src/app && git log *", "ls *"});
    for (const char* command :
         {"git status", "git status -sb", "git status --short src", "git log --oneline -5",
          "git log -n 3 --stat -- src", "git log --format='%h %s' main..dev", "ls -la src"}) {
        EXPECT_TRUE(policy.allows(command, here)) << command;
    }
    EXPECT_TRUE(policy.allows("ls -la", "/elsewhere"));
    EXPECT_FALSE(policy.allows("git status", "/elsewhere"));
    for (const char* command : {"git stat",
                                "git push",
                                "git -C /x status",
                                "git -c core.fsmonitor=x status",
                                "git log --output=x",
                                "git log --ou=x",
                                "git log -o",
                                "git log --show-signature",
                                "git log --format=%G?",
                                "git log --format='%(trailers)'",
                                "git log -n",
                                "git log -n -p",
                                "git log /etc/passwd",
                                "git log ../x",
                                "git log HEAD:../x",
                                "git status --shor",
                                "ls /",
                                "ls ..",
                                "ls a/../..",
                                "ls --color",
                                "ls *",
                                "git status -- -x"}) {
        EXPECT_FALSE(policy.allows(command, here)) << command;
    }
}

TEST(CommandPolicy, CommandWithOperator_MatchesNoRule) {
    const CommandPolicy policy = policy_with({"ls *", "cd * && x"});
    for (const char* command : {"ls; rm x",   "ls && rm x",
                                "ls & rm x",  "ls | sh",
                                "ls || rm x", "ls\nrm x",
                                "ls $(rm x)", "ls `rm x`",
                                "ls > x",     "ls >> x",
                                "ls < x",     "ls <(rm x)",
                                "ls ';'",     "ls \"$(rm x)\"",
                                "ls '|'",     "ls\rrm",
                                "ls 2>&1",    "ls ${x:=\\$\\(rm x\\)} ${x@P}",
                                "ls $[a[0]]", "ls $x",
                                "ls a{b,c}",  "x $y",
                                "x *"}) {
        EXPECT_FALSE(policy.allows(command, here)) << command;
        EXPECT_FALSE(rule_for(command, here)) << command;
    }
    EXPECT_FALSE(policy.allows(std::string_view("ls\0x", 4), here));
}

TEST(CommandPolicy, AnythingButAPlainProgram_MatchesNoRule) {
    for (const char* command :
         {"PATH=. ls", "LD_PRELOAD=x.so ls", "a+=b ls", "$SHELL -c ls", "{ ls", "( ls )", "! ls",
          "~/ls", "if ls", "while ls", "l* x", "'", "ls 'open", "function ls", "# ls",
          "'my prog' x", "time make", "echo $HOME *.c"}) {
        EXPECT_FALSE(simple_command(command)) << command;
    }
    EXPECT_TRUE(simple_command("make CC=clang"));
}

TEST(CommandPolicy, RulesOfEarlierVersions_AllowOnlyListedCommands) {
    const CommandPolicy policy = policy_with(
        {"ls", "make test", "git status", "git", "find . -exec", "git push", "npm run build"});
    EXPECT_EQ(policy.rules().size(), 7u) << "they are read";
    EXPECT_TRUE(policy.allows("ls -l", here));
    for (const char* command : {"make test", "git status", "git push", "npm run build",
                                "find . -exec sh {} +", "git branch -a"}) {
        EXPECT_FALSE(policy.allows(command, here)) << command;
    }
    const auto problem = [](const char* rule) { return CommandRule::parse(rule).problem(); };
    EXPECT_EQ(problem("ls"), "");
    EXPECT_EQ(problem("ls *"), "");
    EXPECT_EQ(problem("cd /x && anything --at all"), "");
    EXPECT_THAT(problem("make test"), HasSubstr("shell: cd /DIRECTORY && make test"));
    EXPECT_THAT(problem("git status"), HasSubstr("Write shell: cd /DIRECTORY && git status *"));
    EXPECT_THAT(problem("git"), HasSubstr("not name a command of the list"));
    EXPECT_THAT(problem("cd /x && git push *"), HasSubstr("shell: cd /x && git push"));
}

TEST(CommandPolicy, UnmatchableRules_AreRefused) {
    for (const char* text : {"", "  ", "ls; rm", "ls | sh", "A=b ls", "cd /x && ", "cd /x && *",
                             "cd x && make", "cd /x/../y && make", "cd /x && a && b", "*"}) {
        EXPECT_THROW(CommandRule::parse(text), Error) << text;
    }
}

TEST(CommandPolicy, Offer_IsExactCommandOrListEntry) {
    EXPECT_EQ(proposed("git status --short"), "cd /src/app && git status *");
    EXPECT_EQ(proposed("git stash list"), "cd /src/app && git stash list *");
    EXPECT_EQ(proposed("cargo build --release"), "cd /src/app && cargo build *");
    EXPECT_EQ(proposed("ls -la src"), "ls *");
    EXPECT_EQ(proposed("ls /etc"), "cd /src/app && ls /etc");
    for (const char* command :
         {"git -C /tmp status", "git bisect run ./x", "git log --output=x",
          "npm run build -- --fast", "make test", "python3 -c 'print(1)'", "bash build.sh",
          "sed -n 1p x", "timeout 60 make test", "find . -name x", "go test -exec ./x",
          "cargo build --config x", "env A=1"}) {
        EXPECT_EQ(proposed(command), std::string("cd /src/app && ") + command);
    }
    EXPECT_EQ(proposed("make", ""), "none") << "where it runs is not known";
    EXPECT_EQ(proposed("make", "relative"), "none");
    EXPECT_EQ(proposed("make", "/a b && c'd"), "cd '/a b && c'\\''d' && make");
}

TEST(CommandPolicy, OfferedRule_AllowsTheCommandAndIsParsable) {
    for (const char* directory : {"/src/app", "/a b && c'd", "/"}) {
        for (const char* command :
             {"git status -s", "npm run build x", "ls 'a b'", "python3 -c 'a = \"b\"'",
              "cmake --build build", "x '*'", "x ' *'", "cd /x", "echo ''"}) {
            const std::string text = proposed(command, directory);
            const CommandRule rule = CommandRule::parse(text);
            EXPECT_EQ(rule.text(), text);
            EXPECT_EQ(rule.problem(), "") << text;
            CommandPolicy policy;
            policy.allow(rule);
            EXPECT_TRUE(policy.allows(command, directory)) << text;
        }
    }
}

TEST(CommandPolicy, KnownEffects_AreReported) {
    EXPECT_EQ(known_command_effect("cd x && git push origin"), "git push publishes commits");
    EXPECT_EQ(known_command_effect("sudo rm -r x"), "rm deletes files");
    EXPECT_EQ(known_command_effect("mkfs.ext4 /dev/sda"), "mkfs.ext4 overwrites disks");
    EXPECT_EQ(known_command_effect("./deploy.sh"), "");
    EXPECT_EQ(known_command_effect("git push --force && npm publish && rm -rf x && rm y && r'm' z"),
              "git push publishes commits; npm publish publishes packages; rm deletes files");
    EXPECT_EQ(known_command_effect("rm a; shred b; npm publish; mkfs /x; git push; r'mdi'r c"),
              "rm deletes files; shred overwrites files; npm publish publishes packages; "
              "mkfs overwrites disks; and 2 more");
}

TEST(CommandPolicy, D52_IrreversibleCommands_AreRecognized) {
    for (const char* command : {"rm x",
                                "rm -rf /",
                                "/bin/rm x",
                                "sudo rm x",
                                "cd x && rm y",
                                "ls; rm y",
                                "bash -c 'rm x'",
                                "sh -c \"rm x\"",
                                "find . -delete",
                                "find . -exec rm {} +",
                                "ls | xargs rm",
                                "dd if=/dev/zero of=x",
                                "mkfs.ext4 /dev/sda",
                                "git push",
                                "git -C x push origin",
                                "git reset --hard",
                                "git clean -fd",
                                "git branch -D x",
                                "git stash drop",
                                "npm publish",
                                "kubectl delete pod x",
                                "docker system prune",
                                "terraform destroy",
                                "A=b rm x",
                                "(rm x)",
                                "echo $(rm x)",
                                "echo `rm x`",
                                "r'm' x",
                                "\\rm x",
                                "env -i rm x",
                                "nohup rm x &",
                                "if true; then rm x; fi",
                                "shred x",
                                "! rm x",
                                "{ rm x; }",
                                "while true; do rm x; done",
                                "FOO=1 sudo -u me rm x"}) {
        EXPECT_EQ(command_risk(command), ToolRisk::irreversible) << command;
        EXPECT_FALSE(rule_for(command, here)) << command;
    }
    for (const char* command :
         {"ls", "grep rm file", "echo rm", "make", "git status", "git commit -m x", "cat firm",
          "npm install", "docker ps", "armor x", ""}) {
        EXPECT_EQ(command_risk(command), ToolRisk::writes) << command;
    }
}

/// Rules that restrict calls.
ToolRules restricted(std::initializer_list<std::pair<RuleEffect, const char*>> rules) {
    ToolRules policy("/src/app");
    for (const auto& [effect, text] : rules)
        policy.restrict({ApprovalRule::parse(text, effect), effect, "rules.yaml"});
    return policy;
}

TEST(ToolRules, D156_Deny_WinsOverAllow) {
    ToolRules policy = restricted({{RuleEffect::deny, "write: *"}, {RuleEffect::deny, "read: *"}});
    policy.allow(ApprovalRule::parse("write: *"));
    const auto write = policy.decide("write", ToolRisk::writes, arguments({{"path", "a"}}));
    EXPECT_FALSE(write.allowed);
    EXPECT_TRUE(write.always_asks) << "no mode allows it";
    EXPECT_FALSE(write.always);
    EXPECT_EQ(write.refusal, "Refused by the rule 'deny write: *' of rules.yaml.");
    EXPECT_FALSE(policy.decide("read", ToolRisk::read_only, {}).allowed);
    EXPECT_TRUE(policy.decide("list", ToolRisk::read_only, {}).allowed);
}

TEST(ToolRules, D156_Ask_WinsOverAllowAndNotOverDeny) {
    ToolRules policy =
        restricted({{RuleEffect::ask, "shell: git *"}, {RuleEffect::deny, "shell: git push *"}});
    policy.allow(ApprovalRule::parse("shell: git status *"));
    const auto status = shell(policy, "git status");
    EXPECT_FALSE(status.allowed);
    EXPECT_TRUE(status.always_asks);
    EXPECT_TRUE(status.refusal.empty());
    EXPECT_FALSE(status.always) << "the answer would be without effect";
    EXPECT_THAT(status.question, HasSubstr("Always needs approval: the rule 'ask shell: git *'."));
    EXPECT_FALSE(shell(policy, "git push").refusal.empty());
}

TEST(ToolRules, D156_DeniedCommand_IsFoundInAnyForm) {
    const ToolRules policy =
        restricted({{RuleEffect::deny, "shell: rm *"}, {RuleEffect::deny, "shell: git push *"}});
    for (const char* command : {"rm a",
                                "/bin/rm a",
                                "sudo rm -rf a",
                                "ls; rm a",
                                "ls && rm a",
                                "ls | xargs rm",
                                "(rm a)",
                                "{ rm a; }",
                                "$(rm a)",
                                "echo `rm a`",
                                "if true; then rm a; fi",
                                "r'm' a",
                                "r\\m a",
                                "\"rm\" a",
                                "bash -c 'rm a'",
                                "bash -c \"ls; rm a\"",
                                "find . -exec rm {} +",
                                "env X=1 rm a",
                                "X=1 rm a",
                                "cat <(rm a)",
                                "ls\nrm a",
                                "rm\\\n a",
                                "git -C /x push",
                                "git push origin",
                                "git --no-pager -c a=b push",
                                "! rm a",
                                "time rm a"}) {
        EXPECT_FALSE(shell(policy, command).refusal.empty()) << command;
    }
}

TEST(ToolRules, D156_ComputedCommand_IsAlwaysAskedAbout) {
    const ToolRules policy = restricted({{RuleEffect::deny, "shell: rm *"}});
    for (const char* command : {"$X a", "${X} a", "r$(echo m) a", "$(echo rm) a", "r`echo m` a",
                                "eval \"$X\"", "echo x | sh", "base64 -d x | bash -s",
                                "bash -c \"$X\"", ". ./x", "source x", "r? a", "~/x", "A=1 $X"}) {
        const auto decision = shell(policy, command);
        EXPECT_TRUE(decision.always_asks) << command;
        EXPECT_FALSE(decision.allowed) << command;
    }
    for (const char* command :
         {"ls -l", "echo $X", "echo \"$X\" > \"$Y\"", "for f in *.c; do echo $f; done",
          "grep '^a' b", "[ -f x ] && ls", "x=$(date)", "make 2>&1 | tail", "sh build.sh",
          "bash -c 'ls'", "git rm a"}) {
        const bool is_named = std::string_view(command) == "git rm a";
        EXPECT_EQ(shell(policy, command).always_asks, is_named) << command;
    }
}

TEST(ToolRules, D156_ComputedWordsOfRule_AreAskedAbout) {
    const ToolRules policy =
        restricted({{RuleEffect::deny, "shell: rm *"}, {RuleEffect::deny, "shell: git push *"}});
    for (const char* text :
         {"p=push; git $p", "git $(echo push)", "echo push | xargs git", "X=r;Y=m; env $X$Y f",
          "if true; then $X$Y f; fi", ">/dev/null $X$Y f", "2>&1 nohup $X$Y f",
          "bash -ec \"$X$Y f\"", "command eval \"$X$Y f\"", "timeout 5 $X f"}) {
        const auto decision = shell(policy, text);
        EXPECT_TRUE(decision.always_asks) << text;
        EXPECT_FALSE(decision.allowed) << text;
    }
    for (const char* text : {"echo $HOME", "ls 2>/dev/null", "timeout 5 ls"}) {
        const auto decision = shell(policy, text);
        EXPECT_FALSE(decision.always_asks) << text;
    }
}

TEST(ToolRules, D156_DeniedHost_IsDeniedOnEveryPort) {
    const ToolRules policy = restricted(
        {{RuleEffect::deny, "fetch: example.org"}, {RuleEffect::deny, "fetch: http://a.test:81"}});
    const auto is_denied = [&](const char* url) {
        return policy.decide("fetch", ToolRisk::network, arguments({{"url", url}})).always_asks;
    };
    for (const char* url : {"https://example.org/x", "http://example.org",
                            "http://EXAMPLE.org:8080/", "http://a.test:81/x"})
        EXPECT_TRUE(is_denied(url)) << url;
    for (const char* url :
         {"https://sub.example.org", "https://example.org.test", "https://a.test"})
        EXPECT_FALSE(is_denied(url)) << url;
}

TEST(ToolRules, D182_DeniedHost_IsDeniedInEverySpelling) {
    const ToolRules policy = restricted({{RuleEffect::deny, "fetch: example.org"},
                                         {RuleEffect::deny, "fetch: 192.0.2.7"},
                                         {RuleEffect::deny, "fetch: [2001:db8::1]"},
                                         {RuleEffect::deny, "fetch: *.corp.test"},
                                         {RuleEffect::deny, "fetch: https://only.test"}});
    const auto is_denied = [&](const char* url) {
        return policy.decide("fetch", ToolRisk::network, arguments({{"url", url}}))
            .refusal.starts_with("Refused by the rule");
    };
    for (const char* url :
         {"https://example.org./", "https://EXAMPLE.ORG.:8443/a", "http://%65xample.org/",
          "https://example.org/a b", "https://example.org/\xC3\xA4", "http://3221225991/",
          "http://0xc0.0.2.7/", "http://0300.0.2.7:81/", "http://[::ffff:192.0.2.7]/",
          "http://192.0.519/", "http://192.0.2.7./", "http://[2001:DB8:0:0::1]:99/",
          "https://corp.test", "https://a.b.Corp.Test./", "https://only.test/",
          "http://only.test/"})
        EXPECT_TRUE(is_denied(url)) << url;
    for (const char* url :
         {"https://example.com/example.org", "https://192.0.2.8/", "http://[2001:db8::2]/",
          "https://corp.test.org", "https://mycorp.test/", "https://only.test:8443/"})
        EXPECT_FALSE(is_denied(url)) << url;
}

TEST(ToolRules, D156_NameWithStar_MatchesTools) {
    const ToolRules policy = restricted({{RuleEffect::deny, "git_*: *"}});
    EXPECT_FALSE(policy.decide("git_push", ToolRisk::irreversible, {}).refusal.empty());
    EXPECT_TRUE(policy.decide("gitlab", ToolRisk::irreversible, {}).refusal.empty());
    const ToolRules all = restricted({{RuleEffect::deny, "*: *"}});
    EXPECT_FALSE(all.decide("read", ToolRisk::read_only, {}).allowed);
    EXPECT_FALSE(all.decide("shell_kill", ToolRisk::writes, {}).allowed);
}

TEST(ToolRules, D156_RuleThatCannotRestrict_IsInvalid) {
    for (const char* text : {"shell: cd /x && make", "shell: a; b", "shell_kill: a.txt",
                             "mcp__a__write: a.txt", "fetch: a b", "x"})
        EXPECT_THROW((void)ApprovalRule::parse(text, RuleEffect::deny), Error) << text;
    ToolRules policy("/src/app");
    EXPECT_THROW(policy.restrict({ApprovalRule::parse("write: *"), RuleEffect::allow, {}}), Error);
}

TEST(ToolRules, D156_WithdrawnRestriction_HasNoEffect) {
    ToolRules policy = restricted({{RuleEffect::deny, "write: *"}});
    const RestrictingRule rule = policy.restrictions().front();
    EXPECT_TRUE(policy.withdraw(rule));
    EXPECT_FALSE(policy.withdraw(rule));
    EXPECT_TRUE(
        policy.decide("write", ToolRisk::writes, arguments({{"path", "a"}})).refusal.empty());
}

TEST(ToolRules, D155_FilesThatAreTrusted_AlwaysNeedApproval) {
    ToolRules policy("/src/app");
    policy.allow(ApprovalRule::parse("write: *"));
    for (const char* path :
         {".mcp.json", "x/.mcp.json", ".cubepi/config.yaml", ".CubePi/prompts/a.md"})
        EXPECT_TRUE(
            policy.decide("write", ToolRisk::writes, arguments({{"path", path}})).always_asks)
            << path;
}

}  // namespace

}  // namespace cubepi
