#include <cstdlib>
#include <ctime>
#include <iostream>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include <bub/framework.hpp>
#include <cubepi/core/error.hpp>

#include "failure.hpp"
#include "process.hpp"
#include "program.hpp"
#include "shell_quoting.hpp"

// Commands and plugins of programs that embed this one.

namespace cubepi::app {

namespace {

struct Ran {
    int status = -1;
    std::string out = {};
    std::string err = {};
};

Ran run_with(std::vector<std::string> words, const AddPlugins& plugins) {
    words.insert(words.begin(), "cubepi");
    std::vector<char*> arguments;
    for (std::string& word : words) arguments.push_back(word.data());
    Ran ran;
    ::testing::internal::CaptureStdout();
    ::testing::internal::CaptureStderr();
    ran.status = run_program(static_cast<int>(arguments.size()), arguments.data(), plugins);
    ran.out = ::testing::internal::GetCapturedStdout();
    ran.err = ::testing::internal::GetCapturedStderr();
    return ran;
}

bub::CliCommand command(std::string name, int status) {
    bub::CliCommand made;
    made.name = std::move(name);
    made.description = "Says what it got";
    made.run = [status](std::vector<std::string> words) -> Task<int> {
        for (const std::string& word : words) std::cout << '[' << word << ']';
        co_return status;
    };
    return made;
}

bub::Plugin commanding(std::string plugin, std::vector<bub::CliCommand> commands) {
    bub::Plugin made;
    made.name = std::move(plugin);
    made.register_cli_commands = [commands = std::move(commands)](bub::ProvideCall&) {
        return commands;
    };
    return made;
}

TEST(PluginCommands, RunningPluginCommand_PassesArgumentsAndReturnsStatus) {
    const AddPlugins plugins = [](bub::Framework& framework) {
        framework.add(commanding("greeter", {command("greet", 7)}));
    };
    const Ran ran = run_with({"greet", "you", "--loud"}, plugins);
    EXPECT_EQ(ran.status, 7);
    EXPECT_EQ(ran.out, "[you][--loud]");
    EXPECT_EQ(ran.err, "");
    EXPECT_NE(run_with({"--help"}, plugins).out.find("Says what it got"), std::string::npos);
}

TEST(PluginCommands, BuiltInCommand_PrecedesPluginsAndReportsConflict) {
    const AddPlugins plugins = [](bub::Framework& framework) {
        framework.add(commanding("bold", {command("completion", 9), command("greet", 1)}));
        framework.add(commanding("newer", {command("greet", 2), command("", 3)}));
    };
    const Ran own = run_with({"completion", "bash"}, plugins);
    EXPECT_EQ(own.status, exit_ok);
    EXPECT_NE(own.out.find("complete -F"), std::string::npos);
    EXPECT_NE(own.err.find("command 'completion' of plugin bold: a built-in command has"),
              std::string::npos)
        << own.err;
    EXPECT_NE(own.err.find("command 'greet' of plugin bold: the command of plugin newer has"),
              std::string::npos)
        << own.err;
    EXPECT_EQ(run_with({"greet"}, plugins).status, 2);
}

TEST(PluginCommands, HooksCommand_ShowsUsedAndUnusedCommands) {
    const AddPlugins plugins = [](bub::Framework& framework) {
        framework.add(commanding("greeter", {command("greet", 0), command("run", 0)}));
    };
    const Ran ran = run_with({"hooks"}, plugins);
    EXPECT_EQ(ran.status, exit_ok);
    EXPECT_NE(ran.out.find("cubepi greet: greeter, Says what it got"), std::string::npos)
        << ran.out;
    EXPECT_NE(ran.out.find("not used: command 'run' of plugin greeter"), std::string::npos)
        << ran.out;
    EXPECT_NE(ran.out.find("register_cli_commands: greeter"), std::string::npos) << ran.out;
}

TEST(PluginCommands, B16_ThrowingPlugin_LeavesTheProgramsOwnCommands) {
    const AddPlugins thrown = [](bub::Framework&) { throw std::runtime_error("no licence"); };
    const Ran hooks = run_with({"hooks"}, thrown);
    EXPECT_EQ(hooks.status, exit_failed);
    EXPECT_NE(hooks.out.find("broken: no licence"), std::string::npos) << hooks.out;
    const AddPlugins throwing = [](bub::Framework& framework) {
        bub::Plugin plugin;
        plugin.name = "torn";
        plugin.register_cli_commands = [](bub::ProvideCall&) -> std::vector<bub::CliCommand> {
            throw std::runtime_error("torn apart");
        };
        framework.add(std::move(plugin));
    };
    const Ran own = run_with({"completion", "bash"}, throwing);
    EXPECT_EQ(own.status, exit_ok);
    EXPECT_NE(own.err.find("torn apart"), std::string::npos) << own.err;
}

TEST(PluginCommands, ThrowingCommand_IsAFailureOfTheProgram) {
    const AddPlugins plugins = [](bub::Framework& framework) {
        bub::CliCommand fails;
        fails.name = "fails";
        fails.run = [](std::vector<std::string>) -> Task<int> {
            throw Error(ErrorCode::invalid_argument, "fails: it wants a name");
            co_return 0;
        };
        framework.add(commanding("greeter", {fails}));
    };
    const Ran ran = run_with({"fails"}, plugins);
    EXPECT_EQ(ran.status, exit_usage);
    EXPECT_EQ(ran.err, "cubepi: fails: it wants a name\n");
}

std::string settings(const LogFlags& flags, std::string_view variable) {
    try {
        const LogSettings found = log_settings(flags, variable);
        std::string text(to_string(found.level));
        if (found.format) text += found.format == LogFormat::json ? " json" : " text";
        return text;
    } catch (const Error& error) {
        return error.what();
    }
}

LogFlags flags(std::string level, std::string format = {}) {
    LogFlags made;
    made.level = std::move(level);
    made.format = std::move(format);
    return made;
}

TEST(LogSetup, B29_Logging_IsOffByDefault) { EXPECT_EQ(settings({}, ""), "off"); }

TEST(LogSetup, Variable_SetsLevelAndFormat) {
    EXPECT_EQ(settings({}, "info"), "info");
    EXPECT_EQ(settings({}, "warn:json"), "warning json");
    EXPECT_EQ(settings({}, "debug:text"), "debug text");
    EXPECT_EQ(settings({}, "off"), "off");
}

TEST(LogSetup, Flags_PrecedeTheVariable) {
    EXPECT_EQ(settings(flags("error"), "info:json"), "error json");
    EXPECT_EQ(settings(flags("error", "text"), "info:json"), "error text");
    EXPECT_EQ(settings(flags("", "json"), ""), "info json");
    EXPECT_EQ(settings(flags("off", "json"), "info"), "off json");
}

TEST(LogSetup, OtherWords_AreRefused) {
    EXPECT_EQ(settings({}, "loud"),
              "CUBEPI_LOG: 'loud' is not a log level; use debug, info, warning, error or off");
    EXPECT_EQ(settings({}, "info:xml"), "CUBEPI_LOG: 'xml' is not a log format; use text or json");
    EXPECT_EQ(settings({}, ":json"),
              "CUBEPI_LOG: '' is not a log level; use debug, info, warning, error or off");
    EXPECT_EQ(settings(flags("3"), ""),
              "--log-level: '3' is not a log level; use debug, info, warning, error or off");
    EXPECT_EQ(settings(flags("info", "xml"), ""),
              "--log-format: 'xml' is not a log format; use text or json");
}

/// A time zone with daylight saving time, without the zone files of the machine.
class LocalTime : public ::testing::Test {
protected:
    LocalTime() {
        if (const char* zone = std::getenv("TZ")) before_ = zone;
        setenv("TZ", "CET-1CEST,M3.5.0,M10.5.0/3", 1);
        tzset();
    }
    ~LocalTime() override {
        if (before_.empty()) {
            unsetenv("TZ");
        } else {
            setenv("TZ", before_.c_str(), 1);
        }
        tzset();
    }

private:
    std::string before_;
};

TEST_F(LocalTime, Time_NamesTheOffset) {
    EXPECT_EQ(local_time("2026-03-01T12:00:05.250000+00:00"), "2026-03-01 13:00:05 +0100");
    EXPECT_EQ(local_time("2026-07-01T12:00:05+00:00"), "2026-07-01 14:00:05 +0200");
    EXPECT_EQ(local_time("2026-07-01T22:30:00-03:00"), "2026-07-02 03:30:00 +0200");
    EXPECT_EQ(local_time(1772366405.9), "2026-03-01 13:00:05 +0100");
    EXPECT_EQ(local_time(0.0), "-");
    EXPECT_EQ(local_time("junk"), "junk");
}

TEST_F(LocalTime, Input_IsParsedAsLocalTime) {
    EXPECT_EQ(utc_time("--from", "2026-03-01", false), "2026-02-28T23:00:00+00:00");
    EXPECT_EQ(utc_time("--to", "2026-03-01", true), "2026-03-01T22:59:59.999999+00:00");
    EXPECT_EQ(utc_time("--from", "2026-07-01T14:30", false), "2026-07-01T12:30:00+00:00");
    EXPECT_EQ(utc_time("--from", "2026-07-01 14:30", false), "2026-07-01T12:30:00+00:00");
    EXPECT_EQ(utc_time("--from", "2026-07-01T14:30Z", false), "2026-07-01T14:30:00+00:00");
    EXPECT_EQ(utc_time("--from", "2026-07-01T14:30-01:00", false), "2026-07-01T15:30:00+00:00");
    EXPECT_EQ(utc_time("--from", "", false), "");
    // The days on which the timeouts change have 23 and 25 hours.
    EXPECT_EQ(utc_time("--to", "2026-03-29", true), "2026-03-29T21:59:59.999999+00:00");
    EXPECT_EQ(utc_time("--to", "2026-10-25", true), "2026-10-25T22:59:59.999999+00:00");
    try {
        (void)utc_time("--from", "yesterday", false);
        FAIL();
    } catch (const Error& error) {
        EXPECT_EQ(error.code(), ErrorCode::invalid_argument);
        EXPECT_TRUE(std::string(error.what()).starts_with("--from: 'yesterday' is not a date"));
    }
}

TEST(ShellQuoting, SpecialCharacters_AreQuotedForShellAndTerminal) {
    EXPECT_EQ(quoted_for_shell("plan-1.2", ShellQuote::backslash), "plan-1.2");
    EXPECT_EQ(quoted_for_shell("$(x) y", ShellQuote::backslash), "\\$\\(x\\)\\ y");
    EXPECT_EQ(quoted_for_shell("~", ShellQuote::backslash), "\\~");
    EXPECT_EQ(quoted_for_shell("it's", ShellQuote::single), "'it'\\''s'");
    EXPECT_EQ(quoted_for_shell("a\"$`\\!", ShellQuote::dual), "\"a\\\"\\$\\`\\\\\"\\!\"\"");
    EXPECT_EQ(quoted_for_shell("a\nb\x1b", ShellQuote::single), "'a'$'\\n''b'$'\\x1b'''");
    EXPECT_EQ(quoted_for_shell("\xff", ShellQuote::backslash), "$'\\xff'");
    EXPECT_EQ(quoted_for_shell("Größe", ShellQuote::backslash), "Größe");
    EXPECT_EQ(quoted_for_shell("\u202E", ShellQuote::backslash), "$'\\xe2\\x80\\xae'");
    EXPECT_EQ(shell_word("plan"), "plan");
    EXPECT_EQ(shell_word("my plan"), "'my plan'");
    EXPECT_EQ(shell_word(""), "''");
}

TEST(ShellQuoting, Splitting_UndoesQuoting) {
    for (const std::string text :
         {"a b", "$(x)", "it's", "a\nb", "\x1b[1m", "\xff\xfe", "~#!", "計画"}) {
        for (const ShellQuote style :
             {ShellQuote::backslash, ShellQuote::single, ShellQuote::dual}) {
            const ShellLine line = split_shell_line("x " + quoted_for_shell(text, style) + " ");
            EXPECT_EQ(line.words, (std::vector<std::string>{"x", text}));
        }
    }
}

TEST(ShellQuoting, Line_IsSplitUpToTheCursor) {
    const ShellLine open = split_shell_line("cubepi run \"a b");
    EXPECT_EQ(open.words, (std::vector<std::string>{"cubepi", "run"}));
    EXPECT_EQ(open.word, "a b");
    EXPECT_EQ(open.raw, "\"a b");
    EXPECT_EQ(open.quote, ShellQuote::dual);
    EXPECT_EQ(split_shell_line("x $'a\\tb").quote, ShellQuote::ansi_c);
    EXPECT_EQ(split_shell_line("x $'a\\tb").word, "a\tb");
    EXPECT_EQ(split_shell_line("x a\\").word, "a");
    const ShellLine redirected = split_shell_line("x a 2> err b < in");
    EXPECT_EQ(redirected.words, (std::vector<std::string>{"x", "a", "b"}));
    EXPECT_TRUE(redirected.redirection);
    EXPECT_EQ(split_shell_line("x $(touch y) ").words,
              (std::vector<std::string>{"x", "$(touch", "y)"}));
}

}  // namespace

}  // namespace cubepi::app
