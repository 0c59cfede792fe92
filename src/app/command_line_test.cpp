#include "command_line.hpp"

#include <gtest/gtest.h>

#include <sstream>
#include <string>
#include <vector>

#include "commands.hpp"
#include "exit_code.hpp"

namespace cubepi::app {
namespace {

struct Parsed {
    CommandLine line;
    std::string out;
    std::string err;
};

Parsed parse(std::vector<std::string> words, const std::vector<bub::CliCommand>& more = {}) {
    words.insert(words.begin(), "cubepi");
    std::vector<char*> arguments;
    for (std::string& word : words) arguments.push_back(word.data());
    ::testing::internal::CaptureStdout();
    ::testing::internal::CaptureStderr();
    Parsed parsed;
    parsed.line = parse_command_line(static_cast<int>(arguments.size()), arguments.data(), more);
    parsed.out = ::testing::internal::GetCapturedStdout();
    parsed.err = ::testing::internal::GetCapturedStderr();
    return parsed;
}

TEST(CommandLine, Run) {
    const CommandLine line = parse({"run", "--json", "-m", "gpt-5.1", "--session", "plan", "--yes",
                                    "--max-turns", "3", "what", "failed?"})
                                 .line;
    EXPECT_EQ(line.verb, Verb::run);
    EXPECT_TRUE(line.conversation.json);
    EXPECT_TRUE(line.conversation.yes);
    EXPECT_EQ(line.conversation.model.model, "gpt-5.1");
    EXPECT_EQ(line.conversation.session, "plan");
    EXPECT_EQ(line.conversation.max_turns, 3);
    EXPECT_EQ(line.words, (std::vector<std::string>{"what", "failed?"}));
    EXPECT_FALSE(line.exit_code);
}

TEST(CommandLine, TheOtherCommands) {
    EXPECT_EQ(parse({"chat", "--continue", "--offline"}).line.verb, Verb::chat);
    EXPECT_TRUE(parse({"chat", "-c"}).line.conversation.continue_last);
    EXPECT_TRUE(parse({"demo", "--fast"}).line.fast);
    const CommandLine models = parse({"models", "--provider", "anthropic", "--json", "opus"}).line;
    EXPECT_EQ(models.verb, Verb::models);
    EXPECT_EQ(models.conversation.model.provider, "anthropic");
    EXPECT_TRUE(models.conversation.json);
    EXPECT_EQ(models.words, (std::vector<std::string>{"opus"}));
    const CommandLine onboard =
        parse({"onboard", "--provider", "anthropic", "--key-stdin", "-m", "m", "-y"}).line;
    EXPECT_EQ(onboard.verb, Verb::onboard);
    EXPECT_EQ(onboard.conversation.model.model, "m");
    EXPECT_TRUE(onboard.key_from_input);
    EXPECT_TRUE(onboard.conversation.yes);
    EXPECT_EQ(parse({"doctor"}).line.verb, Verb::doctor);
    EXPECT_EQ(parse({"hooks"}).line.verb, Verb::hooks);
    const CommandLine search = parse({"tape", "search", "word"}).line;
    EXPECT_EQ(search.verb, Verb::tape);
    EXPECT_EQ(search.tape.what, TapeArguments::What::search);
    EXPECT_EQ(parse({"sessions", "list"}).line.verb, Verb::sessions_list);
    const CommandLine removes = parse({"sessions", "delete", "plan"}).line;
    EXPECT_EQ(removes.verb, Verb::sessions_delete);
    EXPECT_EQ(removes.words, (std::vector<std::string>{"plan"}));
    EXPECT_EQ(parse({"completion", "bash"}).line.words, (std::vector<std::string>{"bash"}));
}

TEST(CommandLine, HelpAndVersionAreNoFailures) {
    const Parsed help = parse({"--help"});
    EXPECT_EQ(help.line.exit_code, exit_ok);
    for (const char* word : {"run", "chat", "demo", "onboard", "models", "doctor", "sessions",
                             "completion", "Examples:", "Exit status"}) {
        EXPECT_NE(help.out.find(word), std::string::npos) << word;
    }
    EXPECT_EQ(help.out.find("demo-step"), std::string::npos);
    EXPECT_EQ(parse({"run", "--help"}).line.exit_code, exit_ok);
    EXPECT_EQ(parse({}).line.exit_code, exit_ok);
    EXPECT_NE(parse({"--version"}).out.find("cubepi "), std::string::npos);
}

TEST(CommandLine, AKeyIsNeverAFlag) {
    EXPECT_EQ(parse({"onboard", "--key", "sk-x"}).line.exit_code, exit_usage);
    EXPECT_EQ(parse({"onboard", "--api-key", "sk-x"}).line.exit_code, exit_usage);
}

TEST(CommandLine, WhatFollowsAPluginsCommandIsItsOwn) {
    bub::CliCommand greet;
    greet.name = "greet";
    const CommandLine line =
        parse({"greet", "you", "--loud", "--help", "-m", "x", "run"}, {greet}).line;
    EXPECT_EQ(line.verb, Verb::plugin);
    EXPECT_EQ(line.plugin_command, "greet");
    EXPECT_EQ(line.words, (std::vector<std::string>{"you", "--loud", "--help", "-m", "x", "run"}));
    EXPECT_FALSE(line.exit_code);
    EXPECT_NE(parse({"--help"}, {greet}).out.find("greet"), std::string::npos);
    EXPECT_EQ(parse({"greet"}).line.exit_code, exit_usage) << "nobody has it";
}

TEST(CommandLine, WhatIsWrongIsSaidAndIsStatusTwo) {
    for (const std::vector<std::string>& words :
         std::vector<std::vector<std::string>>{{"run", "--nope"},
                                               {"fly"},
                                               {"--nope"},
                                               {"sessions"},
                                               {"sessions", "delete"},
                                               {"completion"},
                                               {"run", "--max-turns", "0"},
                                               {"run", "--max-turns", "many"},
                                               {"chat", "--model"}}) {
        const Parsed parsed = parse(words);
        EXPECT_EQ(parsed.line.exit_code, exit_usage) << words.front();
        EXPECT_TRUE(parsed.err.starts_with("cubepi: ")) << parsed.err;
        EXPECT_NE(parsed.err.find("--help'"), std::string::npos) << parsed.err;
    }
    EXPECT_EQ(
        parse({"fly"}).err,
        "cubepi: there is no command 'fly'.\nRun 'cubepi --help' for those that there are.\n");
    EXPECT_NE(parse({"tape", "show", "--nope"}).err.find("'cubepi tape show --help'"),
              std::string::npos);
    EXPECT_EQ(parse({"run", "--max-turns", "0", "x"}).err,
              "cubepi: --max-turns: '0' is no number above 0\n"
              "Run 'cubepi run --help' for the flags and some examples.\n");
    EXPECT_EQ(parse({"sessions", "delete", "one", "two"}).line.exit_code, exit_usage)
        << "the second would be passed over";
}

TEST(CommandLine, AKindOfEntriesTakesOneWord) {
    const CommandLine exports =
        parse({"tape", "export", "--kind", "message", "--kind", "event", "out.jsonl"}).line;
    EXPECT_EQ(exports.tape.kinds, (std::vector<std::string>{"message", "event"}));
    EXPECT_EQ(exports.tape.output, "out.jsonl");
    EXPECT_EQ(parse({"tape", "search", "-k", "message", "word"}).line.tape.text, "word");
    EXPECT_EQ(parse({"tape", "list", "--dir", "/x"}).line.tape.directory, "/x");
}

TEST(CommandLine, EachHelpHasItsOwnExamplesAndFitsTheScreen) {
    for (const std::vector<std::string>& words :
         std::vector<std::vector<std::string>>{{"--help"},
                                               {"run", "--help"},
                                               {"chat", "--help"},
                                               {"onboard", "--help"},
                                               {"models", "--help"},
                                               {"tape", "--help"},
                                               {"completion", "--help"}}) {
        const std::string help = parse(words).out;
        const std::string command =
            words.size() == 1 ? "  cubepi " : "  cubepi " + words.front() + " ";
        const std::size_t examples = help.find("Examples:");
        EXPECT_NE(help.find(command, examples), std::string::npos) << help;
        EXPECT_EQ(help.find("Exit status") != std::string::npos, words.size() == 1) << help;
        std::istringstream lines(help);
        for (std::string text; std::getline(lines, text);) EXPECT_LE(text.size(), 130u) << text;
    }
}

TEST(Completion, HasEveryFlagOfTheHelp) {
    std::string help = parse({"run", "--help"}).out + parse({"demo", "--help"}).out +
                       parse({"models", "--help"}).out + parse({"onboard", "--help"}).out +
                       parse({"sessions", "list", "--help"}).out;
    for (const char* what : {"list", "show", "search", "anchors", "export"})
        help += parse({"tape", what, "--help"}).out;
    help += parse({"tape", "--help"}).out;
    for (const char* shell : {"bash", "zsh", "fish"}) {
        CommandLine line;
        line.verb = Verb::completion;
        line.words = {shell};
        ::testing::internal::CaptureStdout();
        EXPECT_EQ(completion_command(line), exit_ok);
        const std::string script = ::testing::internal::GetCapturedStdout();
        for (std::size_t at = help.find("--"); at != std::string::npos;
             at = help.find("--", at + 2)) {
            const std::size_t end = help.find_first_of(" ,\n=", at + 2);
            std::string flag = help.substr(at, end - at);
            if (flag.size() < 4 || flag == "--help") continue;
            if (std::string(shell) == "fish") flag = "-l " + flag.substr(2);
            EXPECT_NE(script.find(flag), std::string::npos) << shell << ": " << flag;
        }
    }
    CommandLine line;
    line.words = {"tcsh"};
    EXPECT_EQ(completion_command(line), exit_usage);
}

}  // namespace
}  // namespace cubepi::app
