#include <algorithm>
#include <sstream>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include <cubepi/core/version.hpp>

#include "chat_commands.hpp"
#include "command_line.hpp"
#include "failure.hpp"
#include "program.hpp"

namespace cubepi::app {

namespace {

struct Parsed {
    CommandLine line;
    std::string out;
    std::string err;
};

Parsed parse(std::vector<std::string> words, const std::vector<bub::CliCommand>& more = {},
             bool terminal = false, bool piped = false) {
    words.insert(words.begin(), "cubepi");
    std::vector<char*> arguments;
    for (std::string& word : words) arguments.push_back(word.data());
    ::testing::internal::CaptureStdout();
    ::testing::internal::CaptureStderr();
    Parsed parsed;
    parsed.line = parse_command_line(static_cast<int>(arguments.size()), arguments.data(), more,
                                     terminal, piped);
    parsed.out = ::testing::internal::GetCapturedStdout();
    parsed.err = ::testing::internal::GetCapturedStderr();
    return parsed;
}

TEST(CommandLine, RunCommand_SetsOptionsAndPromptWords) {
    const CommandLine line = parse({"run", "--json", "-m", "gpt-5.1", "--session", "plan", "--yes",
                                    "--max-turns", "3", "what", "failed?"})
                                 .line;
    EXPECT_EQ(line.verb, Verb::run);
    EXPECT_EQ(line.run.output, RunArguments::Output::stream_json);
    EXPECT_TRUE(line.conversation.yes);
    EXPECT_EQ(line.conversation.model.model, "gpt-5.1");
    EXPECT_EQ(line.conversation.session, "plan");
    EXPECT_EQ(line.conversation.max_turns, 3);
    EXPECT_EQ(line.words, (std::vector<std::string>{"what", "failed?"}));
    EXPECT_FALSE(line.exit_code);
}

TEST(CommandLine, WrongFormsAndAmounts_AreUsageErrors) {
    EXPECT_EQ(parse({"run", "--output-format", "json", "x"}).line.run.output,
              RunArguments::Output::json);
    EXPECT_EQ(parse({"run", "--max-cost", "0.5", "x"}).line.conversation.max_cost, 0.5);
    for (const std::vector<std::string>& wrong :
         {std::vector<std::string>{"run", "--output-format", "xml", "x"},
          {"run", "--input-format", "json", "x"},
          {"run", "--max-cost", "0", "x"},
          {"run", "--max-cost", "nan", "x"},
          {"run", "--max-cost", "1e99x", "x"}}) {
        EXPECT_EQ(parse(wrong).line.exit_code, exit_usage) << wrong[1] << " " << wrong[2];
    }
}

TEST(CommandLine, OtherCommands_SetTheirOptions) {
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
    const CommandLine traces =
        parse({"trace", "ls", "--meta", "a=1", "--meta", "b=2", "--show-meta", "a,b", "--dir", "d"})
            .line;
    EXPECT_EQ(traces.verb, Verb::trace);
    EXPECT_EQ(traces.trace.what, TraceArguments::What::list);
    EXPECT_EQ(traces.trace.metadata, (std::vector<std::string>{"a=1", "b=2"}));
    EXPECT_EQ(traces.trace.metadata_columns, (std::vector<std::string>{"a", "b"}));
    EXPECT_EQ(traces.trace.directory, "d");
    EXPECT_EQ(parse({"trace", "view", "4f9a", "--content"}).line.trace.run, "4f9a");
    EXPECT_EQ(parse({"trace", "show", "4f9a"}).line.trace.what, TraceArguments::What::view);
    EXPECT_EQ(parse({"trace", "list"}).line.trace.what, TraceArguments::What::list);
    const CommandLine stats = parse({"trace", "stats", "4f", "9a", "--by", "tool", "--json"}).line;
    EXPECT_EQ(stats.trace.what, TraceArguments::What::stats);
    EXPECT_EQ(stats.trace.runs, (std::vector<std::string>{"4f", "9a"}));
    EXPECT_EQ(stats.trace.by, "tool");
    EXPECT_TRUE(stats.trace.json);
    EXPECT_EQ(parse({"trace", "stats", "--by", "day"}).line.exit_code, exit_usage);
    const CommandLine follow = parse({"trace", "follow", "--idle-limit", "30s"}).line;
    EXPECT_EQ(follow.trace.what, TraceArguments::What::follow);
    EXPECT_EQ(follow.trace.idle_limit, "30s");
    const CommandLine convert =
        parse({"trace", "convert", "4f", "--to", "curl", "--call", "2"}).line;
    EXPECT_EQ(convert.trace.what, TraceArguments::What::convert);
    EXPECT_EQ(convert.trace.run, "4f");
    EXPECT_EQ(convert.trace.form, "curl");
    EXPECT_EQ(convert.trace.call, 2U);
    EXPECT_EQ(parse({"trace", "convert", "--to", "xml"}).line.exit_code, exit_usage);
    EXPECT_EQ(parse({"trace", "convert", "--call", "0"}).line.exit_code, exit_usage);
    EXPECT_EQ(parse({"sessions", "list"}).line.verb, Verb::sessions);
    const CommandLine removes = parse({"sessions", "delete", "plan"}).line;
    EXPECT_EQ(removes.verb, Verb::sessions);
    EXPECT_EQ(removes.sessions.what, SessionsArguments::What::remove);
    EXPECT_EQ(removes.sessions.name, "plan");
    const CommandLine resumes = parse({"resume", "plan"}).line;
    EXPECT_EQ(resumes.verb, Verb::chat);
    EXPECT_TRUE(resumes.sessions.resume);
    EXPECT_EQ(resumes.sessions.name, "plan");
    EXPECT_EQ(parse({"completion", "bash"}).line.words, (std::vector<std::string>{"bash"}));
}

TEST(CommandLine, HelpAndVersion_ExitSuccessfully) {
    const Parsed help = parse({"--help"});
    EXPECT_EQ(help.line.exit_code, exit_ok);
    for (const char* word : {"run", "chat", "demo", "onboard", "models", "doctor", "sessions",
                             "completion", "Examples:", "Exit status"}) {
        EXPECT_NE(help.out.find(word), std::string::npos) << word;
    }
    EXPECT_EQ(help.out.find("demo-step"), std::string::npos);
    EXPECT_EQ(parse({"run", "--help"}).line.exit_code, exit_ok);
    for (const char* flag : {"--version", "-V"})
        EXPECT_EQ(parse({flag}).out, "cubepi " + std::string(cubepi::version()) + "\n") << flag;
}

TEST(CommandLine, KeyAsFlag_IsUsageError) {
    EXPECT_EQ(parse({"onboard", "--key", "sk-x"}).line.exit_code, exit_usage);
    EXPECT_EQ(parse({"onboard", "--api-key", "sk-x"}).line.exit_code, exit_usage);
}

TEST(CommandLine, ArgumentsAfterPluginCommand_BelongToThePlugin) {
    bub::CliCommand greet;
    greet.name = "greet";
    const CommandLine line =
        parse({"greet", "you", "--loud", "--help", "-m", "x", "run"}, {greet}).line;
    EXPECT_EQ(line.verb, Verb::plugin);
    EXPECT_EQ(line.plugin_command, "greet");
    EXPECT_EQ(line.words, (std::vector<std::string>{"you", "--loud", "--help", "-m", "x", "run"}));
    EXPECT_FALSE(line.exit_code);
    EXPECT_NE(parse({"--help"}, {greet}).out.find("greet"), std::string::npos);
    EXPECT_EQ(parse({"greet"}).line.exit_code, exit_usage) << "no plugin has it";
}

TEST(CommandLine, InvalidCommandLine_IsReportedWithStatusTwo) {
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
        EXPECT_NE(parsed.err.find("cubepi help"), std::string::npos) << parsed.err;
    }
    EXPECT_NE(parse({"tape", "show", "--nope"}).err.find("cubepi help tape show\n"),
              std::string::npos);
    EXPECT_EQ(parse({"run", "--max-turns", "0", "x"}).err,
              "cubepi: --max-turns: '0' is not a positive number\n"
              "  Options and examples: cubepi help run\n");
    EXPECT_EQ(parse({"sessions", "delete", "one", "two"}).line.exit_code, exit_usage)
        << "the second would be passed over";
}

TEST(CommandLine, KindOption_TakesOneWord) {
    const CommandLine exports =
        parse({"tape", "export", "--kind", "message", "--kind", "event", "out.jsonl"}).line;
    EXPECT_EQ(exports.tape.kinds, (std::vector<std::string>{"message", "event"}));
    EXPECT_EQ(exports.tape.output, "out.jsonl");
    EXPECT_EQ(parse({"tape", "search", "-k", "message", "word"}).line.tape.text, "word");
    EXPECT_EQ(parse({"tape", "list", "--dir", "/x"}).line.tape.directory, "/x");
}

TEST(CommandLine, EachHelp_HasExamplesAndFitsTheScreen) {
    for (const std::vector<std::string>& words :
         std::vector<std::vector<std::string>>{{"--help"},
                                               {"run", "--help"},
                                               {"chat", "--help"},
                                               {"onboard", "--help"},
                                               {"models", "--help"},
                                               {"tape", "--help"},
                                               {"sessions", "--help"},
                                               {"inbox", "--help"},
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

TEST(CommandLine, NoCommandAtTerminal_StartsChat) {
    const CommandLine alone = parse({}, {}, true).line;
    EXPECT_EQ(alone.verb, Verb::chat);
    EXPECT_TRUE(alone.words.empty());
    EXPECT_FALSE(alone.exit_code);
    const CommandLine prompt = parse({"explain this", "project"}, {}, true).line;
    EXPECT_EQ(prompt.verb, Verb::chat);
    EXPECT_EQ(prompt_of(prompt.words), "explain this project");
    const CommandLine options = parse({"-m", "x", "--no-save", "explain this"}, {}, true).line;
    EXPECT_EQ(options.verb, Verb::chat);
    EXPECT_EQ(options.conversation.model.model, "x");
    EXPECT_TRUE(options.conversation.no_save);
    EXPECT_TRUE(parse({"--continue"}, {}, true).line.conversation.continue_last);
    const CommandLine tree = parse({"-w", "fix", "explain this"}, {}, true).line;
    EXPECT_EQ(tree.conversation.work_tree, "fix");
    EXPECT_EQ(prompt_of(tree.words), "explain this");
    EXPECT_EQ(parse({"这个项目是做什么的？"}, {}, true).line.verb, Verb::chat)
        << "a prompt of a language that is written without blanks";
}

TEST(CommandLine, TwoSessions_AreRefused) {
    const Parsed both = parse({"run", "--continue", "--session", "plan", "hi"});
    EXPECT_EQ(both.line.exit_code, exit_usage);
    EXPECT_EQ(both.err,
              "cubepi: --continue cannot be combined with --session, which names another.\n"
              "  Options and examples: cubepi help chat\n");
    EXPECT_EQ(parse({"chat", "--no-save", "--continue"}, {}, true).line.exit_code, exit_usage);
}

TEST(CommandLine, NoCommandWithoutTerminal_RunsThePrompt) {
    const CommandLine prompt = parse({"explain this"}).line;
    EXPECT_EQ(prompt.verb, Verb::run);
    EXPECT_EQ(prompt.words, (std::vector<std::string>{"explain this"}));
    EXPECT_EQ(parse({"--json", "explain this"}).line.run.output, RunArguments::Output::stream_json);
    const Parsed alone = parse({});
    EXPECT_EQ(alone.line.exit_code, exit_usage);
    EXPECT_EQ(alone.err,
              "cubepi: a chat needs a terminal; standard input or output is not one.\n"
              "  Ask one question: cubepi run \"PROMPT\". All commands: cubepi help\n");
}

TEST(CommandLine, PipedInputAlone_IsThePrompt) {
    for (const std::vector<std::string>& words :
         std::vector<std::vector<std::string>>{{}, {"-"}, {"-c"}, {"-c", "-"}}) {
        const Parsed piped = parse(words, {}, false, true);
        EXPECT_EQ(piped.line.verb, Verb::run) << piped.err;
        EXPECT_FALSE(piped.line.exit_code) << piped.err;
    }
    EXPECT_EQ(parse({"-"}, {}, true).line.exit_code, exit_usage);
}

TEST(CommandLine, EmptyValue_IsAnErrorAndSwallowsNothing) {
    for (const std::vector<std::string>& words :
         std::vector<std::vector<std::string>>{{"run", "--session=", "prompt"},
                                               {"run", "--session", "", "prompt"},
                                               {"run", "-s", "", "prompt"},
                                               {"run", "--model=", "prompt"},
                                               {"run", "prompt", "--system="},
                                               {"chat", "--db=", "x"},
                                               {"--session=", "a prompt"},
                                               {"inbox", "approve", "id", "--session="},
                                               {"models", "--base-url=", "x"},
                                               {"gateway", "--enable-channel=", "http"},
                                               {"tape", "show", "--tapes=", "x"}}) {
        const Parsed parsed = parse(words);
        EXPECT_EQ(parsed.line.exit_code, exit_usage) << words[1];
        EXPECT_NE(parsed.err.find(" is empty.\n  Write a value after it, or omit "),
                  std::string::npos)
            << parsed.err;
    }
    EXPECT_EQ(parse({"run", "--", "--session="}).line.words.front(), "--session=");
    EXPECT_EQ(parse({"run", "a", ""}).line.words.size(), 2u) << "an argument is not an option";
}

TEST(CommandLine, EmptyQuestion_IsRefused) {
    for (const char* action : {"show", "approve", "deny", "answer", "cancel"})
        for (const std::vector<std::string>& more :
             std::vector<std::vector<std::string>>{{""}, {"", "text"}, {"", "--gateway"}}) {
            std::vector<std::string> words = {"inbox", action};
            words.insert(words.end(), more.begin(), more.end());
            EXPECT_EQ(parse(words).line.exit_code, exit_usage) << action;
        }
}

TEST(CommandLine, MisspeltCommand_IsNeverAPrompt) {
    for (const bool terminal : {false, true}) {
        const Parsed misspelt = parse({"chta"}, {}, terminal);
        EXPECT_EQ(misspelt.line.exit_code, exit_usage);
        EXPECT_EQ(misspelt.err,
                  "cubepi: 'chta' is not a command; did you mean 'chat'?\n"
                  "  To use it as a prompt: cubepi run chta or cubepi chat chta\n"
                  "  To list the commands: cubepi help\n");
        for (const std::vector<std::string>& words :
             std::vector<std::vector<std::string>>{{"modles", "--json"},
                                                   {"sesions", "list"},
                                                   {"-m", "x", "chta"},
                                                   {"why?"},
                                                   {"--", "hello"},
                                                   {""},
                                                   {"  "}}) {
            EXPECT_EQ(parse(words, {}, terminal).line.exit_code, exit_usage) << words.front();
        }
        EXPECT_NE(parse({"modles", "--json"}, {}, terminal).err.find("did you mean 'models'?"),
                  std::string::npos);
        EXPECT_NE(parse({"-m", "x", "run", "hi"}, {}, terminal)
                      .err.find("'run' must come before its options"),
                  std::string::npos);
    }
    bub::CliCommand greet;
    greet.name = "greet";
    EXPECT_NE(parse({"great"}, {greet}).err.find("did you mean 'greet'?"), std::string::npos);
    EXPECT_EQ(parse({"run", "chta"}).line.words, (std::vector<std::string>{"chta"}));
    EXPECT_EQ(parse({"chat", "hello"}).line.words, (std::vector<std::string>{"hello"}));
}

TEST(CommandLine, MisspeltOptionOrSubcommand_IsAnsweredWithSuggestion) {
    EXPECT_EQ(parse({"run", "--modle", "x"}).err,
              "cubepi: unknown option '--modle'; did you mean '--model'?\n"
              "  Options and examples: cubepi help run\n");
    EXPECT_NE(parse({"run", "--modle=x"}).err.find("'--modle'; did you mean '--model'?"),
              std::string::npos);
    EXPECT_NE(parse({"chat", "--json"}).err.find("'--json'; it is an option of 'cubepi run'"),
              std::string::npos);
    EXPECT_EQ(parse({"sessions", "lst"}).err,
              "cubepi: 'lst' is not a command of 'cubepi sessions'; did you mean 'list'?\n"
              "  Options and examples: cubepi help sessions\n");
    EXPECT_NE(parse({"tape"}).err.find("'cubepi tape' needs a command: list, show, search"),
              std::string::npos);
    EXPECT_NE(parse({"doctor", "now"}).err.find("unexpected argument 'now'"), std::string::npos);
}

TEST(CommandLine, HelpCommand_PrintsHelpOfTheNamedCommand) {
    EXPECT_EQ(parse({"help"}).out, parse({"--help"}).out);
    EXPECT_EQ(parse({"help", "run"}).out, parse({"run", "--help"}).out);
    EXPECT_EQ(parse({"help", "tape", "show"}).out, parse({"tape", "show", "--help"}).out);
    EXPECT_EQ(parse({"help", "run"}).line.exit_code, exit_ok);
    const Parsed unknown = parse({"help", "rnu"});
    EXPECT_EQ(unknown.line.exit_code, exit_usage);
    EXPECT_NE(unknown.err.find("'rnu' is not a command; did you mean 'run'?"), std::string::npos);
}

TEST(CommandLine, StandardInput_HasALimitThatOptionChanges) {
    EXPECT_EQ(parse({"run", "x"}).line.run.input_limit, 64u);
    EXPECT_EQ(parse({"run", "--max-input", "200", "x"}).line.run.input_limit, 200u);
    EXPECT_EQ(parse({"run", "--max-input", "-1", "x"}).line.exit_code, exit_usage);
    EXPECT_EQ(parse({"chat", "--no-save", "--session", "x"}).line.exit_code, exit_usage);
}

/// The options of the help, as "--name".
std::vector<std::string> long_options(const std::string& help) {
    std::vector<std::string> names;
    const std::string options = help.substr(0, help.find("Examples:"));
    for (std::size_t at = options.find("--"); at != std::string::npos;
         at = options.find("--", at + 2)) {
        const std::size_t end = options.find_first_of(" ,\n=", at + 2);
        if (end - at > 3) names.push_back(options.substr(at, end - at));
    }
    return names;
}

std::string completed(const std::vector<std::string>& before, const std::string& word) {
    CommandLine line;
    line.words = {"words"};
    line.words.insert(line.words.end(), before.begin(), before.end());
    line.words.push_back(word);
    ::testing::internal::CaptureStdout();
    EXPECT_EQ(complete_command(line, {}), exit_ok);
    return ::testing::internal::GetCapturedStdout();
}

TEST(Completion, Completion_OffersEveryOptionAndCommandOfHelp) {
    for (const std::vector<std::string>& command :
         std::vector<std::vector<std::string>>{{"run"},
                                               {"chat"},
                                               {"demo"},
                                               {"models"},
                                               {"onboard"},
                                               {"sessions", "list"},
                                               {"tape", "list"},
                                               {"tape", "show"},
                                               {"tape", "search"},
                                               {"tape", "anchors"},
                                               {"tape", "export"}}) {
        std::vector<std::string> words = command;
        words.emplace_back("--help");
        const std::vector<std::string> options = long_options(parse(words).out);
        EXPECT_FALSE(options.empty());
        const std::string offered = completed(command, "-");
        for (const std::string& option : options)
            EXPECT_NE(offered.find('\0' + option + '\0'), std::string::npos) << option;
    }
    const std::string commands = completed({}, "");
    for (const std::string& name : own_command_names()) {
        const bool hidden = name == "demo-step" || name == "__man";
        EXPECT_EQ(commands.find('\0' + name + '\0') == std::string::npos, hidden) << name;
    }
}

TEST(Completion, CursorPosition_DeterminesOfferedCompletions) {
    const auto fields = [](const std::string& text) {
        std::string list = text;
        for (char& c : list) c = c == '\0' ? '|' : c;
        return list;
    };
    EXPECT_EQ(fields(completed({"completion"}, "")), "none|bash||zsh||fish||");
    EXPECT_EQ(fields(completed({"run", "--script"}, "")), "any|");
    EXPECT_EQ(fields(completed({"tape", "--dir"}, "")), "directories|");
    EXPECT_EQ(fields(completed({"tape", "export"}, "")), "any|");
    EXPECT_NE(fields(completed({"run", "--provider"}, "a")).find("|anthropic|"), std::string::npos);
    EXPECT_NE(fields(completed({"run", "--kind=x"}, "--provider=a")).find("|--provider=anthropic|"),
              std::string::npos);
    EXPECT_NE(fields(completed({"-m", "x"}, "--no-s")).find("|--no-save|"), std::string::npos);
    EXPECT_NE(fields(completed({"help", "tape"}, "")).find("|search|"), std::string::npos);
    EXPECT_EQ(fields(completed({"run", "--"}, "--mo")), "none|");
    EXPECT_EQ(fields(completed({"doctor"}, "")), "none|");
}

TEST(Completion, EachOfThreeShells_HasACompletionScript) {
    CommandLine line;
    line.words = {"tcsh"};
    EXPECT_EQ(completion_command(line), exit_usage);
}

TEST(ManPage, ManPage_HasEveryCommandAndOption) {
    ::testing::internal::CaptureStdout();
    EXPECT_EQ(man_page_command(), exit_ok);
    const std::string page = ::testing::internal::GetCapturedStdout();
    std::string plain;
    for (const char c : page)
        if (c != '\\') plain += c;
    for (const char* command : {"run", "chat", "demo", "onboard", "models", "doctor", "hooks",
                                "sessions list", "sessions delete", "tape search", "help"}) {
        EXPECT_NE(plain.find(".SS cubepi " + std::string(command)), std::string::npos) << command;
    }
    for (const std::string& option : long_options(parse({"chat", "--help"}).out))
        EXPECT_NE(plain.find(option), std::string::npos) << option;
    EXPECT_EQ(plain.find("demo-step"), std::string::npos);
    EXPECT_NE(plain.find(".SH EXIT STATUS"), std::string::npos);
}

using Kind = ChatInput::Kind;

ChatInput at_terminal(const std::string& text) {
    return read_chat_input(text, ChatAbilities{.live = true, .trusted = true});
}

ChatInput from_pipe(const std::string& text) { return read_chat_input(text, ChatAbilities{}); }

TEST(ChatCommands, UnknownCommand_IsRefusedWithSuggestion) {
    for (const char* text : {"/exti", "/exi", "/hlep", "/modle gpt-5.1", "/n"}) {
        const ChatInput input = at_terminal(text);
        EXPECT_EQ(input.kind, Kind::refused) << text;
        EXPECT_NE(input.text.find("Did you mean /"), std::string::npos) << input.text;
    }
    EXPECT_NE(at_terminal("/exti").text.find("/exit?"), std::string::npos);
    EXPECT_NE(at_terminal("/n").text.find("/new?"), std::string::npos);
    const ChatInput far = at_terminal("/xylophone");
    EXPECT_EQ(far.kind, Kind::refused);
    EXPECT_EQ(far.text.find("Did you mean"), std::string::npos) << far.text;
}

TEST(ChatCommands, PathsAndEscapedText_ArePrompts) {
    for (const char* text : {"/etc/hosts is wrong", "/** a comment */", "/Users is a directory",
                             "/2 of them", " /quit", "/", "a /quit"}) {
        const ChatInput input = at_terminal(text);
        EXPECT_EQ(input.kind, Kind::prompt) << text;
        EXPECT_EQ(input.text, text);
    }
    EXPECT_EQ(at_terminal("//quit now").kind, Kind::prompt);
    EXPECT_EQ(at_terminal("//quit now").text, "/quit now");
    EXPECT_EQ(at_terminal("// a comment").text, "// a comment");
}

TEST(ChatCommands, Arguments_AreChecked) {
    EXPECT_EQ(at_terminal("/exit").action, ChatAction::quit);
    EXPECT_EQ(at_terminal("/quit ").kind, Kind::action);
    const ChatInput now = at_terminal("/exit now");
    EXPECT_EQ(now.kind, Kind::refused);
    EXPECT_NE(now.text.find("/exit takes no arguments"), std::string::npos) << now.text;
    EXPECT_EQ(at_terminal("/later").kind, Kind::refused);
    EXPECT_EQ(at_terminal("/later  two\nlines").text, "two\nlines");
    EXPECT_EQ(at_terminal("/model").action, ChatAction::pick_model);
    EXPECT_EQ(at_terminal("/effort").action, ChatAction::pick_effort);
    EXPECT_EQ(at_terminal("/ps").action, ChatAction::tasks);
    EXPECT_EQ(at_terminal("/clear").action, ChatAction::new_session);
    EXPECT_EQ(at_terminal("/sessions").action, ChatAction::resume);
    EXPECT_EQ(at_terminal("/rules").action, ChatAction::permissions);
    EXPECT_EQ(at_terminal("/export a b.md").text, "a b.md");
    EXPECT_EQ(at_terminal("  ").kind, Kind::nothing);
}

TEST(ChatCommands, ShellAndCommaLines_GoToThePipeline) {
    EXPECT_EQ(at_terminal("!ls").kind, Kind::pipeline);
    EXPECT_EQ(at_terminal("!ls").text, ",!ls");
    const ChatInput plain =
        read_chat_input("/model", ChatAbilities{.live = false, .trusted = true});
    EXPECT_EQ(plain.text, ",model");
    EXPECT_EQ(at_terminal("/model it's").text, ",model 'it'\\''s'");
    EXPECT_EQ(at_terminal("/effort high").text, ",reasoning_effort 'high'");
    EXPECT_EQ(at_terminal("/skills").text, ",skill");
    EXPECT_EQ(at_terminal(",tape_info").kind, Kind::pipeline);
    EXPECT_EQ(at_terminal("! ").kind, Kind::refused);
}

TEST(ChatInput, LoneWords_LeaveOrHelp) {
    for (const char* text : {"exit", "quit", "quit ", "/quit", "/exit", ",quit", ", quit\n"}) {
        EXPECT_EQ(at_terminal(text).kind, Kind::action) << text;
        EXPECT_EQ(at_terminal(text).action, ChatAction::quit) << text;
    }
    for (const char* text : {"help", "?", "/help"}) {
        EXPECT_EQ(at_terminal(text).kind, Kind::action) << text;
        EXPECT_EQ(at_terminal(text).action, ChatAction::help) << text;
    }
    EXPECT_EQ(from_pipe("exit").action, ChatAction::quit);
    EXPECT_EQ(from_pipe(",quit").kind, Kind::prompt);
    for (const char* text : {" exit", "exit now", "Quit", "help me", "??", "quit?"})
        EXPECT_EQ(at_terminal(text).kind, Kind::prompt) << text;
}

TEST(ChatInput, OtherProgramsNames_SuggestOurs) {
    EXPECT_NE(at_terminal("/think").text.find("Did you mean /effort?"), std::string::npos);
    EXPECT_EQ(at_terminal("/reset").text.find("/later"), std::string::npos);
}

TEST(ChatCommands, B11_TextFromPipe_RunsNothing) {
    EXPECT_EQ(from_pipe("!ls").kind, Kind::prompt);
    EXPECT_EQ(from_pipe(",ls").kind, Kind::prompt);
    EXPECT_EQ(from_pipe("/export x.md").kind, Kind::refused);
    EXPECT_EQ(from_pipe("/nwe").kind, Kind::refused);
    EXPECT_EQ(from_pipe("/quit").action, ChatAction::quit);
}

TEST(ChatCommands, TableCommands_AreInHelpAndCompletion) {
    const ChatAbilities live{.live = true, .trusted = true};
    const ChatAbilities plain{.live = false, .trusted = true};
    for (const char* name : {"/new", "/model ", "/status", "/cost", "/copy", "/export "}) {
        for (const ChatAbilities& chat : {live, plain}) {
            EXPECT_NE(chat_help(chat).find("  " + std::string(name)), std::string::npos) << name;
            const std::vector<Command> known = chat_completions(chat);
            EXPECT_TRUE(std::any_of(known.begin(), known.end(), [&](const Command& one) {
                return one.name == name;
            })) << name;
        }
    }
    EXPECT_EQ(chat_help(plain).find("/later"), std::string::npos);
    EXPECT_EQ(read_chat_input("/later x", plain).kind, Kind::refused);
}

}  // namespace

}  // namespace cubepi::app
