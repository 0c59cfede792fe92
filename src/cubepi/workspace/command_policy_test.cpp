#include <cubepi/workspace/command_policy.hpp>

#include <gtest/gtest.h>

#include <cubepi/core/error.hpp>
#include <cubepi/workspace/detail/shell_words.hpp>

namespace cubepi {
namespace {

using Words = std::vector<std::string>;

std::string proposed(std::string_view command) {
    const auto rule = rule_for(command);
    return rule ? rule->text() : "none";
}

TEST(ShellWords, SplitLikeAShell) {
    using detail::split_shell_words;
    EXPECT_EQ(split_shell_words("a  b\tc"), (Words{"a", "b", "c"}));
    EXPECT_EQ(split_shell_words("a 'b c' \"d e\" f\\ g"), (Words{"a", "b c", "d e", "f g"}));
    EXPECT_EQ(split_shell_words("a'b'\"c\"d ''"), (Words{"abcd", ""}));
    EXPECT_EQ(split_shell_words("\"a\\\"b\\n\" 'c\\'"), (Words{"a\"b\\n", "c\\"}));
    EXPECT_EQ(split_shell_words(""), Words{});
    for (const char* open : {"'a", "\"a", "a\\", "\"a\\\""}) {
        EXPECT_FALSE(split_shell_words(open)) << open;
    }
}

TEST(ShellWords, QuoteSoThatTheyComeBack) {
    for (const char* word : {"plain", "", "two words", "it's", "$HOME", "a\"b", "*"}) {
        EXPECT_EQ(detail::split_shell_words(detail::quote_shell_word(word)), Words{word});
    }
}

TEST(CommandPolicy, ARuleAllowsWhatBeginsWithItsWords) {
    CommandPolicy policy;
    policy.allow(CommandRule::parse("git status"));
    EXPECT_TRUE(policy.allows("git status"));
    EXPECT_TRUE(policy.allows("  git   status --short"));
    EXPECT_TRUE(policy.allows("'git' \"status\" x"));
    for (const char* command :
         {"git", "git stat", "git statusx", "git -C /x status", "./git status", "/bin/git status",
          "sudo git status", "", "git push", "status"}) {
        EXPECT_FALSE(policy.allows(command)) << command;
    }
}

TEST(CommandPolicy, NoRuleMatchesACommandWithAnOperator) {
    CommandPolicy policy;
    policy.allow(CommandRule::parse("ls"));
    for (const char* command :
         {"ls; rm x", "ls && rm x", "ls & rm x", "ls | sh", "ls || rm x", "ls\nrm x", "ls $(rm x)",
          "ls `rm x`", "ls > x", "ls >> x", "ls < x", "ls <(rm x)", "ls ';'", "ls \"$(rm x)\"",
          "ls '|'", "ls\rrm", "ls 2>&1", "ls ${x:=\\$\\(rm x\\)} ${x@P}", "ls $[a[0]]"}) {
        EXPECT_FALSE(policy.allows(command)) << command;
        EXPECT_FALSE(rule_for(command)) << command;
    }
    EXPECT_FALSE(policy.allows(std::string_view("ls\0x", 4)));
}

TEST(CommandPolicy, NoRuleMatchesWhatIsNotAPlainProgram) {
    for (const char* command :
         {"PATH=. ls", "LD_PRELOAD=x.so ls", "$SHELL -c ls", "{ ls", "( ls )", "! ls", "~/ls",
          "if ls", "while ls", "l* x", "'", "ls 'open", "function ls", "# ls", "'my prog' x"}) {
        EXPECT_FALSE(simple_command(command)) << command;
    }
    EXPECT_TRUE(simple_command("make CC=clang"));
    EXPECT_TRUE(simple_command("echo $HOME *.c"));
}

TEST(CommandPolicy, ARuleAllowsNothingThatItsProgramCanBeMadeToRunOrOverwrite) {
    CommandPolicy policy;
    for (const char* rule : {"find", "git grep", "git diff", "git fetch", "sort x"})
        policy.allow(CommandRule::parse(rule));
    for (const char* command : {"find . -name x", "git grep -n foo", "git diff --stat",
                                "git fetch origin", "sort x -u"}) {
        EXPECT_TRUE(policy.allows(command)) << command;
    }
    for (const char* command :
         {"find . -exec sh -c x {} +", "find . -fprintf x y", "git grep --open-files-in-pager=x a",
          "git grep --open=x a", "git grep -nOx a", "git diff --output=x", "git diff --ou x",
          "git fetch --upload-pack=x y", "sort x -uo y", "sort x --comp=y"}) {
        EXPECT_FALSE(policy.allows(command)) << command;
    }
    policy.allow(CommandRule::parse("find . -exec"));
    EXPECT_TRUE(policy.allows("find . -exec wc {} +")) << "it was said in so many words";
}

TEST(CommandPolicy, D52_OnlyARuleThatSaysSoAllowsWhatCannotBeUndone) {
    CommandPolicy policy;
    policy.allow(CommandRule::parse("git branch"));
    EXPECT_TRUE(policy.allows("git branch --list"));
    EXPECT_FALSE(policy.allows("git branch -D main"));
    policy.allow(CommandRule::parse("git"));
    EXPECT_FALSE(policy.allows("git push"));
    policy.allow(CommandRule::parse("git push"));
    EXPECT_TRUE(policy.allows("git push"));
    policy.allow(CommandRule::parse("rm"));
    EXPECT_TRUE(policy.allows("rm x"));
}

TEST(CommandPolicy, ProposesNoRuleThatWouldAllowAnything) {
    for (const char* command :
         {"env", "env -i", "env A=1", "timeout 5", "bash", "python3", "python3 -i", "xargs -0"}) {
        EXPECT_EQ(proposed(command), "none") << command;
    }
    EXPECT_EQ(proposed("timeout 60 make test"), "timeout 60 make test");
    EXPECT_EQ(proposed("find . -name x"), "find . -name x");
}

TEST(CommandPolicy, ARuleThatCouldMatchNothingIsRefused) {
    for (const char* text : {"", "  ", "ls; rm", "ls | sh", "A=b ls"}) {
        EXPECT_THROW(CommandRule::parse(text), Error) << text;
    }
}

TEST(CommandPolicy, ProposesNarrowRules) {
    EXPECT_EQ(proposed("git status --short"), "git status");
    EXPECT_EQ(proposed("git -C /tmp status"), "git -C /tmp status");
    EXPECT_EQ(proposed("git stash list"), "git stash list");
    EXPECT_EQ(proposed("npm run build -- --fast"), "npm run build");
    EXPECT_EQ(proposed("docker exec --privileged box sh"), "docker exec --privileged box sh");
    EXPECT_EQ(proposed("ls -la src"), "ls");
    EXPECT_EQ(proposed("make test"), "make test");
    EXPECT_EQ(proposed("python3 -c 'print(1)'"), "python3 -c 'print(1)'");
    EXPECT_EQ(proposed("bash build.sh"), "bash build.sh");
    EXPECT_EQ(proposed("sed -n 1p x"), "sed -n 1p x");
}

TEST(CommandPolicy, TheProposedRuleAllowsTheCommand) {
    for (const char* command : {"git status -s", "npm run build x", "ls 'a b'",
                                "python3 -c 'a = \"b\"'", "cmake --build build"}) {
        CommandPolicy policy;
        policy.allow(CommandRule::parse(proposed(command)));
        EXPECT_TRUE(policy.allows(command)) << command;
    }
}

TEST(CommandPolicy, D52_KnowsIrreversibleCommands) {
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
        EXPECT_FALSE(rule_for(command)) << command;
    }
    for (const char* command :
         {"ls", "grep rm file", "echo rm", "make", "git status", "git commit -m x", "cat firm",
          "npm install", "docker ps", "armor x", ""}) {
        EXPECT_EQ(command_risk(command), ToolRisk::writes) << command;
    }
}

}  // namespace
}  // namespace cubepi
